# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Copies what cargo compiles to a folder of the cache, which all checkouts share. Sourced by tests of
# crates.

# copy_sources FOLDER OPTION PATH...: makes FOLDER have the same files below each PATH of the tree, but
# for build folders and Cargo.lock. OPTION is --delete; or --delete-excluded, if these are to be
# removed, too. Files that have not changed keep their time, so that cargo does not compile them again
# for another checkout.
copy_sources() {
	rsync --archive --no-times --checksum --relative "$2" --exclude target --exclude Cargo.lock "${@:3}" "$1/"
}
