# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What a command says, and how it ends. Sourced by tests of commands.

# run STATUS COMMAND...: it ends with that status; what it says is in $said.
run() {
	local wanted=$1 rc=0
	shift
	said=$("$@" 2>&1) || rc=$?
	printf '%s\n' "$said"
	((rc == wanted)) || { echo "status $rc, not $wanted: $*"; exit 1; }
}

# says TEXT...: that was in it.
says() {
	local text
	for text; do
		[[ $said == *"$text"* ]] || { echo "it did not say: $text"; exit 1; }
	done
}
