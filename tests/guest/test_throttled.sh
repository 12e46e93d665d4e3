#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# A task that leaves its CPU because its quota is spent does not wait for a CPU.

# shellcheck source=tests/guest/events.bash
. ./events.bash
# shellcheck source=tests/guest/groups.bash
. ./groups.bash
# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

# spins: runs in user space until the file $work/stop is there. Starts no process: a deadline task
# may not.
# shellcheck disable=SC2016 # the shell that spins expands them
spins='until [[ -e $work/stop ]]; do for i in {1..200}; do :; done; done'

# throttle_begin METRICS: loads the module with these metrics, and traces the events of all tasks.
throttle_begin() {
	load metrics="$1"
	measure 0
	echo 1 > "$debugfs/reset"
	echo 1000000 > "$debugfs/threshold_ns/throttled"
	echo none > "$debugfs/outlier_rate"
	instance_open oncpu runq offcpu throttled outlier
	measure 1
}

# throttle_end: ends the task $spinner, and measuring.
throttle_end() {
	touch "$work/stop"
	wait "$spinner"
	measure 0
	nothing_lost "$instance"
	assert_laws
	same "metrics of the outliers" \
		"$(awk '$1 == "outlier" { print $5, $7 }' "$debugfs/outliers" | sort -u)" "throttled throttled"
	grep -q 'outlier: id=.* metric=throttled .* cause=throttled ' "$instance/trace" ||
		fail "no event of an outlier"
}

# absences PERIOD_NS: sets number, sum, least and most, as throttled.py prints them, of $spinner.
absences() {
	local found
	found=$(python3 -S ./throttled.py "$spinner" "$1" < "$instance/trace")
	read -r number sum least most <<< "$found"
}

# stat_of KEY: prints a value of the cgroup's cpu.stat.
stat_of() { awk -v key="$1" '$1 == key { print $2 }' "$group/cpu.stat"; }

# quota_begin: makes the cgroup $group, and runs $spinner in it, on CPU 1: half of a CPU, in periods
# of 100 ms.
quota_begin() {
	rm -f "$work/stop"
	cgroups_on
	grep -qw cpu "$cgroupfs/cgroup.controllers" || skip "the controller cpu is not in cgroup2"
	echo +cpu > "$cgroupfs/cgroup.subtree_control"
	echo +cpu > "$base/cgroup.subtree_control"
	group=$base/service
	mkdir "$group"
	[[ -e $group/cpu.max ]] || skip "the kernel has no CONFIG_CFS_BANDWIDTH"
	echo "50000 100000" > "$group/cpu.max"
	export work
	bash -c "taskset --pid --cpu-list 1 \$\$ > /dev/null; echo \$\$ > $group/cgroup.procs; $spins" &
	spinner=$!
}

# cpu.max: as often, and as long, as the kernel itself counts it. The kernel counts a period if the
# group is throttled when the next one begins: each absence has at least one, and a long one several.
# A timer that is late, as on a busy host, counts all periods that it has missed.
test_throttled_quota() {
	local group spinner number sum least most usec periods
	about_numbers
	[[ $(nproc) != 1 ]] || skip "it takes two CPUs"
	throttle_begin default,throttled
	quota_begin
	sleep 4
	let_count throttled 6
	throttle_end
	absences 100000000
	usec=$(stat_of throttled_usec) periods=$(stat_of nr_throttled)
	note "$number absences, $sum ns, $least to $most periods; the kernel: $periods periods, $usec us"
	within absences 5 "$number" 1000
	same "samples" "$(value hist/throttled count) $(value hist/throttled sum)" "$number $sum"
	same "the counter" "$(status throttled)" "$number"
	within "absences" 5 "$number" $((periods + 1))
	within "periods" $((least - 1)) "$periods" $((2 * most))
	# The kernel's time ends when the quota returns, ours when the task runs again.
	within "throttled time, ns" $((usec * 980)) "$sum" $((usec * 1100 + number * 5000000))
}

# With the metric off these absences are nowhere else, and the counter still has them.
test_throttled_counter() {
	local group spinner throttled
	about_numbers
	[[ $(nproc) != 1 ]] || skip "it takes two CPUs"
	load
	quota_begin
	sleep 2
	let_count throttled 4
	touch "$work/stop"
	wait "$spinner"
	measure 0
	assert_laws
	throttled=$(status throttled)
	within "the counter" 3 "$throttled" 1000
	same "samples of a metric that is off" "$(value hist/throttled count)" 0
	# A busy host may make a wait as long as these absences, but not as many.
	within "waits after a preemption that are as long" 0 \
		"$(awk '$1 == "bucket" && $2 > 30000000 { n += $4 } END { print n + 0 }' "$debugfs/hist/runq_preempt")" \
		$((throttled / 2))
}

# SCHED_DEADLINE: 20 ms in each 100 ms.
test_throttled_deadline() {
	local spinner number sum least most begin=${EPOCHREALTIME/.}
	about_numbers
	throttle_begin all
	rm -f "$work/stop"
	work=$work chrt --deadline --sched-runtime 20000000 --sched-period 100000000 0 bash -c "$spins" &
	spinner=$!
	sleep 3
	let_count throttled 6
	throttle_end
	absences 100000000
	note "$number absences, $sum ns"
	within absences 5 "$number" 1000
	same "samples" "$(value hist/throttled count) $(value hist/throttled sum)" "$number $sum"
	# It may have a fifth of the time, and wants all of it.
	within "throttled time, ns" 1500000000 "$sum" $(((${EPOCHREALTIME/.} - begin) * 1000))
}
