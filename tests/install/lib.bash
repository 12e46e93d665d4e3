# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # used where it is sourced
#
# Code that tests/install/native and tests/install/guest share. To be sourced.

# shellcheck source=tests/checks.bash
. ../checks.bash

tree=/home/somebody/schedhist

# name COMMAND: prints the name of the test of COMMAND.
name() {
	tr -cs 'a-z\n-' '-' <<< "$1" | sed 's/^-*//; s/-*$//; s/--*/-/g' | cut -c1-40
}
