# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Repeats a run in a guest when the emulator goes wrong. Sourced by tests.

# again FILE COMMAND...: runs COMMAND with its output in FILE. Repeats it up to twice while it ends
# with scripts/bed/vm's status for an emulator bug, since such a run proves nothing.
again() {
	local said=$1 rc
	shift
	for _ in 1 2 3; do
		rc=0
		"$@" > "$said" 2>&1 || rc=$?
		((rc == 98)) || break
	done
	return "$rc"
}

# again_shown COMMAND...: the same, with the output of the last run on standard output.
again_shown() {
	local said rc=0
	said=$(mktemp)
	again "$said" "$@" || rc=$?
	cat "$said"
	rm -f "$said"
	return "$rc"
}
