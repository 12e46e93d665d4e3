#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The memory that schedhist takes: as much as it says, and not more than it may.

# 64 KiB for each possible CPU, and 64 bytes for each task, at defaults.
test_memory() {
	local cpus records tasks number
	load
	cpus=$(status cpus_possible)
	records=$(status memory_bytes)
	within "bytes for each CPU" 1 $((records / cpus)) 65536
	tasks=$(status task_memory_bytes)
	# Pages of 64 tasks, a page that points to them, and a page that points to that.
	number=$(cut -d ' ' -f 4 /proc/loadavg)
	number=${number#*/}
	note "$((records / cpus)) bytes for each CPU, $tasks bytes for $number tasks"
	measure 0
	same "bytes for tasks while measuring is off" "$(status task_memory_bytes)" 0
}

# The states of tasks follow the PIDs that are in use: thousands of tasks come and go, and leave no
# more behind than a sweep lets be.
takes test_memory_follows_pids 300
test_memory_follows_pids() {
	local before after pid
	load metrics=all
	before=$(status task_memory_bytes)
	echo 4194304 > /proc/sys/kernel/pid_max
	# A page for each 64 PIDs: make each task take one.
	for ((pid = 1000; pid < 40000; pid += 64)); do
		echo "$pid" > /proc/sys/kernel/ns_last_pid
		/bin/true
	done
	after=$(status task_memory_bytes)
	note "$before bytes before, $after after 600 tasks with a page each"
	within "bytes for tasks" 1 "$after" $((before + 300 * 4096))
	measure 0
	python3 laws.py untracked=0
}
