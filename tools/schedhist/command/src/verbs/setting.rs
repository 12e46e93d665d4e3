// SPDX-License-Identifier: GPL-2.0

//! Overrides a module setting while a verb runs, and restores it afterwards.
//!
//! Several programs may need one at once. Each holds a shared lock while it does; the last one
//! restores what was there before the first wrote it.

use std::{
    fs::{
        self,
        File, //
    },
    os::unix::fs::MetadataExt,
};

use crate::{
    failure::{
        note,
        Failure,
        Result, //
    },
    source::Source,
    sys::{
        self,
        Lock, //
    },
    verbs::locks,
};

/// A setting, restored when this is dropped. Signals must be blocked before: see [`sys::Waiter`].
#[derive(Debug)]
pub struct Setting<'a> {
    source: &'a Source,
    name: String,
    users: Users,
    is_relied_on: Option<fn(&Source) -> bool>,
}

/// Who uses the setting.
#[derive(Debug)]
enum Users {
    /// All programs that hold a shared lock on this file, which has a [`Memory`].
    Locked(String, File),
    /// This one alone, as these are copies of the module's files: what it was, and what this one
    /// wrote.
    Own(Option<(String, String)>),
}

/// What a setting was before one of its users wrote it, and what that one wrote. The load of the
/// module, as the next one begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    load: String,
    before: String,
    written: String,
}

impl Memory {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::to_owned);
        Some(Self {
            load: lines.next()?,
            before: lines.next()?,
            written: lines.next()?,
        })
    }

    /// Reads what a user has left.
    fn load(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn save(this: Option<&Self>, path: &str) -> Result {
        let text = this.map_or_else(String::new, |memory| {
            format!("{}\n{}\n{}\n", memory.load, memory.before, memory.written)
        });
        fs::write(path, text).map_err(|error| Failure::at(path, error))
    }
}

/// Returns what tells a load of the module from the next one.
fn load_of(source: &Source) -> Result<String> {
    let path = source.path("raw");
    let about = fs::metadata(&path).map_err(|error| source.explain(&path, &error))?;
    Ok(format!("{} {}", about.dev(), about.ino()))
}

impl<'a> Setting<'a> {
    /// Writes the setting `name` if need be: `wanted` returns what to write, or `None` if the value
    /// that it gets fits. If that may not be replaced, it returns an error.
    pub fn new(
        source: &'a Source,
        name: &str,
        wanted: impl Fn(&str) -> Result<Option<String>>,
    ) -> Result<Self> {
        let now = || -> Result<String> { Ok(source.text(name)?.trim().to_owned()) };
        // First, as it tells whether there is a module, and who may use it.
        let before = now()?;
        let with = |users| Self {
            source,
            name: name.to_owned(),
            users,
            is_relied_on: None,
        };
        if !source.is_live() {
            let mut own = None;
            if let Some(mine) = wanted(&before)? {
                source.write(name, &mine)?;
                own = Some((before, now()?));
            }
            return Ok(with(Users::Own(own)));
        }
        let path = format!("/run/schedhist-{}.lock", name.replace('/', "-"));
        let load = load_of(source)?;
        let _change = locks::change()?;
        let users = locks::locked(&path, Lock::Shared)?;
        let before = now()?;
        // If another user has written it, what was there before that counts.
        let known = Memory::load(&path);
        let known = known.filter(|memory| memory.load == load && memory.written == before);
        let Some(mine) = wanted(&before)? else {
            // Someone else has written it since, who may rely on it.
            if known.is_none() {
                Memory::save(None, &path)?;
            }
            return Ok(with(Users::Locked(path, users)));
        };
        let first = known.as_ref().map_or(&before, |memory| &memory.before);
        let mut memory = Memory {
            load,
            before: first.clone(),
            written: mine.clone(),
        };
        // First, so that the next user can restore it if this process is killed.
        Memory::save(Some(&memory), &path)?;
        let mut write = || {
            source.write(name, &mine)?;
            let written = now()?;
            if written != memory.written {
                memory.written = written;
                Memory::save(Some(&memory), &path)?;
            }
            Ok(())
        };
        if let Err(failure) = write() {
            // What the module has refused has changed nothing, and a write would, such as restart
            // measuring.
            if now().is_ok_and(|now| now != before) {
                let _ = source.write(name, &before);
            }
            let _ = Memory::save(known.as_ref(), &path);
            return Err(failure);
        }
        Ok(with(Users::Locked(path, users)))
    }

    /// Restores nothing if `is_relied_on` then returns that something else needs the setting.
    pub fn unless(mut self, is_relied_on: fn(&Source) -> bool) -> Self {
        self.is_relied_on = Some(is_relied_on);
        self
    }

    fn restore(&self) -> Result {
        match &self.users {
            Users::Own(None) => Ok(()),
            Users::Own(Some((before, written))) => self.replace(written, before),
            Users::Locked(path, users) => {
                let _change = locks::change()?;
                // Only the last user gets it.
                if !sys::lock(users, Lock::ExclusiveNow) {
                    return Ok(());
                }
                let Some(memory) = Memory::load(path) else {
                    return Ok(());
                };
                if load_of(self.source).is_ok_and(|load| load == memory.load) {
                    self.replace(&memory.written, &memory.before)?;
                }
                Memory::save(None, path)
            }
        }
    }

    /// Writes `before`, unless the setting is not what was written: another program may have
    /// written it meanwhile, and relies on that.
    fn replace(&self, written: &str, before: &str) -> Result {
        if self.is_relied_on.is_some_and(|is| is(self.source)) {
            return Ok(());
        }
        match self.source.text(&self.name) {
            Ok(now) if now.trim() == written => self.source.write(&self.name, before),
            _ => Ok(()),
        }
    }
}

impl Drop for Setting<'_> {
    fn drop(&mut self) {
        if let Err(Failure::Error(text)) = self.restore() {
            note(format!("{} is not restored: {text}", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories() {
        let memory = Memory {
            load: "20 1234".to_owned(),
            before: "none".to_owned(),
            written: "tracing_off,snapshot".to_owned(),
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
