#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The stream `outlier_pipe`: see wait_cases.py.

wait_case() {
	load
	python3 -S ./wait_cases.py "$1"
}

test_wait_nonblock() { wait_case nonblock; }
test_wait_late() { wait_case late; }
test_wait_blocked() { wait_case blocked; }
test_wait_bursts() { wait_case bursts; }
test_wait_polled() { wait_case polled; }
test_wait_signalled() { wait_case signalled; }
test_wait_parts() { wait_case parts; }
test_wait_shared() { wait_case shared; }
test_wait_seek() { wait_case seek; }
test_wait_cat() { wait_case cat; }
# Reading when no outlier can come.
test_wait_ended() { wait_case ended; }
test_wait_woken() { wait_case woken; }

# Root can open the file for writing all the same.
test_wait_written() {
	local text
	load
	for text in 1 0 oncpu; do
		fails_with "Invalid argument" bash -c "printf %s $text > $debugfs/outlier_pipe"
	done
}
