#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The controls `metrics` and `reset`, and the parameter `metrics`.

choose() { echo "$*" > "$debugfs/metrics"; }

test_metrics() {
	local default="oncpu runq_wakeup runq_preempt blocked_interruptible blocked_uninterruptible offcpu idle"
	load
	same default "$(< "$debugfs/metrics")" "$default"
	choose all
	same all "$(< "$debugfs/metrics")" "$default wakeup throttled"
	choose none
	same none "$(< "$debugfs/metrics")" none
	choose runq,idle
	same "some of them" "$(< "$debugfs/metrics")" "runq_wakeup runq_preempt idle"
	choose default
	same "default again" "$(< "$debugfs/metrics")" "$default"
	same status "$(sed -n 's/^metrics //p' "$debugfs/status")" "$default"
}

test_metrics_parameter() {
	local lines
	load metrics=oncpu,wakeup
	same metrics "$(< "$debugfs/metrics")" "oncpu wakeup"
	unload
	mark_log metrics
	fails_with "Invalid parameters" load metrics=oncpu,bogus
	lines=$(our_lines metrics)
	same "the log" "$lines" 'schedhist: metrics: "oncpu,bogus": expected metric names (see hist/), or all, default, none'
	assert_gone
}

# A metric that is off does not grow, one that is switched on counts from then on, and if all are
# off nothing is probed.
test_metrics_are_off() {
	local metric
	load metrics=idle
	messages 1
	measure 0
	for metric in "${metrics[@]}"; do
		[[ $metric == idle ]] || same "count of $metric" "$(value "hist/$metric" count)" 0
	done
	within "count of idle" 1 "$(value hist/idle count)" 100000000
	choose none
	measure 1
	metric=$(status switches)
	sleep 0.5
	same "switches with no metric on" "$(status switches)" "$metric"
	choose all
	echo 1 > "$debugfs/reset"
	messages 1
	measure 0
	within "count of wakeup" 1 "$(value hist/wakeup count)" 100000000
}

# With the wakeup probe, and with metrics changed and counts reset under load, everything adds up.
test_metrics_often() {
	local metric
	load
	expedite_rcu
	workload_start_bursts
	for metric in "${metrics[@]}"; do
		choose "$metric"
		choose all
		echo 1 > "$debugfs/reset"
	done
	# Between the last two commands some switches were seen, which this baseline does not
	# include.
	measure 0
	echo 1 > "$debugfs/reset"
	measure 1
	sleep 1
	measure 0
	workload_stop
	assert_laws
	within wakeup 10 "$(value hist/wakeup count)" 100000000
}

# A reset is a baseline, taken on all CPUs at once: right after it the same amount is missing on
# both sides of a law, however busy the machine is.
test_reset() {
	local i
	load metrics=all
	workload_start
	sleep 0.3
	for ((i = 0; i < 10; i++)); do
		echo 1 > "$debugfs/reset"
	done
	sleep 0.3
	measure 0
	workload_stop
	assert_laws
	within switches 1 "$(status switches)" 100000000
	echo 1 > "$debugfs/reset"
	same "switches after a reset" "$(status switches)" 0
	same "samples after a reset" "$(cat "$debugfs"/hist/* | awk '$1 == "count" { n += $2 } END { print n }')" 0
	same "maxima after a reset" "$(cat "$debugfs"/hist/* | grep -c '^max' || true)" 0
	assert_nothing_counted
}

# A file read during resets is from one side of each: no samples exceed the maximum, except those
# that the CPUs are just recording.
test_reset_read() {
	local files=() i reads cut
	load
	# shellcheck disable=SC2016 # for the other shell
	workload_start bash -c '
		while echo 1 > "$0/reset"; do sleep 0.02; done &
		exec hackbench --groups 1 --loops 100000000' "$debugfs"
	sleep 0.3
	for ((i = 0; i < 800; i++)); do files+=("$debugfs/hist/oncpu"); done
	awk -v cpus="$(nproc)" '
		function end() {
			reads += count >= 100
			cut += above > cpus
		}
		FNR == 1 { end(); count = above = max = 0 }
		$1 == "count" { count = $2 }
		$1 == "max" { max = $2 }
		$1 == "bucket" && $2 > max { above += $4 }
		END { end(); print reads + 0, cut + 0 }
	' "${files[@]}" > "$work/cut"
	workload_stop
	read -r reads cut < "$work/cut"
	note "$reads reads, $cut of them cut in two"
	within "reads that found samples" 100 "$reads" 800
	same "reads that a reset has cut in two" "$cut" 0
}

# Asserts that the summary says that nothing was counted.
assert_nothing_counted() {
	awk 'NR > 4 && ($2 != 0 || $3 != "-") { print; bad = 1 } END { exit bad }' "$debugfs/summary"
}

test_controls_bad_input() {
	local before number
	load
	measure 0
	before=$(cat "$debugfs/status" "$debugfs"/hist/*)
	mark_log bad_input
	bad_input metrics reset
	same "after bad input" "$(cat "$debugfs/status" "$debugfs"/hist/*)" "$before"
	grep -q '^schedhist: reset: "2": expected 1$' "$work/lines"
	grep -q '^schedhist: metrics: "oncpu;idle": expected metric names' "$work/lines"
	grep -q '^schedhist: metrics: "1*"\.\.\.: longer than 256 bytes$' "$work/lines"
	number=$(awk '{ n += $1 } END { print n }' "$work/refused")
	within "lines in the log" 1 "$(wc -l < "$work/lines")" "$number"
}
