// SPDX-License-Identifier: GPL-2.0

//! Writes recordings.

use std::{
    fs::{self, File, OpenOptions},
    io::ErrorKind::NotFound,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{flock, renameat_with, FlockOperation, RenameFlags, CWD},
    io::Errno,
};
use schedhist_core::recording::file::Recorder;

use crate::{
    error::{At, Error, Result},
    files::{self, aside, check_replaceable, with_ending},
    recordings::reader::{self, FOLLOWS_NONE},
    source::unix_ns,
};

/// The lock of one that nobody else may write beside.
pub const ALONE: FlockOperation = FlockOperation::NonBlockingLockExclusive;
/// The lock of those that append whole runs.
pub const SHARED: FlockOperation = FlockOperation::NonBlockingLockShared;

/// A recording that is written. It begins as `FILE.PID.new`, which is removed again unless it gets
/// its name. It is locked from its beginning, by its open file.
pub struct Writer {
    pub recorder: Recorder<File>,
    pub path: PathBuf,
    /// When it was begun, as it says itself.
    begun: u64,
    pub is_named: bool,
    /// Whether to go on with the recording of this name, if there is one.
    appends: bool,
    /// What it replaces, locked, and the ending that this gets.
    older: Option<File>,
    old: &'static str,
}

/// Locks a recording; fails if someone else writes it. Where there are no locks, none is held.
fn lock(file: &File, path: &Path, operation: FlockOperation) -> Result {
    match flock(file, operation) {
        Err(Errno::WOULDBLOCK) => Err(Error::at(
            path,
            "another schedhist is writing it: name another file with -o",
        )),
        _ => Ok(()),
    }
}

/// Opens the recording of this name and locks it; `None` if there is none. NFS locks only what can
/// be written.
fn locked(path: &Path, operation: FlockOperation) -> Result<Option<File>> {
    loop {
        let opened = OpenOptions::new().read(true).append(true).open(path);
        if matches!(&opened, Err(error) if error.kind() == NotFound) {
            return Ok(None);
        }
        let file = opened.at(path)?;
        lock(&file, path, operation)?;
        // Another may have got its name before it was locked.
        if has_name(&file, path) {
            return Ok(Some(file));
        }
    }
}

/// Returns whether an open file has this name.
fn has_name(file: &File, path: &Path) -> bool {
    files::are_same(file.metadata(), fs::metadata(path))
}

impl Writer {
    /// Begins a recording. As `perf.data`, only its owner can read it. An older one of this name is
    /// to get the ending `old`.
    pub fn begin(path: &Path, operation: FlockOperation) -> Result<Self> {
        check_replaceable(path)?;
        let older = locked(path, ALONE)?;
        Self::new(path, operation, older, "old", FOLLOWS_NONE)
    }

    /// Begins the recording that follows this one, which is to get the ending `1`.
    pub fn begin_next(&mut self) -> Result<Self> {
        // The same open file, and so the same lock.
        let older = self.recorder.get_mut().try_clone().at(&self.path)?;
        let begun = self.begun.to_string();
        Self::new(&self.path, ALONE, Some(older), "1", &begun)
    }

    fn new(
        path: &Path,
        operation: FlockOperation,
        older: Option<File>,
        old: &'static str,
        follows: &str,
    ) -> Result<Self> {
        check_replaceable(&with_ending(path, old))?;
        let new = aside(path);
        let _ = fs::remove_file(&new);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .at(path)?;
        // From now on, its end removes the file.
        let mut writer = Self {
            recorder: Recorder::append(file),
            path: path.to_owned(),
            begun: unix_ns(),
            is_named: false,
            appends: false,
            older,
            old,
        };
        lock(writer.recorder.get_mut(), path, operation)?;
        let info = info(writer.begun, follows);
        writer.write(|recorder| {
            recorder.begin()?;
            recorder.info(&info)
        })?;
        Ok(writer)
    }

    /// Goes on with a recording, or begins one if there is none.
    pub fn append(path: &Path) -> Result<Self> {
        let Some(file) = locked(path, SHARED)? else {
            check_replaceable(path)?;
            let mut writer = Self::new(path, SHARED, None, "old", FOLLOWS_NONE)?;
            writer.appends = true;
            return Ok(writer);
        };
        Ok(Self {
            recorder: go_on(file, path)?,
            path: path.to_owned(),
            begun: 0,
            is_named: true,
            appends: true,
            older: None,
            old: "",
        })
    }

    /// Gives the recording its name, unless it has it. An older file of this name gets its ending.
    /// Whatever happens meanwhile, a file of this name can be read.
    pub fn publish(&mut self) -> Result {
        let path = &self.path;
        let new = aside(path);
        while !self.is_named {
            check_replaceable(path)?;
            if self
                .older
                .as_ref()
                .is_some_and(|older| has_name(older, path))
            {
                let old = with_ending(path, self.old);
                let _ = fs::remove_file(&old);
                // A file system may lack links.
                fs::hard_link(path, &old)
                    .or_else(|_| fs::rename(path, &old))
                    .at(path)?;
                fs::rename(&new, path).at(path)?;
                self.is_named = true;
                break;
            }
            // Someone may have moved the older one, and another may have begun one meanwhile.
            match renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE) {
                // A file system may lack this, too.
                Err(Errno::INVAL) if !path.exists() => fs::rename(&new, path).at(path)?,
                Err(Errno::INVAL | Errno::EXIST) => {
                    let found = locked(path, if self.appends { SHARED } else { ALONE })?;
                    match found {
                        Some(file) if self.appends => {
                            self.recorder = go_on(file, path)?;
                            let _ = fs::remove_file(&new);
                        }
                        found => {
                            self.older = found;
                            continue;
                        }
                    }
                }
                renamed => renamed.map_err(std::io::Error::from).at(path)?,
            }
            self.is_named = true;
        }
        self.older = None;
        Ok(())
    }

    pub fn write(
        &mut self,
        write: impl FnOnce(&mut Recorder<File>) -> std::io::Result<()>,
    ) -> Result {
        write(&mut self.recorder).at(&self.path)
    }
}

/// Goes on with an open recording; fails unless it is one. What is damaged in it is noted: what is
/// appended can be read all the same.
fn go_on(file: File, path: &Path) -> Result<Recorder<File>> {
    let mut reader = reader::open(path)?;
    while reader.next_item().is_some() {}
    Ok(Recorder::append(file))
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = fs::remove_file(aside(&self.path));
        }
    }
}

/// Returns `key value` lines that describe this machine and a recording that begins.
fn info(begun: u64, follows: &str) -> String {
    let read = |path: &str| files::read(path).unwrap_or_default();
    format!(
        "begun_unix_ns {begun}\nfollows_unix_ns {follows}\nhost {}\nkernel {}\nmodule {}\ncommand {}\n",
        read("/proc/sys/kernel/hostname"),
        read("/proc/sys/kernel/osrelease"),
        read("/sys/module/schedhist/version"),
        env!("CARGO_PKG_VERSION"),
    )
}
