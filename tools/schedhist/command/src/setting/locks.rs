// SPDX-License-Identifier: GPL-2.0

//! Locks on files in `/run`, by which programs that change the same setting of the module know of
//! one another.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
};

use crate::{
    failure::{Failure, Result},
    sys::{self, Lock},
};

/// Held while the users of a setting change.
const CHANGE: &str = "/run/schedhist.lock";

/// The folder of the notes, and how their names begin and end.
const FOLDER: &str = "/run";
const NOTE: (&str, &str) = ("schedhist-", ".lock");

/// Returns the path of a note.
pub fn path(name: &str) -> String {
    format!("{FOLDER}/{}{name}{}", NOTE.0, NOTE.1)
}

/// Opens all notes, without a lock.
pub fn notes() -> impl Iterator<Item = (String, File)> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix(NOTE.0)?.strip_suffix(NOTE.1)?;
        let path = format!("{FOLDER}/{name}");
        let file = File::open(&path).ok()?;
        Some((path, file))
    })
}

/// Keeps others from changing the users of a setting while the file is open.
pub fn change(how: Lock) -> Result<File> {
    locked(CHANGE, how)
}

/// Opens a file and locks it, for as long as it is open.
pub fn locked(path: &str, how: Lock) -> Result<File> {
    let file = open(path)?;
    if !sys::lock(&file, how) {
        return Err(Failure::at(path, io::Error::last_os_error()));
    }
    Ok(file)
}

/// Only root may open it: whoever can read a file can lock it, and so stop all others.
fn open(path: &str) -> Result<File> {
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(0o600)
        .open(path);
    let opened = opened.and_then(|file| {
        // Earlier versions let everybody read it.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    });
    // To be locked, it need not be writable.
    let opened = opened.or_else(|error| File::open(path).map_err(|_| error));
    opened.map_err(|error| Failure::at(path, error))
}
