# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # variables of tests/bed/run
#
# Tests scripts/check-kdir, scripts/rust-metadata and make, with build folders that cannot be used.
# Sourced by tests/bed/run.

# The headers that Debian ships, with the files that scripts/rust-metadata has added.
stock_release=$(scripts/bed/kernel)
stock_kdir=/lib/modules/$stock_release/build
# shellcheck source=scripts/bed/lib.sh
IFS=$'\t' read -r stock_headers kdir_supported < <(. scripts/bed/lib.sh
	printf '%s\t%s\n' "$ROOT/usr/src/linux-headers-$stock_release" "${SUPPORTED// / and } and $STABLE")

# make_kdir RELEASE [NAME]: makes a build folder with the configuration of the real headers, but
# another release.
make_kdir() {
	kdir=$work/${2:-linux-headers-$1}
	rm -rf "$kdir"
	mkdir -p "$kdir/include/config" "$kdir/include/generated" "$kdir/rust" "$work/bin"
	touch "$kdir/rust/libkernel.rmeta" "$kdir/rust/libmacros.so"
	cp "$stock_headers/include/config/auto.conf" "$kdir/include/config"
	echo "$1" > "$kdir/include/config/kernel.release"
	printf '#!/bin/sh\necho "%s"\n' "$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"$/\1/p' \
		"$stock_headers/.config")" > "$work/bin/rustc"
	printf '#!/bin/sh\n' > "$work/bin/bindgen"
	chmod +x "$work/bin/rustc" "$work/bin/bindgen"
	export RUSTC=$work/bin/rustc BINDGEN=$work/bin/bindgen
}

# check-kdir must succeed, and print nothing.
kdir_accepts() {
	run 0 scripts/check-kdir "$kdir"
	[[ -z $said ]]
}

kdir_refuses() {
	run 1 scripts/check-kdir "$kdir"
	says "schedhist: cannot build for $kdir" "$@"
}

# The real headers, with the real compiler.
kdir_real() {
	run 0 scripts/bed/root -- scripts/check-kdir "$stock_kdir"
	[[ -z $said ]]
}

kdir_quotes() {
	sed -i 's/^\(CONFIG_RUSTC_VERSION_TEXT=\)\(.*\)/\1"\2"/' "$kdir/include/config/auto.conf"
	grep -q '^CONFIG_RUSTC_VERSION_TEXT="rustc' "$kdir/include/config/auto.conf" || return
	kdir_accepts
}

kdir_empty_name() {
	kdir=''
	run 1 scripts/check-kdir ''
	says "KDIR is empty" "for the running kernel: make"
}

kdir_missing() {
	kdir=/lib/modules/${kdir_supported%% *}.99-none/build
	kdir_refuses "there is no such folder" "the headers of ${kdir_supported%% *}.99-none are not installed" \
		"apt-get install linux-headers-${kdir_supported%% *}.99-none" "make run"
}

kdir_nowhere() {
	kdir=/nonexistent
	kdir_refuses "there is no such folder" "make KDIR=" "make run"
	[[ $said != *apt-get* ]] || { echo "it named a package"; return 1; }
}

kdir_empty() {
	kdir=$work/empty
	mkdir -p "$kdir"
	kdir_refuses "not the build folder of a configured kernel" "make modules_prepare"
}

kdir_space() {
	kdir="$work/a build folder"
	mkdir -p "$kdir"
	kdir_refuses "has a space or a colon in it" "ln -s"
}

kdir_tree_space() {
	mkdir -p "$work/a tree"
	cp -r scripts "$work/a tree"
	run 1 "$work/a tree/scripts/check-kdir" "$kdir"
	says "schedhist itself is in $work/a tree" "move it"
}

# make clean must remove nothing else, such as a folder whose name is the first word of the tree's
# name.
make_clean_space() {
	mkdir -p "$work/a tree/build" "$work/a"
	cp Makefile "$work/a tree"
	run 0 make -C "$work/a tree" clean
	[[ -d $work/a && -e $work/a\ tree/Makefile && ! -e $work/a\ tree/build ]]
}

# root must not build in a user's tree, since the user could not remove the files.
make_of_other() {
	mkdir -p "$work/owned"
	cp -r Makefile Kbuild src include scripts "$work/owned"
	chown -R 65534 "$work/owned"
	cd "$work/owned" || exit
	make_refuses "run make as $(id -un 65534), who owns this tree" KDIR="$kdir"
	[[ ! -e build ]]
}

# New headers do not help here, so the advice must not name them.
kdir_old() {
	kdir_refuses "schedhist supports Linux $kdir_supported, and this is $1" "trixie-backports" \
		"linux-image-amd64/trixie-backports linux-headers-amd64/trixie-backports" "make run"
	[[ $said != *"linux-headers-$1"* ]] || { echo "it asked for headers of $1"; return 1; }
}

kdir_old_missing() {
	kdir=/lib/modules/6.18.3-amd64/build
	kdir_old 6.18.3-amd64
}

kdir_new() {
	kdir_refuses "schedhist supports Linux $kdir_supported, and this is $1" "add 99.1 to SUPPORTED" "make run"
	[[ $said != *backports* ]] || { echo "it advised an older kernel as if it were newer"; return 1; }
}

# The release comes from utsrelease.h if there is no kernel.release, and none in the folder's name.
kdir_utsrelease() {
	rm "$kdir/include/config/kernel.release"
	echo '#define UTS_RELEASE "6.13.1-test"' > "$kdir/include/generated/utsrelease.h"
	kdir_old 6.13.1-test
}

kdir_no_release() {
	rm "$kdir/include/config/kernel.release"
	kdir_refuses "its version is not known" "make modules_prepare"
}

kdir_without() {
	sed -i "s/^CONFIG_$1=y/# CONFIG_$1 is not set/" "$kdir/include/config/auto.conf"
	kdir_refuses "${2:-built without CONFIG_$1}" "make run"
}

kdir_proxy() {
	echo CONFIG_SCHED_PROXY_EXEC=y >> "$kdir/include/config/auto.conf"
	kdir_refuses "built with CONFIG_SCHED_PROXY_EXEC"
}

# preprocess_glue: preprocesses glue.h for the build folder's configuration, as bindgen and the compiler
# begin, and prints our own errors.
preprocess_glue() {
	{
		sed -nE 's/^(CONFIG_\w+)=y$/#define \1 1/p' "$kdir/include/config/auto.conf"
		cat src/boundary/abstractions/glue.h
		# The kernel's headers are not found. What is asked for comes before them.
	} | { scripts/bed/root -- cpp -nostdinc 2>&1 > /dev/null || :; } | sed -n 's/.*error: #error "\(.*\)"$/\1/p'
}

# glue_refuses EXPECTED EDIT: a build that has not asked check-kdir ends with this sentence, too.
glue_refuses() {
	said=$(preprocess_glue)
	[[ -z $said ]] || { echo "the real configuration: $said"; return 1; }
	sed -i "$2" "$kdir/include/config/auto.conf"
	said=$(preprocess_glue)
	[[ $(wc -l <<< "$said") == 1 ]] || { echo "not one sentence: $said"; return 1; }
	says "$1"
}

glue_without() { glue_refuses "CONFIG_$1" "/^CONFIG_$1=y/d"; }

# A kernel without Rust has its crates built, which takes more than the module.
kdir_no_rust() {
	sed -i '/^CONFIG_RUST=y/d' "$kdir/include/config/auto.conf"
	kdir_refuses "rust-src"
	echo CONFIG_PREEMPT_RT=y >> "$kdir/include/config/auto.conf"
	kdir_refuses "a PREEMPT_RT kernel without CONFIG_RUST" "probes with preemption off" "make run"
}

# The real headers of Debian stable's kernel, which have no Rust.
kdir_stable() {
	run 0 scripts/bed/root -- scripts/check-kdir "/lib/modules/$(scripts/bed/kernel "$1")/build"
	[[ -z $said ]]
}

kdir_no_metadata() {
	rm "$kdir/rust/$1"
	kdir_refuses "Rust metadata is missing" "rust/$1" "sudo scripts/rust-metadata $stock_release"
}

kdir_other_rustc() {
	printf '#!/bin/sh\necho "rustc 1.99.0 (test)"\n' > "$work/bin/rustc"
	kdir_refuses "built with rustc 1." "but $work/bin/rustc is rustc 1.99.0 (test)" "make RUSTC="
}

kdir_dead_rustc() {
	printf '#!/bin/sh\nexit 1\n' > "$work/bin/rustc"
	kdir_refuses "but $work/bin/rustc is a program that does not run"
}

# rustup's rustc comes first in PATH, and Debian's is the right one.
kdir_rustup() {
	# shellcheck disable=SC2016 # for the root
	run 1 scripts/bed/root -- bash -c '
		printf "#!/bin/sh\necho \"rustc 1.99.0 (test)\"\n" > /tmp/rustc
		chmod +x /tmp/rustc
		PATH=/tmp:$PATH exec scripts/check-kdir "$1"' sh "$stock_kdir"
	says "but /tmp/rustc is rustc 1.99.0 (test)" "which is the right one: make RUSTC=/usr/bin/rustc"
}

kdir_no_tools() {
	export RUSTC=$work/bin/none BINDGEN=$work/bin/no-bindgen
	kdir_refuses "not installed, and needed: $work/bin/none $work/bin/no-bindgen" "apt-get install rustc bindgen"
}

kdir_usage() {
	run 2 scripts/check-kdir
	says "one KDIR is needed" "scripts/check-kdir --help"
	run 2 scripts/check-kdir --fast
	says "unknown option --fast"
	run 0 scripts/check-kdir --help
	says "Usage: scripts/check-kdir KDIR"
}

# make must run check-kdir first, and stop if that fails.
make_refuses() {
	local wanted=$1
	shift
	run 2 make "$@"
	says "$wanted"
	[[ $said != *"Entering directory"* ]] || { echo "it went on"; return 1; }
}

# The packages that the advice names must be a supported kernel and its headers.
kdir_advice() {
	run 0 scripts/bed/root -- apt-cache policy linux-image-amd64 linux-headers-amd64
	(($(grep -A 1 -E "^ (\*\*\*|   ) ${kdir_supported%% *}\.[0-9.]+-[^ ]+ " <<< "$said" |
		grep -c ' trixie-backports/main amd64 Packages') == 2))
}

# scripts/bed/build must refuse what make refuses.
build_asks() {
	mkdir -p "$work/other"
	cp -r Makefile Kbuild src include scripts "$work/other"
	# shellcheck disable=SC2016 # for the other shell
	SCHEDHIST_TREE=$work/other run 1 unshare --mount --propagation private bash -c '
		mount --bind "$1" "$2" && exec scripts/bed/build' sh "$kdir/include/config/auto.conf" \
		"$stock_headers/include/config/auto.conf"
	says "built without CONFIG_SCHED_INFO"
}

kdir_build() {
	sed -i 's/^CONFIG_SCHED_INFO=y//' "$kdir/include/config/auto.conf"
	build_asks
}

metadata_usage() {
	run 2 scripts/rust-metadata --fast
	says "unknown option --fast" "scripts/rust-metadata --help"
	run 2 scripts/rust-metadata seven
	says "'seven' is no kernel release"
	run 2 scripts/rust-metadata 7.3.1 7.3.2
	says "one release at a time"
	run 0 scripts/rust-metadata --help
	says "Usage: scripts/rust-metadata" "3 GB"
}

metadata_old() {
	run 1 scripts/rust-metadata 6.18.3-amd64
	says "schedhist supports Linux $kdir_supported, and this is 6.18.3-amd64" "trixie-backports"
}

metadata_no_headers() {
	run 1 scripts/rust-metadata "${kdir_supported%% *}.99-none"
	says "apt-get install linux-headers-${kdir_supported%% *}.99-none"
}

metadata_no_root() {
	run 1 scripts/bed/root -- setpriv --reuid nobody --regid nogroup --clear-groups \
		/scripts/rust-metadata "$stock_release"
	says "must be run as root" "sudo /scripts/rust-metadata"
}

# kdir COMMAND...: runs COMMAND with a build folder that has no defect.
kdir() {
	make_kdir "$stock_release"
	"$@"
}

# kdir_of RELEASE COMMAND...: runs COMMAND with a build folder of another kernel.
kdir_of() {
	make_kdir "$1" other
	"${@:2}"
}

check kdir/real kdir_real
check kdir/good kdir kdir_accepts
check kdir/quotes kdir kdir_quotes
check kdir/candidate kdir_of "${kdir_supported%% *}.0-rc7-amd64" kdir_accepts
check kdir/empty-name kdir_empty_name
check kdir/missing kdir_missing
check kdir/nowhere kdir_nowhere
check kdir/empty kdir_empty
check kdir/space kdir_space
check kdir/tree-space kdir kdir_tree_space
check kdir/old kdir_of 6.13.1-amd64 kdir_old 6.13.1-amd64
check kdir/old-missing kdir_old_missing
check kdir/new kdir_of 99.1.2-amd64 kdir_new 99.1.2-amd64
check kdir/utsrelease kdir_of - kdir_utsrelease
check kdir/no-release kdir_of - kdir_no_release
check kdir/no-rust kdir_of 6.12.1-amd64 kdir_no_rust
check kdir/stable kdir_stable 6.12
check kdir/no-debugfs kdir kdir_without DEBUG_FS
check kdir/no-sched-info kdir kdir_without SCHED_INFO
check kdir/no-smp kdir kdir_without SMP
check kdir/no-tracing kdir kdir_without TRACING
check kdir/proxy-exec kdir kdir_proxy
check kdir/glue-no-smp kdir glue_without SMP
check kdir/glue-no-tracing kdir glue_without TRACING
check kdir/glue-no-debugfs kdir glue_without DEBUG_FS
check kdir/glue-no-sched-info kdir glue_without SCHED_INFO
check kdir/glue-other-machine kdir glue_refuses "x86_64 only" /^CONFIG_X86_64=y/d
check kdir/glue-proxy-exec kdir glue_refuses "without CONFIG_SCHED_PROXY_EXEC" 's/^CONFIG_SMP=y/&\nCONFIG_SCHED_PROXY_EXEC=y/'
check kdir/other-machine kdir kdir_without X86_64 "runs on x86_64 only"
check kdir/no-metadata kdir kdir_no_metadata libkernel.rmeta
check kdir/no-macros kdir kdir_no_metadata libmacros.so
check kdir/other-rustc kdir kdir_other_rustc
check kdir/dead-rustc kdir kdir_dead_rustc
check kdir/rustup kdir_rustup
check kdir/no-tools kdir kdir_no_tools
check kdir/usage kdir_usage
check kdir/advice kdir_advice
check kdir/make make_refuses "there is no such folder" KDIR=/nonexistent
check kdir/make-empty make_refuses "KDIR is empty" KDIR=
check kdir/make-space make_refuses "has a space or a colon" "KDIR=/a folder"
check kdir/make-clean-space make_clean_space
check kdir/make-of-other kdir make_of_other
check kdir/make-install make_refuses "there is no such folder" install KDIR=/nonexistent
check kdir/build kdir kdir_build
check metadata/usage metadata_usage
check metadata/old metadata_old
check metadata/no-headers metadata_no_headers
check metadata/no-root metadata_no_root
