#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034
#
# Code that the scripts of the test bed share, beside cli.sh: the cache, locks,
# and access to the root. To be sourced, not run.

# shellcheck source=scripts/cli.sh
. "$(dirname "${BASH_SOURCE[0]}")/cli.sh"

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
TREE=$(cd "${SCHEDHIST_TREE:-$SCRIPTS/..}" && pwd -P)

# With sudo -E, HOME is the calling user's: root should not leave gigabytes there.
cache_home() {
	local folder=${HOME:-/root}/.cache above=${HOME:-/root}
	if [[ ${XDG_CACHE_HOME:-} == /* ]]; then
		folder=$XDG_CACHE_HOME above=$XDG_CACHE_HOME
	fi
	until [[ -e $above ]]; do
		above=$(dirname "$above")
	done
	((EUID)) || [[ -O $above ]] || folder=~root/.cache
	printf '%s\n' "$folder"
}

CACHE=${SCHEDHIST_CACHE:-$(cache_home)/schedhist}
ROOT=$CACHE/root	# the Debian root
UNSTABLE_ROOT=$CACHE/$UNSTABLE	# another one, with the compilers of Debian unstable
BUILD=$CACHE/build	# build folders, /build inside the root
STATE=$CACHE/state	# small facts worth remembering between runs
RUN=$CACHE/run		# one folder for each guest that runs
LOGS=$CACHE/log
STAMPS=$ROOT/var/lib/schedhist	# goes away with the root, as it should

# need_cache: requires that files can be created in the cache.
need_cache() {
	local wrong
	[[ $CACHE == /* ]] || die "SCHEDHIST_CACHE must be an absolute path, not '$CACHE'"
	[[ ! -e $CACHE || -d $CACHE ]] || die "$CACHE is not a folder: set SCHEDHIST_CACHE to one"
	# Write some data: even on a full disk, an empty file can be created.
	wrong=$({ mkdir -p "$CACHE" && head -c 65536 /dev/zero >"$CACHE/.try.$$" && rm "$CACHE/.try.$$"; } 2>&1) && return
	rm -f "$CACHE/.try.$$" 2>/dev/null || :
	die "cannot write to $CACHE (${wrong##*: }): fix that, or set SCHEDHIST_CACHE to another folder"
}

# need_space GB: requires that much free space for the cache.
need_space() {
	local free
	need_cache
	free=$(df -Pk "$CACHE" | awk 'NR == 2 { print int($4 / 1000000) }')
	((free >= $1)) ||
		die "$CACHE has $free GB left, and $1 GB are needed: make room, or set SCHEDHIST_CACHE to a folder on a larger disk"
}

# --- Children -------------------------------------------------------------
# Bash runs a trap only after its foreground child has ended. Long commands
# therefore run in the background while Bash waits: Ctrl-C then acts at once.

CHILD=

run_interruptible() {
	local rc=0
	"$@" &
	CHILD=$!
	wait "$CHILD" || rc=$?
	CHILD=
	return "$rc"
}

end_child() {
	[[ -z $CHILD ]] || kill -KILL "$CHILD" 2>/dev/null || :
	CHILD=
}

trap 'end_child' EXIT
trap 'printf "\n" >&2; say "interrupted; the same command goes on from here"; exit 130' INT
trap 'exit 143' TERM HUP

# step WHAT LOG COMMAND...: runs COMMAND with its output in a log, and prints one line of progress.
step() {
	local what=$1 log=$LOGS/$2.log start=$SECONDS rc=0
	shift 2
	mkdir -p "$LOGS"
	printf 'schedhist: %s: %s ... ' "$ME" "$what" >&2
	run_interruptible "$@" >"$log" 2>&1 </dev/null || rc=$?
	if ((rc == 0)); then
		printf '%d s\n' $((SECONDS - start)) >&2
		return 0
	fi
	printf 'failed after %d s\n' $((SECONDS - start)) >&2
	# With make -j, the error may be far above the end of the log.
	grep -aE -m 5 'rror[:[ ]|\*\*\*|not found' "$log" | sed 's/^/    /' >&2 || :
	say "and the end of its log:"
	tail -n 15 "$log" | sed 's/^/    /' >&2
	say "the whole log: $log"
	advise "$log"
	exit 1
}

# advise LOG: prints remedies for the most common failures.
advise() {
	local free unreachable again="then run the same command again, it goes on where this one stopped"
	unreachable='Could not (resolve|connect)|Temporary failure resolving|Unable to connect|Cannot initiate the connection'
	unreachable+='|Failed to fetch|does not have a Release file|no longer has a Release file|Network is unreachable'
	free=$(df -Pk "$CACHE" | awk 'NR == 2 { print $4 }')
	if ((free < 20000)) || grep -qa 'No space left on device' "$1"; then
		say "$CACHE is full: make room, or set SCHEDHIST_CACHE to a folder on a larger disk;"
	elif ! grep -qaE "$unreachable" "$1"; then
		again=${again#then }
	elif [[ $1 == */host.log ]]; then
		say "packages cannot be fetched: check the network, and this machine's apt, its mirror and its proxy;"
	elif [[ -d $ROOT ]]; then
		say "packages cannot be fetched: check the network, the proxy (http_proxy, or apt's Acquire::http::Proxy),"
		say "and the mirror, in $ROOT/etc/apt/sources.list;"
	elif [[ -n ${SCHEDHIST_MIRROR:-} ]]; then
		say "packages cannot be fetched from SCHEDHIST_MIRROR, $SCHEDHIST_MIRROR:"
		say "check that, the network, and the proxy (http_proxy, or apt's Acquire::http::Proxy);"
	else
		say "packages cannot be fetched: check the network and the proxy (http_proxy, or apt's Acquire::http::Proxy),"
		say "or set SCHEDHIST_MIRROR to another mirror of Debian;"
	fi
	say "$again"
}

# lock NAME: takes a lock, and holds it until unlock, or until this process and its children have
# ended.
LOCK=

lock() {
	mkdir -p "$STATE"
	exec {LOCK}>"$STATE/$1.lock"
	flock -n "$LOCK" && return
	say "waiting for another run that holds $STATE/$1.lock"
	flock "$LOCK"
}

unlock() {
	[[ -z $LOCK ]] || exec {LOCK}>&-
	LOCK=
}

# is_stale LOCK FRESH...: whether FRESH, a command, fails: without the lock, so that others need not
# wait, and once more with it, which is then held.
is_stale() {
	! "${@:2}" || return
	lock "$1" || exit
	! "${@:2}"
}

# write_file FILE: atomically replaces FILE with standard input.
write_file() {
	mkdir -p "$(dirname "$1")" &&
		cat >"$1.new.$$" &&
		sync "$1.new.$$" &&
		mv -f "$1.new.$$" "$1"
}

# tree_commit: prints the commit that is checked out. Without safe.directory git refuses another
# user's repository.
tree_commit() {
	git --no-optional-locks -c safe.directory="$TREE" -C "$TREE" describe --always --dirty --abbrev=12 2>/dev/null || echo "no commit"
}

# config_value FILE OPTION: prints the value of CONFIG_OPTION in a kernel's configuration. Strings in
# auto.conf have had no quotes since 5.17.
config_value() {
	sed -nE "s/^CONFIG_$2=\"?([^\"]*)\"?\$/\1/p" "$1"
}

# --- The root -------------------------------------------------------------

# Runs as the first process in new namespaces. It makes all mounts there, so they vanish when it
# ends, for whatever reason.
# shellcheck disable=SC2016
ENTER='
set -eu
root=$1 scripts=$2 tree=$3 build=$4 run=$5
shift 5
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
		mount --bind "$scripts/vm-udev" "$root/usr/bin/$tool"
	done
fi
rc=0
env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" SCHEDHIST_CACHE=/var/cache/schedhist \
	${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
	${no_proxy:+no_proxy="$no_proxy"} \
	chroot "$root" /bin/sh -c "cd /schedhist && exec \"\$@\"" sh "$@" || rc=$?
exit $rc
'

# enter_root COMMAND...: replaces this shell with COMMAND inside the root. When the caller dies,
# even by kill -9, all processes in the root are killed. RUN_FOLDER, if set, is a guest's folder,
# which is bound at /mnt.
enter_root() {
	mkdir -p "$BUILD"
	exec setpriv --pdeathsig KILL \
		unshare --mount --pid --fork --kill-child --propagation private \
		bash -c "$ENTER" sh "$ROOT" "$SCRIPTS" "$TREE" "$BUILD" "${RUN_FOLDER:-}" "$@"
}

in_root() {
	(enter_root "$@")
}

# apt_in_root ARGUMENTS...: apt-get inside the root, through the host's proxy.
apt_in_root() {
	local proxy=()
	mapfile -t proxy < <(apt-config dump --no-empty --format '-oAcquire::%f=%v%n' \
		Acquire::http::Proxy Acquire::https::Proxy 2>/dev/null |
		sed -n 's/^-oAcquire::Acquire/-oAcquire/p')
	in_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
		-o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 \
		"${proxy[@]}" --no-install-recommends "$@"
}

# new_root FOLDER SUITE OPTIONS...: makes a root of this suite of Debian in FOLDER, with these options
# of mmdebstrap. Removes what an interrupted run has left there.
new_root() {
	local folder=$1 suite=$2
	shift 2
	rm -rf --one-file-system "$folder"
	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
		mmdebstrap --variant=apt "$@" "$suite" "$folder" ${SCHEDHIST_MIRROR:+"$SCHEDHIST_MIRROR"}
}

# Finishes an interrupted installation, which leaves packages half configured.
apt_repair() {
	in_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a --force-confold &&
		apt_in_root --fix-broken install
}
