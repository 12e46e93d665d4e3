# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said
#
# Tests that the module can be built for each supported kernel. Sourced by run.

# build_for SERIES: the kernel crates of two series differ, and most tests use one of them.
build_for() {
	run 0 scripts/build "$1"
	[[ $said == */schedhist.ko ]]
}

for series in $SUPPORTED; do
	check "build/$series" build_for "$series"
done
