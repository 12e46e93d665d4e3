#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# An open file keeps the module loaded.

# still_pinned: asserts that the module cannot be unloaded, and still works.
still_pinned() {
	fails_with "in use" unload
	same enable "$(< "$debugfs/enable")" 1
}

# Another process, which does nothing else, holds the file open.
test_open_file_of_another_process() {
	local holder
	load
	sleep 1000 3< "$debugfs/per_cpu/cpu0/hist/oncpu" &
	holder=$!
	# The shell opens it after the fork.
	waits_for test "/proc/$holder/fd/3" -ef "$debugfs/per_cpu/cpu0/hist/oncpu"
	still_pinned
	kill "$holder"
	wait "$holder" || true
	unload
	assert_gone
}

test_open_file_read_half() {
	local fd part rest
	load precision=7
	messages 5
	exec {fd}< "$debugfs/hist/oncpu"
	read -r -N 30 part <&"$fd"
	still_pinned
	# The open file still shows the contents from when reading began.
	measure 0
	rest=$(cat <&"$fd")
	awk -f histogram.awk <(printf '%s%s\n' "$part" "$rest")
	measure 1
	still_pinned
	exec {fd}<&-
	unload
	assert_gone
}

test_open_file_for_writing() {
	local fd
	load
	exec {fd}> "$debugfs/enable"
	still_pinned
	exec {fd}>&-
	unload
	assert_gone
}

# Even a file whose reader sleeps in it.
test_open_file_waiting() {
	local reader rc=0
	load
	echo 1000000000000000 > "$debugfs/threshold_ns/oncpu"
	cat "$debugfs/outlier_pipe" > "$work/awaited" &
	reader=$!
	waits_for grep -qs schedhist_wait_event "/proc/$reader/stack"
	still_pinned
	# The reader gets this outlier, and then ends, because there can be no more.
	echo 1 > "$debugfs/outlier_limit"
	echo 1 > "$debugfs/threshold_ns/oncpu"
	wait "$reader" || rc=$?
	same "status of the reader" "$rc" 1
	same "what it waited for" "$(< "$work/awaited")" "$(< "$debugfs/outliers")"
	unload
	assert_gone
	load
	echo 1000000000000000 > "$debugfs/threshold_ns/oncpu"
	cat "$debugfs/outlier_pipe" &
	reader=$!
	waits_for grep -qs schedhist_wait_event "/proc/$reader/stack"
	still_pinned
	kill "$reader"
	wait "$reader" || true
	unload
	assert_gone
}
