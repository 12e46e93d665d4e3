# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # release and others of scripts/bed/kernel
#
# Debian unstable and experimental, for scripts/bed/kernel to source. A module needs the compilers of
# its kernel, and these are newer than the root's: so they have a root of their own. Guests run the
# kernel with the programs of the first root, which $FIRST is.

FIRST=$ROOT

# What is needed to build modules.
TOOLCHAIN="make gcc libc6-dev pahole python3 kmod rustc rust-src bindgen"

# A mirror may lag behind: its release file then counts as expired.
bootstrap() {
	new_root "$ROOT.new" "$UNSTABLE" --aptopt='Acquire::Check-Valid-Until "false"' &&
		mkdir -p "$ROOT.new"/{scripts,schedhist,build} &&
		sync -f "$ROOT.new" &&
		mv -T "$ROOT.new" "$ROOT"
}

# Makes unstable's root if need be; it is $ROOT from here on.
use_unstable() {
	ROOT=$UNSTABLE_ROOT
	if [[ ! -d $ROOT ]]; then
		need_space 6
		step "bootstrapping Debian $UNSTABLE" "bootstrap-$UNSTABLE" bootstrap
	fi
	# apt takes from experimental only what it is asked for by version.
	local more=$ROOT/etc/apt/sources.list.d/$EXPERIMENTAL.list
	LISTS=$ROOT/var/lib/apt/lists
	if [[ ! -e $more ]]; then
		sed "s/ $UNSTABLE / $EXPERIMENTAL /" "$ROOT/etc/apt/sources.list" | write_file "$more"
		update=1
	fi
}

# A kernel that was chosen before may not fit newer compilers.
renew_toolchain() {
	rm -f "$choice"
	# shellcheck disable=SC2086 # words
	step "installing unstable's compilers" "packages-$UNSTABLE" install_toolchain $TOOLCHAIN
}

# install_toolchain PACKAGE...
install_toolchain() {
	apt_repair && apt_in_root install "$@" && apt_in_root upgrade && apt_in_root clean
}

# not_now TEXT...: ends the script because no module can be built now. tests/matrix shows the reason.
not_now() {
	rm -f "$choice"
	write_file "$STATE/no-$name" <<<"$*"
	say "$*"
	exit 77
}

# The compilers of unstable move on before its kernel is built with them.
check_compilers() {
	local config=$ROOT/usr/src/linux-headers-$release/.config gcc llvm
	gcc=$(config_value "$config" CC_VERSION_TEXT)
	same_compiler RUSTC_VERSION_TEXT "$(in_root rustc --version)"
	same_compiler CC_VERSION_TEXT "$(in_root "${gcc%% *}" --version | head -n 1)"
	llvm=$(in_root rustc --version --verbose |
		awk -F'[ .]' '$1 == "LLVM" { printf "%d%02d%02d", $3, $4, $5 }')
	same_compiler RUSTC_LLVM_VERSION "$llvm"
}

# same_compiler OPTION FOUND: for check_compilers. Debian's revision of gcc, in parentheses, may differ.
same_compiler() {
	local built
	built=$(config_value "$config" "$1")
	[[ ${2/ (Debian *)/} == "${built/ (Debian *)/}" ]] ||
		not_now "the kernel $release of Debian $name was built with '$built' ($1), and what it has now is '$2': wait for its next kernel"
}

# hand_over: gives the kernel to the root that guests run in. Hard links need no room.
hand_over() {
	local modules=lib/modules/$release
	rm -rf "$FIRST/$modules.new" "${FIRST:?}/$modules" &&
		cp -al "$ROOT/$modules" "$FIRST/$modules.new" &&
		rm -f "$FIRST/$modules.new"/{build,source} &&
		mv -T "$FIRST/$modules.new" "$FIRST/$modules"
}
