#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# CPUs go offline and online while everything is in use: a kernel with assertions checks the
# contexts in which our callbacks run.

# shellcheck source=tests/guest/events.bash
. ./events.bash

test_hotplug() {
	local online=/sys/devices/system/cpu/cpu1/online i reader before
	[[ -w $online ]] || skip "CPU 1 cannot go offline"
	load metrics=all
	expedite_rcu
	workload_start
	echo none > "$debugfs/outlier_rate"
	echo 1 > "$debugfs/threshold_ns/idle"
	# A reader that is woken all the time.
	setsid bash -c "while cat '$debugfs/outlier_pipe'; do :; done" > /dev/null &
	reader=$!
	for ((i = 0; i < 3; i++)); do
		echo 0 > "$online"
		# The records of an offline CPU can be read, and made the baseline.
		echo 1 > "$debugfs/reset"
		before=$(value per_cpu/cpu1/hist/oncpu count)
		same "stays on a CPU that is offline" "$before" 0
		echo 1 > "$online"
		sleep 0.3
		echo 1 > "$debugfs/reset"
	done
	sleep 0.3
	kill_group "$reader"
	workload_stop
	measure 0
	within "stays on a CPU that is back" 1 "$(value per_cpu/cpu1/hist/oncpu count)" 1000000000
	assert_laws
}

# The kernel does not trace the last switch on a CPU that goes offline, which is from the stopper
# thread. When that thread runs again, its previous absence is not reported again: no two absences
# overlap.
test_hotplug_stopper() {
	local online=/sys/devices/system/cpu/cpu1/online
	[[ -w $online ]] || skip "CPU 1 cannot go offline"
	expedite_rcu
	load
	instance_open offcpu
	echo perf > "$instance/trace_clock"
	for _ in 1 2 3; do
		sleep 1
		echo 0 > "$online"
		echo 1 > "$online"
	done
	sleep 1
	measure 0
	nothing_lost "$instance"
	# The time stamp of the trace is taken on the CPU, before the task runs; it is rounded to
	# microseconds.
	awk '
		/ comm=migration\/1 / {
			match($0, /[0-9]+\.[0-9]+: offcpu:/)
			end = substr($0, RSTART) + 0
			match($0, /duration_ns=[0-9]+/)
			away = substr($0, RSTART + 12, RLENGTH - 12) / 1e9
			number++
			if (end - away < last - 2e-6) { print "absences overlap: " $0; wrong = 1 }
			last = end
		}
		END { print "# " number + 0 " absences of migration/1"; exit wrong || number < 2 }
	' "$instance/trace"
	assert_laws
}
