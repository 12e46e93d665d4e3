#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Samples above a threshold: whose they are, how long, and which tasks had the CPU meanwhile.

# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash
# shellcheck source=tests/guest/events.bash
. ./events.bash

# delay HOW: asserts that the trace, the file and its waiting readers report a delay as it was.
delay() {
	about_numbers
	helper hog
	load
	python3 -S ./delays.py "$1"
}

test_outlier_wakeup() { delay wakeup; }
test_outlier_preempt() { delay preempt; }
# The time before the CPU's last 256 stays is missing, and the rest adds up.
test_outlier_turns() { delay turns; }
# The time of the tasks that are not among the first 32 is missing.
test_outlier_crowd() { delay crowd; }

# flood NUMBER: runs a workload. Asserts that there are this many outliers (unless NUMBER is empty),
# that every other sample is counted as suppressed, and that the trace has all outliers.
flood() {
	measure 1
	messages 1
	measure 0
	note "$(above_1ns) samples, $(status outliers) outliers, $(status outliers_suppressed) suppressed"
	same "outliers and suppressed ones" $(($(status outliers) + $(status outliers_suppressed))) "$(above_1ns)"
	[[ -z $1 ]] || same outliers "$(status outliers)" "$1"
	nothing_lost "$instance"
	python3 -S ./flood.py "$instance/trace" "$(status outliers)"
}

# If every sample is an outlier, as many are reported as allowed, and the machine survives.
test_outlier_flood() {
	local metric before
	load metrics=all
	measure 0
	echo 1 > "$debugfs/reset"
	for metric in "${metrics[@]}"; do
		echo 1 > "$debugfs/threshold_ns/$metric"
	done
	instance_open outlier culprit
	echo none > "$debugfs/outlier_rate"
	echo 1000 > "$debugfs/outlier_limit"
	flood 1000
	# Again, without any limit.
	echo 500 > "$debugfs/outlier_limit"
	flood 1500
	before=$(status outliers_suppressed)
	echo none > "$debugfs/outlier_limit"
	flood ""
	same "suppressed without a limit" "$(status outliers_suppressed)" "$before"
}

# The laws also hold on a CPU that goes offline and returns.
test_outlier_hotplug() {
	local metric online=/sys/devices/system/cpu/cpu1/online
	[[ -e $online ]] || skip "$online is not there"
	load metrics=all
	measure 0
	for metric in "${metrics[@]}"; do
		echo 10000000 > "$debugfs/threshold_ns/$metric"
	done
	echo none > "$debugfs/outlier_rate"
	instance_open outlier culprit
	measure 1
	for _ in 1 2; do
		taskset --cpu-list 1 sleep 0.05
		echo 0 > "$online"
		sleep 0.2
		echo 1 > "$online"
		taskset --cpu-list 1 sleep 0.05
	done
	measure 0
	nothing_lost "$instance"
	# It also reported outliers after each return.
	within "outliers of CPU 1" 4 "$(grep -c ' outlier: .*cpu=1 ' "$instance/trace")" 100000000
	python3 -S ./flood.py "$instance/trace" "$(status outliers)"
}
