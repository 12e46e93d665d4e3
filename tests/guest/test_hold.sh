#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Unloading waits for a task that is about to call a probe of ours: see tests/modules/hold.c.

# On CPU 1; unloading is done on CPU 0, which needs nothing of the other.
test_hold_newtask() {
	local pid start
	taskset --pid --cpu-list 0 $$ > /dev/null
	helper hold ms=8000
	workload_start taskset --cpu-list 1 bash -c 'while :; do /bin/true; done'
	pid=$(< "$work/workload")
	load
	hurry
	echo "$pid" > /sys/module/hold/parameters/pid
	until [[ $(parameter hold holding) == Y ]]; do sleep 0.01; done
	start=${EPOCHREALTIME/./}
	unload &
	sleep 3
	same "holding while unloading" "$(parameter hold holding)" Y
	[[ -e /proc/$! ]] || fail "unloading did not wait"
	wait $!
	same "holding after unloading" "$(parameter hold holding)" N
	note "unloading took $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	workload_stop
	assert_gone
}
