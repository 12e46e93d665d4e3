#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The controls `threshold_ns`, `outlier_rate`, `outlier_limit` and `on_outlier`.

# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

threshold() { echo "$2" > "$debugfs/threshold_ns/$1"; }

# metrics_after NUMBER: prints the metrics of the kept outliers after this number, each once.
metrics_after() {
	awk -v number="$1" '$1 == "outlier" && $3 > number { print $5 }' "$debugfs/outliers" | sort -u | paste -sd ' '
}

# By default no sample is checked, and no memory is allocated for outliers.
test_outlier_defaults() {
	local metric
	load
	for metric in "${metrics[@]}"; do
		same "threshold of $metric" "$(< "$debugfs/threshold_ns/$metric")" none
	done
	same outlier_rate "$(< "$debugfs/outlier_rate")" 100
	same outlier_limit "$(< "$debugfs/outlier_limit")" none
	same on_outlier "$(< "$debugfs/on_outlier")" none
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
	echo none > "$debugfs/outlier_rate"
	for value in 18446744073709551615 1 '  42 ' none; do
		threshold wakeup "$value"
		same threshold "$(< "$debugfs/threshold_ns/wakeup")" "${value// /}"
	done
	# The threshold of the whole applies to each of its parts, and the lower one counts.
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
	threshold runq_wakeup none
	threshold wakeup 1
	measure 1
	messages 2
	same "outliers of a metric that is off" "$(status outliers)" "$value"
	echo all > "$debugfs/metrics"
	messages 2
	measure 0
	same "metrics of the outliers" "$(metrics_after "$value")" wakeup
	within "outliers of a metric that is on" $((value + 1)) "$(status outliers)" 1000000000
	threshold wakeup none
	value=$(status outliers)
	measure 1
	messages 2
	same "outliers without a threshold" "$(status outliers)" "$value"
	for metric in "${metrics[@]}"; do
		[[ $metric == runq ]] || same "threshold of $metric" "$(< "$debugfs/threshold_ns/$metric")" none
	done
}

# Thresholds come and go, and outliers with them, while everything runs.
test_outlier_thresholds_often() {
	local i values=(none 1)
	load metrics=all
	workload_start_bursts
	for ((i = 0; i < 30; i++)); do
		threshold "${metrics[i % ${#metrics[@]}]}" "${values[i % 2]}"
		cat "$debugfs/outliers" > /dev/null
	done
	workload_stop
	measure 0
	assert_laws
}

# The log quotes refused input as it was written.
test_outlier_refused() {
	load
	mark_log refused
	fails_with "Invalid argument" threshold runq 0
	fails_with "Invalid argument" threshold idle $'1\xff "2"\\'
	fails_with "Invalid argument" bash -c "echo 0 > $debugfs/outlier_rate"
	fails_with "Invalid argument" bash -c "echo nothing > $debugfs/on_outlier"
	fails_with "Invalid argument" bash -c "printf %s $(printf '%0200d' 7) > $debugfs/enable"
	diff <(our_lines refused) - <<- END
		schedhist: threshold_ns/runq: "0": expected a number of nanoseconds (1 or more), or none
		schedhist: threshold_ns/idle: "1\\xff \\x222\\x22\\x5c": expected a number of nanoseconds (1 or more), or none
		schedhist: outlier_rate: "0": expected outliers per second, 1 to 1000000000, or none
		schedhist: on_outlier: "nothing": expected none, tracing_off, snapshot, or both words
		schedhist: enable: "$(printf '%064d' 0)"...: expected 0 or 1
	END
}

test_outlier_bad_input() {
	local file before number lines all=0 why='(expected |longer than 256 bytes|written at offset 1)'
	load
	measure 0
	threshold runq_wakeup 12345
	echo 77 > "$debugfs/outlier_limit"
	echo 1000000000 > "$debugfs/outlier_rate"
	echo snapshot,tracing_off > "$debugfs/on_outlier"
	same on_outlier "$(< "$debugfs/on_outlier")" "tracing_off snapshot"
	before=$(cat "$debugfs"/{status,outlier_rate,outlier_limit,on_outlier} "$debugfs"/threshold_ns/*)
	mark_log bad_input
	bad_input outlier_rate outlier_limit on_outlier "${metrics[@]/#/threshold_ns/}"
	while read -r number file; do
		((all += number))
		# Each line names the file and quotes the input, on one line and not too long.
		lines=$(grep -cE "^schedhist: ${file#"$debugfs/"}: \"[ -~]{0,256}\"(\.{3})?: $why" "$work/lines") || :
		same "lines about $file" "$lines" "$number"
	done < "$work/refused"
	same "lines in the log" "$(wc -l < "$work/lines")" "$all"
	same "after bad input" "$(cat "$debugfs"/{status,outlier_rate,outlier_limit,on_outlier} "$debugfs"/threshold_ns/*)" "$before"
	echo none > "$debugfs/on_outlier"
	same on_outlier "$(< "$debugfs/on_outlier")" none
	echo none > "$debugfs/outlier_rate"
	same outlier_rate "$(< "$debugfs/outlier_rate")" none
}
