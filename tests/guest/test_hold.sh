#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Unloading waits for a task that is about to call a probe of ours: see tests/modules/hold.c.

# hold_and_unload TRACEPOINT MILLISECONDS: on CPU 1; unloading is done on CPU 0, which needs nothing of
# the other.
hold_and_unload() {
	local pid start
	taskset --pid --cpu-list 0 $$ > /dev/null
	helper hold tracepoint="$1" ms="$2"
	# It wakes, forks, and sleeps.
	workload_start taskset --cpu-list 1 bash -c \
		'exec 8> >(exec cat > /dev/null); while :; do echo >&8; /bin/true; done'
	pid=$(< "$work/workload")
	load
	hurry
	echo "$pid" > /sys/module/hold/parameters/pid
	until [[ $(parameter hold holding) == Y ]]; do :; done
	start=${EPOCHREALTIME/./}
	unload
	same "holding after unloading" "$(parameter hold holding)" N
	note "unloading took $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	workload_stop
	assert_gone
}

# With the run queue's lock held: the kernel's own timers bear that for less than a second.
test_hold_switch() { hold_and_unload sched_switch 700; }
test_hold_waking() { hold_and_unload sched_waking 2000; }
test_hold_newtask() { hold_and_unload task_newtask 5000; }
