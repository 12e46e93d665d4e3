// SPDX-License-Identifier: GPL-2.0

//! The process to which something belongs that outlives it if it is killed, and the namespaces in
//! which PIDs and paths are valid.
//!
//! All containers share the module, so a PID alone does not name a process: each PID namespace has
//! its own, and uses them again.

use std::{fmt, fs, os::unix::fs::MetadataExt, process};

use crate::{
    error::{At, Error, Result},
    output::note,
    sys,
};

/// The inodes of the initial namespaces: `PROC_PID_INIT_INO` and `PROC_CGROUP_INIT_INO`.
const INITIAL_PID: u64 = 0xEFFF_FFFC;
const INITIAL_CGROUP: u64 = 0xEFFF_FFFB;

/// Returns the inode of a namespace of this process.
fn namespace(kind: &str) -> Option<u64> {
    let link = fs::metadata(format!("/proc/self/ns/{kind}"));
    link.ok().map(|about| about.ino())
}

/// Returns whether `/proc` shows the PID namespace of this process.
fn has_own_proc() -> bool {
    let this = process::id().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.to_str() == Some(&this))
}

/// Returns whether this process is in the initial cgroup namespace: paths of cgroups are then those
/// that the module shows.
pub fn has_initial_cgroups() -> bool {
    namespace("cgroup") == Some(INITIAL_CGROUP)
}

/// Returns whether this process is in the initial PID namespace, and `/proc` shows that: PIDs are
/// then those that the module shows.
pub fn has_initial_pids() -> bool {
    namespace("pid") == Some(INITIAL_PID) && has_own_proc()
}

/// Returns an error if it is not known which process the user means by the PID that `option` has.
pub fn check_pids(option: &str) -> Result {
    if has_own_proc() {
        return Ok(());
    }
    let why = "/proc does not show the PID namespace of this process: mount -t proc proc /proc";
    Err(Error::at(option, why))
}

/// Returns an error if `option` needs the PIDs of the initial namespace.
pub fn need_initial_pids(option: &str) -> Result {
    if has_initial_pids() {
        return Ok(());
    }
    let why = "the module shows the PIDs of the initial namespace, and this process is in another \
        one: run schedhist on the host";
    Err(Error::at(option, why))
}

pub fn note_pids() {
    if !has_initial_pids() {
        note("PIDs are shown as the initial PID namespace has them, not this one");
    }
}

/// A process, told apart from all others since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its PID in its own namespace.
    pub pid: u32,
    /// Its number in [`sys::number_of`].
    number: u64,
    /// The inode of its PID namespace.
    namespace: u64,
}

/// Whether an [`Owner`] still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Alive,
    Ended,
    /// It is in a namespace of which this process sees nothing.
    Unknown,
}

impl Owner {
    pub fn this() -> Result<Self> {
        let pid = process::id();
        let number = sys::number_of(pid).at("pidfd_open")?;
        match (number, namespace("pid")) {
            (Some(number), Some(namespace)) => Ok(Self {
                pid,
                number,
                namespace,
            }),
            _ => Err(Error::new(
                "/proc/self/ns/pid: not found: mount -t proc proc /proc",
            )),
        }
    }

    /// Parses what `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('-');
        let this = Self {
            pid: numbers.next()?.parse().ok()?,
            number: numbers.next()?.parse().ok()?,
            namespace: numbers
                .next()
                .map_or(Some(INITIAL_PID), |n| n.parse().ok())?,
        };
        // Not with further parts, nor with signs or zeros before a number.
        (this.to_string() == text).then_some(this)
    }

    /// Returns the owner of what is called `name`. Returns `None` unless that is `prefix` with an
    /// owner.
    pub fn of(name: &str, prefix: &str) -> Option<Self> {
        Self::parse(name.strip_prefix(prefix)?)
    }

    pub fn state(&self) -> State {
        let is_this = |pid| Ok(sys::number_of(pid)? == Some(self.number));
        let is_alive: std::io::Result<bool> = match namespace("pid") {
            Some(namespace) if namespace == self.namespace => is_this(self.pid),
            // Its PID is another one here, but the number is the same.
            Some(INITIAL_PID) if has_own_proc() => all_pids()
                .and_then(|mut pids| pids.try_fold(false, |found, pid| Ok(found || is_this(pid)?))),
            _ => return State::Unknown,
        };
        match is_alive {
            Ok(true) => State::Alive,
            Ok(false) => State::Ended,
            Err(_) => State::Unknown,
        }
    }
}

/// Returns the PIDs of all processes that `/proc` shows.
pub fn all_pids() -> std::io::Result<impl Iterator<Item = u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// `PID-NUMBER`, and `-NAMESPACE` unless that is the initial one.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.number)?;
        match self.namespace {
            INITIAL_PID => Ok(()),
            namespace => write!(f, "-{namespace}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let this = Owner::this().unwrap();
        assert_eq!(Owner::of(&format!("x-{this}"), "x-"), Some(this));
        for text in ["812-7", "1-4300-4026532210"] {
            assert_eq!(Owner::parse(text).unwrap().to_string(), text);
        }
        for text in " 812 812- 812-7- 812-7-1-1 812-07 +812-7 a-b".split(' ') {
            assert_eq!(Owner::parse(text), None, "{text}");
        }
    }

    #[test]
    fn states() {
        let this = Owner::this().unwrap();
        assert_eq!(this.state(), State::Alive);
        // A later process with this PID.
        let earlier = Owner {
            number: this.number - 1,
            ..this
        };
        assert_eq!(earlier.state(), State::Ended);
        let elsewhere = Owner {
            namespace: 1,
            ..this
        };
        assert_ne!(elsewhere.state(), State::Ended);
        let mut child = process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let number = sys::number_of(pid).unwrap();
        // It has ended, though its parent has not waited for it.
        while sys::number_of(pid).unwrap().is_some() {
            std::thread::yield_now();
        }
        if let Some(number) = number {
            let child = Owner {
                pid,
                number,
                ..this
            };
            assert_eq!(child.state(), State::Ended);
        }
        child.wait().unwrap();
        assert_eq!(sys::number_of(pid).unwrap(), None);
    }
}
