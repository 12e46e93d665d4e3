#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# Mistakes that other tools made, each provoked on purpose.

# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

# trap NAME: runs a trap of traps.py, and checks the laws.
trap_set() {
	about_numbers
	load_all
	measure 0
	python3 -S ./traps.py "$1"
	assert_laws
}

# Idle time belongs to no task.
test_trap_idle() { trap_set idle; }
# Sleeps from before measuring began are not samples.
test_trap_asleep() { trap_set asleep; }
# A wait behind a real-time task lasts as long as that task runs.
test_trap_hog_wakeup() { trap_set hog_wakeup; }
test_trap_hog_preempt() { trap_set hog_preempt; }
# A wait that is moved to another CPU counts as a whole, and a second wakeup does not shorten it.
test_trap_migrate() { trap_set migrate; }
test_trap_second_wakeup() { trap_set second_wakeup; }

# above FILE VALUE: prints how many samples are certainly greater.
above() { awk -v value="$2" '$1 == "bucket" && $2 > value { n += $4 } END { print n + 0 }' "$debugfs/$1"; }

# PIDs are reused 2 s after their last owner left: the new tasks inherit nothing.
test_trap_pid_reuse() {
	local wraps metric before pause=2000
	load_all
	helper storm
	measure 0
	pids_few 300
	measure 1
	wraps=$("$work/storm" 400 "$pause")
	measure 0
	note "the PIDs wrapped $wraps times"
	within "times that the PIDs wrapped" 2 "$wraps" 1000
	# Only tasks that slept through the pause: the storm itself, and about 50 of the system. All
	# 300 free PIDs were used before the pause, and are used again after it.
	for metric in offcpu blocked_interruptible blocked_uninterruptible runq; do
		before=$(above "hist/$metric" $((pause * 950000)))
		note "$metric: $before samples of more than 0.95 of the pause"
		within "$metric longer than the pause" 0 "$before" 150
	done
	assert_laws untracked=0
}

# Every child is seen to start and to end.
test_trap_fork_storm() {
	local number=600
	load_all
	helper storm
	measure 0
	measure 1
	"$work/storm" "$number" > /dev/null
	measure 0
	assert_laws untracked=0 clock_backwards=0
	within "switch-outs for good" "$number" "$(status voluntary)" 100000000
	within "first waits and others" "$number" "$(value hist/runq_wakeup count)" 100000000
}

# The counts of a CPU that goes offline stay, and continue when it returns.
test_trap_hotplug() {
	local cpu=1 before away after i online=/sys/devices/system/cpu/cpu1/online
	[[ -e $online ]] || skip "$online is not there"
	load_all
	workload_start
	for i in 1 2 3; do
		taskset --cpu-list "$cpu" sleep 0.05
		before=$(value "per_cpu/cpu$cpu/hist/oncpu" count)
		echo 0 > "$online"
		away=$(value "per_cpu/cpu$cpu/hist/oncpu" count)
		within "count of the CPU that went, round $i" "$before" "$away" 100000000
		sleep 0.5
		same "count of the CPU that is away" "$(value "per_cpu/cpu$cpu/hist/oncpu" count)" "$away"
		echo 1 > "$online"
		taskset --cpu-list "$cpu" sleep 0.05
		after=$(value "per_cpu/cpu$cpu/hist/oncpu" count)
		within "count of the CPU that returned" $((away + 1)) "$after" 100000000
	done
	workload_stop
	measure 0
	assert_laws untracked=0
	note "cpu$cpu: longest idle $(value "per_cpu/cpu$cpu/hist/idle" max) ns, clock_backwards $(status "cpu$cpu" clock_backwards)"
}
