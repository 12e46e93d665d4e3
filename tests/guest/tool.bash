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

# background PID...: has these processes ended after the test, if they have not ended before.
background() { echo "$*" >> "$work/background"; }

# status_of PID STATUS: waits for a process in the background, and asserts its status.
status_of() {
	local rc=0
	wait "$1" || rc=$?
	same "status of $1" "$rc" "$2"
}
