// SPDX-License-Identifier: GPL-2.0

//! Locks on files in `/run`, by which programs that change the same setting of the module know of
//! one another.

use std::{
    fs::{
        File,
        OpenOptions,
        Permissions, //
    },
    io,
    os::unix::fs::{
        OpenOptionsExt,
        PermissionsExt, //
    },
};

use crate::{
    failure::{
        Failure,
        Result, //
    },
    sys::{
        self,
        Lock, //
    },
};

/// Held while the users of a setting change.
const CHANGE: &str = "/run/schedhist.lock";

/// Waits until nobody else changes the users of a setting, and keeps it so while the file is open.
pub fn change() -> Result<File> {
    locked(CHANGE, Lock::Exclusive)
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
    opened.map_err(|error| Failure::at(path, error))
}
