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

# switch_events 0|1: all of ours.
switch_events() { echo "$1" > "$tracefs/events/schedhist/enable"; }

# nap: sleeps, without a fork.
nap() { read -r -t 0.05 -u 9 || true; }

# One of the lives of a module: load, use, unload.
cycle() {
	load precision=7
	case $(($1 % 8)) in
	0) ;; # unloaded at once
	1)
		switch_events 1
		nap
		switch_events 0
		;;
	2)
		measure 0
		measure 1
		;;
	3)
		echo schedhist:oncpu >> "$tracefs/set_event"
		cat "$debugfs/summary" > /dev/null
		fails_with "in use" unload
		measure 0
		echo '!schedhist:oncpu' >> "$tracefs/set_event"
		;;
	4)
		echo 'hist:keys=cause' > "$tracefs/events/schedhist/runq/trigger"
		nap
		fails_with "in use" unload
		echo '!hist:keys=cause' > "$tracefs/events/schedhist/runq/trigger"
		;;
	5) perf stat -e schedhist:runq -a sleep 0 2> /dev/null ;;
	6)
		# Outliers, and who waits for one.
		switch_events 1
		echo 0 > "$debugfs/outlier_limit"
		head -n 1 "$debugfs/wait" > /dev/null &
		echo 1 > "$debugfs/threshold_ns/runq"
		wait $!
		switch_events 0
		;;
	7)
		# With outliers until the end.
		echo 1 > "$debugfs/threshold_ns/idle"
		nap
		;;
	esac
	unload
}

takes test_unload_often $((${SCHEDHIST_THOROUGH:+1} + 0 ? 4500 : 600))
test_unload_often() {
	local i cycles=150 start=20 before after one_cpu
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || cycles=1000
	cycles=${SCHEDHIST_CYCLES:-$cycles}
	((cycles > start)) || fail "SCHEDHIST_CYCLES must be more than $start"
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
	note "$cycles load/unload cycles, in order"
	note "after cycle $start:  $before (KiB)"
	note "after cycle $cycles: $after (KiB); one CPU's histograms: $one_cpu"
	within "growth of the kernel's memory" -1000000 $((${after##* } - ${before##* })) \
		$((one_cpu * (cycles - start) / 4))
	assert_gone
}
