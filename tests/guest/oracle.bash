# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2120,SC2154
#
# What the tests against independent references share. Sourced by them.

# With all metrics, also those that are off unless asked for.
load_all() {
	if modinfo --parameters "$ko" | grep -q ^metrics:; then
		load metrics=all "$@"
	else
		load "$@"
	fi
}

assert_laws() { python3 ./laws.py "$@"; }
