#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Unloading, again and again, while everything runs.
#
# SCHEDHIST_CYCLES  how often test_unload_often loads and unloads

# shellcheck source=tests/guest/growth.bash
. ./growth.bash

seeks_leaks test_unload_often
allow_seconds test_unload_often $((${SCHEDHIST_THOROUGH:+1} + 0 ? 4500 : 600))
test_unload_often() {
	local cycles=60 start=15 before after
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || cycles=1000
	cycles=${SCHEDHIST_CYCLES:-$cycles}
	((cycles > start)) || fail "SCHEDHIST_CYCLES must be more than $start"
	helper reload
	echo 1 > "$tracefs/events/sched/sched_switch/enable"
	workload_start_bursts
	"$work/reload" "$ko" 1 "$start"
	workload_stop
	before=$(kernel_memory)
	workload_start_bursts
	"$work/reload" "$ko" $((start + 1)) "$cycles"
	workload_stop
	after=$(kernel_memory)
	note "$cycles load/unload cycles, in order"
	note "after cycle $start:  $before (KiB)"
	note "after cycle $cycles: $after (KiB)"
	assert_no_growth "$before" "$after" $((cycles - start))
	assert_gone
}
