# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Checks the output and the exit status of commands. Sourced by tests of commands.

# run STATUS COMMAND...: runs COMMAND, and requires that it ends with STATUS. Sets $said to its
# output.
run() {
	local wanted=$1 rc=0
	shift
	said=$("$@" 2>&1) || rc=$?
	printf '%s\n' "$said"
	((rc == wanted)) || { echo "status $rc, not $wanted: $*"; exit 1; }
}

# says TEXT...: requires that each TEXT is in that output.
says() {
	local text
	for text; do
		[[ $said == *"$text"* ]] || { echo "it did not say: $text"; exit 1; }
	done
}
