// SPDX-License-Identifier: GPL-2.0

//! Locks on files in `/run`, by which programs that change the same setting of the module know of
//! one another.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
};

use nix::fcntl::Flock;
pub use nix::fcntl::FlockArg as Lock;

use crate::error::{At, Result};

/// Held while the users of a setting change.
const CHANGE: &str = "/run/schedhist.lock";

/// The folder of the notes, and how their names begin and end.
const FOLDER: &str = "/run";
const NOTE: (&str, &str) = ("schedhist-", ".lock");

/// Returns the path of a note.
pub fn path(name: &str) -> String {
    format!("{FOLDER}/{}{name}{}", NOTE.0, NOTE.1)
}

/// Opens all notes that nobody has locked, and locks them.
pub fn unused() -> impl Iterator<Item = (String, Flock<File>)> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix(NOTE.0)?.strip_suffix(NOTE.1)?;
        let path = format!("{FOLDER}/{name}");
        let alone = Flock::lock(File::open(&path).ok()?, Lock::LockExclusiveNonblock);
        Some((path, alone.ok()?))
    })
}

/// Keeps others from changing the users of a setting until this is dropped.
pub fn change(how: Lock) -> Result<Flock<File>> {
    locked(CHANGE, how)
}

/// Opens a file and locks it until this is dropped.
pub fn locked(path: &str, how: Lock) -> Result<Flock<File>> {
    let locked = Flock::lock(open(path)?, how);
    locked.map_err(|(_, error)| error).at(path)
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
    opened.at(path)
}
