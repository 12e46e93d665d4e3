// SPDX-License-Identifier: GPL-2.0

//! A cgroup for a command, so that the module measures the command and its children as a group.

use std::{
    fs::{
        self,
        OpenOptions, //
    },
    os::fd::OwnedFd,
    path::PathBuf,
};

use crate::{
    failure::{
        note,
        Failure, //
    },
    source::Source,
    verbs::grouping::Grouping, //
};

/// The number of commands that can be measured at once.
const MOST: u32 = 64;

/// A cgroup that exists for as long as this does.
#[derive(Debug)]
pub struct Cgroup<'a> {
    path: PathBuf,
    /// The name of its group in the module's files.
    pub group: String,
    _grouping: Grouping<'a>,
}

impl<'a> Cgroup<'a> {
    /// Makes the module group tasks by cgroup, and creates a cgroup below that of this process.
    /// Returns why it cannot be, otherwise.
    pub fn new(source: &'a Source) -> Result<Self, String> {
        if !source.is_live() {
            return Err("these are copies of the module's files".to_owned());
        }
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        let own = own
            .ok_or("there is no cgroup hierarchy of version 2")?
            .trim_end_matches('/');
        if !fs::exists("/sys/fs/cgroup/cgroup.procs").unwrap_or(false) {
            return Err("no cgroup hierarchy of version 2 is mounted at /sys/fs/cgroup".to_owned());
        }
        let grouping = Grouping::new(source, "cgroup", |rule| rule == "cgroup");
        let grouping = grouping.map_err(|why| match why {
            Failure::Error(text) | Failure::Usage(text) => text,
            Failure::Quiet(_) => "group_by cannot be written".to_owned(),
        })?;
        let (path, group) = (0..MOST)
            .find_map(|number| {
                let group = format!("{own}/schedhist-run-{number}");
                let path = PathBuf::from(format!("/sys/fs/cgroup{group}"));
                // Of two runs, only one can create it.
                fs::create_dir(&path).ok().map(|()| (path, group))
            })
            .ok_or_else(|| format!("no cgroup can be created in /sys/fs/cgroup{own}"))?;
        Ok(Self {
            path,
            group,
            _grouping: grouping,
        })
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
    }
}
