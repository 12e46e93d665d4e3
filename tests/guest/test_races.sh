#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Data races, on a kernel that looks for them: KCSAN stops at one access in some thousands, and
# waits for another CPU to access the same data. In a guest this happens too seldom to find much.

kcsan=/sys/module/kcsan/parameters

# skip_watch NUMBER: makes KCSAN check one access in this many.
skip_watch() { echo "$1" > "$kcsan/skip_watch"; }

watched() { awk '$1 == "setup_watchpoints:" { print $2 }' /sys/kernel/debug/kcsan; }

# Uses all data that CPUs share at once: probes, readers, outliers, baselines, switching off and on.
test_races() {
	local before at_first i
	[[ -e $kcsan/skip_watch ]] || is_beyond kcsan "the kernel does not look for data races"
	expedite_rcu
	load metrics=all
	at_first=$(< "$kcsan/skip_watch")
	echo none > "$debugfs/outlier_rate"
	echo 1000000 > "$debugfs/threshold_ns/runq"
	# shellcheck disable=SC2016 # for the other shell
	workload_start bash -c '
		cd "$1"
		for name in summary raw outliers openmetrics outlier_pipe; do
			while :; do timeout 1 cat "$name"; done &
		done
		exec hackbench --groups 1 --loops 100000000' sh "$debugfs"
	before=$(watched)
	# shellcheck disable=SC2064 # as it is now
	trap "skip_watch $at_first" EXIT
	skip_watch 400
	for ((i = 0; i < 20; i++)); do
		sleep 1
		echo 1 > "$debugfs/reset"
		if ((i % 4 == 3)); then
			measure 0
			measure 1
		fi
	done
	skip_watch "$at_first"
	workload_stop
	note "one access in 400: $(($(watched) - before)) of them looked at"
	within "accesses looked at" 10000 $(($(watched) - before)) 1000000000
	measure 0
	assert_laws
	unload
	assert_gone
}
