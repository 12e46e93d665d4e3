#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Every user of our events keeps the module loaded. When the user is done, the module can be
# unloaded.

# shellcheck source=tests/guest/events.bash
. ./events.bash
# shellcheck source=tests/guest/users.bash
. ./users.bash

# kept_by WHAT: asserts that the module cannot be unloaded, and still measures.
kept_by() {
	fails_with "in use" unload
	same enable "$(< "$debugfs/enable")" 1
	some_switches
	note "references while used by $1: $(< /sys/module/schedhist/refcnt)"
}

# Asserts that the module can now be unloaded.
let_go() {
	unload
	assert_gone
}

# Unloading works even if an event was left enabled.
test_unload_enabled() {
	load
	echo 1 > "$event/enable"
	kept_by set_event
	echo > "$tracefs/trace"
	some_switches
	grep -q ' oncpu: ' "$tracefs/trace" || fail "the event does not work"
	echo 0 > "$event/enable"
	let_go
}

test_unload_triggered() {
	local before
	needs hist
	load
	echo 'hist:keys=cause' > "$event/trigger"
	kept_by "a hist trigger"
	before=$(hits "$event/hist")
	some_switches
	within "hits after that" $((before + 50)) "$(hits "$event/hist")" 1000000
	echo '!hist:keys=cause' >> "$event/trigger"
	let_go
}

test_unload_perf() {
	local perf
	needs perf
	load
	background perf_start
	perf=$!
	perf_wait
	kept_by "perf record"
	interrupt "$perf"
	let_go
	"${no_symbols[@]}" perf script -i "$work/perf.data" -F event,trace 2> /dev/null > "$work/script"
	grep -q 'schedhist:runq: ' "$work/script" || fail "perf recorded nothing"
}

test_unload_trace_cmd() {
	local trace_cmd
	needs trace-cmd
	load
	background trace_cmd_start
	trace_cmd=$!
	trace_cmd_wait
	kept_by "trace-cmd record"
	interrupt "$trace_cmd"
	let_go
	trace-cmd report "$work/trace.dat" > "$work/report" 2> /dev/null
	grep -q ' runq: ' "$work/report" || fail "trace-cmd recorded nothing"
}

test_unload_bpftrace() {
	local bpftrace
	needs bpftrace
	load
	background bpftrace_start
	bpftrace=$!
	bpftrace_wait
	kept_by bpftrace
	bpftrace_end "$bpftrace"
	let_go
	within "what bpftrace counted" 50 "$(bpftrace_count runq)" 1000000
}
