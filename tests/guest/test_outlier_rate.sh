#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The number of outliers reported: a rate that recovers, and a total.

# Prints the guest's uptime in milliseconds, rounded down to tens.
uptime_ms() { awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime; }

# everything_is_an_outlier: makes every sample above 1 ns one.
everything_is_an_outlier() {
	local metric
	for metric in "${metrics[@]}"; do
		echo 1 > "$debugfs/threshold_ns/$metric"
	done
}

# counted KEY VALUE: whether the status shows at least this value.
counted() { (($(status "$1") >= $2)); }

# logged NAME NUMBER TEXT: sets number to how often the log has TEXT since mark_log NAME; returns whether
# it is at least NUMBER.
logged() {
	number=$(our_lines "$1" | grep -c "$3") || true
	((number >= $2))
}

# said NAME NUMBER TEXT: waits until the log has TEXT this often since mark_log NAME.
said() {
	local number
	waits_for logged "$@"
	same "lines about $3" "$number" "$2"
}

# The first burst uses up the outliers of a second, then each one comes at its time; suppressed
# outliers are counted.
test_outlier_rate() {
	local begin sure elapsed reported suppressed
	load metrics=all
	measure 0
	mark_log rate
	echo 20 > "$debugfs/outlier_rate"
	everything_is_an_outlier
	workload_start
	echo 1 > "$debugfs/reset"
	begin=$(uptime_ms)
	measure 1
	sure=$(uptime_ms)
	waits_for counted outliers 20
	waits_for counted outliers_suppressed 1
	waits_for counted outliers 40
	sure=$(($(uptime_ms) - sure))
	measure 0
	elapsed=$(($(uptime_ms) - begin + 10))
	workload_stop
	reported=$(status outliers) suppressed=$(status outliers_suppressed)
	note "$reported reported and $suppressed suppressed in $elapsed ms"
	within "outliers reported" $((20 + sure * 16 / 1000)) "$reported" $((20 + elapsed * 20 / 1000))
	same "outliers and suppressed ones" $((reported + suppressed)) "$(above_1ns)"
	same "reported, for a monitoring system" \
		"$(awk '$1 == "schedhist_outliers_total" { print $2 }' "$debugfs/openmetrics")" "$reported"
	same "suppressed, for a monitoring system" \
		"$(awk '$1 == "schedhist_outliers_suppressed_total" { print $2 }' "$debugfs/openmetrics")" "$suppressed"
	same "the last number" "$(awk '$1 == "outlier" { id = $3 } END { print id }' "$debugfs/outliers")" "$reported"
	said rate 1 "^schedhist: outlier_rate: limit of 20 per second reached, suppressing more"
	same "lines about the limit" "$(our_lines rate | grep -c outlier_limit || true)" 0
	# A reset starts the status from 0, and does not change what a monitoring system reads.
	echo 1 > "$debugfs/reset"
	same "after a reset" "$(status outliers) $(status outliers_suppressed)" "0 0"
	same "for a monitoring system" \
		"$(awk '$1 == "schedhist_outliers_total" { print $2 }' "$debugfs/openmetrics")" "$reported"
}

# A task that was blocked is reported when it runs again, and takes its turn of the rate then, however
# long ago it was woken.
test_outlier_rate_late() {
	local rate=6 reported suppressed
	helper overdue
	load
	measure 0
	echo 500000000 > "$debugfs/threshold_ns/runq_wakeup"
	echo 200000000 > "$debugfs/threshold_ns/blocked_uninterruptible"
	for _ in {1..20}; do
		echo "$rate" > "$debugfs/outlier_rate"
		echo 1 > "$debugfs/reset"
		measure 1
		"$work/overdue" 1 700
		measure 0
		reported=$(status outliers) suppressed=$(status outliers_suppressed)
		note "$reported reported, $suppressed suppressed"
		# Other tasks may have waited as long, and exceeded the rate. Or the sleep began so late that the
		# wait was short.
		((reported + suppressed < 2 || suppressed > 0 && reported + suppressed > rate)) || break
	done
	within "outliers, all of them reported" 2 "$reported" 1000
	same suppressed "$suppressed" 0
}

# The log says once that a limit is reached, and again after the limit or a threshold was written.
test_outlier_said() {
	local i=0 control
	load
	mark_log said
	workload_start_bursts
	echo 1000000 > "$debugfs/outlier_rate"
	echo 5 > "$debugfs/outlier_limit"
	echo 1 > "$debugfs/threshold_ns/oncpu"
	waits_for counted outliers_suppressed 100
	said said 1 "^schedhist: outlier_limit: limit of 5 reached, suppressing more"
	same outliers "$(status outliers)" 5
	for control in outlier_limit threshold_ns/oncpu; do
		echo 7 > "$debugfs/$control"
		waits_for counted outliers_suppressed $((++i * 500 + $(status outliers_suppressed)))
		said said $((1 + i)) "^schedhist: outlier_limit: limit of [57] reached, suppressing more"
		same outliers "$(status outliers)" 12
	done
	# The log has said nothing about the rate.
	same "lines about the rate" "$(our_lines said | grep -c outlier_rate || true)" 0
	echo 3 > "$debugfs/outlier_rate"
	echo none > "$debugfs/outlier_limit"
	waits_for counted outliers_suppressed $((500 + $(status outliers_suppressed)))
	said said 1 "^schedhist: outlier_rate: limit of 3 per second reached"
	echo 3 > "$debugfs/outlier_rate"
	waits_for counted outliers_suppressed $((500 + $(status outliers_suppressed)))
	said said 2 "^schedhist: outlier_rate: limit of 3 per second reached"
	# A rate of `none` is never reached.
	echo none > "$debugfs/outlier_rate"
	waits_for counted outliers $((1000 + $(status outliers)))
	workload_stop
	measure 0
	said said 2 "^schedhist: outlier_rate: "
	said said 3 "^schedhist: outlier_limit: "
}
