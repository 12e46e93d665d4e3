# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Helpers for the tests of the command. Sourced by them.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

here=$PWD

# begin_tool [PARAMETER...]: loads the module. Skips the test if there is no command.
begin_tool() {
	need_tool
	load "$@"
	cd "$work" || exit
}

need_tool() {
	not_on_debug "what the command prints does not depend on what the kernel checks"
	[[ -n ${SCHEDHIST_TOOL-} ]] || skip "it needs scripts/bed/vm --tool"
	# It starts faster from memory than from the host.
	[[ -e $work/tool ]] || cp "$SCHEDHIST_TOOL" "$work/tool"
	SCHEDHIST_TOOL=$work/tool
}

tool() { "$SCHEDHIST_TOOL" "$@"; }

# check_tool WHAT ARGUMENT...: asserts something of the output of the command: see tool.py.
check_tool() { python3 -SE "$here/tool.py" "$@"; }

# ends_with STATUS COMMAND...: asserts the status. Keeps the output in $work/said, and standard error
# in $work/complaints.
ends_with() {
	local wanted=$1 rc=0
	shift
	"$@" > "$work/said" 2> "$work/complaints" || rc=$?
	((rc == wanted)) || fail "'$*' ended with $rc, not $wanted: $(cat "$work/said" "$work/complaints")"
}

# says FILE TEXT: asserts that the output has a text; line breaks of the output count as spaces.
says() {
	[[ $(tr -s ' \n' ' ' < "$work/$1") == *"$2"* ]] || fail "no '$2' in: $(< "$work/$1")"
}

# narrow FILE...: asserts that no line is wider than 80 columns.
narrow() {
	local wide
	wide=$(LC_ALL=C.UTF-8 awk 'length > 80' "$@")
	[[ -z $wide ]] || fail "wider than 80 columns: $wide"
}

# grouped_by RULE: asserts the rule of the module.
grouped_by() { same group_by "$(< "$debugfs/group_by")" "$1"; }

# soon_grouped_by RULE: waits until a command in the background has set this rule.
soon_grouped_by() { waits_for holds "$debugfs/group_by" "$1"; }

# catches_signals PID: whether a process handles signals as the command does while it waits.
catches_signals() { [[ $(readlink "/proc/$1/fd/"*) == *signalfd* ]]; }

# background PID...: has these processes ended after the test, if they have not ended before.
background() { echo "$*" >> "$work/background"; }

# unload_under_readers: as `unload`, but the command may be reading a file at this moment.
unload_under_readers() {
	for _ in {1..50}; do
		rmmod schedhist 2> "$work/unloaded" && return
		sleep 0.1
	done
	fail "cannot be unloaded: $(< "$work/unloaded")"
}

# status_of PID STATUS: waits for a process in the background, and asserts its status.
status_of() {
	local rc=0
	wait "$1" || rc=$?
	same "status of $1" "$rc" "$2"
}
