#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# CPUs that go and come while everything is in use: a kernel with assertions checks the contexts in
# which we are called.

takes test_hotplug 240
test_hotplug() {
	local online=/sys/devices/system/cpu/cpu1/online i reader before
	[[ -w $online ]] || skip "CPU 1 cannot go offline"
	load metrics=all
	hurry
	workload_start
	echo 0 > "$debugfs/outlier_limit"
	echo 1 > "$debugfs/threshold_ns/idle"
	# Somebody who is woken all the time.
	setsid bash -c "while cat '$debugfs/wait'; do :; done" > /dev/null &
	reader=$!
	for ((i = 0; i < 5; i++)); do
		echo 0 > "$online"
		# Also what belongs to a CPU that is offline is read, and made the baseline.
		echo 1 > "$debugfs/reset"
		before=$(value per_cpu/cpu1/oncpu count)
		same "stays on a CPU that is offline" "$before" 0
		echo 1 > "$online"
		sleep 0.3
		echo 1 > "$debugfs/reset"
	done
	sleep 1
	kill -KILL -- "-$reader"
	wait "$reader" || true
	while pgrep --session "$reader" > /dev/null; do sleep 0.1; done
	workload_stop
	measure 0
	within "stays on a CPU that is back" 1 "$(value per_cpu/cpu1/oncpu count)" 1000000000
	assert_laws
}
