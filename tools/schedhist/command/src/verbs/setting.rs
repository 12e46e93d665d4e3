// SPDX-License-Identifier: GPL-2.0

//! A setting of the module that is another one while a verb runs.
//!
//! Several programs may need one at once. Each holds a shared lock while it does; the last one
//! restores what was there before the first wrote it.

use std::fs::{
    self,
    File, //
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
}

/// Who uses the setting.
#[derive(Debug)]
enum Users {
    /// All programs that hold a shared lock on this file. Its lines are what the setting was before
    /// one of them wrote it, and what that one wrote.
    Locked(String, File),
    /// This one alone, as these are copies of the module's files. The same two values, if it has
    /// written it.
    Own(Option<(String, String)>),
}

/// Parses what [`Users::Locked`] says.
fn parse(text: &str) -> Option<(&str, &str)> {
    text.trim_end().split_once('\n')
}

impl<'a> Setting<'a> {
    /// Writes the setting `name` if need be: `wanted` returns what to write, or `None` if the value
    /// that it gets fits.
    pub fn new(
        source: &'a Source,
        name: &str,
        wanted: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let now = || -> Result<String> { Ok(source.text(name)?.trim().to_owned()) };
        // First, as it tells whether there is a module, and who may use it.
        now()?;
        let _change = source.is_live().then(locks::change).transpose()?;
        let mut setting = Self {
            source,
            name: name.to_owned(),
            users: Users::Own(None),
        };
        if source.is_live() {
            let path = format!("/run/schedhist-{}.lock", name.replace('/', "-"));
            let file = locks::locked(&path, Lock::Shared)?;
            setting.users = Users::Locked(path, file);
        }
        let before = now()?;
        let Some(mine) = wanted(&before) else {
            return Ok(setting);
        };
        source.write(name, &mine)?;
        let written = now()?;
        match &mut setting.users {
            Users::Own(own) => *own = Some((before, written)),
            Users::Locked(path, _) => {
                // If another user has written it, what was there before that counts.
                let said = fs::read_to_string(&path).unwrap_or_default();
                let first = parse(&said).filter(|(_, written)| *written == before);
                let first = first.map_or(before.as_str(), |(first, _)| first);
                let text = format!("{first}\n{written}\n");
                fs::write(&path, text).map_err(|error| Failure::at(&path, error))?;
            }
        }
        Ok(setting)
    }

    fn restore(&self) -> Result {
        let said;
        let _change;
        let replaced = match &self.users {
            Users::Own(own) => {
                { own.as_ref() }.map(|(before, written)| (before.as_str(), written.as_str()))
            }
            Users::Locked(path, file) => {
                _change = locks::change()?;
                // Only the last user gets it.
                if !sys::lock(file, Lock::ExclusiveNow) {
                    return Ok(());
                }
                said = fs::read_to_string(path).unwrap_or_default();
                fs::write(path, "").map_err(|error| Failure::at(path, error))?;
                parse(&said)
            }
        };
        match replaced {
            // Another program may have written it meanwhile, and relies on that.
            Some((before, written)) if self.source.text(&self.name)?.trim() == written => {
                self.source.write(&self.name, before)
            }
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
