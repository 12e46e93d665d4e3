// SPDX-License-Identifier: GPL-2.0

//! What `run` attaches to, instead of running a command: processes, or a cgroup.

use std::{
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use schedhist_core::engine::{format::Escaped, group::rule::Pids};

use crate::{
    cli::Run,
    error::{Error, Result},
    setting::{
        grouping::{need_cgroups, CGROUPS},
        names,
        owner::{self, has_initial_pids},
    },
};

#[derive(Debug)]
pub enum Target {
    Processes(Vec<Process>),
    /// By its path below [`CGROUPS`].
    Cgroup(PathBuf),
}

#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// As the module's files show it, when `run` attached.
    name: String,
    /// Is ready when it has ended: this process, and no later one of this PID.
    fd: OwnedFd,
}

impl Process {
    fn new(pid: u32) -> Result<Self> {
        let fd = names::process(pid)?;
        let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = Escaped(comm.strip_suffix(b"\n").unwrap_or(&comm)).to_string();
        Ok(Self { pid, name, fd })
    }
}

impl Target {
    /// Returns what the user has named, if that is there; `None` if it is a command.
    pub fn new(args: &Run) -> Result<Option<Self>> {
        let (path, option) = match (&args.cgroup, &args.unit) {
            (Some(path), _) => (names::cgroup(path, "--cgroup")?, "--cgroup"),
            (None, Some(name)) => {
                let wanted = name_of_unit(name)?;
                need_cgroups("--unit")?;
                (unit(Path::new(CGROUPS), &wanted)?, "--unit")
            }
            (None, None) if args.pid.is_empty() => return Ok(None),
            (None, None) => {
                let mut all: Vec<Process> = Vec::new();
                for word in &args.pid {
                    let (others, mut has_ended) = (all.len(), None);
                    for pid in names::pids(word)? {
                        match Process::new(pid) {
                            Ok(one) => all.push(one),
                            Err(why) => has_ended = Some(why),
                        }
                    }
                    // Of several that are called so, some may have ended.
                    if let Some(why) = has_ended.filter(|_| all.len() == others) {
                        return Err(why);
                    }
                }
                all.sort_by_cached_key(|one| one.pid);
                all.dedup_by_key(|one| one.pid);
                if all.len() > Pids::MAX {
                    return Err(Error::at(
                        "-p",
                        format!("these are {} processes, 64 at most", all.len()),
                    ));
                }
                return Ok(Some(Self::Processes(all)));
            }
        };
        need_cgroups(option)?;
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
            Self::Processes(all) => {
                let name = |one: &Process| format!("{} ({})", one.pid, one.name);
                let names: Vec<_> = all.iter().map(name).collect();
                format!("process {}", names.join(", "))
            }
        }
    }

    /// Returns what a rule in `group_rules` has to match.
    pub fn matching(&self) -> Vec<u8> {
        match self {
            Self::Cgroup(path) => [b"cgroup /", path.as_os_str().as_bytes()].concat(),
            Self::Processes(all) => {
                let pids: Vec<_> = all.iter().map(|one| one.pid.to_string()).collect();
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
            Self::Processes(all) => {
                let has = |one: &Process| names::has_process(rule, one.pid);
                has_initial_pids() && all.iter().all(has)
            }
        }
    }

    /// Returns whether a group of such a rule is one of them.
    pub fn has(&self, group: &str) -> bool {
        match self {
            Self::Cgroup(path) => names::is_within(group, &names::shown(path)),
            Self::Processes(all) => {
                let pid = group.split_once(':').and_then(|(pid, _)| pid.parse().ok());
                pid.is_some_and(|pid: u32| all.iter().any(|one| one.pid == pid))
            }
        }
    }

    /// Returns what is ready when a process has ended; nothing of a cgroup, which may get new ones.
    pub fn processes(&self) -> Option<Vec<&OwnedFd>> {
        match self {
            Self::Cgroup(_) => None,
            Self::Processes(all) => Some(all.iter().map(|one| &one.fd).collect()),
        }
    }
}

/// The endings of the names of units that have cgroups.
const UNITS: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];

fn wrong_unit<T>(name: &str, why: impl Into<String>) -> Result<T> {
    Err(Error::at(format!("--unit {name}"), why.into()))
}

/// Returns the whole name of a unit, which is that of a service unless it ends in another type.
fn name_of_unit(name: &str) -> Result<String> {
    if name.contains('/') {
        return wrong_unit(name, "this is no name of a unit; --cgroup takes a path");
    }
    Ok(match UNITS.iter().any(|kind| name.ends_with(kind)) {
        true => name.to_owned(),
        false => format!("{name}.service"),
    })
}

/// Returns the cgroup of a unit of systemd below a folder, which is called as the unit is.
fn unit(cgroups: &Path, wanted: &str) -> Result<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![cgroups.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in entries {
            match entry.file_name() == wanted {
                true => found.push(entry.path()),
                false => folders.push(entry.path()),
            }
        }
    }
    found.sort_unstable();
    let below = |path: &PathBuf| path.strip_prefix(cgroups).unwrap_or(path).to_owned();
    match &found[..] {
        [] => wrong_unit(
            wanted,
            format!("no cgroup is called {wanted}: is the unit running?"),
        ),
        [path] => Ok(below(path)),
        several => {
            let names: Vec<_> = several
                .iter()
                .map(|path| names::shown(&below(path)))
                .collect();
            let names = names.join(", ");
            let why = format!("several cgroups are: choose by --cgroup among {names}");
            wrong_unit(wanted, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsStr,
        io::Read,
        process::{Command, Stdio},
    };

    use super::*;
    use crate::sys;

    #[test]
    fn groups_of_targets() {
        let web = Target::Cgroup("system.slice/web.service".into());
        assert!(web.has("/system.slice/web.service") && web.has("/system.slice/web.service/a"));
        assert!(!web.has("/system.slice/web.services") && !web.has("/system.slice"));
        assert!(Target::Cgroup("".into()).has("/") && Target::Cgroup("".into()).has("/a"));
        assert_eq!(web.matching(), b"cgroup /system.slice/web.service");
        let process = |pid| Process {
            pid,
            name: "a".to_owned(),
            fd: fs::File::open("/dev/null").unwrap().into(),
        };
        let two = Target::Processes(vec![process(8), process(12)]);
        assert_eq!(two.title(), "process 8 (a), 12 (a)");
        assert!(two.has("8:a") && two.has("12:8:b") && !two.has("123:a") && !two.has("other"));
        assert_eq!(two.matching(), b"pid 8 12");
    }

    #[test]
    fn processes() {
        // Any bytes, shown as the module shows them.
        let root = std::env::temp_dir().join(format!("schedhist-names-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let shell = root.join(OsStr::from_bytes(b"caf\xe9"));
        std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
        let mut command = Command::new(shell);
        let mut child = command
            .args(["-c", "echo; read x"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It has its name once it runs, which may be after spawn() returns.
        let said = child.stdout.as_mut().unwrap();
        said.read_exact(&mut [0]).unwrap();
        fs::remove_dir_all(root).unwrap();
        let (pid, wanted) = (child.id(), "caf\\xe9");
        let target = Target::Processes(vec![Process::new(pid).unwrap()]);
        assert_eq!(target.title(), format!("process {pid} ({wanted})"));
        child.kill().unwrap();
        child.wait().unwrap();
        // It keeps its name, and is not mistaken for a later one of this PID.
        assert_eq!(target.title(), format!("process {pid} ({wanted})"));
        assert!(sys::has_ended(target.processes().unwrap()[0]).unwrap());
        // One that has ended, and a thread.
        let (send, wait) = std::sync::mpsc::channel::<()>();
        let (told, tid) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            told.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            let _ = wait.recv();
        });
        for pid in [pid, tid.recv().unwrap()] {
            let why = Process::new(pid).unwrap_err().to_string();
            assert_eq!(why, format!("-p {pid}: there is no such process"));
        }
        drop(send);
        thread.join().unwrap();
    }

    #[test]
    fn units() {
        let root = std::env::temp_dir().join(format!("schedhist-units-{}", std::process::id()));
        for path in [
            "a.slice/web.service/worker",
            "a.slice/b.slice/c.scope",
            "d.slice/c.scope",
            "e.slice/my.app.service",
        ] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let of = |name| unit(&root, &name_of_unit(name)?);
        for name in ["web", "web.service"] {
            assert_eq!(of(name).unwrap(), Path::new("a.slice/web.service"));
        }
        // A name may have dots, as that of an instance may.
        for name in ["my.app", "my.app.service"] {
            assert_eq!(of(name).unwrap(), Path::new("e.slice/my.app.service"));
        }
        let why = |name| of(name).unwrap_err().to_string();
        assert!(why("c.scope").contains("among /a.slice/b.slice/c.scope, /d.slice/c.scope"));
        assert!(why("worker").contains("no cgroup is called worker.service"));
        assert!(why("a.slice/web.service").contains("no name of a unit"));
        fs::remove_dir_all(root).unwrap();
    }
}
