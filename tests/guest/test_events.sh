#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Our trace events with what the kernel offers for every event: filters and histograms.

# shellcheck source=tests/guest/events.bash
. ./events.bash

# Asserts that all lines contain TEXT, and that there are some.
only() {
	trace_lines > "$work/trace"
	if grep -v -- "$1" "$work/trace"; then
		fail "the filter let these pass"
	fi
	[[ -s $work/trace ]] || fail "the filter let nothing pass"
}

test_event_filter() {
	load
	workload_start_bursts
	cp "$(command -v sleep)" "$work/napper"
	echo 'comm == "napper"' > "$event/filter"
	echo 1 > "$event/enable"
	"$work/napper" 0.1
	echo 0 > "$event/enable"
	only 'comm=napper'

	# This shell leaves the CPU while it waits for its child.
	echo "pid == $BASHPID" > "$event/filter"
	echo > "$tracefs/trace"
	echo 1 > "$event/enable"
	sleep 0.1
	echo 0 > "$event/enable"
	only "pid=$BASHPID "

	echo "cause == 1 && duration_ns > 1000000" > "$(folder offcpu)/filter"
	echo > "$tracefs/trace"
	echo 1 > "$(folder offcpu)/enable"
	sleep 0.5
	echo 0 > "$(folder offcpu)/enable"
	only 'duration_ns=[0-9]\{7,\} cause=interruptible group=0$'
}

test_event_hist_trigger() {
	needs hist
	load
	echo 'hist:keys=cause:vals=duration_ns' > "$event/trigger"
	echo 'hist:name=lengths:keys=duration_ns.log2' >> "$event/trigger"
	messages 1
	cat "$event/hist" > "$work/hist"
	grep -Eq 'cause: +1 .*hitcount: +[1-9][0-9]* +duration_ns: +[1-9]' "$work/hist"
	grep -Eq 'duration_ns: ~ 2\^[0-9]+ .*hitcount: +[1-9]' "$work/hist"
	echo '!hist:keys=cause:vals=duration_ns' >> "$event/trigger"
	echo '!hist:name=lengths:keys=duration_ns.log2' >> "$event/trigger"
	! grep -q '^hist' "$event/trigger" || fail "the triggers are still there"
	unload
	assert_gone
}
