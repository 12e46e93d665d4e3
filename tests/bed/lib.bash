# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # failed, work, said
#
# How the files test_*.bash, scripts/bed/lint and tests/tools/run show their tests. To be sourced.

# check NAME FUNCTION ARGUMENTS...: runs FUNCTION as a test, and shows its output if it fails.
# Errexit ends it at the first command that fails; in a condition, errexit would not work.
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
