#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2119,SC2154 # awk programs; optional arguments; variables of lib.sh
#
# schedhist records what a reference computes from ftrace's events: see replay/.

. ./oracle.bash

allow_seconds test_replay_messaging 900
allow_seconds test_replay_pipe 900
allow_seconds test_replay_stress 900
allow_seconds test_replay_forks 900
allow_seconds test_replay_pids 900
allow_seconds test_replay_toggle 900
allow_seconds test_replay_sees 900

# replay ARGUMENTS...: records a window into $work/replay and compares it. Repeats an inconclusive
# window, as when the host was busy. If the load runs all the time, each window is twice as long as
# the one before it, so that the switches at its start count for less.
replay() {
	local rc
	for _ in 1 2 3 4; do
		rm -rf "$work/replay"
		python3 -S replay record "$work/replay" "$@"
		rc=0
		python3 -S replay check "$work/replay" || rc=$?
		# EX_TEMPFAIL
		((rc == 75)) || return "$rc"
		[[ $1 != --running ]] || set -- --running $(($2 * 2)) "${@:3}"
	done
	fail "no window tells enough"
}

# replay_load [COMMAND...]: runs the command once to read it into memory, so that the window is not
# one long wait for its pages.
replay_load() {
	about_numbers
	load_all
	measure 0
	"$@" > /dev/null
}

test_replay_messaging() {
	replay_load messages 1
	replay -- hackbench --groups 1 --loops 25
	assert_laws
}

test_replay_pipe() {
	replay_load perf bench sched pipe --loop 1
	replay -- perf bench sched pipe --loop 3000
	assert_laws
}

test_replay_stress() {
	replay_load
	replay -- stress-ng --temp-path /tmp --quiet --switch 2 --timeout 2
	assert_laws
}

# Children that only exit, more of them than CPUs: first waits, last switches, zombies.
test_replay_forks() {
	local code='import os
for _ in range(60):
    for _ in range(5):
        os.fork() or os._exit(0)
    for _ in range(5):
        os.wait()'
	replay_load
	replay -- python3 -c "$code"
	assert_laws
}

# Reused PIDs inherit nothing: the reference identifies each task by its fork.
test_replay_pids() {
	helper storm
	replay_load
	pids_few 150
	replay -- "$work/storm" 250
	assert_laws
}

# Measuring begins and ends under load: what began before is in no histogram. Twice, because nothing
# of the first time may show in the second.
test_replay_toggle() {
	replay_load messages 1
	replay --running 1 -- hackbench --groups 1 --loops 100000
	replay --running 1 -- hackbench --groups 1 --loops 100000
	assert_laws
}

# The comparison detects errors: one sample in a wrong bucket, one sample too many, a sum that is
# off by 0.1 s, and a wrong counter.
test_replay_sees() {
	local file good
	replay_load perf bench sched pipe --loop 1
	replay -- perf bench sched pipe --loop 500
	file=$work/replay/after/per_cpu/cpu0/hist/offcpu
	good=$(< "$file")
	edit() { awk "$1" <<< "$good" > "$file"; }
	# Moves a sample from the fullest bucket, which grew in the window, into another.
	edit '{ line[NR] = $0 } $1 == "bucket" && $4 > most { most = $4; fullest = NR } END {
		for (i = 1; i <= NR; i++) {
			$0 = line[i]
			if (i == fullest) $4--
			if (i == (fullest == NR ? NR - 1 : NR)) $4++
			print
		}
	}'
	fails_with differences python3 -S replay check "$work/replay"
	edit '$1 == "count" { $2++ } $1 == "bucket" && !n++ { $4++ } 1'
	fails_with "the reference has" python3 -S replay check "$work/replay"
	edit '$1 == "sum" { $2 += 100000000 } 1'
	fails_with "sum" python3 -S replay check "$work/replay"
	echo "$good" > "$file"
	sed -i 's/^\(cpu0 wait_unseen\) .*/\1 1000/' "$work/replay/after/status"
	fails_with wait_unseen python3 -S replay check "$work/replay"
}
