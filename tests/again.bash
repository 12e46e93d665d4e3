# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What is asked of one guest as a whole. Sourced by tests.

# again FILE COMMAND...: with what it says in FILE. Once more, and once more, where it ends with the status
# that scripts/vm has when the emulator went wrong: then nothing was found out.
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
