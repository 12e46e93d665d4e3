#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# What has not ended yet: the time of a CPU adds up at any moment, and a task that holds a CPU, or
# waits for one, is seen while it does.

# shellcheck source=tests/guest/tool.bash
. ./tool.bash

# hog SECONDS: a real-time task that never leaves CPU 1, and that nothing takes from there: $hog. It
# is there when this returns.
hog() {
	local server=/sys/kernel/debug/sched/fair_server/cpu1/runtime
	(($(nproc) > 1)) || skip "it needs two CPUs"
	[[ -e $server ]] || skip "the kernel's server of fair tasks cannot be switched off"
	taskset --pid --cpu-list 0 $BASHPID > /dev/null
	cat /proc/sys/kernel/sched_rt_runtime_us "$server" > "$work/limits"
	echo -1 > /proc/sys/kernel/sched_rt_runtime_us
	echo 0 > "$server"
	rm -f "$work/hogs"
	python3 -SE "$here/in_progress.py" hog "$1" "$work/hogs" &
	hog=$!
	background "$hog"
	waits_for test -e "$work/hogs"
}

# hog_ends: ends it.
hog_ends() {
	kill "$hog" 2> /dev/null || true
	wait "$hog" || true
	{
		read -r
		echo "$REPLY" > /proc/sys/kernel/sched_rt_runtime_us
		read -r
		echo "$REPLY" > /sys/kernel/debug/sched/fair_server/cpu1/runtime
	} < "$work/limits"
}

# The law of time, while the CPUs switch all the time, measuring is switched off and on, and groups
# begin.
test_in_progress_law() {
	load
	workload_start yielding
	python3 -SE in_progress.py law 40
	echo comm > "$debugfs/group_by"
	python3 -SE in_progress.py law 40
	measure 0
	sleep 0.3
	measure 1
	python3 -SE in_progress.py law 40
	echo none > "$debugfs/group_by"
	workload_stop
	measure 0
	assert_laws
	[[ $(../../tests/rawdump --in-progress "$debugfs/raw") == '' ]] ||
		fail "something is in progress while measuring is off"
	unload
}

# busy: what top says of CPU 1, in percent.
busy() { tool top --once -d 3 | sed -n 's/.*CPU 1 [^%]* \([0-9]*\)%.*/\1/p'; }

# ran SECONDS: how long the group of the task ran, in percent of one CPU.
ran() {
	tool groups -j "$1" 1 | python3 -SE -c '
import json, sys
for line in sys.stdin:
	row = json.loads(line)
	if row["name"] == "hog":
		print(100 * row["oncpu_ns"] // row["span_ns"])'
}

# A task that holds a CPU, be it since before measuring began: the CPU is busy, its group runs.
test_in_progress_hog() {
	local found
	begin_tool
	echo comm > "$debugfs/group_by"
	hog 900
	found=$(busy)
	within "CPU 1 is busy" 90 "${found:--1}" 100
	found=$(ran 3)
	within "its group runs" 90 "${found:--1}" 101
	"$here/../rawdump" --in-progress "$debugfs/raw" > "$work/raw"
	grep -q "^task metric oncpu unseen 0 cpu 1 .* pid $hog " "$work/raw" || fail "raw does not name it"
	# Measuring begins anew while it runs.
	echo none > "$debugfs/group_by"
	echo comm > "$debugfs/group_by"
	found=$(busy)
	within "CPU 1 is busy, unseen" 90 "${found:--1}" 100
	found=$(ran 3)
	within "its group runs, unseen" 90 "${found:--1}" 101
	ends_with 3 tool watch oncpu -T 1000000 -d 60s
	says said "oncpu of hog:$hog"
	hog_ends
	measure 0
	cd "$here" || exit
	assert_laws
	unload
}

# A task that waits for a CPU which it does not get: once, before the wait ends or at its end.
test_in_progress_starved() {
	local victim
	begin_tool
	hog 900
	python3 -SE "$here/in_progress.py" nap &
	victim=$!
	background "$victim"
	waits_for grep -q '^State:.*running' "/proc/$victim/status"
	sleep 0.5
	# Kernel threads wait there, too.
	ends_with 3 tool watch runq -T 100000 -d 120s
	says said "still waiting hog:$hog has had the CPU"
	ends_with 3 tool watch runq -T 100000 -d 120s -j
	says said '"schema":"schedhist.in_progress.v1"'
	# Not by a function: its shell would get the signal.
	"$SCHEDHIST_TOOL" watch runq -T 100000 --on-threshold continue > "$work/watched" &
	background $!
	waits_for grep -q "runq of nap:$victim: .*, still waiting" "$work/watched"
	hog_ends
	waits_for grep -q "runq_.* of nap:$victim: " "$work/watched"
	sleep 1
	kill -INT $!
	status_of $! 3
	grep -A 9 "runq_.* of nap:$victim: " "$work/watched" | grep -q "told of before its end" ||
		fail "its end counts: $(< "$work/watched")"
	kill "$victim"
	measure 0
	cd "$here" || exit
	assert_laws
	unload
}
