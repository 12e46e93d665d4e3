# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # used where it is sourced
#
# Code of tests that check commands one after the other. To be sourced; the suite is the current folder,
# unless $suite is set anew.

# shellcheck source=tests/said.bash
. "${BASH_SOURCE[0]%/*}/said.bash"

suite=${PWD##*/}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
said=''

# check NAME COMMAND...: runs COMMAND as a test. If it fails, shows its output and exits, since the
# next test depends on it.
check() {
	local name=$1 rc=0 start=$SECONDS
	shift
	("$@") > "$work/log" 2>&1 &
	wait $! || rc=$?
	if ((rc == 0)); then
		echo "ok $suite/$name"
		((SECONDS - start < 10)) || echo "# $((SECONDS - start)) s"
		return
	fi
	echo "not ok $suite/$name"
	sed 's/^/# /' "$work/log"
	exit 1
}

# says_not PATTERN: requires that no line of the output matches PATTERN.
says_not() {
	! grep -iE "$1" <<< "$said" || { echo "it said something like: $1"; exit 1; }
}
