# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
#
# A root in the cache for programs that one test alone needs. Sourced by such tests, after
# scripts/bed/lib.sh, with the folder of the root in $home, and what is installed there in $PACKAGES.
# $work is a folder of this run, which the root has at /mnt.

# in_home COMMAND...: runs it in the root, in namespaces of its own, so that nothing stays mounted or
# running.
# shellcheck disable=SC2016
in_home() {
	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private bash -c '
		mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && mount --bind "$2" "$1/mnt" &&
			exec chroot "$1" "${@:3}"
	' sh "$home" "$work" "$@"
}

# bootstrap_home: makes the root.
bootstrap_home() {
	new_root "$home.new" trixie --include="$PACKAGES" && mv -T "$home.new" "$home"
}

work=$(mktemp -d)
trap 'end_child; rm -rf "$work"' EXIT
chmod 755 "$work"
