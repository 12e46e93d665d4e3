# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2016 # said, work; for other shells
#
# Tests a cache that cannot be used, and a first run without the network. Sourced by run.

# On the disk of the cache that is in use, since that has enough space.
empty=$(. scripts/bed/lib.sh && need_cache && mktemp -d "$CACHE/empty.XXXXXX")
trap 'rm -rf "$work" "$empty"' EXIT

# refused CACHE TEXT...: requires that scripts/bed/root begins nothing, and fails with one line, which
# has each TEXT and names the variable.
refused() {
	run 1 env SCHEDHIST_CACHE="$1" scripts/bed/root
	says SCHEDHIST_CACHE "${@:2}"
	(($(wc -l <<< "$said") == 1)) || { echo "it said more"; exit 1; }
}

# on_tmpfs OPTIONS COMMAND...: runs COMMAND in a mount namespace with a tmpfs at $work/fs.
on_tmpfs() {
	mkdir -p "$work/fs"
	unshare --mount --propagation private bash -c 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && "$@"' \
		sh "$1" "$work/fs" "${@:2}"
}

cache_read_only() {
	run 1 on_tmpfs ro env SCHEDHIST_CACHE="$work/fs" scripts/bed/root
	says "cannot write to $work/fs (Read-only file system)" "SCHEDHIST_CACHE"
	run 1 on_tmpfs ro env SCHEDHIST_CACHE="$work/fs/below" scripts/bed/vm -- true
	says "cannot write to $work/fs/below (Read-only file system)" "SCHEDHIST_CACHE"
}

cache_full() {
	run 1 on_tmpfs size=64k env SCHEDHIST_CACHE="$work/fs" bash -c '
		head -c 60000 /dev/zero > "$SCHEDHIST_CACHE/most"; scripts/bed/root'
	says "cannot write to $work/fs (No space left on device)" "SCHEDHIST_CACHE"
}

cache_small() {
	run 1 on_tmpfs size=100m env SCHEDHIST_CACHE="$work/fs" scripts/bed/root
	says "$work/fs has 0 GB left, and 8 GB are needed" "SCHEDHIST_CACHE"
}

# The cache fills up during a step of some script.
cache_fills_up() {
	run 1 on_tmpfs size=1m env SCHEDHIST_CACHE="$work/fs" bash -c '
		. scripts/bed/lib.sh; need_cache; step "filling it" fill cp /dev/zero "$CACHE/zeros"'
	says "filling it ... failed" "$work/fs is full: make room, or set SCHEDHIST_CACHE" "run the same command again"
}

cache_is_a_file() {
	touch "$work/file"
	refused "$work/file" "$work/file is not a folder"
	refused "$work/file/below" "cannot write to $work/file/below (Not a directory)"
}

# Uses the existing root, as making another one takes minutes.
cache_with_space() {
	local spaced="$work/a cache" root state
	root=$(. scripts/bed/lib.sh && echo "$ROOT")
	state=$(. scripts/bed/lib.sh && echo "$STATE")
	mkdir -p "$spaced/root" "$spaced/state"
	cp "$state"/kernel-* "$spaced/state"
	run 0 unshare --mount --propagation private bash -c '
		mount --bind "$1" "$2/root" && export SCHEDHIST_CACHE="$2" && scripts/bed/kernel &&
			scripts/bed/root -- sh -c "cp Kbuild /build"' sh "$root" "$spaced"
	cmp Kbuild "$spaced/build/Kbuild"
}

# Root must leave nothing in another user's home, even if HOME names it, as with sudo -E.
cache_of_root() {
	local home variable
	home=$(cd ~root && pwd -P)
	install -d -o 65534 "$work/home" "$work/home/.cache"
	chmod 755 "$work"
	for variable in "HOME=$work/home" "XDG_CACHE_HOME=$work/home/.cache"; do
		run 1 unshare --mount --propagation private bash -c '
			mount -t tmpfs -o ro tmpfs "$1" && env -u XDG_CACHE_HOME -u SCHEDHIST_CACHE "$2" scripts/bed/root' \
			sh "$home" "$variable"
		says "cannot write to $home/.cache/schedhist (Read-only file system)"
	done
}

# first_run COMMAND...: requires that a first run, which must fail, announces its work once.
first_run() {
	run 1 env SCHEDHIST_CACHE="$empty" "$@"
	says "first run: sets up Debian trixie in $empty" "bootstrapping Debian trixie ... failed" "run the same command again"
	(($(grep -c "first run" <<< "$said") == 1)) || { echo "it said that more than once"; exit 1; }
}

cache_no_network() {
	first_run unshare --net env -u SCHEDHIST_MIRROR scripts/bed/root
	says "packages cannot be fetched: check the network and the proxy (http_proxy" "SCHEDHIST_MIRROR"
}

cache_bad_mirror() {
	first_run env SCHEDHIST_MIRROR=http://mirror.invalid/debian scripts/bed/vm -- true
	says "packages cannot be fetched from SCHEDHIST_MIRROR, http://mirror.invalid/debian:" "http_proxy"
}

# PATH has all programs but mmdebstrap, which apt-get takes for installed or cannot fetch.
cache_tools() {
	mkdir "$work/path"
	ln -s /usr/local/sbin/* /usr/local/bin/* /usr/sbin/* /usr/bin/* /sbin/* /bin/* "$work/path" 2> /dev/null || true
	rm -f "$work/path/mmdebstrap"
	run 1 unshare --net env PATH="$work/path" SCHEDHIST_CACHE="$empty" scripts/bed/root
	says "first run: sets up Debian trixie in $empty" "installs mmdebstrap on this machine, by apt-get"
}

check cache/read-only cache_read_only
check cache/full cache_full
check cache/small cache_small
check cache/fills-up cache_fills_up
check cache/file cache_is_a_file
check cache/relative refused some/folder "must be an absolute path, not 'some/folder'"
check cache/space cache_with_space
check cache/of-root cache_of_root
check cache/no-network cache_no_network
check cache/bad-mirror cache_bad_mirror
check cache/tools cache_tools
