#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Unloading, again and again, while everything runs.

# In KiB, of the kinds that a module takes.
kernel_memory() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
	awk '/^(Slab|VmallocUsed|Percpu):/ { sum += $2; printf "%s %d ", $1, $2 }
		END { printf "sum %d\n", sum }' /proc/meminfo
}

takes test_unload_often $((${SCHEDHIST_THOROUGH:+1} + 0 ? 4500 : 600))
test_unload_often() {
	local cycles=150 start=20 before after one_cpu
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || cycles=1000
	cycles=${SCHEDHIST_CYCLES:-$cycles}
	((cycles > start)) || fail "SCHEDHIST_CYCLES must be more than $start"
	helper lives
	load precision=7
	one_cpu=$(($(status memory_bytes) / $(status cpus_possible) / 1024))
	unload
	echo 1 > "$tracefs/events/sched/sched_switch/enable"
	workload_start_bursts
	"$work/lives" "$ko" 1 "$start"
	workload_stop
	before=$(kernel_memory)
	workload_start_bursts
	"$work/lives" "$ko" $((start + 1)) "$cycles"
	workload_stop
	after=$(kernel_memory)
	note "$cycles load/unload cycles, in order"
	note "after cycle $start:  $before (KiB)"
	note "after cycle $cycles: $after (KiB); one CPU's histograms: $one_cpu"
	within "growth of the kernel's memory" -1000000 $((${after##* } - ${before##* })) \
		$((one_cpu * (cycles - start) / 4))
	assert_gone
}
