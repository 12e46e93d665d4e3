# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said
#
# Tests that the module can be built for each supported kernel. Sourced by run.

# build_for SERIES: the kernel crates of two series differ, and most tests use one of them.
build_for() {
	run 0 scripts/bed/build "$1"
	[[ $said == */schedhist.ko ]]
}

for series in $SUPPORTED $STABLE; do
	check "build/$series" build_for "$series"
done

# Another run begins to build while this one looks whether that is needed, and takes away the stamp.
begin_build() {
	local ko place builds state
	ko=$(scripts/bed/build)
	place=$(dirname "${ko#/build/}")
	builds=$(. scripts/bed/lib.sh && echo "$BUILD")
	state=$(. scripts/bed/lib.sh && echo "$STATE")
	mkdir "$work/bin"
	cat > "$work/bin/find" <<- END
		#!/bin/sh
		rm -f "$builds/$place/.built"
		exec $(type -P find) "\$@"
	END
	chmod +x "$work/bin/find"
	flock "$state/build-${place//\//-}.lock" sleep 2 &
	PATH=$work/bin:$PATH run 0 scripts/bed/build
	wait
	says "waiting for another run" "building the module"
}

check build/begun begin_build
