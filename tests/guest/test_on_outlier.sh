#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The actions at an outlier, besides reporting it.

# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

cpu=1

# outlier_at ACTION...: traces the scheduler, and makes a task wait for 800 ms. Only the first
# outlier is reported.
outlier_at() {
	helper hog
	load
	echo "$*" > "$debugfs/on_outlier"
	same on_outlier "$(< "$debugfs/on_outlier")" "$*"
	for event in sched/sched_switch sched/sched_waking schedhist/runq schedhist/outlier schedhist/culprit; do
		echo 1 > "$tracefs/events/$event/enable"
	done
	echo > "$tracefs/trace"
	# Not before everything is traced: on a busy machine other tasks may wait for long while
	# code is patched.
	echo 1 > "$debugfs/outlier_limit"
	echo 600000000 > "$debugfs/threshold_ns/runq"
	taskset --cpu-list 0 "$work/hog" wakeup "$cpu" 800 > /dev/null
	same outliers "$(status outliers)" 1
	cpu=$(sed -nE 's/^outlier .* cpu ([0-9]+) .*/\1/p' "$debugfs/outliers")
}

# ends_with_outlier FILE: asserts that the trace of the CPU ends with the outlier and all its
# culprits, and shows before them what led to it.
ends_with_outlier() {
	local number
	grep -v '^#' "$tracefs/per_cpu/cpu$cpu/$1" > "$work/lines"
	number=$(sed -nE 's/.* outlier: id=1 .* culprits=([0-9]+) .*/\1/p' "$work/lines")
	within culprits 1 "$number" 32
	tail -n $((number + 1)) "$work/lines" > "$work/end"
	grep -q ' outlier: id=1 ' <(head -n 1 "$work/end") || fail "the trace ends with: $(tail -n 40 "$work/lines")"
	same "culprits at the end" "$(grep -c ' culprit: id=1 ' "$work/end")" "$number"
	grep -q ' comm=hog pid=[0-9]* ' "$work/end" || fail "the hog is no culprit: $(< "$work/end")"
	# That wait is a sample as well.
	same "what it is an outlier of" "$(tail -n $((number + 2)) "$work/lines" | grep -c ' runq: ')" 1
	grep -q ' sched_switch: .* ==> next_comm=hog ' "$work/lines" || fail "no switch to the hog"
	# On any CPU.
	grep -q " sched_waking: .* pid=$(pid_of_outlier) " "$tracefs/$1" || fail "nobody wakes the outlier"
}

pid_of_outlier() { sed -nE 's/^outlier .* pid ([0-9]+) .*/\1/p' "$debugfs/outliers"; }

# goes_on: asserts that new events still get into the trace.
goes_on() {
	echo > "$tracefs/trace"
	taskset --cpu-list "$cpu" sleep 0.1
	grep -q ' sched_switch: ' "$tracefs/trace"
}

test_on_outlier_tracing_off() {
	outlier_at tracing_off
	same tracing_on "$(< "$tracefs/tracing_on")" 0
	ends_with_outlier trace
	! goes_on || fail "tracing goes on"
	# Once switched on again, tracing stays on: there was only one outlier.
	echo 1 > "$tracefs/tracing_on"
	goes_on || fail "tracing does not go on"
}

test_on_outlier_snapshot() {
	echo 1 > "$tracefs/snapshot"
	outlier_at snapshot
	same tracing_on "$(< "$tracefs/tracing_on")" 1
	ends_with_outlier snapshot
	! grep -q ' outlier: ' "$tracefs/trace" || fail "the outlier is still in the trace"
	goes_on || fail "tracing does not go on"
}

test_on_outlier_both() {
	echo 1 > "$tracefs/snapshot"
	outlier_at tracing_off snapshot
	same tracing_on "$(< "$tracefs/tracing_on")" 0
	ends_with_outlier snapshot
	! goes_on || fail "tracing goes on"
}

# Without a snapshot buffer the kernel stops tracing, and logs so.
test_on_outlier_no_snapshot() {
	echo 0 > "$tracefs/snapshot"
	outlier_at snapshot
	same tracing_on "$(< "$tracefs/tracing_on")" 0
	grep -q 'SNAPSHOT NOT ALLOCATED' "$tracefs/trace" || fail "$(tail -n 20 "$tracefs/trace")"
	grep -q ' outlier: id=1 ' "$tracefs/per_cpu/cpu$cpu/trace" || fail "no outlier"
}

test_on_outlier_none() {
	outlier_at none
	same tracing_on "$(< "$tracefs/tracing_on")" 1
	grep -q ' outlier: id=1 ' "$tracefs/per_cpu/cpu$cpu/trace" || fail "no outlier"
	goes_on || fail "tracing does not go on"
}
