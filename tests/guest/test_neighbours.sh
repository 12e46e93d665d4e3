#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Other users of the tracepoints that we probe: ftrace and BPF. The kernel calls all probes in turn,
# from a list that changes whenever one comes or goes.

# shellcheck source=tests/guest/events.bash
. ./events.bash
# shellcheck source=tests/guest/users.bash
. ./users.bash

# neighbours_come: traces into $instance, and starts bpftrace, whose PID is then $bpftrace.
neighbours_come() {
	local event
	mkdir "$instance"
	for event in "${probed[@]}"; do
		echo 1 > "$instance/events/$event/enable"
	done
	background bpftrace_start "${probed[@]/#*\//rawtracepoint:}" tracepoint:sched:sched_wakeup
	bpftrace=$!
	bpftrace_wait
}

# neighbours_see: asserts that each of them sees events, whatever else is on these tracepoints.
neighbours_see() {
	local event
	echo > "$instance/trace"
	messages 1
	for event in "${probed[@]}"; do
		grep -c " ${event#*/}: " "$instance/trace" > /dev/null || fail "ftrace does not see ${event#*/} any more"
	done
}

# neighbours_go LEAST: ends them, and asserts that bpftrace has seen at least that many switches.
neighbours_go() {
	local event
	rmdir "$instance"
	bpftrace_end "$bpftrace"
	for event in "${probed[@]}"; do
		within "${event#*/} counted by bpftrace" 1 "$(bpftrace_count "${event#*/}")" 1000000000
	done
	within "switches counted by bpftrace" "$1" "$(bpftrace_count sched_switch)" 1000000000
	rm -f "$work"/bpftrace.*
}

allow_seconds test_neighbours 600
test_neighbours() {
	local bpftrace switches
	needs bpftrace
	expedite_rcu
	neighbours_come
	load metrics=all
	neighbours_see
	measure 0
	neighbours_see
	measure 1
	neighbours_see
	measure 0
	assert_laws
	switches=$(status switches)
	unload
	neighbours_see
	neighbours_go "$switches"

	load metrics=all
	neighbours_come
	neighbours_see
	neighbours_go 100
	messages 1
	measure 0
	assert_laws
	unload
	assert_gone
}
