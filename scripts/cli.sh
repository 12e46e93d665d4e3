# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# Command-line code that the scripts share: messages, --help, usage errors
# (status 2), the names of kernels. To be sourced; sets no traps. A script must
# source this before it changes its folder, since $0 may be relative to the
# first folder.

# Kernel series that schedhist supports, newest first. The first one is the
# default of every script; "-rt" or "-cloud" may be added to each.
SUPPORTED="7.3 7.2"

# Debian stable's own kernel, which has no Rust: its crates are built with the module.
STABLE=6.12

# The kernels of Debian unstable and experimental, which newer compilers have built.
UNSTABLE=sid
EXPERIMENTAL=experimental

# Kernels of our own, by the names of their files in scripts/bed/kernels, of the newest series or
# of Debian stable's.
DEBUG_KERNELS="debug cfi rt-debug kcsan proxy uml $STABLE-debug $STABLE-cfi"

SCRIPT=$(realpath -m -- "$0")
# The path of the script, from the top of the tree.
SELF=$(realpath -m -- "$(dirname "${BASH_SOURCE[0]}")/..")
SELF=${SCRIPT#"${SELF%/}/"}
ME=${SELF#scripts/}
ME=${ME#bed/}

say() {
	printf 'schedhist: %s: %s\n' "$ME" "$*" >&2
}

die() {
	say "$*"
	exit 1
}

# usage_from FILE: prints the usage of a script, which is the comment at its head.
usage_from() {
	awk '
		FNR < 3 || /^# shellcheck / { next }
		!/^#/ { exit }
		{ sub(/^# ?/, "") }
		/./ || begun { begun = 1; print }
	' "$1"
}

usage() {
	usage_from "$SCRIPT"
}

# bad_usage TEXT: exits with the status of usage errors.
bad_usage() {
	printf '%s: %s; see %s --help\n' "$SELF" "$1" "$SELF" >&2
	exit 2
}

# bad_option OPTION
bad_option() {
	bad_usage "unknown option $1"
}

# need_value "$@": requires a value after the first argument, which is an option.
need_value() {
	(($# > 1)) || bad_usage "$1 needs a value"
}

# no_options "$@": for a script whose only option is --help.
no_options() {
	case ${1-} in
	-h | --help) usage; exit ;;
	-*) bad_option "$1" ;;
	esac
}

# no_arguments "$@": for a script that has neither options nor arguments.
no_arguments() {
	no_options "$@"
	(($# == 0)) || bad_usage "unexpected argument '$1'"
}

# need_root: must be called before any work. SCHEDHIST_COMMAND is the make command that the user
# ran.
need_root() {
	((EUID == 0)) || die "must run as root: sudo ${SCHEDHIST_COMMAND:-$SELF}"
}

is_debug_kernel() {
	[[ $1 =~ ^[a-z0-9.-]+$ && " $DEBUG_KERNELS " == *" $1 "* ]]
}

# has_headers NAME: returns whether the root has Debian's own headers of the kernel.
has_headers() {
	! is_unstable_kernel "$1" && ! is_debug_kernel "$1" && ! is_arm64_kernel "$1"
}

# Their modules are built in a root of their own.
is_unstable_kernel() {
	[[ $1 == "$UNSTABLE" || $1 == "$EXPERIMENTAL" ]]
}

# Debian's kernels for arm64 are cross-built for, and emulated.
is_arm64_kernel() {
	[[ $1 == *-arm64* ]]
}

stock_kernels() {
	local series
	for series in $SUPPORTED; do
		printf "$series%s " '' -rt -cloud -arm64 -rt-arm64 -arm64-16k
	done
	printf '%s ' "$STABLE" "$STABLE-cloud" "$STABLE-arm64" "$STABLE-arm64-16k" "$UNSTABLE" "$EXPERIMENTAL"
}

# check_kernel_name NAME: requires a name that scripts/bed/kernel accepts. Needs neither the root nor
# the network.
check_kernel_name() {
	local stock
	stock=$(stock_kernels)
	if is_debug_kernel "$1" || [[ $1 =~ ^[^\ ]+$ && " $stock" == *" $1 "* ]]; then
		return
	elif [[ $1 =~ ^[0-9]+\.[0-9]+(-rt|-cloud)?(-arm64(-16k)?)?$ ]]; then
		bad_usage "kernel $1 is not supported, schedhist needs ${SUPPORTED// / or } or $STABLE"
	fi
	bad_usage "no kernel is called '$1', only $stock$DEBUG_KERNELS"
}

# take_kernel "$@": takes --kernel NAME, of which the caller shifts $taken arguments away. Sets $kernel, by
# default to the newest supported.
take_kernel() {
	kernel=${SUPPORTED%% *} taken=0
	[[ ${1-} == --kernel ]] || return 0
	need_value "$@"
	check_kernel_name "$2"
	kernel=$2 taken=2
}
