# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # variables of tests/bed/run
#
# Tests scripts/check-kdir and make, with build folders that cannot be used.
# Sourced by tests/bed/run.

# The headers that Debian ships.
stock_release=$(scripts/bed/kernel)
stock_kdir=/lib/modules/$stock_release/build
# shellcheck source=scripts/bed/lib.sh
IFS=$'\t' read -r stock_headers kdir_newest < <(. scripts/bed/lib.sh
	printf '%s\t%s\n' "$ROOT/usr/src/linux-headers-$stock_release" "${SUPPORTED%% *}")

# make_kdir RELEASE [NAME]: makes a build folder with the configuration of the real headers, but
# another release, and with the kernel's Rust crates compiled.
make_kdir() {
	kdir=$work/${2:-linux-headers-$1}
	rm -rf "$kdir"
	mkdir -p "$kdir/include/config" "$kdir/include/generated" "$kdir/rust" "$work/bin"
	touch "$kdir/rust/libkernel.rmeta" "$kdir/rust/libmacros.so"
	cp "$stock_headers/include/config/auto.conf" "$kdir/include/config"
	echo "$1" > "$kdir/include/config/kernel.release"
	printf '#!/bin/sh\necho "%s"\n' "$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"$/\1/p' \
		"$stock_headers/.config")" > "$work/bin/rustc"
	printf '#!/bin/sh\n' | tee "$work/bin/bindgen" > "$work/bin/pahole"
	chmod +x "$work/bin"/*
	export RUSTC=$work/bin/rustc BINDGEN=$work/bin/bindgen PATH=$work/bin:$PATH
}

# check-kdir must succeed, and print nothing.
kdir_accepts() {
	run 0 scripts/check-kdir "$kdir"
	[[ -z $said ]]
}

# As on Ubuntu: the crates are in a package of their own; without it, they are built with the module.
kdir_linked() {
	mkdir "$work/linux-lib-rust"
	mv "$kdir/rust" "$work/linux-lib-rust"
	ln -s ../linux-lib-rust/rust "$kdir/rust"
	kdir_accepts
	rm "$work/linux-lib-rust/rust/libkernel.rmeta"
	kdir_refuses "core library is not installed"
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

kdir_nowhere() {
	kdir=/nonexistent
	kdir_refuses "there is no such folder" "make KDIR=" "make run"
	[[ $said != *apt-get* ]] || { echo "it named a package"; return 1; }
}

kdir_space() {
	local name
	for name in 'a folder' a:b 'a]b' 'a[b' "a'b" 'a\b' 'a(1)' 'a%b'; do
		kdir=$work/$name
		mkdir -p "$kdir"
		kdir_refuses "has a space, a colon or the like in it" "ln -s"
	done
	kdir=$work/josé+~@,=-.1
	mkdir "$kdir"
	LC_ALL=C kdir_refuses "not the build folder of a configured kernel"
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
	kdir_refuses "schedhist needs Linux 6.12 or later, and this is $1" "linux-image-amd64 linux-headers-amd64" "make run"
	[[ $said != *"linux-headers-$1"* ]] || { echo "it asked for headers of $1"; return 1; }
}

# What crates are built from, and the layout of structures.
has_library() {
	export RUST_LIB_SRC=$work/library
	mkdir -p "$RUST_LIB_SRC/core/src"
	touch "$RUST_LIB_SRC/core/src/lib.rs" "$kdir/vmlinux"
}

# Such a kernel is told, and tried.
kdir_untested() {
	has_library
	run 0 scripts/check-kdir "$kdir"
	says "never with $1: it may not build"
}

# The release comes from utsrelease.h if there is no kernel.release, and none in the folder's name.
kdir_utsrelease() {
	rm "$kdir/include/config/kernel.release"
	echo '#define UTS_RELEASE "6.11.1-test"' > "$kdir/include/generated/utsrelease.h"
	kdir_old 6.11.1-test
}

kdir_no_release() {
	rm "$kdir/include/config/kernel.release"
	kdir_refuses "its version is not known" "make modules_prepare"
}

# kdir_edited SCRIPT TEXT...: a configuration that is changed by a sed script is refused.
kdir_edited() {
	sed -i "$1" "$kdir/include/config/auto.conf"
	kdir_refuses "${@:2}" "make run"
}

# Integers have the same types in C and in Rust only with that option.
kdir_cfi() {
	echo "CONFIG_$1=y" >> "$kdir/include/config/auto.conf"
	kdir_refuses "built with CONFIG_CFI, and without CONFIG_CFI_ICALL_NORMALIZE_INTEGERS" "make run"
	echo CONFIG_CFI_ICALL_NORMALIZE_INTEGERS=y >> "$kdir/include/config/auto.conf"
	kdir_accepts
}

kdir_clang() {
	echo CONFIG_CC_IS_CLANG=y >> "$kdir/include/config/auto.conf"
	kdir_refuses "built with clang" "make LLVM=1"
	LLVM=1 kdir_accepts
}

# Compiled crates of an older kernel lack what the module uses: its own are built, with what these need.
kdir_old_crates() {
	kdir_refuses "the layout of the scheduler's structures is missing (vmlinux)"
	touch "$kdir/vmlinux"
	kdir_refuses "core library is not installed"
	has_library
	kdir_accepts
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

# rustc_is COMMAND TEXT...: a compiler that does nothing but this command is refused.
rustc_is() {
	printf '#!/bin/sh\n%s\n' "$1" > "$work/bin/rustc"
	kdir_refuses "${@:2}"
}

# With headers as Debian ships them, the rustc that compiles the module compiles the crates, too.
kdir_no_crates() {
	rm "$kdir/rust/libkernel.rmeta"
	rustc_is "[ \"\$1\" = --print ] && echo '$work/sysroot' || echo 'rustc $1 (test)'" "$2"
}

kdir_no_core() {
	kdir_no_crates 1.92.0 "core library is not installed: $work/sysroot/lib/rustlib/src/rust/library/core/src/lib.rs"
	says "apt-get install rust-src"
}

# The real headers of Debian stable's kernel, which have no Rust.
kdir_stable() {
	run 0 scripts/bed/root -- scripts/check-kdir "/lib/modules/$(scripts/bed/kernel "$1")/build"
	[[ -z $said ]]
}

kdir_no_tools() {
	export RUSTC=$work/bin/none BINDGEN=$work/bin/no-bindgen
	kdir_refuses "not installed, and needed: $work/bin/none $work/bin/no-bindgen" "apt-get install rustc rust-src bindgen"
}

kdir_usage() {
	run 2 scripts/check-kdir
	says "one KDIR is needed" "scripts/check-kdir --help"
}

# make must run check-kdir first, and stop if that fails.
make_refuses() {
	local wanted=$1
	shift
	run 2 make "$@"
	says "$wanted"
	[[ $said != *"Entering directory"* ]] || { echo "it went on"; return 1; }
}

# scripts/bed/build must refuse what make refuses.
kdir_build() {
	sed -i 's/^CONFIG_SCHED_INFO=y//' "$kdir/include/config/auto.conf"
	mkdir -p "$work/other"
	cp -r Makefile Kbuild src include scripts "$work/other"
	# shellcheck disable=SC2016 # for the other shell
	SCHEDHIST_TREE=$work/other run 1 unshare --mount --propagation private bash -c '
		mount --bind "$1" "$2" && exec scripts/bed/build' sh "$kdir/include/config/auto.conf" \
		"$stock_headers/include/config/auto.conf"
	says "built without CONFIG_SCHED_INFO"
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
check kdir/linked kdir kdir_linked
check kdir/quotes kdir kdir_quotes
check kdir/candidate kdir_of "$kdir_newest.0-rc7-amd64" kdir_accepts
check kdir/empty-name kdir_empty_name
kdir=/lib/modules/$kdir_newest.99-none/build check kdir/missing kdir_refuses "there is no such folder" \
	"the headers of $kdir_newest.99-none are not installed" "apt-get install linux-headers-$kdir_newest.99-none" "make run"
check kdir/nowhere kdir_nowhere
kdir=$work check kdir/empty kdir_refuses "not the build folder of a configured kernel" "make modules_prepare"
check kdir/space kdir_space
check kdir/tree-space kdir kdir_tree_space
check kdir/old kdir_of 6.1.1-amd64 kdir_old 6.1.1-amd64
kdir=/lib/modules/6.1.3-amd64/build check kdir/old-missing kdir_old 6.1.3-amd64
check kdir/new kdir_of 99.1.2-amd64 kdir_untested 99.1.2-amd64
check kdir/between kdir_of 6.13.1-amd64 kdir_untested 6.13.1-amd64
check kdir/of-others kdir_of "$kdir_newest.0-1.el11.x86_64" kdir_untested "$kdir_newest.0-1.el11.x86_64"
check kdir/utsrelease kdir_of - kdir_utsrelease
check kdir/no-release kdir_of - kdir_no_release
check kdir/old-rt kdir_of 6.12.1-amd64 kdir_edited '1i CONFIG_PREEMPT_RT=y' \
	"a PREEMPT_RT kernel before Linux 7.0" "probes with preemption off"
check kdir/no-core kdir kdir_no_core
check kdir/old-rustc kdir kdir_no_crates 1.84.1 "rustc must be 1.85 or later"
check kdir/new-rustc kdir kdir_no_crates 1.97.1 "rustc must be older than 1.93 for this kernel"
check kdir/stable kdir_stable 6.12
for option in DEBUG_FS SCHED_INFO CGROUPS SMP TRACING; do
	check "kdir/no-$option" kdir kdir_edited "/^CONFIG_$option=y/d" "built without CONFIG_$option"
	check "kdir/glue-no-$option" kdir glue_refuses "CONFIG_$option" "/^CONFIG_$option=y/d"
done
check kdir/cfi kdir kdir_cfi CFI
# Only its C compiler knows where the members of structures are.
check kdir/randstruct kdir kdir_edited '1i CONFIG_RANDSTRUCT=y' "built with CONFIG_RANDSTRUCT"
check kdir/glue-randstruct kdir glue_refuses CONFIG_RANDSTRUCT '1i CONFIG_RANDSTRUCT=y'
check kdir/clang kdir kdir_clang
check kdir/old-crates kdir_of 6.12.1-amd64 kdir_old_crates
check kdir/cfi-clang kdir kdir_cfi CFI_CLANG
check kdir/glue-other-machine kdir glue_refuses "x86_64 and arm64 only" /^CONFIG_X86_64=y/d
check kdir/other-machine kdir kdir_edited /^CONFIG_X86_64=y/d "runs on x86_64 and arm64 only"
check kdir/other-rustc kdir rustc_is "echo 'rustc 1.99.0 (test)'" \
	"built with rustc 1." "but $work/bin/rustc is rustc 1.99.0 (test)" "make RUSTC="
check kdir/dead-rustc kdir rustc_is "exit 1" "but $work/bin/rustc is a program that does not run"
check kdir/no-tools kdir kdir_no_tools
check kdir/usage kdir_usage
check kdir/make make_refuses "there is no such folder" KDIR=/nonexistent
check kdir/make-empty make_refuses "KDIR is empty" KDIR=
check kdir/make-space make_refuses "has a space, a colon" "KDIR=/a folder"
check kdir/make-clean-space make_clean_space
check kdir/make-of-other kdir make_of_other
check kdir/make-install make_refuses "there is no such folder" install KDIR=/nonexistent
check kdir/build kdir kdir_build
