#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# Each state in which a task blocks, as "Where the time of each state goes" of docs/metrics.md has it.

# shellcheck source=tests/guest/events.bash
. ./events.bash
# shellcheck source=tests/guest/groups.bash
. ./groups.bash
# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash
# shellcheck source=tests/guest/users.bash
. ./users.bash

# For how long a task blocks, in milliseconds.
long=400

# states_begin: loads the module, and traces the long absences of all tasks.
states_begin() {
	local event
	load_all
	instance_open offcpu blocked
	for event in offcpu blocked; do
		echo "duration_ns > $((long * 900000))" > "$instance/events/schedhist/$event/filter"
	done
}

# states_end: ends measuring.
states_end() {
	measure 0
	nothing_lost "$instance"
	assert_laws
}

# last_event: prints the last event of the task $pid, and its cause. Its sleep comes after its absence.
last_event() { sed -nE "s/.* (offcpu|blocked): .* pid=$pid .* cause=([a-z_]+) .*/\1 \2/p" "$instance/trace" | tail -n 1; }
last_event_is() { [[ $(last_event) == "$1" ]]; }

# count_of NAME: prints the count of a histogram, or a counter.
count_of() {
	if [[ -e $debugfs/hist/$1 ]]; then
		value "hist/$1" count
	else
		status "$1"
	fi
}

# lands CAUSE NAME COMMAND...: asserts that COMMAND makes the task $pid, which it may set, be away for
# long, with this cause, and that NAME counts it: a histogram of sleeps, or a counter of what is in
# none.
lands() {
	local cause=$1 name=$2 before last="offcpu $1"
	[[ ! -e $debugfs/hist/$name ]] || last="blocked $cause"
	echo > "$instance/trace"
	before=$(count_of "$name")
	"${@:3}"
	for _ in {1..100}; do
		! last_event_is "$last" || break
		sleep 0.1
	done
	same "$name: the last event" "$(last_event)" "$last"
	within "$name" $((before + 1)) "$(count_of "$name")" 1000000000
}

# in_kernel STATE [MS]: a task blocks in this state.
in_kernel() {
	(echo "$1 ${2-$long}" > /sys/module/states/parameters/block) &
	pid=$!
	wait "$pid"
}
parked() { echo "parked $long" > /sys/module/states/parameters/block; }
pause() { sleep "$((long / 1000)).$(printf %03d $((long % 1000)))"; }

# States that only the kernel chooses.
test_states_kernel() {
	local pid
	load_helper states
	states_begin
	lands uninterruptible blocked_uninterruptible in_kernel uninterruptible
	lands uninterruptible blocked_uninterruptible in_kernel killable
	lands idle_wait blocked_idle in_kernel idle
	pid=$(parameter states parker_pid)
	lands parked blocked_parked parked
	if [[ $(uname -v) == *PREEMPT_RT* ]]; then
		taskset --pid --cpu-list 1 $BASHPID > /dev/null
		chrt --fifo --pid 50 $BASHPID
		# The owner has the lock for a while before the other task gets to wait for it.
		lands uninterruptible blocked_uninterruptible in_kernel rtlock $((long * 5))
		chrt --other --pid 0 $BASHPID
	fi
	states_end
	rmmod states
}

stopped() {
	kill -STOP "$1"
	pause
	kill -CONT "$1"
}

traced() {
	python3 -SE - "$1" "$long" <<- 'END'
		import ctypes, os, sys, time
		PTRACE_ATTACH, PTRACE_DETACH = 16, 17
		ptrace = ctypes.CDLL(None, use_errno=True).ptrace
		ptrace.argtypes = [ctypes.c_long] * 4
		pid, long = int(sys.argv[1]), int(sys.argv[2])
		if ptrace(PTRACE_ATTACH, pid, 0, 0):
		    sys.exit(os.strerror(ctypes.get_errno()))
		os.waitpid(pid, 0)
		time.sleep(long / 1000)
		ptrace(PTRACE_DETACH, pid, 0, 0)
	END
}

# Stopped by a signal, and by a tracer.
test_states_stopped() {
	local pid
	states_begin
	background sleep 1000
	pid=$!
	waits_for is_asleep "$pid"
	lands stopped blocked_stopped stopped "$pid"
	lands traced blocked_traced traced "$pid"
	states_end
}
is_asleep() { [[ $(sed 's/.*) //; s/ .*//' "/proc/$1/stat") == S ]]; }

# frozen FILE FROZEN THAWED: freezes a cgroup by what is written to a file of it.
frozen() {
	echo "$2" > "$1"
	pause
	echo "$3" > "$1"
}

# thaw PID: ends version 1, with a process in it. A frozen task could not be killed.
thaw() {
	mountpoint -q "$freezer" || return 0
	echo THAWED > "$freezer/frozen/freezer.state"
	echo "$1" > "$freezer/tasks"
	rmdir "$freezer/frozen"
	umount "$freezer"
}

# The freezer of version 1 has a state of its own; version 2 lets tasks sleep.
test_states_frozen() {
	local pid freezer=$work/freezer
	states_begin
	background bash -c 'while :; do :; done'
	pid=$!
	cgroups_on
	mkdir "$base/frozen"
	echo "$pid" > "$base/frozen/cgroup.procs"
	lands interruptible blocked_interruptible frozen "$base/frozen/cgroup.freeze" 1 0
	echo "$pid" > "$cgroupfs/cgroup.procs"
	mkdir -p "$freezer"
	if mount -t cgroup -o freezer none "$freezer" 2> /dev/null; then
		mkdir "$freezer/frozen"
		# shellcheck disable=SC2064 # as they are now
		trap "freezer=$freezer; thaw $pid" EXIT
		echo "$pid" > "$freezer/frozen/tasks"
		lands frozen blocked_frozen frozen "$freezer/frozen/freezer.state" FROZEN THAWED
	else
		note "the kernel has no freezer of version 1"
	fi
	states_end
}
