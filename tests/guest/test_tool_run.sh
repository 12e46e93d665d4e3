#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2119,SC2154 # programs of other shells; optional arguments; lib.sh
#
# The verbs of the command that run others, record, compare and wait: see test_tool.sh for the rest.

# shellcheck source=tests/guest/tool.bash
. ./tool.bash
# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

# `run` has the status of its command, passes signals on, leaves its output alone, and restores all.
test_tool_run() {
	local pid rule
	begin_tool
	cgroups_on
	ends_with 7 tool run -- sh -c 'echo out; echo err >&2; exit 7'
	same "standard output" "$(< said)" out
	says complaints "err"
	says complaints "laws ok"
	says complaints "command: "
	narrow complaints
	ends_with 137 tool run -- sh -c 'kill -KILL $$'
	ends_with 127 tool run -- /no/such/command
	ends_with 126 tool run -- /etc/passwd
	ends_with 2 tool run
	"$SCHEDHIST_TOOL" run -- sleep 100 2> terminated &
	pid=$!
	background "$pid"
	soon_grouped_by cgroup
	sleep 0.5
	kill -TERM "$pid"
	status_of "$pid" 143
	says terminated "sleep: "
	grouped_by none
	[[ -z $(find "$cgroupfs" -name 'schedhist-run-*') ]] || fail "a cgroup is left"
	ends_with 143 tool run --timeout 300 -- sleep 100
	ends_with 0 tool run -r 3 --table -C 0 -A -D 100 -- sleep 0.3
	narrow complaints
	says complaints "sleep (3 of 3)"
	says complaints "cpu0 idle"
	says complaints "note: of the machine, only CPU 0"
	says complaints "waits for a CPU (runq) of the command"
	ends_with 0 tool run -I 300 -j -- sleep 1
	check_tool json complaints
	(($(grep -c '"scope":"machine","metric":"idle"' complaints) >= 3)) || fail "too few intervals"
	ends_with 0 tool run -x , -- true
	says complaints "from_ns,to_ns,scope,metric,count,sum_ns,p50_ns"
	# What the command did is not known if its group has found no room, or has lost its counters.
	echo 1 > "$debugfs/group_limit"
	echo cgroup > "$debugfs/group_by"
	ends_with 0 tool run -- true
	says complaints "note: there was no room for a group of the command"
	says complaints "note: all figures are of the whole machine"
	echo none > "$debugfs/group_by"
	echo 255 > "$debugfs/group_limit"
	for rule in cgroup none; do
		ends_with 0 tool run -- sh -c "echo $rule > '$debugfs/group_by'"
		says complaints "note: group_by was written meanwhile"
		says complaints "note: all figures are of the whole machine"
	done
	grouped_by none
	# If tasks are grouped by another rule, that stays, and only the machine is measured.
	echo comm > "$debugfs/group_by"
	ends_with 0 tool run -- true
	says complaints "only the machine is measured"
	says complaints "note: all figures are of the whole machine"
	grouped_by comm
}

# run_until_over: `run`s 300 delays in the background, and goes on until there is a file `over`. Its PID
# is $one, and what it prints is in the file `one`.
run_until_over() {
	rm -f over
	"$SCHEDHIST_TOOL" run -j -- sh -c "'$work/delay' 300 3000; until [ -e over ]; do sleep 0.1; done" 2> one &
	one=$!
	background "$one"
}

# Two runs at once: each has its own command alone, and the last one restores the rule.
test_tool_run_twice() {
	local one
	begin_tool
	cgroups_on
	helper delay
	run_until_over
	soon_grouped_by cgroup
	# Not on CPU 0, where the other one's real-time task would preempt it all the time.
	taskset --cpu-list 1 "$SCHEDHIST_TOOL" run -j -- sleep 0.1 2> two
	grouped_by cgroup
	touch over
	wait "$one"
	grouped_by none
	[[ -z $(find "$cgroupfs" -name 'schedhist-run-*') ]] || fail "a cgroup is left"
	# Two waits for each byte, about. The other one waits for its program to be read from a disk.
	check_tool counts one 500 3000
	check_tool counts two 0 400
}

# Where tasks are grouped by a list, each run has a rule of its own there, and leaves those of others.
test_tool_run_list() {
	local file one pid
	begin_tool
	[[ -n $SCHEDHIST_THOROUGH ]] || skip "test_tool_children has a list, too; this is for --thorough"
	helper delay
	echo list > "$debugfs/group_by"
	echo 'add theirs comm nobody*' > "$debugfs/group_rules"
	run_until_over
	rules_become theirs "schedhist-run-$one"
	# It executes another program and has a child that outlives it.
	tool run -j -- sh -c 'sleep 5 > /dev/null 2>&1 & exec sleep 0.1' 2> two
	rules_are theirs "schedhist-run-$one"
	touch over
	wait "$one"
	rules_are theirs
	# `run` notes that there are earlier rules.
	for file in one two; do
		grep '^{' "$file" > "$file.json" || fail "no lines of JSON: $(< "$file")"
	done
	check_tool counts one.json 500 3000
	check_tool counts two.json 1 500
	ends_with 0 tool run -r 3 -- sh -c 'true; true'
	says complaints "command: "
	says complaints "match one of the 1 earlier rules in group_rules"
	ends_with 127 tool run -- /no/such/command
	rules_are theirs
	"$SCHEDHIST_TOOL" run -- sleep 100 2> terminated &
	pid=$!
	background "$pid"
	rules_become theirs "schedhist-run-$pid"
	kill -TERM "$pid"
	status_of "$pid" 143
	says terminated "command: "
	rules_are theirs
	# A rule is left by what cannot be handled, and the next run removes it.
	"$SCHEDHIST_TOOL" run -- sleep 5 2> /dev/null &
	pid=$!
	background "$pid"
	rules_become theirs "schedhist-run-$pid"
	kill -KILL "$pid"
	status_of "$pid" 137
	rules_are theirs "schedhist-run-$pid"
	ends_with 0 tool run -- true
	rules_are theirs
	grouped_by list
	# Where there are no cgroups, run begins a list and ends it.
	echo none > "$debugfs/group_by"
	! mountpoint -q "$cgroupfs" || umount "$cgroupfs" || return 0
	ends_with 0 tool run -- sh -c 'true; true'
	says complaints "command: "
	grouped_by none
}

# names_of_rules: prints the names of the rules in the list, those of `run` up to the PID.
names_of_rules() { sed -nE '/^rule /{s/^rule ([^ ]*).*/\1/;s/^(schedhist-run-[0-9]+)-[-0-9]*$/\1/;p}' "$debugfs/group_rules" | xargs; }

# rules_are NAME...: asserts the names of the rules in the list.
rules_are() { same "the rules" "$(names_of_rules)" "$*"; }

# rules_become NAME...: waits until the rules in the list have these names.
rules_become() {
	for _ in {1..200}; do
		[[ $(names_of_rules) != "$*" ]] || return 0
		sleep 0.1
	done
	rules_are "$@"
}

# The switches of a command with children are those that the kernel counts for each of its processes.
test_tool_children() {
	local rule
	begin_tool
	cgroups_on
	cat > Makefile <<- 'END'
		.RECIPEPREFIX = >
		all: $(foreach n,1 2 3 4 5 6 7 8,job$n)
		job%:
		>@i=0; while [ $$i -lt 300 ]; do i=$$((i + 1)); done; sleep 0.0$*; true | cat
	END
	# By a cgroup, and by a rule of a list.
	for rule in none list; do
		echo "$rule" > "$debugfs/group_by"
		tool run -j -- python3 -SE "$here/tool.py" processes costs make -j3 > /dev/null 2> json || fail "$(< json)"
		check_tool run json costs 25
	done
}

# For each interval, `run` reads one file, once.
allow_seconds test_tool_run_reads 480
test_tool_run_reads() {
	local intervals tracer
	[[ -n $(command -v bpftrace) ]] || skip "there is no bpftrace"
	begin_tool
	cgroups_on
	cat > opens.bt <<-'END'
		tracepoint:syscalls:sys_enter_open, tracepoint:syscalls:sys_enter_openat,
		tracepoint:syscalls:sys_enter_openat2 /comm == "tool"/ { printf("%s\n", str(args.filename)); }
	END
	(
		# shellcheck source=tests/guest/users.bash
		. "$here/users.bash"
		bpftrace_run opens.bt
	) > opened 2>&1 &
	tracer=$!
	background "$tracer"
	waits_for test -p bpftrace.on
	read -r _ < bpftrace.on
	tool run -I 300 -- sleep 3 2> said
	echo > bpftrace.off
	wait "$tracer" || fail "bpftrace: $(tail -n 5 opened)"
	intervals=$(grep -c ': from ' said)
	within intervals 6 "$intervals" 10
	# Besides, those before the command begins and after its end. Two for an interval would be more.
	awk -v raw="$debugfs/raw" '$0 == raw { n++ } END { print n + 0 }' opened > reads
	within "reads of raw" $((intervals + 2)) "$(< reads)" $((intervals + 8))
	# What was opened while the command ran.
	awk -v raw="$debugfs/raw" '
		{ all[NR] = $0 }
		$0 == raw { places[++n] = NR }
		END { for (i = places[n - 5]; i <= places[n - 3]; i++) print all[i] }
	' opened | sort -u > between
	same "files that are opened for an interval" "$(< between)" "$debugfs/raw"
}

# The times of a command that often naps, beside those that the kernel keeps: see docs/tool.md. A busy
# host may stop a CPU between the readings of the two clocks.
test_tool_run_times() {
	about_numbers
	begin_tool
	cgroups_on
	for _ in 1 2 3; do
		# Of its first stay on a CPU a part is not counted.
		tool run -j -- sh -c 'read -r line < /proc/self/schedstat; echo "$line" > times; exec "$@"' \
			sh python3 -SE "$here/tool.py" naps times 2> json || fail "$(< json)"
		! check_tool times json times || return 0
	done
	fail "the kernel says something else, three times"
}

# span_of RECORDING: prints how many nanoseconds it covers.
span_of() { tool report -i "$1" -j runq | grep -oP 'histogram.*"span_ns":\K[0-9]+'; }

# A recording survives that the module is loaded anew, and CPUs that go and come: it marks both.
test_tool_record() {
	local pid size
	begin_tool
	expedite_rcu
	workload_start_bursts
	ends_with 3 tool record -I 100 -o status.data -- sh -c 'sleep 0.5; exit 3'
	"$SCHEDHIST_TOOL" record -I 100 2> complaints &
	pid=$!
	background "$pid"
	waits_for catches_signals "$pid"
	sleep 1
	unload_under_readers
	sleep 0.5
	load
	sleep 0.5
	if [[ -w /sys/devices/system/cpu/cpu1/online ]]; then
		echo 0 > /sys/devices/system/cpu/cpu1/online
		sleep 0.5
		echo 1 > /sys/devices/system/cpu/cpu1/online
	fi
	sleep 0.5
	kill -INT "$pid"
	wait "$pid"
	says complaints "; waiting for it"
	says complaints "schedhist.data: "
	tool report > said
	narrow said
	says said "laws ok"
	says said "note: gap: $debugfs/raw"
	[[ ! -w /sys/devices/system/cpu/cpu1/online ]] || says said "note: CPUs online: "
	same "parts without a gap" "$(grep -c '^schedhist: .* switches in ' said)" 2
	tool report --time 0,0.6 runq > part
	says part "samples in "
	tool report --hgrm runq > hgrm
	says hgrm "#[Mean"
	tool report --hlog runq | grep -c HISTFAAAA > lines
	within "lines of the log" 8 "$(< lines)" 100
	# If nothing can be written, the command goes on to its end.
	mkdir small
	mount -t tmpfs -o size=4m none small
	ends_with 1 tool record -I 20 -o small/file -- sh -c \
		"cat /dev/zero > small/rest 2> /dev/null; sleep 2; echo over > '$work/over'"
	[[ -s over ]] || fail "record has not waited for the command"
	says complaints "small/file"
	umount small
	# A ring has a file of the time that was asked for, and one before it.
	tool record -I 50 --ring 0.5s -d 2 -o ring 2> /dev/null
	[[ -s ring && -s ring.1 ]] || fail "there are not two files"
	size=$(stat -c %s ring ring.1 | paste -sd+ | bc)
	note "10 to 20 snapshots: $size bytes"
	tool report -i ring.1 > said
	says said "laws ok"
	# One part: two spans would not be a number.
	within "nanoseconds of both files" "$(($(span_of ring.1) + 1))" "$(span_of ring)" 60000000000
	workload_stop
}

# is_watched METRIC: whether it has a threshold.
is_watched() { ! holds "$debugfs/threshold_ns/$1" none; }

# sees_delays NUMBER MICROSECONDS METRIC ARGUMENT...: delays so many tasks, each for so long, once
# `watch METRIC ARGUMENT...` runs, which then must end as it does after outliers. Keeps the output in
# $work/said.
sees_delays() {
	local pid left=$1
	"$SCHEDHIST_TOOL" watch "${@:3}" > said &
	pid=$!
	background "$pid"
	waits_for is_watched_by "$pid" "$3"
	while ((left--)); do "$work/delay" 1 "$2"; done
	status_of "$pid" 3
}

# is_watched_by PID METRIC: whether this process watches it, or has ended: an outlier of another task
# may have ended it before anybody saw the threshold.
is_watched_by() { is_watched "$2" || ! kill -0 "$1" 2> /dev/null; }

# Waits above a threshold, with all that ran meanwhile; settings are as before, whatever happens.
test_tool_watch() {
	local pid
	begin_tool
	helper delay
	"$SCHEDHIST_TOOL" runqslower 2000 -P > slower &
	pid=$!
	background "$pid"
	waits_for is_watched runq
	same threshold "$(< "$debugfs/threshold_ns/runq")" 2000000
	"$work/delay" 5 20000
	sleep 1
	kill -INT "$pid"
	wait "$pid"
	same threshold "$(< "$debugfs/threshold_ns/runq")" none
	narrow slower
	grep -E '^[0-9:]{8} delay +[0-9]+ +[0-9]+ delay +[0-9]+ +[0-9]+$' slower > lines || fail "no wait in $(< slower)"
	within "waits of 20 ms" 4 "$(wc -l < lines)" 1000
	# So long that hardly any other wait is, on a busy host: all that wait on CPU 0 wait for this one.
	for _ in 1 2 3; do
		echo 1 > "$tracefs/tracing_on"
		sees_delays 2 500000 runq -T 250000 --on-threshold trace \
			--on-threshold 'shell,command=echo "cpu $SCHEDHIST_CPU pid $SCHEDHIST_PID" > acted'
		! grep -q delay: said || break
		note "another task waited as long: $(< said)"
	done
	says said "## CPU 0: runq_"
	says said "delay:"
	narrow said
	[[ $(< acted) == "cpu 0 pid "* ]] || fail "the action did not see the outlier"
	same tracing_on "$(< "$tracefs/tracing_on")" 0
	same on_outlier "$(< "$debugfs/on_outlier")" none
	same threshold "$(< "$debugfs/threshold_ns/runq")" none
	# The shares of all culprits add up.
	same "the sum of shares" "$(awk '/%/ { sum += $1 } END { print sum }' said)" 100
	ends_with 0 tool watch -T 60000000 -d 0.5
	sees_delays 3 20000 runq -T 10000 -d 4 -q --on-threshold continue
	grep -qE '^[1-9][0-9]* above 10000 us, 0 more missed$' said || fail "no summary: $(< said)"
	# If no more can come, the summary is printed as well.
	sees_delays 3 20000 runq -T 10000 -q --on-threshold continue \
		--on-threshold "shell,command=echo none > '$debugfs/threshold_ns/runq'"
	grep -qE '^[1-9][0-9]* above 10000 us, [0-9]+ more missed$' said || fail "no summary: $(< said)"
	sleep 100 &
	pid=$!
	background "$pid"
	sees_delays 2 20000 runq -T 10000 -j --on-threshold "signal,num=15,pid=$pid"
	check_tool json said
	status_of "$pid" 143
}

# does_at_outliers WORD: whether the module does this at an outlier.
does_at_outliers() { grep -qw "$1" "$debugfs/on_outlier"; }

# Two at once, with two thresholds and two actions: when the first one or the second one ends, the
# other one still gets what it needs, and at the end all is as before.
test_tool_watch_twice() {
	local pids number first actions=(trace snapshot)
	begin_tool
	helper delay
	for first in 0 1; do
		pids=()
		for number in 0 1; do
			"$SCHEDHIST_TOOL" watch -T "$((100000 - 40000 * number))" --on-threshold continue \
				--on-threshold "${actions[number]}" > "said$number" 2> /dev/null &
			pids+=("$!")
			background "$!"
			waits_for holds "$debugfs/threshold_ns/runq" "$((100000000 - 40000000 * number))"
		done
		kill -INT "${pids[first]}"
		wait "${pids[first]}" || true
		does_at_outliers tracing_off || fail "trace: $(< "$debugfs/on_outlier")"
		does_at_outliers snapshot || fail "snapshot: $(< "$debugfs/on_outlier")"
		same threshold "$(< "$debugfs/threshold_ns/runq")" 60000000
		"$work/delay" 1 300000
		waits_for grep -q delay: "said$((1 - first))"
		kill -INT "${pids[1 - first]}"
		status_of "${pids[1 - first]}" 3
		same threshold "$(< "$debugfs/threshold_ns/runq")" none
		same on_outlier "$(< "$debugfs/on_outlier")" none
		echo 1 > "$tracefs/tracing_on"
	done
	# What one has left that was killed, the next one restores.
	"$SCHEDHIST_TOOL" watch -T 60000000 &
	pids=("$!")
	background "$!"
	waits_for [ -s /run/schedhist-threshold_ns-runq.lock ]
	waits_for is_watched runq
	kill -KILL "${pids[0]}"
	wait "${pids[0]}" 2> /dev/null || true
	same threshold "$(< "$debugfs/threshold_ns/runq")" 60000000000
	ends_with 0 tool watch -T 120000000 -d 0.1
	same threshold "$(< "$debugfs/threshold_ns/runq")" none
	# A setting that cannot be written.
	mkdir readonly
	# shellcheck disable=SC2016 # for the other shell
	ends_with 1 timeout -s KILL 60 unshare --mount sh -c '
		mount -t tmpfs none readonly && echo none > readonly/runq && mount -o remount,ro readonly &&
			mount --bind readonly/runq "$0/threshold_ns/runq" && exec "$@"
	' "$debugfs" "$SCHEDHIST_TOOL" watch -T 1000
	grep -q "threshold_ns/runq: Read-only file system" complaints || fail "$(< complaints)"
}

# With --stacks, each outlier has the kernel stack with which its task had left the CPU. What watch
# writes for it is in an instance of ftrace, which is gone at the end.
test_tool_stacks() {
	local instances=$tracefs/instances pid other signal now
	begin_tool
	helper naps
	helper delay
	mkfifo hold
	"$work/naps" < hold > /dev/null &
	pid=$!
	background "$pid"
	exec 8> hold
	# Each nap is one outlier: on a futex, a pipe and a timer.
	"$SCHEDHIST_TOOL" watch offcpu -T 15000 -d 2.5 -j --stacks --on-threshold continue > json &
	other=$!
	background "$other"
	waits_for compgen -G "$instances/schedhist-watch-$other-*" > /dev/null
	same "number of instances" "$(find "$instances" -mindepth 1 -maxdepth 1 | wc -l)" 1
	same "the events of others" "$(< "$tracefs/events/schedhist/enable")" 0
	status_of "$other" 3
	exec 8>&-
	check_tool stacks json naps __futex_wait anon_pipe_read do_nanosleep
	now=$(date +%s%N)
	within "the end of an outlier" "$((now - 60000000000))" \
		"$(grep -oP '"unix_ns":\K[0-9]+' json | tail -n 1)" "$now"
	no_instance
	# The victims are new tasks, which wait before they run for the first time, or at their first
	# wakeup. Up to half of them have begun to run and are preempted, which is no runq_wakeup.
	sees_delays 10 100000 runq_wakeup -T 50000 -d 4 --stacks --on-threshold continue
	narrow said
	grep -qE '^  (begins|had left the CPU) in:$' said || fail "no stack: $(< said)"
	no_instance
	# It is gone after each signal. test_tool_killed is about SIGKILL, which nobody can handle.
	for signal in INT TERM HUP; do
		"$SCHEDHIST_TOOL" watch -T 60000000 --stacks &
		pid=$!
		background "$pid"
		waits_for compgen -G "$instances/schedhist-watch-$pid-*" > /dev/null
		waits_for is_watched runq
		kill -s "$signal" "$pid"
		status_of "$pid" 0
		no_instance
	done
}

# A real-time task that keeps a CPU, and so keeps kernel workers from it, does not keep `watch` waiting.
test_tool_stacks_hogged() {
	local hog runtime=/proc/sys/kernel/sched_rt_runtime_us
	begin_tool
	(($(nproc) > 1)) || skip "one CPU"
	# The first use of an event waits for every CPU, whoever it is by.
	ends_with 0 tool watch -T 60000000 -d 0.1 --stacks
	python3 -S -c '
import os, time
open("'"$runtime"'", "w").write("-1")
os.sched_setaffinity(0, {1})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
open("hogs", "w").close()
end = time.monotonic() + 100
while time.monotonic() < end: pass' &
	hog=$!
	background "$hog"
	waits_for test -e hogs
	ends_with 0 taskset --cpu-list 0 "$SCHEDHIST_TOOL" watch -T 60000000 -d 0.1 --stacks
	kill "$hog" || fail "watch has waited for the real-time task"
	echo 950000 > "$runtime"
	no_instance
}

no_instance() { same "instances that are left" "$(ls "$tracefs/instances")" ""; }

# A doubled delay is found, and none where nothing has changed. One in twenty comparisons of equal
# runs may be wrong, and a busy host may hide a difference: so there is a second try. Half of the waits
# are the short ones of the task that causes the long ones, and on PREEMPT_RT three quarters: p85 is a
# long one in any case. A run takes less than the 950 ms after which the kernel's fair server helps
# tasks that wait for a real-time one.
allow_seconds test_tool_diff 300
test_tool_diff() {
	local of us
	about_numbers
	begin_tool
	cgroups_on
	helper delay
	for _ in 1 2; do
		rm -f ./*.data
		for _ in {1..6}; do
			for of in a b c; do
				us=10000
				[[ $of != b ]] || us=20000
				tool run -o "$of.data" --append -- "$work/delay" 42 "$us" 2> /dev/null
			done
		done
		tool diff a.data b.data -q 85 > double
		tool diff a.data c.data -q 85 > equal
		sed 's/^/# /' double equal
		narrow double equal
		grep -qE 'p85 .* different$' double || continue
		! grep -q different$ equal || continue
		ends_with 1 tool diff a.data b.data --fail-above runq:p85:+20%
		ends_with 0 tool diff a.data c.data --fail-above runq:p85:+20%
		return
	done
	fail "a doubled delay was not found, or one where there was none, twice"
}
