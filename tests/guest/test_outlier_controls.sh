#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The controls `threshold_ns`, `outlier_limit` and `on_outlier`.

# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

threshold() { echo "$2" > "$debugfs/threshold_ns/$1"; }

# metrics_after NUMBER: those of the outliers kept that came after it, each once.
metrics_after() {
	awk -v number="$1" '$1 == "outlier" && $3 > number { print $5 }' "$debugfs/outliers" | sort -u | paste -sd ' '
}

# As loaded: nothing is watched for, and nothing is taken for it.
test_outlier_defaults() {
	local metric
	load
	for metric in "${metrics[@]}"; do
		same "threshold of $metric" "$(< "$debugfs/threshold_ns/$metric")" 0
	done
	same outlier_limit "$(< "$debugfs/outlier_limit")" 1000
	same on_outlier "$(< "$debugfs/on_outlier")" nothing
	same outlier_memory_bytes "$(status outlier_memory_bytes)" 0
	same "the file" "$(< "$debugfs/outliers")" "# schedhist outliers version 1"
	messages 1
	same outliers "$(status outliers) $(status outliers_suppressed)" "0 0"
	threshold idle 1
	within "outlier_memory_bytes for each CPU" 1 $(($(status outlier_memory_bytes) / $(status cpus_possible))) 131072
	note "$(status outlier_memory_bytes) bytes of outliers"
}

test_outlier_thresholds() {
	local metric value
	helper hog
	load
	echo 0 > "$debugfs/outlier_limit"
	for value in 18446744073709551615 1 '  42 ' 0; do
		threshold wakeup "$value"
		same threshold "$(< "$debugfs/threshold_ns/wakeup")" "${value// /}"
	done
	# That of the whole applies to each of its parts, and the lower one counts.
	threshold runq 5000000
	threshold runq_wakeup 1000000000000
	"$work/hog" wakeup 1 50 > /dev/null
	"$work/hog" preempt 1 50 > /dev/null
	measure 0
	same "metrics of the outliers" "$(metrics_after 0)" "runq_preempt runq_wakeup"
	value=$(status outliers)
	threshold runq 1000000000000
	threshold runq_wakeup 1
	measure 1
	messages 2
	measure 0
	same "metrics of the outliers" "$(metrics_after "$value")" runq_wakeup
	# A metric that is off has no samples, and so no outliers.
	value=$(status outliers)
	threshold runq_wakeup 0
	threshold wakeup 1
	measure 1
	messages 2
	same "outliers of a metric that is off" "$(status outliers)" "$value"
	echo all > "$debugfs/metrics"
	messages 2
	measure 0
	same "metrics of the outliers" "$(metrics_after "$value")" wakeup
	within "outliers of a metric that is on" $((value + 1)) "$(status outliers)" 1000000000
	threshold wakeup 0
	value=$(status outliers)
	measure 1
	messages 2
	same "outliers without a threshold" "$(status outliers)" "$value"
	for metric in "${metrics[@]}"; do
		[[ $metric == runq ]] || same "threshold of $metric" "$(< "$debugfs/threshold_ns/$metric")" 0
	done
}

# Thresholds come and go, and outliers with them, while everything runs.
test_outlier_thresholds_often() {
	local i
	load metrics=all
	workload_start_bursts
	for ((i = 0; i < 30; i++)); do
		threshold "${metrics[i % ${#metrics[@]}]}" $((i % 2))
		cat "$debugfs/outliers" > /dev/null
	done
	workload_stop
	measure 0
	assert_laws
}

test_outlier_bad_input() {
	local file before lines number
	load
	measure 0
	threshold runq_wakeup 12345
	echo 77 > "$debugfs/outlier_limit"
	echo snapshot,tracing_off > "$debugfs/on_outlier"
	same on_outlier "$(< "$debugfs/on_outlier")" "tracing_off snapshot"
	before=$(cat "$debugfs"/{status,outlier_limit,on_outlier} "$debugfs"/threshold_ns/*)
	for file in outlier_limit on_outlier "${metrics[@]/#/threshold_ns/}"; do
		mark_log "$file"
		python3 bad_input.py "$debugfs/$file"
		lines=$(our_lines "$file")
		number=$(python3 bad_input.py --number "$file")
		same "lines in the log for $file" "$(wc -l <<< "$lines")" "$number"
		lines=$(grep -cE "^schedhist: ${file%%/*}: expected | too long for any |offset 1" <<< "$lines")
		same "lines about $file" "$lines" "$number"
	done
	same "after bad input" "$(cat "$debugfs"/{status,outlier_limit,on_outlier} "$debugfs"/threshold_ns/*)" "$before"
	echo nothing > "$debugfs/on_outlier"
	same on_outlier "$(< "$debugfs/on_outlier")" nothing
}
