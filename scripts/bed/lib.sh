#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034
#
# Code that the scripts of the test bed share: its folders, and access to the
# root. To be sourced, not run.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

BED=$SCRIPTS/bed
ROOT=$CACHE/root	# the Debian root
UNSTABLE_ROOT=$CACHE/$UNSTABLE	# another one, with the compilers of Debian unstable
BUILD=$CACHE/build	# build folders, /build inside the root
RUN=$CACHE/run		# one folder for each guest that runs
ARM64=/var/cache/schedhist/arm64	# the root of arm64 guests and what it is made from, in the root
STAMPS=$ROOT/var/lib/schedhist	# goes away with the root, as it should

# tree_commit: prints the commit that is checked out. Without safe.directory git refuses another
# user's repository.
tree_commit() {
	git --no-optional-locks -c safe.directory="$TREE" -C "$TREE" describe --always --dirty --abbrev=12 2>/dev/null || echo "no commit"
}

# Runs as the first process in new namespaces. It makes all mounts there, so they vanish when it
# ends, for whatever reason.
# shellcheck disable=SC2016
ENTER='
set -eu
root=$1 scripts=$2 tree=$3 build=$4 run=$5 guest=$6
shift 6
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
for node in null zero full random urandom tty kvm; do
	[ -e "/dev/$node" ] || continue
	: >"$root/dev/$node"
	mount --bind "/dev/$node" "$root/dev/$node"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
ln -s pts/ptmx "$root/dev/ptmx"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
if [ -e /etc/resolv.conf ]; then
	[ -e "$root/etc/resolv.conf" ] || : >"$root/etc/resolv.conf"
	mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
fi
mount --bind "$scripts" "$root/scripts"
mount -o remount,bind,ro "$root/scripts"
mount --bind "$tree" "$root/schedhist"
mount -o remount,bind,ro "$root/schedhist"
mount --bind "$build" "$root/build"
if [ -n "$run" ]; then
	mount --bind "$run" "$root/mnt"
	for tool in udevadm systemd-tmpfiles; do
		mount --bind "$scripts/bed/vm-udev" "$guest/usr/bin/$tool"
	done
fi
if [ "$guest" != "$root" ]; then
	for folder in scripts schedhist build mnt usr/lib/modules; do
		mount --bind "$root/$folder" "$guest/$folder"
	done
fi
rc=0
${ENTER_BY:+"$ENTER_BY"} env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" SCHEDHIST_CACHE=/var/cache/schedhist \
	${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
	${no_proxy:+no_proxy="$no_proxy"} \
	chroot "$root" /bin/sh -c "cd /schedhist && exec \"\$@\"" sh "$@" || rc=$?
exit $rc
'

# enter_root COMMAND...: replaces this shell with COMMAND inside the root. When the caller dies,
# even by kill -9, all processes in the root are killed. RUN_FOLDER, if set, is a guest's folder,
# which is bound at /mnt. GUEST_ROOT, if set, is the guest's root, unless that is the root itself.
# ENTER_BY, if set, is a program that runs the last step, for a root of another architecture.
enter_root() {
	mkdir -p "$BUILD"
	export ENTER_BY
	exec setpriv --pdeathsig KILL \
		unshare --mount --pid --fork --kill-child --propagation private \
		bash -c "$ENTER" sh "$ROOT" "$SCRIPTS" "$TREE" "$BUILD" "${RUN_FOLDER:-}" "${GUEST_ROOT:-$ROOT}" "$@"
}

in_root() {
	(enter_root "$@")
}

# build_step WHAT LOG COMMAND...: like step, for compilers: if COMMAND fails, shows all of its output, and exits with
# its status.
build_step() {
	local log rc=0
	try_step "$@" || rc=$?
	((rc == 0)) || { cat "$log" >&2; exit "$rc"; }
}

APT_ENVIRONMENT=()	# for apt_in_root

# Sets $proxy to options of apt-get for the host's proxy.
set_proxy() {
	mapfile -t proxy < <(apt-config dump --no-empty --format '-oAcquire::%f=%v%n' \
		Acquire::http::Proxy Acquire::https::Proxy 2>/dev/null |
		sed -n 's/^-oAcquire::Acquire/-oAcquire/p')
}

# apt_in_root ARGUMENTS...: apt-get inside the root, through the host's proxy.
apt_in_root() {
	local proxy=()
	set_proxy
	# Guests need no initramfs of Debian's.
	in_root env --chdir="${APT_FOLDER:-/}" "${APT_ENVIRONMENT[@]}" DEBIAN_FRONTEND=noninteractive INITRD=No apt-get -qq -y \
		-o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 \
		"${proxy[@]}" --no-install-recommends "$@"
}

# new_root FOLDER SUITE OPTIONS...: makes a root of this suite of Debian in FOLDER, with these options
# of mmdebstrap. Removes what an interrupted run has left there. ENTER_BY is as in enter_root.
new_root() {
	local folder=$1 suite=$2
	shift 2
	rm -rf --one-file-system "$folder"
	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
		${ENTER_BY:+"$ENTER_BY"} mmdebstrap --variant=apt "$@" "$suite" "$folder" ${SCHEDHIST_MIRROR:+"$SCHEDHIST_MIRROR"}
}

# Finishes an interrupted installation, which leaves packages half configured.
apt_repair() {
	in_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a --force-confold &&
		apt_in_root --fix-broken install
}
