#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The control `enable`.

# unseen NUMBER: whether so many CPUs have switched since measuring began, for each time that it did.
unseen() { (($(status start_unseen) >= $1)); }

test_enable() {
	local before after
	load
	workload_start
	same enable "$(< "$debugfs/enable")" 1
	waits_for unseen "$(nproc)"
	measure 0
	same enable "$(< "$debugfs/enable")" 0
	before=$(cat "$debugfs/status" "$debugfs"/hist/* "$debugfs"/per_cpu/*/{hist/*,summary,openmetrics})
	sleep 0.3
	after=$(cat "$debugfs/status" "$debugfs"/hist/* "$debugfs"/per_cpu/*/{hist/*,summary,openmetrics})
	same "counters while measuring is off" "$after" "$before"
	before=$(status switches)
	measure 1
	let_count switches $((before + 100))
	waits_for unseen $((2 * $(nproc)))
	measure 0
	workload_stop
	within "switches after measuring again" $((before + 100)) "$(status switches)" 1000000000
	assert_laws
	# A stay that began while measuring was off is not a sample, on any CPU.
	within start_unseen $((2 * $(nproc))) "$(status start_unseen)" \
		$((2 * $(nproc) + $(status clock_backwards)))
}

test_enable_often() {
	local i number=80
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || number=400
	load
	expedite_rcu
	workload_start_bursts
	for ((i = 0; i < number; i++)); do
		measure $((i % 2))
	done
	measure 0
	workload_stop
	assert_laws
	# At most one for each CPU and each time; none if the CPU did not switch before measuring
	# went off.
	within start_unseen 1 "$(status start_unseen)" \
		$(((number / 2 + 1) * $(nproc) + $(status clock_backwards)))
}

test_enable_bad_input() {
	local number
	load
	measure 0
	mark_log bad_input
	bad_input enable
	same enable "$(< "$debugfs/enable")" 0
	grep -q '^schedhist: enable: "2": expected 0 or 1$' "$work/lines"
	# At most one line for each.
	read -r number _ < "$work/refused"
	within "lines in the log" 1 "$(wc -l < "$work/lines")" "$number"
	measure 1
	same enable "$(< "$debugfs/enable")" 1
	fails_with "Permission denied" runuser -u nobody -- cat "$debugfs/enable"
}
