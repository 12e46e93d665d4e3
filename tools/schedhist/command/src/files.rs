// SPDX-License-Identifier: GPL-2.0

//! Files that the command writes.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{fchown, MetadataExt},
    path::{Path, PathBuf},
};

use crate::error::{Error, Result};

/// Returns the text of a small file, such as one of sysfs; `None` if it cannot be read.
pub fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns a path with a dot and another ending behind all of it.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Returns the name that a file has before it gets that of `path`.
pub fn aside(path: &Path) -> PathBuf {
    with_ending(path, &format!("{}.new", std::process::id()))
}

/// Returns an error if something at `path` would be lost if a file got its name: a folder, a device
/// such as `/dev/null`, or a symbolic link.
pub fn check_replaceable(path: &Path) -> Result {
    match fs::symlink_metadata(path) {
        Ok(about) if !about.is_file() => Err(not_replaced(path)),
        _ => Ok(()),
    }
}

fn not_replaced(path: &Path) -> Error {
    Error::at(path, "this is no regular file, so it is not replaced")
}

/// Returns whether both are there, and are the same file.
pub fn are_same(one: io::Result<fs::Metadata>, other: io::Result<fs::Metadata>) -> bool {
    let id = |about: fs::Metadata| (about.dev(), about.ino());
    matches!((one.map(id), other.map(id)), (Ok(one), Ok(other)) if one == other)
}

/// Returns an error if `out`, which is to be written, is the file `input`.
pub fn check_other(input: &Path, out: &Path) -> Result {
    if are_same(fs::metadata(input), fs::metadata(out)) {
        return Err(Error::at(out, "this is an input file"));
    }
    Ok(())
}

/// Writes a file, aside, and then gives it its name: nobody reads a part of it, and if the disk is
/// full, the old one stays, whose owner and permissions it gets. What is no regular file, such as a
/// pipe, is just written to.
pub fn write(path: &Path, bytes: &[u8]) -> Result {
    write_with(path, bytes, None)
}

/// Writes a file as [`write`] does. With permissions it gets these, and others may write in its
/// folder: what is no regular file is refused, and no symbolic link is followed.
pub fn write_with(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> Result {
    let failed = |error| Error::at(path, error);
    let (old, target) = match permissions {
        Some(_) => (fs::symlink_metadata(path), None),
        None => (fs::metadata(path), fs::canonicalize(path).ok()),
    };
    let (old, target) = (old.ok(), target.unwrap_or_else(|| path.to_owned()));
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return match permissions {
            Some(_) => Err(not_replaced(path)),
            None => fs::write(path, bytes).map_err(failed),
        };
    }
    let aside = aside(&target);
    let write = || {
        let _ = fs::remove_file(&aside);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&aside)?;
        if let Some(old) = &old {
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        }
        if let Some(permissions) = permissions.or(old.map(|old| old.permissions())) {
            file.set_permissions(permissions)?;
        }
        file.write_all(bytes)?;
        fs::rename(&aside, &target)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&aside);
        failed(error)
    })
}
