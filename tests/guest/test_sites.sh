#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The cost of the events while nobody listens: see sites.py; tests/bed/sites.py tests that it
# detects violations.

# shellcheck source=tests/guest/events.bash
. ./events.bash

test_event_sites() {
	[[ -z $own_kernel ]] || skip "with assertions, which panic, and other compilers, the code is not what users run"
	[[ $(uname -m) == x86_64 ]] || skip "it knows the machine code of x86_64 only"
	python3 -S ./sites.py "$ko" "${events[@]}"
}
