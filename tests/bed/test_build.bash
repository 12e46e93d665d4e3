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
	# Held until the build says that it waits.
	# shellcheck disable=SC2016 # for the other shell
	flock "$state/build-${place//\//-}.lock" sh -c 'touch "$0/held"; until grep -q waiting "$0/said"; do sleep 0.1; done' "$work" &
	until [[ -e $work/held ]]; do sleep 0.1; done
	# shellcheck disable=SC2016
	PATH=$work/bin:$PATH run 0 sh -c 'scripts/bed/build 2>&1 | tee "$0"' "$work/said"
	wait
	says "waiting for another run" "building the module"
}

check build/begun begin_build

# What the headers of other distributions have of a kernel's rust/, by their packaging: the crates'
# metadata and the macros, in a folder (Arch) or behind a link (Ubuntu: kdir/linked). A kernel of
# our own, if one has been built, is cut down to that; the first word is its name. The second is a
# folder that stays, so that only what is newer is built again.
# shellcheck disable=SC2016
cut='
kdir=/build/kernels/$0 rust=/tmp/rust
mkdir "$rust"
cp -a "$kdir"/rust/*.rmeta "$kdir"/rust/*.so "$rust"
mount --bind "$rust" "$kdir/rust"
LLVM=1 scripts/check-kdir "$kdir"
mkdir -p "$1"
exec 9> "$1/lock"
flock 9
rm -f "$1/schedhist.ko"
SCHEDHIST_CRATES=/nonexistent scripts/crates/stage /schedhist "$1" "$kdir"
make -C "$kdir" M="$1" LLVM=1 modules
[[ -e $1/schedhist.ko ]]'

built=''
for kernel in debug proxy kcsan cfi; do
	# shellcheck source=scripts/bed/lib.sh
	[[ -n $built ]] || built=$(. scripts/bed/lib.sh; ! compgen -G "$STAMPS/kernel-*[0-9]-schedhist-$kernel" > /dev/null || echo "$kernel")
done
if [[ -n $built ]]; then
	check build/metadata run 0 scripts/bed/root -- bash -euc "$cut" "$built" "$(dirname "$(scripts/bed/build --path "$built")")-metadata"
else
	echo "skip build/metadata: no kernel with Rust has been built here (scripts/bed/kernel debug)"
fi
