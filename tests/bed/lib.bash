# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # failed, work, said
#
# What the files test_*.bash say their tests with. Sourced by run.

# check NAME FUNCTION ARGUMENTS...: what it says is shown when it fails. It fails with the first command that does,
# which it would not as part of a condition.
check() {
	local name=$1 rc
	shift
	set +e
	(set -e; "$@") > "$work/log" 2>&1 < /dev/null
	rc=$?
	set -e
	if ((rc == 0)); then
		echo "ok $name"
	else
		echo "not ok $name"
		sed 's/^/# /' "$work/log"
		failed=1
	fi
}
