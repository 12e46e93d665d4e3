#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# A task that wakes itself runs the wakeup probe with interrupts on. An interrupt that wakes another
# task at that moment loses nothing: see tests/helpers/selfwake.c.

# shellcheck source=tests/guest/events.bash
. ./events.bash
. ./oracle.bash

# self_wake NUMBER: a task of this CPU wakes itself this often.
self_wake() { echo "$1" > /sys/module/selfwake/parameters/run; }

# sleeps PID: prints how often it has blocked, as the kernel counts.
sleeps() { awk '$1 == "voluntary_ctxt_switches:" { print $2 }' "/proc/$1/status"; }

test_selfwake() {
	local sleeper event before asleep inside
	needs hist
	load_helper selfwake
	sleeper=$(parameter selfwake sleeper_pid)
	taskset --pid --cpu-list 1 $BASHPID > /dev/null
	load_all
	# A sleep that began before measuring did is not a sample.
	until (($(parameter selfwake wakeups) > 2)); do self_wake 1000; done
	sleep 0.5
	for event in wakeup offcpu blocked; do
		echo "hist:keys=pid if pid == $sleeper" > "$(folder "$event")/trigger"
	done
	before=$(sleeps "$sleeper")
	inside=$(parameter selfwake inside)
	# The rate of the interrupts depends on the machine and the host.
	until (($(parameter selfwake inside) - inside >= ${SELFWAKE_INSIDE:-100})); do
		self_wake 20000
	done
	# The sleeper needs time to sleep again.
	sleep 0.5
	asleep=$(($(sleeps "$sleeper") - before))
	inside=$(($(parameter selfwake inside) - inside))
	note "$(parameter selfwake self_wakeups) self-wakeups, $asleep sleeps of another task," \
		"$inside of them ended from within the probe"
	for event in offcpu blocked wakeup; do
		same "samples of $event" "$(hits "$(folder "$event")/hist")" "$asleep"
	done
	measure 0
	same wake_unseen "$(status wake_unseen)" 0
	assert_laws
}
