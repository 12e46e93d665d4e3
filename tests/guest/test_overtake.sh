#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# A wakeup that is traced before the sleep that it ends, with a stay on the CPU in between, still
# ends that sleep: see tests/helpers/overtake.c.

# shellcheck source=tests/guest/events.bash
. ./events.bash
. ./oracle.bash

test_overtake() {
	local sleeper event number=20
	needs hist
	load_helper overtake
	sleeper=$(parameter overtake sleeper_pid)
	taskset --pid --cpu-list 0 $BASHPID > /dev/null
	load_all
	# A sleep that began before measuring did is not a sample.
	echo 1 > /sys/module/overtake/parameters/run
	for event in wakeup offcpu blocked; do
		echo "hist:keys=pid if pid == $sleeper" > "$(folder "$event")/trigger"
	done
	echo "$number" > /sys/module/overtake/parameters/run
	# The last round ends with the task asleep.
	for event in wakeup offcpu blocked; do
		same "samples of $event" "$(hits "$(folder "$event")/hist")" $((2 * number))
	done
	measure 0
	same wake_unseen "$(status wake_unseen)" 0
	assert_laws
}
