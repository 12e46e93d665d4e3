#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Every switch is accounted for, and the kernel counts the same number.

test_law() {
	load
	messages 50 2
	measure 0
	within switches 1000 "$(status switches)" 1000000000
	# A clock that went backwards may add some more.
	within "stays whose start was not seen" "$(status cpus_possible)" "$(status start_unseen)" \
		$(($(status cpus_possible) + $(status clock_backwards)))
	assert_laws
	note "$(status switches) switches: $(status voluntary) voluntary, $(status involuntary) involuntary"
}

# Does not fork, so that little time passes between two reads.
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

# look NAME: sets NAME_least, NAME_ctxt and NAME_most: ctxt, read between two reads of `switches`.
# Tries again if much time passed between the reads, as on a busy host.
look() {
	local before i width=''
	for ((i = 0; i < 15; i++)); do
		read_switches; before=$switches
		read_ctxt
		read_switches
		[[ -z $width ]] || ((switches - before < width)) || continue
		width=$((switches - before))
		printf -v "$1_least" %d "$before"
		printf -v "$1_ctxt" %d "$ctxt"
		printf -v "$1_most" %d "$switches"
		((width > 20)) || break
	done
}

# Each CPU may be between the kernel's count of a switch and its tracepoint.
test_ctxt() {
	local switches ctxt start_least start_ctxt start_most end_least end_ctxt end_most grown least most
	load
	workload_start
	sleep 0.3
	look start
	sleep 2
	let_count switches $((start_most + 2000))
	look end
	grown=$((end_ctxt - start_ctxt))
	least=$((end_least - start_most - $(nproc)))
	most=$((end_most - start_least + $(nproc)))
	note "ctxt grew by $grown, switches by $((least + $(nproc))) to $((most - $(nproc)))"
	within "growth of ctxt" "$least" "$grown" "$most"
	# Wide bounds would prove nothing.
	within "width of the bounds" 0 $(((most - least) * 10)) "$most"
}
