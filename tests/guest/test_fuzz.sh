#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Random input, and input that is nearly right, for the files and the module parameters: see fuzz.c
# and fuzz_params.c. Input that is right by the documentation is accepted; all other input is
# refused and changes nothing.
#
# SCHEDHIST_SEED          the seed of a run, which a fuzzer prints
# SCHEDHIST_FUZZ_INPUTS   the maximum number of inputs for the files
# SCHEDHIST_FUZZ_LOADS    the maximum number of loads of the module
# SCHEDHIST_FUZZ_SECONDS  the maximum run time of a fuzzer
#
# Pass them into the guest with env(1): see docs/testing.md.

# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

seed() { echo "${SCHEDHIST_SEED:-$SRANDOM}"; }

# fuzz_quietly NAME COMMAND...: asserts that there is no report in the log. The command prints all
# log lines but our own to stderr.
fuzz_quietly() {
	local name=$1 rc=0
	shift
	log_is_quiet 1
	trap 'log_is_quiet 0' EXIT
	"$@" 2> "$work/fuzz.err" || rc=$?
	log_is_quiet 0
	cat "$work/fuzz.err"
	((rc == 0)) || fail "status $rc"
	sed -n 's/^the log: //p' "$work/fuzz.err" > "$work/fuzz.log"
	../../scripts/bed/check-log --allocations "$work/fuzz.log" || fail "the kernel has reported something"
	# Lockdep stops after its first report.
	! grep -qs '^ debug_locks: *0$' /proc/lockdep_stats || fail "lockdep is off"
	# The beginning of the log may be overwritten by now.
	is_marked "$name" || mark_log "$name"
}

seeks_leaks test_fuzz_files test_fuzz_parameters
allow_seconds test_fuzz_files 4000
test_fuzz_files() {
	local inputs=150000 seconds=10
	# Kernels of ours are slow; they try as many inputs as the time allows.
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || inputs=1000000 seconds=$((${#debug_kernel} ? 600 : 2400))
	helper fuzz
	load
	expedite_rcu
	workload_start_bursts
	fuzz_quietly test_fuzz_files "$work/fuzz" "$debugfs" "${SCHEDHIST_FUZZ_INPUTS:-$inputs}" \
		"${SCHEDHIST_FUZZ_SECONDS:-$seconds}" "$(seed)"
	workload_stop
	# The module still works.
	measure 0
	echo all > "$debugfs/metrics"
	echo 1 > "$debugfs/reset"
	measure 1
	messages 5
	measure 0
	assert_laws
	unload
	assert_gone
}

allow_seconds test_fuzz_parameters 900
test_fuzz_parameters() {
	local loads=200 seconds=8
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || loads=1000 seconds=300
	helper fuzz_params
	expedite_rcu
	fuzz_quietly test_fuzz_parameters "$work/fuzz_params" "$ko" "${SCHEDHIST_FUZZ_LOADS:-$loads}" \
		"${SCHEDHIST_FUZZ_SECONDS:-$seconds}" "$(seed)"
	assert_gone
}
