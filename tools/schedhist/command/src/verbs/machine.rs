// SPDX-License-Identifier: GPL-2.0

//! A cgroup for a command, so that the module measures the command and its children as a group.

use std::{
    fs::{
        self,
        File,
        OpenOptions, //
    },
    os::fd::OwnedFd,
    path::PathBuf,
};

use crate::{
    failure::note,
    source::Source,
    sys, //
};

/// The number of commands that can be measured at once.
const MOST: u32 = 64;

/// The file that all runs lock, so that the last one restores `group_by`.
const LOCK: &str = "/run/schedhist-run.lock";

/// A cgroup that exists for as long as this does.
pub struct Cgroup<'a> {
    path: PathBuf,
    /// The name of its group in the module's files.
    pub group: String,
    source: &'a Source,
    lock: Option<File>,
}

impl<'a> Cgroup<'a> {
    /// Creates the cgroup below that of this process, and makes the module group tasks by cgroup if
    /// it does not group them at all. Returns why it cannot be, otherwise.
    pub fn new(source: &'a Source) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        let own = own
            .ok_or("there is no cgroup hierarchy of version 2")?
            .trim_end_matches('/');
        let rule = source
            .text("group_by")
            .map_err(|_| "group_by cannot be read")?;
        let rule = rule.trim();
        if rule != "none" && rule != "cgroup" {
            return Err(format!(
                "group_by is '{rule}', and has to be none or cgroup"
            ));
        }
        let (path, group) = (0..MOST)
            .find_map(|number| {
                let group = format!("{own}/schedhist-run-{number}");
                let path = PathBuf::from(format!("/sys/fs/cgroup{group}"));
                // Of two runs, only one can create it.
                fs::create_dir(&path).ok().map(|()| (path, group))
            })
            .ok_or_else(|| format!("no cgroup can be created in /sys/fs/cgroup{own}"))?;
        let mut cgroup = Self {
            path,
            group,
            source,
            lock: OpenOptions::new().create(true).append(true).open(LOCK).ok(),
        };
        cgroup.group_tasks(rule)?;
        Ok(cgroup)
    }

    fn group_tasks(&mut self, rule: &str) -> Result<(), String> {
        let Some(lock) = &self.lock else {
            return if rule == "cgroup" {
                Ok(())
            } else {
                Err(format!("{LOCK} cannot be opened"))
            };
        };
        if !sys::lock(lock, false) {
            return Err(format!("{LOCK} cannot be locked"));
        }
        if rule == "none" {
            let written = self.source.write("group_by", "cgroup");
            written.map_err(|_| "group_by cannot be written".to_owned())?;
            // Marks that it was not the user who wrote it.
            fs::write(LOCK, "restore\n").map_err(|error| format!("{LOCK}: {error}"))?;
        }
        Ok(())
    }

    /// Opens the file that moves the process that writes `0` to it.
    pub fn procs(&self) -> std::io::Result<OwnedFd> {
        let file = OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.procs"))?;
        Ok(file.into())
    }
}

impl Drop for Cgroup<'_> {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            note(format!("{} stays: {error}", self.path.display()));
        }
        let Some(lock) = &self.lock else { return };
        // The last run has the lock for itself.
        if sys::lock(lock, true) && fs::read_to_string(LOCK).is_ok_and(|text| text == "restore\n") {
            let rule = self.source.text("group_by");
            if rule.is_ok_and(|rule| rule.trim() == "cgroup") {
                let _ = self.source.write("group_by", "none");
            }
            let _ = fs::write(LOCK, "");
        }
    }
}
