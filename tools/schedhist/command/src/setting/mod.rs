// SPDX-License-Identifier: GPL-2.0

//! Overrides a module setting while a verb runs, and restores it afterwards.
//!
//! Several programs may need one at once. Each holds a shared lock on a note in `/run` while it
//! does; the last one restores the value that was there before the first wrote it. A lock ends with
//! its process, in all namespaces. So a note that nobody has locked was left by one that was
//! killed.

pub mod grouping;
pub mod leftovers;
pub mod locks;
pub mod names;
pub mod owner;

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, MetadataExt},
};

use locks::Lock;
use nix::fcntl::Flock;

use crate::{
    error::{At, Result},
    output::note,
    setting::grouping::{reliance, Reliance},
    source::Source,
};

/// A setting, restored when this is dropped. Signals must be blocked before: see
/// [`crate::sys::Waiter`].
#[derive(Debug)]
pub struct Setting<'a> {
    source: &'a Source,
    name: String,
    users: Users,
}

/// The users of the setting.
#[derive(Debug)]
enum Users {
    /// All programs that hold a shared lock on this file, which has a [`Memory`].
    Locked(String, Flock<File>),
    /// This one alone, as these are copies of the module's files.
    Own(Option<Memory>),
}

/// What a setting was before one of its users wrote it, and what that one wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    name: String,
    /// The load of the module, as the next one begins anew.
    load: String,
    before: String,
    written: String,
    /// What tells this write from a later one of the same value, where the module shows that;
    /// empty until that is known.
    stamp: String,
    /// The PID that wrote it, in its own namespace.
    pid: String,
}

impl Memory {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::to_owned);
        Some(Self {
            name: lines.next()?,
            load: lines.next()?,
            before: lines.next()?,
            written: lines.next()?,
            stamp: lines.next()?,
            pid: lines.next()?,
        })
    }

    /// Reads what a user has left.
    fn load(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn save(this: Option<&Self>, path: &str) -> Result {
        if this.is_none() && fs::metadata(path).is_ok_and(|about| about.len() == 0) {
            return Ok(());
        }
        let text = this.map_or_else(String::new, |it| {
            let lines = [
                &it.name,
                &it.load,
                &it.before,
                &it.written,
                &it.stamp,
                &it.pid,
            ];
            lines.map(|line| format!("{line}\n")).concat()
        });
        // In one step, as a kill must not leave half of it. What then is beyond it is not read.
        let write = |file: File| {
            file.write_all_at(text.as_bytes(), 0)?;
            file.set_len(text.len() as u64)
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        file.and_then(write).at(path)
    }

    /// Returns whether the setting still is what was written: another program may have written it
    /// since, and relies on that.
    fn is_valid(&self, source: &Source) -> bool {
        load_of(source).is_ok_and(|load| load == self.load)
            && value_of(source, &self.name).is_ok_and(|now| now == self.written)
            && (self.stamp.is_empty()
                || stamp_of(source, &self.name).is_ok_and(|stamp| stamp == self.stamp))
    }

    /// Returns what is to become of the setting.
    fn fate(&self, source: &Source) -> Fate {
        if !self.is_valid(source) {
            return Fate::Theirs;
        }
        match reliance(source, &self.name) {
            Reliance::OfRuns => Fate::Needed,
            Reliance::OfUsers => Fate::Theirs,
            Reliance::None => Fate::Restored,
        }
    }
}

/// What is to become of a setting that its users do not need any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It gets the value that was there before.
    Restored,
    /// Somebody else has written it, or relies on it: it stays.
    Theirs,
    /// A program that does not share the note needs it still.
    Needed,
}

/// Returns what tells a load of the module from the next one.
fn load_of(source: &Source) -> Result<String> {
    if !source.is_live() {
        return Ok("-".to_owned());
    }
    let path = source.path("raw");
    let about = fs::metadata(&path).map_err(|error| source.explain(&path, error))?;
    Ok(format!("{} {}", about.dev(), about.ino()))
}

fn value_of(source: &Source, name: &str) -> Result<String> {
    Ok(source.text(name)?.trim().to_owned())
}

/// Returns when a setting was written, if the module shows that.
fn stamp_of(source: &Source, name: &str) -> Result<String> {
    if name != "group_by" || !source.is_live() {
        return Ok("-".to_owned());
    }
    let since = source.groups()?.and_then(|groups| groups.since);
    Ok(since.map_or_else(|| "none".to_owned(), |ns| ns.to_string()))
}

/// Returns the path of the note for a setting.
fn note_of(name: &str) -> String {
    locks::path(&name.replace('/', "-"))
}

impl<'a> Setting<'a> {
    /// Writes the setting `name` if need be: `wanted` returns what to write, or `None` if the value
    /// that it gets fits. If that may not be replaced, it returns an error.
    pub fn new(
        source: &'a Source,
        name: &str,
        wanted: &dyn Fn(&str) -> Result<Option<String>>,
    ) -> Result<Self> {
        // First, as it tells whether there is a module, and who may use it.
        let before = value_of(source, name)?;
        let with = |users| Self {
            source,
            name: name.to_owned(),
            users,
        };
        let memory = |before: &str, written: String| -> Result<Memory> {
            Ok(Memory {
                name: name.to_owned(),
                load: load_of(source)?,
                before: before.to_owned(),
                written,
                stamp: String::new(),
                pid: std::process::id().to_string(),
            })
        };
        if !source.is_live() {
            let mut own = None;
            if let Some(mine) = wanted(&before)? {
                source.write(name, &mine)?;
                own = Some(memory(&before, value_of(source, name)?)?);
            }
            return Ok(with(Users::Own(own)));
        }
        let path = note_of(name);
        let locked = locks::change(Lock::LockExclusive)
            .and_then(|change| Ok((change, locks::locked(&path, Lock::LockShared)?)));
        let (_change, users) = match locked {
            // It could not be restored if this process is killed.
            Err(error) if wanted(&before)?.is_some() => return Err(error),
            Err(_) => return Ok(with(Users::Own(None))),
            Ok(locked) => locked,
        };
        let before = value_of(source, name)?;
        // If another user has written it, what was there before that counts.
        let known = Memory::load(&path).filter(|memory| memory.is_valid(source));
        let Some(mine) = wanted(&before)? else {
            // Someone else has written it since, who may rely on it.
            if known.is_none() {
                Memory::save(None, &path)?;
            }
            return Ok(with(Users::Locked(path, users)));
        };
        let first = known.as_ref().map_or(&before, |memory| &memory.before);
        let mut memory = memory(first, mine.clone())?;
        // First, so that it can be restored if this process is killed.
        Memory::save(Some(&memory), &path)?;
        let mut write = || {
            source.write(name, &mine)?;
            memory.written = value_of(source, name)?;
            memory.stamp = stamp_of(source, name)?;
            Memory::save(Some(&memory), &path)
        };
        if let Err(error) = write() {
            // What the module has refused has changed nothing, and a write would, such as restart
            // measuring.
            if value_of(source, name).is_ok_and(|now| now != before) {
                let _ = source.write(name, &before);
            }
            let _ = Memory::save(known.as_ref(), &path);
            return Err(error);
        }
        Ok(with(Users::Locked(path, users)))
    }

    fn restore(&self) -> Result {
        match &self.users {
            Users::Own(None) => Ok(()),
            Users::Own(Some(memory)) => match memory.fate(self.source) {
                Fate::Restored => self.source.write(&memory.name, &memory.before),
                Fate::Theirs | Fate::Needed => Ok(()),
            },
            Users::Locked(path, users) => {
                let _change = locks::change(Lock::LockExclusive)?;
                match users.relock(Lock::LockExclusiveNonblock) {
                    Ok(()) => restore_left(self.source, path).map(|_| ()),
                    Err(_) => Ok(()),
                }
            }
        }
    }
}

/// Restores a setting that nobody uses any more. Returns what was restored.
fn restore_left(source: &Source, path: &str) -> Result<Option<Memory>> {
    let Some(memory) = Memory::load(path) else {
        return Ok(None);
    };
    let fate = memory.fate(source);
    match fate {
        Fate::Needed => return Ok(None),
        Fate::Theirs => {}
        Fate::Restored => source.write(&memory.name, &memory.before)?,
    }
    Memory::save(None, path)?;
    Ok((fate == Fate::Restored).then_some(memory))
}

/// Finds the settings that programs have left that were killed, and restores them if `restores` is
/// true. Returns what each was, and by whom.
pub fn left(source: &Source, restores: bool) -> Vec<String> {
    // A program that only looks does not wait for others.
    let how = match restores {
        true => Lock::LockExclusive,
        false => Lock::LockExclusiveNonblock,
    };
    // Where nobody can lock, nobody has left a note.
    let Ok(_change) = locks::change(how) else {
        return Vec::new();
    };
    let mut left = Vec::new();
    for (path, _users) in locks::unused() {
        let found = match restores {
            true => restore_left(source, &path),
            false => Ok(Memory::load(&path).filter(|it| it.fate(source) == Fate::Restored)),
        };
        match found {
            Ok(Some(memory)) => left.push(format!(
                "{} is '{}', left by a schedhist that has ended (PID {}), and was '{}'",
                memory.name, memory.written, memory.pid, memory.before
            )),
            Ok(None) => {}
            Err(error) => note(error),
        }
    }
    left
}

/// Returns whether a program uses the setting `name` now.
pub fn has_users(name: &str) -> bool {
    // Whoever changes its users would take this for one.
    let Ok(_change) = locks::change(Lock::LockExclusive) else {
        return false;
    };
    let users = File::open(note_of(name));
    users.is_ok_and(|users| Flock::lock(users, Lock::LockExclusiveNonblock).is_err())
}

impl Drop for Setting<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            note(format!("{} is not restored: {error}", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories() {
        let memory = Memory {
            name: "on_outlier".to_owned(),
            load: "20 1234".to_owned(),
            before: "none".to_owned(),
            written: "tracing_off,snapshot".to_owned(),
            stamp: String::new(),
            pid: "812".to_owned(),
        };
        let path = std::env::temp_dir().join(format!("schedhist-memory-{}", std::process::id()));
        let path = path.to_str().unwrap();
        Memory::save(Some(&memory), path).unwrap();
        assert_eq!(Memory::load(path), Some(memory));
        Memory::save(None, path).unwrap();
        assert_eq!(Memory::load(path), None);
        fs::remove_file(path).unwrap();
        // That of another version.
        assert_eq!(Memory::parse("none\n60000000\n"), None);
    }
}
