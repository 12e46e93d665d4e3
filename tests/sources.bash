# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Copies what cargo compiles to a folder of the cache, which all checkouts share. Sourced by what
# compiles crates.

# copy_sources FOLDER OPTION PATH...: makes FOLDER have the same files below each PATH of the tree, but
# for build folders and Cargo.lock. OPTION is --delete; or --delete-excluded, if these are to be
# removed, too. Files that have not changed keep their time, so that cargo does not compile them again
# for another checkout.
copy_sources() {
	rsync --archive --no-times --checksum --relative "$2" --exclude target --exclude Cargo.lock "${@:3}" "$1/"
}

# use_crates FOLDER [CRATES]: makes cargo below FOLDER compile into it, and take all crates from CRATES, by
# default those that Debian packages: no network. The tree's Cargo.lock has checksums, and these have none.
use_crates() {
	mkdir -p "$1/.cargo"
	cat > "$1/.cargo/config.toml" <<- END
		[source.crates-io]
		replace-with = "here"
		[source.here]
		directory = "${2:-/usr/share/cargo/registry}"
		[net]
		offline = true
	END
	export CARGO_HOME=$1/cargo CARGO_TARGET_DIR=$1/target
}
