#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Groups by a list of named rules, and groups that are gone.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# rule COMMAND: changes the list.
rule() { write "$debugfs/group_rules" "$1"; }

# rules: prints the list.
rules() { sed -n 's/^rule //p' "$debugfs/group_rules"; }

# number_of NAME: prints the number of a group.
number_of() { of_group "$1" id; }

# group_of PID: prints the name of the group of a task.
group_of() {
	local number
	number=$(awk -v pid="$1" '$3 == pid { print $5 }' "$debugfs/group_tasks")
	awk -v id="$number" '$1 == "group" && $3 == id { sub(/.* name /, ""); print }' "$debugfs/groups"
}

# refused ERROR WHY COMMAND...: each command is refused with one line in the log, and changes nothing.
refused() {
	local error=$1 why=$2 before command
	shift 2
	before=$(rules; names_of_groups)
	for command; do
		mark_log refused
		fails_with "$error" rule "$command"
		our_lines refused > "$work/lines"
		same "lines for '$command'" "$(wc -l < "$work/lines")" 1
		[[ $(< "$work/lines") == "schedhist: group_rules: \""*"$why"* ]] || fail "'$command': the log says $(< "$work/lines")"
	done
	same "after bad commands" "$(rules; names_of_groups)" "$before"
}

# begin_sleeper NAME [COMMAND...]: begins a process, through COMMAND, and sets $NAME to its PID.
begin_sleeper() {
	local name=$1
	shift
	"$@" sleep 1000 &
	printf -v "$name" %s $!
}

test_group_list_rules() {
	local one two three i
	cgroups_on
	load
	refused "Invalid argument" "group_by is not list" "add a comm x" "remove a"
	begin_sleeper one
	begin_sleeper two
	mkdir "$base"/{service,service/part}
	# To the file of the cgroup, which has no name of a process in it.
	begin_sleeper three
	echo "$three" > "$base/service/part/cgroup.procs"
	group_begin list
	same group_by "$(< "$debugfs/group_by")" list
	same groups "$(names_of_groups)" other
	rule "add service cgroup /schedhist/service"
	rule "add one pid $one"
	rule "add sleepers comm sl[a-e]?p*"
	same rules "$(rules)" "service cgroup /schedhist/service"$'\n'"one pid $one"$'\n'"sleepers comm sl[a-e]?p*"
	same "group of one" "$(group_of "$one")" one
	same "group of two" "$(group_of "$two")" sleepers
	same "group of three" "$(group_of "$three")" service
	same "group of this" "$(group_of $$)" other
	same "tasks of one" "$(of_group one tasks) $(of_group one live)" "1 1"
	# Another user of the list begins the same way, and disturbs nobody.
	echo list > "$debugfs/group_by"
	same rules "$(rules | wc -l)" 3
	refused "File exists" "there is a rule of this name" "add one comm x"
	refused "No such file" "no such rule" "remove two"
	refused "No such file" "no such cgroup in the default hierarchy (v2)" "add x cgroup /nothing"
	refused "No such process" "no such process" "add x pid $one 4194303" "add x children 4194303"
	refused "Invalid argument" "expected add NAME cgroup PATH" "" add "add x" "add x comm" "add x cgroup a" \
		"add x cgroup / /" "add x pid" "add x pid 0" "add x pid 1 x" "add x children" "add x children 1 2" \
		"add x children -1" "add x process 1" "add other comm x" "add gone comm x" "remove" "remove x y" \
		"remove other" "add $(printf 'x%.0s' {1..65}) comm x" "delete one"
	# The first match wins, and the next one takes over.
	rule "remove one"
	same "group of one" "$(group_of "$one")" sleepers
	same "tasks of one" "$(of_group one tasks) $(of_group one live)" "0 0"
	i=$(of_group sleepers id)
	rule "remove sleepers"
	same "group of one" "$(group_of "$one")" other
	# A rule that comes back goes on in its group.
	rule "add sleepers comm sleep"
	same "group of sleepers" "$(of_group sleepers id)" "$i"
	# A service that restarts is still what its rule names.
	echo "$three" > "$cgroupfs/cgroup.procs"
	rmdir "$base"/service{/part,}
	same "group of three" "$(group_of "$three")" sleepers
	mkdir "$base"/{service,other,service/part}
	echo "$three" > "$base/service/part/cgroup.procs"
	same "group of three" "$(group_of "$three")" service
	# So it is while measuring is off.
	measure 0
	echo "$three" > "$cgroupfs/cgroup.procs"
	rmdir "$base"/service{/part,}
	mkdir "$base"/service
	echo "$three" > "$base/service/cgroup.procs"
	measure 1
	same "group of three" "$(group_of "$three")" service
	for ((i = 3; i <= 64; i++)); do
		rule "add rule$i comm rule$i"
	done
	refused "No space left" "too many rules" "add x comm x"
	measure 0
	assert_group_laws
	echo none > "$debugfs/group_by"
	echo list > "$debugfs/group_by"
	same groups "$(rules; names_of_groups)" other
	kill "$one" "$two" "$three"
}

# All that a process forks belongs to it, however it is done, and nothing else.
test_group_list_children() {
	cgroups_on
	load
	group_begin list
	python3 -SEW ignore group_children.py "$base"
	measure 0
	assert_group_laws
}

# Two users change the list at once, amid a storm: each task is in the group of the first rule that
# matches it, and the groups add up to the machine.
allow_seconds test_group_list_storm $((${SCHEDHIST_THOROUGH:+1} + 0 ? 1200 : 200))
test_group_list_storm() {
	local i user rounds=1 pids=()
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || rounds=20
	cgroups_on
	load
	expedite_rcu
	storm_start fork into move exec rename mkdir
	group_begin list
	rule "add first cgroup /schedhist/move/a"
	# shellcheck disable=SC2016 # for the other shell
	SCHEDHIST_RULE=tree sh -c 'echo "add tree children $$" > "$0"; exec python3 -SEW ignore group_children.py grow' \
		"$debugfs/group_rules" &
	pids+=($!)
	for user in a b; do
		while :; do
			rule "add $user-fork cgroup /schedhist/fork"
			rule "add $user-name comm [$user-y]*"
			rule "add $user-pid pid $$"
			rule "remove $user-fork"
			rule "add $user-child children $$"
			cat "$debugfs"/{groups,group_rules,group_tasks} > /dev/null
			rule "remove $user-name"
			rule "remove $user-pid"
			rule "remove $user-child"
			# The storm, which yields to this, needs time, too.
			sleep 0.2
		done &
		pids+=($!)
	done
	for ((i = 0; i < rounds; i++)); do
		sleep "${SCHEDHIST_THOROUGH:+1}6"
		kill -STOP "${pids[@]:1}"
		storm_pause
		# What the two users have followed so far is not known.
		for user in a b; do
			! rules | grep -q "^$user-child " || rule "remove $user-child"
		done
		rule "add names comm [a-y]*"
		assert_members list
		rule "remove names"
		storm_signal CONT
	done
	kill -KILL "${pids[@]:1}"
	sleep 1
	measure 0
	storm_signal STOP
	same unfollowed "$(head_of unfollowed)" 0
	assert_group_laws
	assert_laws
	kill -KILL "${pids[0]}"
	while [[ -n $(grown) ]]; do
		grown | xargs kill -KILL 2> /dev/null || true
	done
	storm_stop
}

# grown: prints the PIDs of all that `group_children.py grow` has forked, whatever they execute.
grown() { { grep -lszx SCHEDHIST_RULE=tree /proc/[0-9]*/environ || true; } | cut -d / -f 3; }

# figures: prints what text, in the format of the file groups, and raw have in common.
figures() {
	awk '$1 == "group" {
		line = $3
		for (i = 4; $i != "name"; i += 2)
			if ($i ~ /_(count|sum_ns)$|^ended|^preempted|^voluntary|^throttled|^live/) line = line " " $i "=" $(i + 1)
		sub(/.* name /, "")
		print line, $0
	}'
}

# Groups that are dead give up their places when others want them, and nothing is lost.
test_group_gone() {
	local i live service
	cgroups_on
	load
	echo 20 > "$debugfs/group_limit"
	# Cgroups that are removed, and one that is not.
	mkdir "$base/live"
	group_begin "cgroup under /schedhist"
	sleep 1000 &
	live=$!
	echo "$live" > "$base/live/cgroup.procs"
	in_cgroup live hackbench --groups 1 --loops 5 > /dev/null
	service=$(of_group /schedhist/live id)
	churn 300
	measure 0
	same "id of a live group" "$(of_group /schedhist/live id)" "$service"
	# On a busy host the sweep may come late.
	within "places that were given up" 100 "$(head_of gone)" 300
	within "refused" 0 "$(head_of refused)" 200
	within "stays of groups that are gone" 100 "$(of_group gone oncpu_count)" 1000000
	same "state of gone" "$(of_group gone tasks) $(of_group gone live)" "0 0"
	same "state of live" "$(of_group /schedhist/live tasks) $(of_group /schedhist/live live)" "1 1"
	assert_group_laws
	same "groups in raw" "$(../../tests/rawdump --groups "$debugfs/raw" | figures)" "$(figures < "$debugfs/groups")"
	# Processes that end. All others are live.
	echo $(($(count_processes) + 20)) > "$debugfs/group_limit"
	group_begin process
	for ((i = 0; i < 200; i++)); do
		/bin/true
	done
	measure 0
	within "places that were given up" 20 "$(head_of gone)" 1000
	assert_group_laws
	# Rules that are removed, while measuring is on and off.
	echo 2 > "$debugfs/group_limit"
	group_begin list
	for ((i = 0; i < 5; i++)); do
		rule "add a$i pid $live"
		rule "add b$i pid $$"
		refused "No space left" "too many rules, groups" "add c comm x"
		((i != 2)) || measure 0
		rule "remove a$i"
		rule "remove b$i"
	done
	same "names" "$(names_of_groups | sort)" $'a4\nb4\ngone\nother'
	measure 1
	measure 0
	assert_group_laws
	kill "$live"
}

# A group that is dead gives up no place while its last task has a CPU. What the task did on other CPUs
# counts as gone meanwhile, and so does the group.
test_group_gone_busy() {
	local try spinner count
	[[ $(nproc) != 1 ]] || skip "it takes two CPUs"
	load
	echo 1 > "$debugfs/group_limit"
	for ((try = 0; try < 10; try++)); do
		rm -f "$work"/{spin,spins}
		# The kernel lets no real-time task run for ever, so this may come too late.
		python3 -SE -c '
import os, sys, time
os.sched_setaffinity(0, {0})
while not os.path.exists(sys.argv[1] + "/spin"):
    time.sleep(0.01)
os.sched_setaffinity(0, {1})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
open(sys.argv[1] + "/spins", "w").close()
while True:
    pass
' "$work" &
		spinner=$!
		group_begin list
		rule "add a pid $spinner"
		waits_for at_least 20 of_group a oncpu_count
		: > "$work/spin"
		waits_for test -e "$work/spins"
		count=$(of_group a oncpu_count)
		rule "remove a"
		if (rule "add b comm x") 2> /dev/null; then
			kill "$spinner"
			echo none > "$debugfs/group_by"
			continue
		fi
		same "groups while one gives up its place" "$(names_of_groups)" $'other\ngone'
		within "stays of the dead group" "$count" "$(of_group gone oncpu_count)" $((count + 10))
		kill "$spinner"
		waits_for rule "add b comm x"
		measure 0
		same "groups" "$(names_of_groups)" $'other\ngone\nb'
		assert_group_laws
		return
	done
	fail "the task did not keep its CPU in $try tries"
}

# A user who renames a thread on one CPU, again and again, makes other CPUs do nothing: dead groups give
# up their places without a call on another CPU.
test_group_gone_quietly() {
	local event=$tracefs/events/csd/csd_queue_cpu
	[[ $(nproc) != 1 ]] || skip "it takes two CPUs"
	[[ -e $event ]] || skip "the kernel has no csd:csd_queue_cpu"
	load
	echo $(($(comms | sort -u | wc -l) + 20)) > "$debugfs/group_limit"
	group_begin comm
	echo > "$tracefs/trace"
	echo 1 > "$event/enable"
	python3 -SE -c '
import os, time
os.sched_setaffinity(0, {0})
for i in range(3000):
    with open("/proc/self/comm", "w") as comm:
        comm.write(f"name{i}")
    time.sleep(0.001)
'
	echo 0 > "$event/enable"
	measure 0
	within "places that were given up" 40 "$(head_of gone)" 3000
	# The module names its own functions, and it is the caller.
	! grep -F '[schedhist]' "$tracefs/trace" || fail "other CPUs were called"
	assert_group_laws
}

# comms: prints the names of all threads.
comms() { cat /proc/[0-9]*/task/[0-9]*/comm 2> /dev/null; }

# at_least NUMBER COMMAND...: whether COMMAND prints so great a number.
at_least() { (($("${@:2}") >= $1)); }

# Tasks for which there was no place get one soon after there is room, though no other task asks for one.
test_group_refused_again() {
	local i tasks=() refused
	load
	echo 10 > "$debugfs/group_limit"
	for ((i = 0; i < 35; i++)); do
		sleep 1000 &
		tasks+=($!)
	done
	group_begin "process ${tasks[*]}"
	for refused in 25 15 5 0; do
		waits_for has_refused "$refused"
		# Nobody who is refused makes room.
		((refused != 25)) || sleep 1
		same "tasks that have a group" "$(grouped | wc -l)" $((refused == 0 ? 5 : 10))
		# shellcheck disable=SC2046 # several PIDs
		kill $(grouped)
	done
	measure 0
	assert_group_laws
}

# grouped: prints the PIDs of the tasks in a group of their own.
grouped() { sed -n 's/^task pid \([0-9]*\) group [1-9][0-9]* comm sleep$/\1/p' "$debugfs/group_tasks"; }

# has_refused NUMBER: whether so many tasks could not get a group of their own.
has_refused() { (($(grep -c '^task pid [0-9]* group 0 comm sleep$' "$debugfs/group_tasks") == $1)); }

# churn NUMBER: makes and removes so many cgroups, with a process in each.
churn() {
	python3 -SE -c '
import os, sys, time
root = open("/sys/fs/cgroup/cgroup.procs", "w", buffering=1)
for i in range(int(sys.argv[2])):
    path = f"{sys.argv[1]}/container-{i}"
    os.mkdir(path)
    with open(f"{path}/cgroup.procs", "w") as procs:
        procs.write("0")
    time.sleep(0.002)
    root.write("0\n")
    os.rmdir(path)
' "$base" "$1"
}

# The same amid a storm, with few places.
test_group_gone_storm() {
	local rule
	cgroups_on
	load
	expedite_rcu
	storm_start fork into exec rename mkdir
	echo $(($(count_processes) + 40)) > "$debugfs/group_limit"
	for rule in process cgroup comm; do
		group_begin "$rule"
		sleep 3
		# How many depends on how fast the storm is.
		[[ $rule != process ]] || waits_for at_least 1 head_of gone
		measure 0
		storm_signal STOP
		note "by $rule: $(head_of gone) gone, $(head_of refused) refused"
		assert_group_laws
		assert_laws
		storm_signal CONT
	done
	storm_stop
}

# Hierarchies of v1 do not matter, whatever their cgroups are called: on a host that has both kinds, the
# group of a task is that of its cgroup in v2.
test_group_hybrid() {
	local i task v1=$work/v1
	mkdir "$v1"
	mount -t cgroup -o none,name=schedhist none "$v1" || skip "this kernel has no cgroups of v1"
	cgroups_on
	load
	mkdir "$v1"/{one,two} "$base"/{one,both}
	begin_sleeper task
	echo "$task" > "$base/one/cgroup.procs"
	group_begin cgroup
	for ((i = 0; i < 20; i++)); do
		echo "$task" > "$v1/one/cgroup.procs"
		echo "$task" > "$v1/two/cgroup.procs"
	done
	same "group of a task that moved in v1" "$(group_of "$task")" /schedhist/one
	same "v1 groups" "$(names_of_groups | grep -cE '^/(one|two)')" 0
	echo "$task" > "$base/both/cgroup.procs"
	same "group of a task that moved in v2" "$(group_of "$task")" /schedhist/both
	measure 0
	assert_group_laws
	echo none > "$debugfs/group_by"
	echo list > "$debugfs/group_by"
	refused "No such file" "no such cgroup in the default hierarchy (v2)" "add x cgroup /one"
	kill "$task"
	wait "$task" || true
	rmdir "$v1"/{one,two}
	umount "$v1"
}

# One read of raw is of one moment: groups that come and go meanwhile are in it once, and all groups
# together have what the machine has. `--thorough` reads it 10000 times.
allow_seconds test_group_reads $((${SCHEDHIST_THOROUGH:+1} + 0 ? 1800 : 300))
test_group_reads() {
	local churn reads=1000
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || reads=10000
	cgroups_on
	load
	echo 20 > "$debugfs/group_limit"
	measure 0
	echo "cgroup under /schedhist" > "$debugfs/group_by"
	until [[ -e $work/enough ]]; do churn 20; done &
	churn=$!
	python3 -SE group_reads.py "$reads" > "$work/said" 2>&1 || fail "$(tail -n 3 "$work/said")"
	note "$(< "$work/said")"
	: > "$work/enough"
	wait "$churn" || fail "groups did not come and go all the while"
	measure 0
	within "places that were given up" 50 "$(head_of gone)" 1000000
}
