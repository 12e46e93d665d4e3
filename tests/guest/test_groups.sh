#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The groups of tasks: who is in which, and what they did.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# storm_seconds: how long a storm takes.
storm_seconds=3
[[ -z ${SCHEDHIST_THOROUGH-} ]] || storm_seconds=60

# Whatever happens to tasks, the groups add up to the machine, exactly.
allow_seconds test_groups_law $((${SCHEDHIST_THOROUGH:+1} + 0 ? 1200 : 200))
test_groups_law() {
	local rule rules=("cgroup under /schedhist depth 1" comm)
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || rules+=(cgroup "cgroup depth 2")
	cgroups_on
	load
	expedite_rcu
	storm_start
	for rule in "${rules[@]}"; do
		group_begin "$rule"
		sleep "$storm_seconds"
		measure 0
		storm_signal STOP
		note "by $rule"
		same group_by "$(< "$debugfs/group_by")" "$rule"
		assert_group_laws
		assert_laws
		storm_signal CONT
	done
	storm_stop
}

# The same while a CPU comes and goes.
test_groups_hotplug() {
	[[ -w /sys/devices/system/cpu/cpu1/online ]] || skip "CPU 1 cannot go offline"
	cgroups_on
	load metrics=all
	expedite_rcu
	storm_start hotplug fork move rename
	group_begin cgroup
	sleep $((storm_seconds + 2))
	measure 0
	storm_stop
	assert_group_laws
	assert_laws
}

# A storm stops in the middle: each task is in the group of its cgroup, or of its name.
allow_seconds test_groups_audit $((${SCHEDHIST_THOROUGH:+1} + 0 ? 1200 : 200))
test_groups_audit() {
	local rule i rules=(cgroup comm process)
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || rules+=("cgroup under /schedhist depth 2" thread)
	cgroups_on
	load
	expedite_rcu
	# The storm makes more processes than there are groups by default.
	echo 4095 > "$debugfs/group_limit"
	storm_start
	for rule in "${rules[@]}"; do
		group_begin "$rule"
		for ((i = 0; i < (${#SCHEDHIST_THOROUGH} ? 20 : 1); i++)); do
			sleep "$storm_seconds"
			storm_pause
			note "by $rule"
			same refused "$(head_of refused)" 0
			assert_members "$rule"
			storm_signal CONT
		done
	done
	storm_stop
}

# --- input ---

# settings: prints what bad input must not change: the controls, and the groups.
settings() {
	tail -n 1 "$debugfs"/{enable,group_{by,limit,memory_limit}}
	sed -n '/^time /d; 1,/^limit/p; s/.* name //p' "$debugfs/groups"
}

# refuses FILE ERROR WHY TEXT...: asserts that each write is refused with one line in the log, and that
# all of them change nothing.
refuses() {
	local file=$1 error=$2 why=$3 before text
	shift 3
	before=$(settings)
	mark_log refuses
	for text; do
		fails_with "$error" write "$debugfs/$file" "$text"
	done
	same "after bad input to $file" "$(settings)" "$before"
	our_lines refuses > "$work/lines"
	same "lines for bad input to $file" "$(wc -l < "$work/lines")" $#
	! grep -vF "schedhist: $file: \"" "$work/lines" || fail "these lines are not of $file"
	! grep -vF "$why" "$work/lines" || fail "these lines lack '$why'"
}

test_groups_bad_input() {
	local missing none="no such cgroup in the default hierarchy (v2)"
	load
	measure 0
	mark_log bad_input
	bad_input group_by group_limit group_memory_limit
	within "lines in the log" 1 "$(wc -l < "$work/lines")" "$(awk '{ n += $1 } END { print n }' "$work/refused")"
	echo "cgroup depth 2" > "$debugfs/group_by"
	refuses group_by "Invalid argument" "expected none, cgroup" \
		cgroups "cgroup under" "cgroup under x" "cgroup depth" "cgroup depth 0" "cgroup depth -1" \
		"cgroup depth 4294967295" "cgroup depth 1 depth 1" "cgroup under / under /" "cgroup /" "comm x" \
		"none none" "under /" "cgroup under /a b" "process x" "thread 0" "cgroup depth 1 under"
	refuses group_limit "Invalid argument" "expected a number of groups, 1 to 4095" \
		0 4096 4294967297 18446744073709551616 none 1k -1
	refuses group_memory_limit "Invalid argument" "expected a number of bytes" \
		0 18446744073709551616 1M -1
	measure 1
	# No process has the highest PID, and 2 is the thread kthreadd.
	refuses group_by "No such process" "no such process" "process 4194303" "thread 2 4194303"
	missing=(/nothing /../x //. "/$(printf 'x%.0s' {1..300})")
	refuses group_by "No such file or directory" "$none" "${missing[@]/#/cgroup under }"
	cgroups_on
	missing=(/nothing /schedhist/nothing /schedhist/cgroup.procs)
	refuses group_by "No such file or directory" "$none" "${missing[@]/#/cgroup under }"
	same group_by "$(< "$debugfs/group_by")" "cgroup depth 2"
	echo " cgroup  depth 3	under /schedhist " > "$debugfs/group_by"
	same group_by "$(< "$debugfs/group_by")" "cgroup under /schedhist depth 3"
	echo 7 > "$debugfs/group_limit"
	echo none > "$debugfs/group_memory_limit"
	same limit "$(head_of limit)" 255
	echo none > "$debugfs/group_by"
	same group_by "$(< "$debugfs/group_by")" none
	same "limits of no groups" "$(head_of limit) $(head_of refused) $(head_of memory_bytes)" "0 0 0"
	echo cgroup > "$debugfs/group_by"
	same limit "$(head_of limit)" 7
}

test_groups_parameter() {
	local text lines
	load group_by=comm
	same group_by "$(< "$debugfs/group_by")" comm
	same parameter "$(parameter schedhist group_by)" comm
	names_of_groups | grep -x bash
	unload
	# Without cgroup2 mounted, too.
	load 'group_by="cgroup under / depth 1"'
	same group_by "$(< "$debugfs/group_by")" "cgroup depth 1"
	same groups "$(names_of_groups)" $'other\n/'
	unload
	while read -r text; do
		mark_log parameter
		fails_with "${text##*: }" load group_by="\"${text%%: *}\""
		lines=$(our_lines parameter)
		[[ $lines == "schedhist: group_by: \""* ]] || fail "the log says: $lines"
		assert_gone
	done <<- END
		bogus: Invalid parameters
		cgroup under x: Invalid parameters
		cgroup under /nothing: Unknown symbol
	END
}

# rules_refused ERROR WHY RULES: asserts that the module is not loaded with these rules, and that the log says why.
rules_refused() {
	local lines
	mark_log rules
	fails_with "$1" load "group_by=${4-list}" "group_rules=\"$3\""
	lines=$(our_lines rules)
	[[ $lines == "schedhist: group_rules: $2"* ]] || fail "for '$3' the log says: $lines"
	assert_gone
}

test_groups_rules_parameter() {
	local text shown self=$BASHPID
	# With each kind of rule, and what may stand around one.
	text="mine pid  $$ ; work comm k[a-z]orker/*"$'\n'"build  children $self;; root cgroup /;"
	load group_by=list group_rules="\"$text\""
	same parameter "$(parameter schedhist group_rules)" "$text"
	same group_by "$(< "$debugfs/group_by")" list
	shown=$(printf 'rule %s\n' "mine pid $$" "work comm k[a-z]orker/*" "build children $self" "root cgroup /")
	same rules "$(sed 1d "$debugfs/group_rules")" "$shown"
	same tasks "$(of_group mine tasks)" 1
	within "tasks of kworkers" 1 "$(of_group work tasks)" 1000
	messages 1
	within "stays of children" 20 "$(of_group build oncpu_count)" 1000000000
	within "stays of the rest" 1 "$(of_group root oncpu_count)" 1000000000
	same "tasks of no rule" "$(of_group other tasks)" 0
	unload
	load group_by=list group_rules=
	same "no rules" "$(sed 1d "$debugfs/group_rules")" ""
	unload
	rules_refused "Invalid parameters" "\"db com pg*\": expected NAME cgroup PATH" "web cgroup /; db com pg*; sh comm sh"
	rules_refused "Invalid parameters" "\"gone pid 1\": expected" "gone pid 1"
	rules_refused "Invalid parameters" "\"x\": expected" "x"
	rules_refused "Invalid parameters" "\"web\": group_by is not list" "web cgroup /" none
	rules_refused "Invalid parameters" "\"web\": group_by is not list" "web cgroup /" cgroup
	# The kernel makes another error of EEXIST, which is what a loaded module gets. insmod has words of its
	# own for ESRCH and ENOENT.
	rules_refused "" "\"a\": there is a rule of this name" "a comm x; a comm y"
	rules_refused "wrong symbol version" "\"b\": no such process" "a comm x; b pid 4194303"
	rules_refused "Unknown symbol" "\"b\": no such cgroup" "a children $$; b cgroup /nothing"
	# Longer than the parameter can be: the kernel's own message.
	fails_with "No space left" load group_by=list "group_rules=\"$(printf 'x%.0s' {1..8200})\""
	assert_gone
}

# Without the default hierarchy mounted, all tasks are in its root.
test_groups_no_mount() {
	! mountpoint -q /sys/fs/cgroup || skip "cgroups are mounted"
	load
	group_begin cgroup
	messages 2
	measure 0
	same groups "$(names_of_groups)" $'other\n/'
	assert_group_laws
	within "stays in /" 100 "$(of_group / oncpu_count)" 1000000000
}

# Any name is a single word in the text or comes last, and each group has its own.
test_groups_names() {
	local name path names=('a b' 'back\slash' $'tab\there' 'name x' $'caf\xc3\xa9' 'c d/e  f')
	cgroups_on
	load
	mkdir -p "${names[@]/#/$base/}"
	group_begin cgroup
	for name in "${names[@]}"; do
		in_cgroup "$name" sleep 0.01
	done
	measure 0
	assert_group_laws
	for name in 'a b' 'back\x5cslash' 'tab\x09here' 'name x' 'caf\xc3\xa9' 'c d/e  f'; do
		within "stays in $name" 1 "$(of_group "/schedhist/$name" oncpu_count)" 1000
	done
	# A backslash is taken as it is, and shown so: systemd names units with it.
	echo 'cgroup under /schedhist/back\slash' > "$debugfs/group_by"
	same group_by "$(< "$debugfs/group_by")" 'cgroup under /schedhist/back\slash'
	# Paths of all lengths.
	name=$(printf 'x%.0s' {1..200})
	path=/schedhist
	for _ in {1..10}; do
		path+=/$name
		mkdir "$cgroupfs$path"
	done
	group_begin "cgroup under ${path%/*}"
	same group_by "$(< "$debugfs/group_by")" "cgroup under ${path%/*}"
	in_cgroup "${path#/schedhist/}" sleep 0.01
	measure 0
	assert_group_laws
	within "stays in a long path" 1 "$(of_group "$path" oncpu_count)" 1000
	same "groups" "$(names_of_groups)" $'other\n'"$path"
}

# many THREADS: starts a process of so many threads, which sleep, and sets pid.
many() {
	coproc MANY { exec python3 -SE -c "import threading, time
for _ in range($1 - 1): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print(flush=True)
time.sleep(1000)"; }
	pid=$MANY_PID
	read -r -u "${MANY[0]}"
}

# verdicts_in NAME: prints how many tasks have the group /schedhist/NAME as their verdict.
verdicts_in() {
	local id
	id=$(sed -n "s/^group id \([0-9]*\) .* name \/schedhist\/$1\$/\1/p" "$debugfs/groups")
	awk -v id="$id" '$1 == "task" && $5 == id { n++ } END { print n + 0 }' "$debugfs/group_tasks"
}

are_in() { [[ $(verdicts_in "$1") == "$2" ]]; }

is_late() { [[ $(head_of late) == "$1" ]]; }

# A process that moves may have more threads than are decided at once. The others follow soon, and
# are counted.
test_groups_large_process() {
	local pid name
	cgroups_on
	load
	mkdir "$base"/{one,other}
	group_begin cgroup
	many 32
	for name in one other; do
		echo "$pid" > "$base/$name/cgroup.procs"
		same "tasks in $name" "$(verdicts_in "$name")" 32
	done
	same late "$(head_of late)" 0
	kill "$pid"
	wait "$pid" || :
	many 300
	echo "$pid" > "$base/one/cgroup.procs"
	waits_for are_in one 300
	waits_for is_late 268
	for _ in {1..20}; do
		echo "$pid" > "$base/other/cgroup.procs"
		echo "$pid" > "$base/one/cgroup.procs"
	done
	echo "$pid" > "$base/other/cgroup.procs"
	waits_for are_in other 300
	within late 536 "$(head_of late)" $((42 * 268))
	assert_members cgroup
	measure 0
	assert_group_laws
	kill "$pid"
	wait "$pid" || :
}

# --- the figures ---

# The kernel accounts the same time: what its clock leaves out, such as interrupts, is less than 2 %. Its
# clock and ours are read at different moments of a switch. A busy host may stop a CPU between them for
# so long that the test needs another attempt.
test_groups_cpu_stat() {
	local try agrees
	about_numbers
	cgroups_on
	load
	for try in 1 2 3; do
		compare_cpu_stat "$try"
		[[ -z $agrees ]] || return 0
	done
	fail "the kernel says something else, three times"
}

# compare_cpu_stat TRY: lets processes run in three cgroups, and sets $agrees if their groups and the
# kernel agree.
compare_cpu_stat() {
	local name usage sum
	agrees=yes
	mkdir "$base"/{busy,half,messages}"$1"
	group_begin cgroup
	# A process that begins and ends there has no time elsewhere.
	in_cgroup "busy$1" timeout 4 sh -c 'while :; do :; done' &
	# shellcheck disable=SC2016 # for the other shell
	in_cgroup "half$1" timeout 4 bash -c 'while :; do read -rt 0.002 < <(:) || :; for ((i = 0; i < 99; i++)); do :; done; done' &
	in_cgroup "messages$1" hackbench --groups 1 --loops 20 > /dev/null
	wait
	measure 0
	assert_group_laws
	for name in {busy,half,messages}"$1"; do
		usage=$(awk '$1 == "usage_usec" { print $2 * 1000 }' "$base/$name/cpu.stat")
		sum=$(of_group "/schedhist/$name" oncpu_sum_ns)
		note "$name: $sum ns, the kernel says $usage ns, $(((sum - usage) * 10000 / usage)) in 10000 more"
		((sum >= usage - usage / 50 - 1000000 && sum <= usage + usage / 50 + 1000000)) || agrees=''
	done
}

# Processes and threads: the kernel counts for each thread.
test_groups_process() {
	local mode rc
	about_numbers
	load
	for mode in process thread some; do
		for _ in {1..5}; do
			rc=0
			python3 -SE group_process.py "$mode" || rc=$?
			assert_group_laws
			((rc == 75)) || break
		done
		((rc == 0)) || fail "by $mode: not what the kernel says"
	done
}

# A task that sleeps shares a CPU with one of another group that never does, and with one of its own
# group. Who had the CPU at the end of each wait is what the kernel's own trace says.
test_groups_blame() {
	local event program begin instance=$tracefs/instances/schedhist_test
	cgroups_on
	load
	mkdir "$base"/{sleeper,hog}
	mkdir "$instance"
	echo 16384 > "$instance/buffer_size_kb"
	for event in sched_switch sched_process_fork; do
		echo 1 > "$instance/events/sched/$event/enable"
	done
	# kthreadd and its children.
	{ echo 2; pgrep --parent 2; } | sed 's/^/kernel /' > "$work/pids"
	group_begin cgroup
	# shellcheck disable=SC2016 # for the other shell
	begin=(sh -c 'echo "$1 $$" >> "$0"; shift; exec taskset -c 1 timeout "$@"' "$work/pids")
	in_cgroup hog "${begin[@]}" /schedhist/hog 5 sh -c 'while :; do :; done' &
	for program in "time.sleep(0.003)" "time.sleep(0.002); sum(range(20000))"; do
		in_cgroup sleeper "${begin[@]}" /schedhist/sleeper 4 python3 -SE -c "import time
while True: $program" &
	done
	wait
	echo 0 > "$instance/tracing_on"
	measure 0
	same "events lost" "$(grep -hE '^(overrun|commit overrun|dropped events): [^0]' "$instance"/per_cpu/*/stats || true)" ""
	assert_group_laws
	python3 -SE group_blame.py "$instance/trace" "$work/pids"
}

# --- limits ---

# begin_in_each NUMBER: a process enters so many cgroups, one after the other.
begin_in_each() {
	python3 -SE -c '
import os, sys, time
for i in range(int(sys.argv[2])):
    path = f"{sys.argv[1]}/{i:04}"
    os.mkdir(path)
    with open(f"{path}/cgroup.procs", "w") as procs:
        procs.write("0")
    time.sleep(0.0001)
' "$base" "$1"
}

# Too many groups for the limits: the others are counted as such, and all of it adds up.
test_groups_limits() {
	local counters limit number=300
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || number=1000
	cgroups_on
	load
	# All counters, and cells that no group reads, for each CPU.
	echo 131072 > "$debugfs/group_memory_limit"
	for limit in 4095 $((131072 / 512 / $(status cpus_possible))); do
		echo "$limit" > "$debugfs/group_limit"
		refuses group_by "Cannot allocate memory" group_memory_limit "cgroup depth 1" comm list
	done
	for limit in 50 1; do
		echo "$limit" > "$debugfs/group_limit"
		echo 131072 > "$debugfs/group_memory_limit"
		measure 0
		echo 1 > "$debugfs/reset"
		echo "cgroup under /schedhist" > "$debugfs/group_by"
		counters=$(head_of memory_bytes)
		within "memory of counters" $(((limit + 2) * 512 * $(status cpus_possible) + 7000)) "$counters" 131072
		measure 1
		begin_in_each "$number"
		sleep 0.3
		messages 1
		measure 0
		same limit "$(head_of limit)" "$limit"
		same "number of groups" "$(names_of_groups | wc -l)" $((limit + 1))
		within refused $((number - limit)) "$(head_of refused)" 1000000
		within "memory" "$counters" "$(head_of memory_bytes)" 131072
		within "stays of other" 1 "$(of_group other oncpu_count)" 1000000000
		assert_group_laws
		((limit == 1)) || within "samples in no histogram" 1 \
			"$(awk '$1 == "group" { for (i = 2; i < NF; i++) if ($i == "not_in_histogram") n += $(i + 1) } END { print n }' "$debugfs/groups")" 1000000
		rmdir "$base"/*/
	done
	same group_memory_limit "$(< "$debugfs/group_memory_limit")" 131072
	# The limits are those of the next groups.
	echo none > "$debugfs/group_memory_limit"
	echo 1000 > "$debugfs/group_limit"
	group_begin "cgroup under /schedhist"
	begin_in_each "$number"
	sleep 0.3
	measure 0
	same "number of groups" "$(names_of_groups | wc -l)" $((number + 1))
	same refused "$(head_of refused)" 0
	assert_group_laws
}

# The kernel cuts a path that is too long without an error: its cgroup has no group of its own.
test_groups_long_path() {
	cgroups_on
	load
	group_begin "cgroup under /schedhist"
	python3 -SE -c '
import os, sys, time
root = open("/sys/fs/cgroup/cgroup.procs", "w", buffering=1)
os.chdir(sys.argv[1])
for _ in range(17):
    os.mkdir("x" * 250)
    os.chdir("x" * 250)
for leaf in "ab":
    os.mkdir(leaf)
    with open(f"{leaf}/cgroup.procs", "w") as procs:
        procs.write("0")
    time.sleep(0.001)
    root.write("0\n")
    os.rmdir(leaf)
for _ in range(17):
    os.chdir("..")
    os.rmdir("x" * 250)
' "$base"
	measure 0
	within refused 2 "$(head_of refused)" 1000
	same groups "$(names_of_groups)" other
	assert_group_laws
}

# A service that starts again goes on in its group, however often: its new cgroup has the old path.
test_groups_restart() {
	local before
	cgroups_on
	load
	echo 5 > "$debugfs/group_limit"
	group_begin "cgroup under /schedhist"
	python3 -SE -c '
import os, sys, time
path = sys.argv[1] + "/service"
root = open("/sys/fs/cgroup/cgroup.procs", "w", buffering=1)
for i in range(int(sys.argv[2])):
    os.mkdir(path)
    with open(f"{path}/cgroup.procs", "w") as procs:
        procs.write("0")
    time.sleep(0.0001)
    root.write("0\n")
    os.rmdir(path)
' "$base" 50
	measure 0
	same refused "$(head_of refused)" 0
	same groups "$(names_of_groups)" $'other\n/schedhist/service'
	# It sleeps in each of them.
	within "stays of the service" 25 "$(of_group /schedhist/service oncpu_count)" 10000
	assert_group_laws
}

# --- change and unload ---

seeks_leaks test_groups_change
allow_seconds test_groups_change $((${SCHEDHIST_THOROUGH:+1} + 0 ? 1200 : 200))
test_groups_change() {
	local i rule cycles=1 storm=(fork into move rename)
	local rules=(cgroup comm "cgroup under /schedhist depth 1" none cgroup)
	cgroups_on
	expedite_rcu
	if [[ -n ${SCHEDHIST_THOROUGH-} ]]; then
		cycles=50 storm=()
	elif [[ -n $debug_kernel ]]; then
		# A kernel that checks every access takes minutes for more.
		storm=(fork move) rules=(none cgroup)
	fi
	storm_start "${storm[@]}"
	for ((i = 0; i < cycles; i++)); do
		load group_by=comm
		for rule in "${rules[@]}"; do
			echo "$rule" > "$debugfs/group_by"
			cat "$debugfs"/{groups,group_{summary,tasks},group_hist/*} > /dev/null
			measure 0
			measure 1
		done
		group_begin "cgroup depth 2"
		sleep 0.5
		measure 0
		sleep 0.2
		# Goes on in the same groups.
		measure 1
		sleep 0.5
		measure 0
		# What is to be read does not change any more: let the reader have the CPUs.
		storm_signal STOP
		assert_group_laws
		storm_signal CONT
		measure 1
		unload
		assert_gone
	done
	storm_stop
}
