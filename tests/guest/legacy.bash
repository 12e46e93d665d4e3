#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a test that is still in bash, for tests/guest/run; not to be run by hand.
set -euo pipefail

work=$SCHEDHIST_TEST_WORK
. ./lib.sh
case $1 in
cleanup) cleanup; exit ;;
esac
# shellcheck source=/dev/null
. "./$2"
case $1 in
declare) echo "${limit[$3]-300} ${lacking[$3]:-0} ${seeking[$3]:-0}"; exit ;;
esac
set -E
trap 'echo "failed: ${BASH_SOURCE[0]}:$LINENO: $BASH_COMMAND" >&2' ERR
"$3"
