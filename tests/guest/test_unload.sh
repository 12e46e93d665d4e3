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

# One of four lives of a module.
cycle() {
	load precision=7
	case $(($1 % 4)) in
	0) ;; # unloaded at once
	1)
		echo 1 > "$event/enable"
		read -r -t 0.05 -u 9 || true # sleeps, without a fork
		echo 0 > "$event/enable"
		;;
	2)
		measure 0
		measure 1
		;;
	3)
		echo 1 > "$event/enable"
		cat "$debugfs/summary" > /dev/null
		measure 0
		echo 0 > "$event/enable"
		;;
	esac
	unload
}

takes test_unload_often 600
test_unload_often() {
	local i cycles=${CYCLES:-200} start=20 before after one_cpu
	load precision=7
	one_cpu=$(($(status memory_bytes) / $(status cpus_possible) / 1024))
	unload
	echo 1 > "$tracefs/events/sched/sched_switch/enable"
	mkfifo "$work/never"
	exec 9<> "$work/never"
	for ((i = 1; i <= cycles; i++)); do
		# Most of them quick, all kinds also at the natural pace.
		hurry $((i % 20 >= 4))
		[[ -e $work/workload ]] || workload_start_bursts
		cycle "$i"
		if ((i == start)); then
			workload_stop
			before=$(kernel_memory)
		fi
	done
	workload_stop
	after=$(kernel_memory)
	note "after cycle $start:  $before (KiB)"
	note "after cycle $cycles: $after (KiB); one CPU's histograms: $one_cpu"
	within "growth of the kernel's memory" -1000000 $((${after##* } - ${before##* })) \
		$((one_cpu * (cycles - start) / 4))
	assert_gone
}
