#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Unloading waits for a task that is about to call a probe of ours: see tests/helpers/hold.c.

# The task is on CPU 1; unloading runs on CPU 0, which needs nothing from CPU 1.
test_hold_newtask() {
	local pid start held waits='' state=/sys/module/schedhist/initstate
	taskset --pid --cpu-list 0 $BASHPID > /dev/null
	load_helper hold
	workload_start taskset --cpu-list 1 bash -c 'while :; do /bin/true; done'
	pid=$(< "$work/workload")
	load
	expedite_rcu
	echo "$pid" > /sys/module/hold/parameters/pid
	until [[ $(parameter hold holding) == Y ]]; do sleep 0.01; done
	start=${EPOCHREALTIME/./}
	unload &
	until [[ ! -e $state || $(cat "$state") == going ]] 2> /dev/null; do sleep 0.1; done
	sleep 2
	[[ ! -e /proc/$! ]] || waits=1
	held=$(parameter hold holding)
	echo Y > /sys/module/hold/parameters/release
	same "holding while unloading" "$held" Y
	[[ -n $waits ]] || fail "unloading did not wait"
	wait $!
	same "holding after unloading" "$(parameter hold holding)" N
	note "unloading took $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	workload_stop
	assert_gone
}
