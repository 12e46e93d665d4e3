#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034
#
# Code that long-running scripts share, beside cli.sh: the cache, children, steps
# and locks. To be sourced, not run.

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
STATE=$CACHE/state	# small facts worth remembering between runs
LOGS=$CACHE/log

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

# try_step WHAT LOG COMMAND...: runs COMMAND with its output in a log, which is $log then, and prints one line of
# progress. Returns its status.
try_step() {
	local start=$SECONDS rc=0
	log=$LOGS/$2.log
	mkdir -p "$LOGS"
	printf 'schedhist: %s: %s ... ' "$ME" "$1" >&2
	run_interruptible "${@:3}" >"$log" 2>&1 </dev/null || rc=$?
	((rc == 0)) || printf 'failed after ' >&2
	printf '%d s\n' $((SECONDS - start)) >&2
	return "$rc"
}

# step WHAT LOG COMMAND...: the same, and if COMMAND fails, shows what matters of the log, and exits.
step() {
	local log
	! try_step "$@" || return 0
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
	elif [[ -d ${ROOT:-} ]]; then
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

# config_value FILE OPTION: prints the value of CONFIG_OPTION in a kernel's configuration. Strings in
# auto.conf have had no quotes since 5.17.
config_value() {
	sed -nE "s/^CONFIG_$2=\"?([^\"]*)\"?\$/\1/p" "$1"
}
