#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The file `wait`: see wait_cases.py.

wait_case() {
	load
	python3 ./wait_cases.py "$1"
}

test_wait_nonblock() { wait_case nonblock; }
test_wait_late() { wait_case late; }
test_wait_blocked() { wait_case blocked; }
test_wait_bursts() { wait_case bursts; }
test_wait_polled() { wait_case polled; }
test_wait_signalled() { wait_case signalled; }
test_wait_parts() { wait_case parts; }
test_wait_anywhere() { wait_case anywhere; }

# Root can open it for writing all the same. It is the one file with a reader's own state in it.
test_wait_written() {
	local text
	load
	for text in 1 0 oncpu; do
		fails_with "Invalid argument" bash -c "printf %s $text > $debugfs/wait"
	done
}
