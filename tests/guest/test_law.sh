#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Every switch is accounted for, and the kernel counts as many.

test_law() {
	load
	messages 50 2
	measure 0
	within switches 1000 "$(status switches)" 1000000000
	# Where a clock went backwards that may be another one, too.
	within "stays whose start was not seen" "$(status cpus_possible)" "$(status start_unseen)" \
		$(($(status cpus_possible) + $(status clock_backwards)))
	assert_laws
	note "$(status switches) switches: $(status voluntary) voluntary, $(status involuntary) involuntary"
}

# Without a fork, so that little time passes between two of them.
read_switches() {
	local line lines
	mapfile -t lines < "$debugfs/status"
	for line in "${lines[@]}"; do
		[[ $line != "switches "* ]] || switches=${line#* }
	done
}

read_ctxt() {
	local line lines
	mapfile -t lines < /proc/stat
	for line in "${lines[@]}"; do
		[[ $line != "ctxt "* ]] || ctxt=${line#* }
	done
}

# Each read of ctxt lies between two of ours. Between counting a switch and telling us of it the
# kernel may be on each of the CPUs.
test_ctxt() {
	local switches ctxt before0 after0 before1 after1 ctxt0 in_flight least most
	load
	workload_start
	sleep 1
	read_switches; before0=$switches
	read_ctxt; ctxt0=$ctxt
	read_switches; after0=$switches
	sleep 5
	read_switches; before1=$switches
	read_ctxt
	read_switches; after1=$switches
	in_flight=$(nproc)
	least=$((before1 - after0 - in_flight))
	most=$((after1 - before0 + in_flight))
	note "ctxt grew by $((ctxt - ctxt0)), switches by $((before1 - after0)) to $((after1 - before0))"
	within "growth of ctxt" "$least" $((ctxt - ctxt0)) "$most"
	# Wide bounds would prove nothing.
	within "width of the bounds" 0 $(((most - least) * 10)) "$most"
}
