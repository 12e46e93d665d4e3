#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The control `enable`.

test_enable() {
	local before after
	load
	workload_start
	same enable "$(< "$debugfs/enable")" 1
	measure 0
	same enable "$(< "$debugfs/enable")" 0
	before=$(cat "$debugfs/status" "$debugfs"/hist/* "$debugfs"/per_cpu/*/{hist/*,summary,openmetrics})
	sleep 1
	after=$(cat "$debugfs/status" "$debugfs"/hist/* "$debugfs"/per_cpu/*/{hist/*,summary,openmetrics})
	same "counters while measuring is off" "$after" "$before"
	before=$(status switches)
	measure 1
	sleep 1
	# On a busy host they take their time.
	for _ in {1..100}; do
		(($(status switches) < before + 100)) || break
		sleep 0.5
	done
	measure 0
	workload_stop
	within "switches after measuring again" $((before + 100)) "$(status switches)" 1000000000
	assert_laws
	# A stay that began while measuring was off is not a sample, on any CPU.
	within start_unseen $((2 * $(nproc))) "$(status start_unseen)" \
		$((2 * $(nproc) + $(status clock_backwards)))
}

test_enable_often() {
	local i
	load
	hurry
	workload_start_bursts
	for ((i = 0; i < 200; i++)); do
		measure $((i % 2))
	done
	measure 0
	workload_stop
	assert_laws
	# At most one for each CPU each time; none where it did not switch before measuring went off.
	within start_unseen 1 "$(status start_unseen)" \
		$((101 * $(nproc) + $(status clock_backwards)))
}

test_enable_bad_input() {
	local lines
	load
	measure 0
	mark_log bad_input
	python3 bad_input.py "$debugfs/enable"
	same enable "$(< "$debugfs/enable")" 0
	lines=$(our_lines bad_input)
	grep -q '^schedhist: enable: "2": expected 0 or 1$' <<< "$lines"
	# One line for each at most.
	within "lines in the log" 1 "$(wc -l <<< "$lines")" "$(python3 bad_input.py --number "$debugfs/enable")"
	measure 1
	same enable "$(< "$debugfs/enable")" 1
	fails_with "Permission denied" runuser -u nobody -- cat "$debugfs/enable"
}
