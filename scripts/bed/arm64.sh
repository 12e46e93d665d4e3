# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # release and others of scripts/bed/kernel
#
# Debian's arm64 kernels, for scripts/bed/kernel to source. The root, which is of this machine,
# cross-compiles for them, and its QEMU emulates them. The root's apt is to know nothing of arm64, and
# nothing of arm64 runs on this machine: so packages of arm64 are fetched with a state of apt of their
# own, and are unpacked, not installed. Guests have a root of their own.

# What the root needs beside its own packages; the compiler is the one that has built the kernels.
# tests/packages/emulated needs qemu-user.
CROSS_TOOLS="gcc-14-aarch64-linux-gnu gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-system-arm qemu-user"

# What a guest has.
GUEST_PACKAGES="
binutils kmod procps iproute2 psmisc util-linux-extra udev systemd-sysv busybox-static python3 file perl
trace-cmd bpftrace linux-perf/trixie-backports rt-tests stress-ng
libbpf-tools bpfcc-tools bpftool python3-prometheus-client tmux
"

ARCHIVE=$ARM64/apt	# the state of apt for arm64, in the root
APT_ENVIRONMENT=("APT_CONFIG=$ARCHIVE/apt.conf")
LISTS=$ROOT$ARCHIVE/lists

# Prints all that use_arm64 depends on. rustc reads libraries of its own version only.
wanted_arm64() {
	echo "$CROSS_TOOLS" "$GUEST_PACKAGES"
	awk '$1 == "Package:" { package = $2 } $1 == "Version:" && package == "rustc" { print $2 }' \
		"$ROOT/var/lib/dpkg/status"
}

arm64_ready() {
	[[ $(cat "$STAMPS/arm64" 2>/dev/null) == "$(wanted_arm64)" ]]
}

# use_arm64: makes what all arm64 kernels need, unless it is there.
use_arm64() {
	local wanted
	! arm64_ready || return 0
	wanted=$(wanted_arm64)
	need_space 4
	mkdir -p "$ROOT$ARCHIVE"/{lists,archives}/partial
	: >>"$ROOT$ARCHIVE/status"
	write_file "$ROOT$ARCHIVE/apt.conf" <<-END
		APT::Architecture "arm64";
		APT::Architectures { "arm64"; };
		Dir::State "$ARCHIVE";
		Dir::State::status "$ARCHIVE/status";
		Dir::Cache "$ARCHIVE";
	END
	# shellcheck disable=SC2086 # words
	step "installing the cross compiler and QEMU for arm64" packages-arm64 install_in_root $CROSS_TOOLS
	refresh
	step "fetching the programs of arm64 guests" fetch-arm64 fetch_guest
	step "unpacking them" unpack-arm64 unpack_guest
	sync -f "$ROOT"
	write_file "$STAMPS/arm64" <<<"$wanted"
}

# install_in_root PACKAGE...: installs packages of the root's own architecture.
install_in_root() {
	local APT_ENVIRONMENT=()
	apt_repair && apt_in_root update && apt_in_root install --allow-downgrades "$@" && apt_in_root clean
}

fetch_guest() {
	rm -f "$ROOT$ARCHIVE"/*.deb
	# shellcheck disable=SC2086 # words
	apt_in_root clean && apt_in_root install --download-only '?essential' $GUEST_PACKAGES &&
		APT_FOLDER=$ARCHIVE apt_in_root download "libstd-rust-dev=${wanted##*$'\n'}"
}

# Does what of the packages' scripts guests need. Python's compiled files are the same everywhere.
unpack_guest() {
	# shellcheck disable=SC2016 # for the shell in the root
	in_root bash -euo pipefail -c '
		guest=$0/root.new archive=$1
		unpack() { dpkg-deb --fsys-tarfile "$1" | tar -xp --keep-directory-symlink -C "$2" "${@:3}"; }
		rm -rf "$guest"
		mkdir -p "$guest"
		# This has the links from /bin and others to /usr.
		for package in "$archive"/archives/{base-files_*,*}.deb; do
			unpack "$package" "$guest"
		done
		cp -a /etc/{passwd,group,shadow,nsswitch.conf} "$guest/etc"
		ln -sf mawk "$guest/usr/bin/awk"
		mkdir -p "$guest"/{scripts,schedhist,build,mnt,usr/lib/modules}
		python3 -m compileall -q -s "$guest" -p / "$guest"/usr/lib/python3*
		unpack "$archive"/libstd-rust-dev_*.deb / ./usr/lib/rustlib
		rm -r "$archive"/*.deb "$archive"/archives/*.deb
		rm -rf "$0/root"
		mv -T "$guest" "$0/root"
	' "$ARM64" "$ARCHIVE"
}

# unpack_kernel: the kernel itself and its headers. What these share with those of other machines is
# installed.
unpack_kernel() {
	local base=${release%%-*} image=("linux-"{binary-unsigned,modules,base}"-$release")
	[[ $name != "$STABLE"-* ]] || image=("linux-image-$release-unsigned")
	install_in_root "linux-kbuild-$base=$version" "linux-headers-$base-common=$version" || return
	rm -rf "$ROOT$ARCHIVE/kernel"
	mkdir "$ROOT$ARCHIVE/kernel"
	APT_FOLDER=$ARCHIVE/kernel apt_in_root download "${image[@]/%/=$version}" "linux-headers-$release=$version" || return
	# shellcheck disable=SC2016 # for the shell in the root
	in_root bash -euo pipefail -c '
		rm -rf "/lib/modules/$1"
		cd "$0"
		for package in *.deb; do
			dpkg-deb --fsys-tarfile "$package" | tar -xp --keep-directory-symlink -C /
		done
		depmod "$1"
		rm -r "$0"
	' "$ARCHIVE/kernel" "$release" || return
	[[ $name != "$STABLE"-* ]] || ln -sfn "/boot/vmlinuz-$release" "$ROOT/lib/modules/$release/vmlinuz.unsigned"
}
