// SPDX-License-Identifier: GPL-2.0

//! How users name processes and cgroups, and which rules have groups for them.

use std::{
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

use schedhist_core::engine::format::Escaped;

use crate::{
    error::{At, Error, Result},
    setting::{
        grouping::{has_cgroups, CGROUPS},
        owner,
    },
    sys,
};

/// Returns the pidfd of a process, which is ready once that has ended. A thread is none.
pub fn process(pid: u32) -> Result<OwnedFd> {
    owner::check_pids("-p")?;
    let option = || format!("-p {pid}");
    let process = sys::process(pid).map_err(|why| Error::at(option(), why))?;
    let process = process.filter(|process| !sys::has_ended(process).unwrap_or_default());
    process.ok_or_else(|| Error::at(option(), "there is no such process"))
}

/// Returns the PIDs of the processes, but this one, that are called so, or of the one of this PID.
pub fn pids(word: &str) -> Result<Vec<u32>> {
    if let Ok(pid) = word.parse() {
        return Ok(vec![pid]);
    }
    // As much as the kernel keeps of it.
    let name = &word.as_bytes()[..word.len().min(15)];
    let is_so = |pid: &u32| {
        let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.strip_suffix(b"\n") == Some(name) && *pid != std::process::id()
    };
    let found: Vec<_> = owner::all_pids().at("/proc")?.filter(is_so).collect();
    match found.is_empty() {
        true => Err(Error::at(format!("-p {word}"), "no process is called so")),
        false => Ok(found),
    }
}

/// Returns the PID of the one process that is meant.
pub fn pid(word: &str) -> Result<u32> {
    match pids(word)?[..] {
        [pid] => Ok(pid),
        ref several => {
            let all: Vec<_> = several.iter().map(u32::to_string).collect();
            let why = format!("several processes are called so: {}", all.join(", "));
            Err(Error::at(format!("-p {word}"), why))
        }
    }
}

/// Returns whether a rule has a group for this process alone.
pub fn has_process(rule: &str, pid: u32) -> bool {
    let pid = pid.to_string();
    let mut words = rule.split(' ');
    words.next() == Some("process") && (rule == "process" || words.any(|word| word == pid))
}

/// Returns the path below [`CGROUPS`] of a cgroup that is given by that or by its folder.
pub fn cgroup(path: &Path, option: &str) -> Result<PathBuf> {
    // Relative to where the user is: no name has these.
    let is_relative = |part| matches!(part, Component::CurDir | Component::ParentDir);
    let folder = match path.components().any(is_relative) {
        true => fs::canonicalize(path).at(path)?,
        false => path.to_owned(),
    };
    if folder != path && !folder.starts_with(CGROUPS) {
        let why = format!(
            "{} is no cgroup: these are below {CGROUPS}",
            folder.display()
        );
        return Err(Error::at(format!("{option} {}", path.display()), why));
    }
    let below = folder.strip_prefix(CGROUPS).unwrap_or(&folder);
    Ok(below.iter().filter(|part| *part != "/").collect())
}

/// Returns an error if there is no such cgroup; `path` is that below [`CGROUPS`].
pub fn check_cgroup(path: &Path, option: &str) -> Result {
    match has_cgroups() && !Path::new(CGROUPS).join(path).is_dir() {
        false => Ok(()),
        true => {
            let why = "there is no such cgroup";
            Err(Error::at(format!("{option} {}", shown(path)), why))
        }
    }
}

/// Returns the name of the group of a cgroup, as the module's files show it.
pub fn shown(path: &Path) -> String {
    format!("/{}", Escaped(path.as_os_str().as_bytes()))
}

/// Returns whether a rule has groups for this cgroup and those below it alone:
/// `cgroup [under PATH] [depth N]`.
pub fn tells_apart(rule: &str, name: &str) -> bool {
    let (mut under, mut depth) = ("", usize::MAX);
    let mut words = rule.split(' ');
    if words.next() != Some("cgroup") {
        return false;
    }
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        match (key, value.parse()) {
            ("under", _) => under = value,
            ("depth", Ok(levels)) => depth = levels,
            _ => return false,
        }
    }
    let below = name.strip_prefix(under).unwrap_or_default();
    let levels = below.split('/').filter(|part| !part.is_empty()).count();
    let is_root = name == "/" && under.is_empty();
    is_root || (below.starts_with('/') && (1..=depth).contains(&levels))
}

/// Returns whether a group is of this cgroup, or of one below it, by their paths.
pub fn is_within(group: &str, cgroup: &str) -> bool {
    let below = group.strip_prefix(cgroup.trim_end_matches('/'));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cgroups() {
        for (path, name) in [
            ("/", "/"),
            ("/a.slice", "/a.slice"),
            ("a.slice//b c/", "/a.slice/b c"),
            ("/sys/fs/cgroup", "/"),
            ("/sys/fs/cgroup//a.slice/b/", "/a.slice/b"),
            ("/sys/fs/cgroups", "/sys/fs/cgroups"),
            ("/..a", "/..a"),
        ] {
            assert_eq!(shown(&cgroup(path.as_ref(), "-c").unwrap()), name, "{path}");
        }
        for path in ["..", ".", "/sys/fs/cgroup/../..", "/no/such/.."] {
            assert!(cgroup(path.as_ref(), "-c").is_err(), "{path}");
        }
    }

    #[test]
    fn rules_that_have_a_process() {
        for (rule, wanted) in [
            ("process", true),
            ("process 8 12", true),
            ("process 8 1", false),
            ("process 8 123", false),
            ("thread 12", false),
            ("none", false),
        ] {
            assert_eq!(has_process(rule, 12), wanted, "{rule}");
        }
    }

    #[test]
    fn rules_that_tell_a_cgroup_apart() {
        for (rule, name, wanted) in [
            ("cgroup", "/a.service", true),
            ("cgroup", "/", true),
            ("cgroup depth 1", "/a.service", true),
            ("cgroup depth 1", "/a.slice/b.service", false),
            ("cgroup under /a.slice", "/a.slice/b.service", true),
            ("cgroup under /a.slice", "/a.slice", false),
            ("cgroup under /a.slice", "/a.slices/b", false),
            ("cgroup under /a.slice depth 1", "/a.slice/b/c", false),
            ("process", "/a.service", false),
            ("none", "/a.service", false),
        ] {
            assert_eq!(tells_apart(rule, name), wanted, "{rule}: {name}");
        }
    }
}
