// SPDX-License-Identifier: GPL-2.0

//! What `run` attaches to, instead of running a command: processes, or a cgroup.

use std::{
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use crate::{
    cli::Run,
    error::{At, Error, Result},
    output::printable,
    setting::{
        grouping::CGROUPS,
        names,
        owner::{self, has_initial_pids},
    },
    sys,
};

#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    Processes(Vec<u32>),
    /// By its path below [`CGROUPS`].
    Cgroup(PathBuf),
}

impl Target {
    /// Returns what the user has named, if that is there; `None` if it is a command.
    pub fn new(args: &Run) -> Result<Option<Self>> {
        let (path, option) = match (&args.cgroup, &args.unit) {
            (Some(path), _) => (names::cgroup(path, "--cgroup")?, "--cgroup"),
            (None, Some(name)) => (unit(Path::new(CGROUPS), name)?, "--unit"),
            (None, None) if args.pid.is_empty() => return Ok(None),
            (None, None) => {
                let pids = args.pid.clone();
                pids.iter().try_for_each(|pid| names::check_process(*pid))?;
                return Ok(Some(Self::Processes(pids)));
            }
        };
        names::check_cgroup(&path, option)?;
        Ok(Some(Self::Cgroup(path)))
    }

    /// Returns what the samples are of, in a word.
    pub fn whose(&self) -> &'static str {
        match self {
            Self::Processes(_) => "process",
            Self::Cgroup(_) => "cgroup",
        }
    }

    /// Returns what it is called, to be shown.
    pub fn title(&self) -> String {
        match self {
            Self::Cgroup(path) => format!("cgroup {}", names::shown(path)),
            Self::Processes(pids) => {
                let name = |pid: &u32| {
                    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                    format!("{pid} ({})", printable(comm.trim_end_matches('\n')))
                };
                let names: Vec<_> = pids.iter().map(name).collect();
                format!("process {}", names.join(", "))
            }
        }
    }

    /// Returns what a rule in `group_rules` has to match.
    pub fn matching(&self) -> Vec<u8> {
        match self {
            Self::Cgroup(path) => [b"cgroup /", path.as_os_str().as_bytes()].concat(),
            Self::Processes(pids) => {
                let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
                format!("pid {}", pids.join(" ")).into_bytes()
            }
        }
    }

    /// Returns whether a rule of `group_by` has groups of these tasks alone, under names that this
    /// process knows.
    pub fn has_groups(&self, rule: &str) -> bool {
        match self {
            Self::Cgroup(path) => {
                owner::has_initial_cgroups() && names::tells_apart(rule, &names::shown(path))
            }
            Self::Processes(pids) => {
                let has = |pid: &u32| names::has_process(rule, *pid);
                has_initial_pids() && pids.iter().all(has)
            }
        }
    }

    /// Returns whether a group of such a rule is one of them.
    pub fn has(&self, group: &str) -> bool {
        match self {
            Self::Cgroup(path) => {
                let name = names::shown(path);
                let below = group.strip_prefix(name.trim_end_matches('/'));
                below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
            }
            Self::Processes(pids) => {
                let pid = group.split_once(':').map(|(pid, _)| pid.parse());
                pid.is_some_and(|pid| pid.is_ok_and(|pid| pids.contains(&pid)))
            }
        }
    }

    /// Returns what is ready when a process has ended; nothing of a cgroup, which may get new ones.
    pub fn processes(&self) -> Result<Option<Vec<OwnedFd>>> {
        match self {
            Self::Cgroup(_) => Ok(None),
            Self::Processes(pids) => {
                let open = |pid: &u32| sys::process(*pid).at(format!("-p {pid}")).transpose();
                Ok(Some(pids.iter().filter_map(open).collect::<Result<_>>()?))
            }
        }
    }
}

/// Returns the cgroup of a unit of systemd below a folder, which is called as the unit is. A name
/// without an ending is that of a service.
fn unit(cgroups: &Path, name: &str) -> Result<PathBuf> {
    let wanted = match name.contains('.') {
        true => name.to_owned(),
        false => format!("{name}.service"),
    };
    let wrong = |why: String| Err(Error::at(format!("--unit {name}"), why));
    if wanted.contains('/') {
        return wrong("this is no name of a unit; --cgroup takes a path".to_owned());
    }
    let (mut found, mut folders) = (Vec::new(), vec![cgroups.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in entries {
            match entry.file_name() == *wanted {
                true => found.push(entry.path()),
                false => folders.push(entry.path()),
            }
        }
    }
    found.sort_unstable();
    let below = |path: &PathBuf| path.strip_prefix(cgroups).unwrap_or(path).to_owned();
    match &found[..] {
        [] => wrong(format!(
            "no cgroup is called {wanted}: is the unit running?"
        )),
        [path] => Ok(below(path)),
        several => {
            let names: Vec<_> = { several.iter() }
                .map(|path| names::shown(&below(path)))
                .collect();
            let names = names.join(", ");
            wrong(format!(
                "several cgroups are: choose by --cgroup among {names}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_targets() {
        let web = Target::Cgroup("system.slice/web.service".into());
        assert!(web.has("/system.slice/web.service") && web.has("/system.slice/web.service/a"));
        assert!(!web.has("/system.slice/web.services") && !web.has("/system.slice"));
        assert!(Target::Cgroup("".into()).has("/") && Target::Cgroup("".into()).has("/a"));
        assert_eq!(web.matching(), b"cgroup /system.slice/web.service");
        let two = Target::Processes(vec![8, 12]);
        assert!(two.has("8:a") && two.has("12:8:b") && !two.has("123:a") && !two.has("other"));
        assert_eq!(two.matching(), b"pid 8 12");
    }

    #[test]
    fn units() {
        let root = std::env::temp_dir().join(format!("schedhist-units-{}", std::process::id()));
        for path in [
            "a.slice/web.service/worker",
            "a.slice/b.slice/c.scope",
            "d.slice/c.scope",
        ] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for name in ["web", "web.service"] {
            assert_eq!(unit(&root, name).unwrap(), Path::new("a.slice/web.service"));
        }
        let why = |name| unit(&root, name).unwrap_err().to_string();
        assert!(why("c.scope").contains("among /a.slice/b.slice/c.scope, /d.slice/c.scope"));
        assert!(why("worker").contains("no cgroup is called worker.service"));
        assert!(why("a.slice/web.service").contains("no name of a unit"));
        fs::remove_dir_all(root).unwrap();
    }
}
