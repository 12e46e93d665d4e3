// SPDX-License-Identifier: GPL-2.0

//! Writes recordings.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use schedhist_core::recording::file::Recorder;

use crate::{
    error::{At, Error, Result},
    files::{self, aside, check_replaceable, with_ending},
    recordings::reader,
    source::unix_ns,
};

/// A recording that is written. It begins as `FILE.PID.new`, which is removed again unless it gets
/// its name.
pub struct Writer {
    pub recorder: Recorder<File>,
    pub path: PathBuf,
    /// When it was begun, as it says itself.
    pub begun: u64,
    pub is_named: bool,
    /// Whether to go on with the recording of this name, if there is one.
    appends: bool,
    /// Held by the one that replaces files, so that no other takes its name.
    pub lock: Option<Flock<File>>,
}

/// Locks a recording that nobody else writes; fails if someone does. Where there are no locks, none
/// is held.
fn lock(file: File, path: &Path) -> Result<Option<Flock<File>>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Err(Error::at(path, "another schedhist is writing it")),
        Err(_) => Ok(None),
    }
}

impl Writer {
    /// Begins a recording. As `perf.data`, only its owner can read it. An older one of this name is
    /// to get the ending `old`.
    pub fn begin(path: &Path, old: &str) -> Result<Self> {
        Self::begin_after(path, old, "")
    }

    /// The same, with another line about the recording.
    pub fn begin_after(path: &Path, old: &str, line: &str) -> Result<Self> {
        check_replaceable(path)?;
        check_replaceable(&with_ending(path, old))?;
        let new = aside(path);
        let _ = fs::remove_file(&new);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .at(path)?;
        let locked = { file.try_clone().ok() }.map(|file| lock(file, &new));
        // From now on, its end removes the file.
        let mut writer = Self {
            recorder: Recorder::append(file),
            path: path.to_owned(),
            begun: unix_ns(),
            is_named: false,
            appends: false,
            lock: locked.transpose()?.flatten(),
        };
        let info = info(writer.begun) + line;
        writer.write(|recorder| {
            recorder.begin()?;
            recorder.info(&info)
        })?;
        Ok(writer)
    }

    /// Goes on with a recording, or begins one if there is none.
    pub fn append(path: &Path) -> Result<Self> {
        if !path.exists() {
            let mut writer = Self::begin(path, "old")?;
            writer.appends = true;
            return Ok(writer);
        }
        Ok(Self {
            recorder: reopen(path)?,
            path: path.to_owned(),
            begun: 0,
            is_named: true,
            appends: true,
            lock: None,
        })
    }

    /// Gives the recording its name, unless it has it. An older file of this name becomes `FILE`
    /// with the ending `old`. Whatever happens meanwhile, a file of this name can be read.
    pub fn publish(&mut self, old: &str) -> Result {
        if self.is_named {
            return Ok(());
        }
        let path = &self.path;
        check_replaceable(path)?;
        let new = aside(path);
        if self.appends {
            self.lock = None;
        }
        if self.appends && path.exists() {
            // Another run has begun it meanwhile.
            self.recorder = reopen(path)?;
            let _ = fs::remove_file(new);
            self.is_named = true;
            return Ok(());
        }
        if let Ok(file) = File::open(path) {
            lock(file, path)?;
            let old = with_ending(path, old);
            let _ = fs::remove_file(&old);
            // A file system may lack links.
            fs::hard_link(path, &old)
                .or_else(|_| fs::rename(path, &old))
                .at(path)?;
        }
        fs::rename(new, path).at(path)?;
        self.is_named = true;
        Ok(())
    }

    pub fn write(
        &mut self,
        write: impl FnOnce(&mut Recorder<File>) -> std::io::Result<()>,
    ) -> Result {
        write(&mut self.recorder).at(&self.path)
    }
}

/// Opens a recording to append to it; fails unless it is one. What is damaged in it is noted: what
/// is appended can be read all the same.
fn reopen(path: &Path) -> Result<Recorder<File>> {
    let mut reader = reader::open(path)?;
    while reader.next_item().is_some() {}
    let file = OpenOptions::new().append(true).open(path).at(path)?;
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
fn info(begun: u64) -> String {
    let read = |path: &str| files::read(path).unwrap_or_default();
    format!(
        "begun_unix_ns {begun}\nhost {}\nkernel {}\nmodule {}\ncommand {}\n",
        read("/proc/sys/kernel/hostname"),
        read("/proc/sys/kernel/osrelease"),
        read("/sys/module/schedhist/version"),
        env!("CARGO_PKG_VERSION"),
    )
}
