#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# Other tools report the same for the same window: see peers.py for the differences and their
# causes.

# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

allow_seconds test_peer_runqlat 600
allow_seconds test_peer_cpudist_offcpu 600
allow_seconds test_peer_cpudist_oncpu 1200
allow_seconds test_peer_schedstat 600
allow_seconds test_peer_timehist 900

# compare PEER [TOOL]: passes if they agree in one of three windows.
compare() {
	local said try rc=0
	about_numbers
	(($# < 2)) || command -v "$2" > /dev/null || skip "$2 is not installed"
	load_all
	measure 0
	# One window may be disturbed, for example if the host does not run all CPUs of the guest.
	for try in 1 2 3; do
		rc=0
		said=$(python3 -S ./peers.py "$1" 2>&1) || rc=$?
		((rc != 77 || try > 1)) || skip "$said"
		printf '%s\n' "$said"
		((rc)) || break
	done
	((rc == 0))
	assert_laws
}

test_peer_runqlat() { compare runqlat runqlat-libbpf; }
test_peer_cpudist_offcpu() { compare cpudist_offcpu cpudist-libbpf; }
test_peer_cpudist_oncpu() {
	! grep -q 'QEMU Virtual CPU' /proc/cpuinfo || skip "cpudist compiles its program for minutes on an emulated CPU"
	compare cpudist_oncpu cpudist-bpfcc
}
test_peer_schedstat() { compare schedstat; }
test_peer_timehist() { compare timehist perf; }
