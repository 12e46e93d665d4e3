// SPDX-License-Identifier: GPL-2.0

//! Files that the command writes.

use std::{
    fs,
    os::unix::fs::MetadataExt, //
};

use crate::failure::{
    Failure,
    Result, //
};

/// Returns an error if something at `path` would be lost if a file got its name: a folder, a device
/// such as `/dev/null`, or a symbolic link.
pub fn check_replaceable(path: &str) -> Result {
    match fs::symlink_metadata(path) {
        Ok(about) if !about.is_file() => Err(Failure::at(
            path,
            "this is no regular file, so it is not replaced",
        )),
        _ => Ok(()),
    }
}

/// Returns an error if `out`, which is to be written, is the file `input`.
pub fn check_other(input: &str, out: &str) -> Result {
    let of = |path| fs::metadata(path).map(|about| (about.dev(), about.ino()));
    if matches!((of(input), of(out)), (Ok(input), Ok(out)) if input == out) {
        return Err(Failure::at(out, "this is an input file"));
    }
    Ok(())
}
