#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2154 # a program; variables of lib.sh
#
# Unloading while every operation on the module runs at once, and CPUs go offline and online: see
# unload_stress.c. test_unload.sh does the same in order.
#
# SCHEDHIST_SEED repeats a run as far as threads can be controlled; SCHEDHIST_CYCLES and
# SCHEDHIST_SECONDS bound it.

# shellcheck source=tests/guest/growth.bash
. ./growth.bash

cpus_on() {
	local cpu
	for cpu in /sys/devices/system/cpu/cpu*/online; do
		[[ $(< "$cpu") == 1 ]] || echo 1 > "$cpu"
	done
}

# under_storm COMMAND...: runs it under a storm, which yields to it, so that it completes many cycles.
under_storm() {
	workload_start bash -c \
		'while :; do "$0" 100; hackbench --groups 1 --loops 2; sleep 0.5; done' "$work/storm"
	"$@"
	workload_stop
	cpus_on
}

seeks_leaks test_unload_stress
allow_seconds test_unload_stress $((${SCHEDHIST_THOROUGH:+1} + 0 ? 2400 : 600))
test_unload_stress() {
	local cycles=1000 seconds=20 warmup=20 before after
	# Each use must succeed.
	needs perf hist
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || seconds=900
	cycles=${SCHEDHIST_CYCLES:-$cycles} seconds=${SCHEDHIST_SECONDS:-$seconds}
	helper unload_stress
	helper storm
	trap cpus_on EXIT
	# The warm-up makes the kernel allocate what it keeps, such as trace buffers.
	under_storm "$work/unload_stress" "$ko" "$warmup" $((seconds / 4)) "${SCHEDHIST_SEED:-$SRANDOM}" > /dev/null
	before=$(kernel_memory)
	under_storm "$work/unload_stress" "$ko" "$cycles" "$seconds" "${SCHEDHIST_SEED:-$SRANDOM}" | tee "$work/unload_stress.out"
	cycles=$(awk '{ print $2; exit }' "$work/unload_stress.out")
	after=$(kernel_memory)
	note "the kernel's memory: $before then $after (KiB)"
	assert_no_growth "$before" "$after" "$cycles"
	assert_gone
}
