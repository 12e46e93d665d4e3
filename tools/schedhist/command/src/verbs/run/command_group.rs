// SPDX-License-Identifier: GPL-2.0

//! A group of its own for a command and its children, or for what `run` attaches to: a cgroup, or a
//! rule in the module's list.

use std::{
    cell::Cell,
    ffi::OsStr,
    fs::{self, OpenOptions},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process::Command,
};

use schedhist_core::engine::format::Escaped;

use super::target::Target;
use crate::{
    error::{noted, At, Error, Result},
    output::note,
    setting::{
        grouping::{has_cgroups, no_cgroups, rule_names, rule_of, Grouping, CGROUPS, RUN},
        names,
        owner::{self, Owner, State},
    },
    source::Source,
    sys::{self, Entry},
};

/// A group that exists for as long as this does.
#[derive(Debug)]
pub struct CommandGroup<'a> {
    /// The name of the group, as the module's files show it.
    pub name: String,
    way: Way<'a>,
    _grouping: Grouping<'a>,
}

/// How tasks get into the group.
#[derive(Debug)]
enum Way<'a> {
    Cgroup(Cgroup),
    /// By a rule in `group_rules`, which each command adds for itself.
    Rule {
        source: &'a Source,
        is_added: Cell<bool>,
    },
    /// They are in groups already.
    Is(&'a Target),
}

impl<'a> CommandGroup<'a> {
    /// Makes the module group tasks by cgroup, and creates a cgroup below that of this process. If
    /// tasks are grouped by a list of rules, or if there are no cgroups of version 2, uses a rule
    /// of the list. Returns why neither is possible, otherwise. Signals must be blocked before.
    pub fn new(source: &'a Source) -> Result<Self> {
        match live_rule(source)?.as_str() {
            "list" => Self::with_rule(source),
            "none" => Self::with_cgroup(source)
                .or_else(|error| Self::with_rule(source).map_err(|_| error)),
            _ => Self::with_cgroup(source),
        }
    }

    /// Uses the groups of `target`, if tasks are grouped so that it has some; else a rule of the
    /// list. Signals must be blocked before.
    pub fn attach(source: &'a Source, target: &'a Target) -> Result<Self> {
        let rule = live_rule(source)?;
        if target.has_groups(&rule) {
            return Ok(Self {
                name: String::new(),
                way: Way::Is(target),
                _grouping: Grouping::new(source, &rule, &|rule| target.has_groups(rule))?,
            });
        }
        let this = Self::with_rule(source)?;
        let rule = [format!("add {} ", this.name).as_bytes(), &target.matching()].concat();
        source.write("group_rules", &rule)?;
        if let Way::Rule { is_added, .. } = &this.way {
            is_added.set(true);
        }
        Ok(this)
    }

    fn with_cgroup(source: &'a Source) -> Result<Self> {
        // The names of cgroups can be any bytes.
        let own = fs::read("/proc/self/cgroup").unwrap_or_default();
        let mut lines = own.split(|byte| *byte == b'\n');
        let Some(own) = lines.find_map(|line| line.strip_prefix(b"0::/")) else {
            return Err(Error::new("there is no cgroup hierarchy of version 2"));
        };
        if !has_cgroups() {
            return Err(Error::new(no_cgroups()));
        }
        // Another cgroup namespace than that of this process may be mounted.
        let parent = Path::new(CGROUPS).join(OsStr::from_bytes(own));
        let this = std::process::id().to_string();
        let procs = parent.join("cgroup.procs");
        let procs = fs::read_to_string(&procs).at(procs)?;
        if !procs.lines().any(|pid| pid == this) {
            let why = format!("{} is not the cgroup of this process", parent.display());
            return Err(Error::new(why));
        }
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            // Its run was killed, or has left a daemon there, which keeps it until it ends.
            let owner = Owner::of(&entry.file_name().to_string_lossy(), RUN);
            if owner.is_some_and(|owner| owner.state() == State::Ended) {
                let _ = fs::remove_dir(entry.path());
            }
        }
        let path = parent.join(format!("{RUN}{}", Owner::this()?));
        let name = &path.as_os_str().as_bytes()[CGROUPS.len()..];
        Ok(Self {
            name: Escaped(name).to_string(),
            way: Way::Cgroup(Cgroup::new(path.clone())?),
            _grouping: Grouping::new(source, "cgroup", &|rule| rule == "cgroup")?,
        })
    }

    fn with_rule(source: &'a Source) -> Result<Self> {
        let name = format!("{RUN}{}", Owner::this()?);
        let grouping = Grouping::new(source, "list", &|rule| rule == "list")?;
        let others = rule_names(source)?
            .iter()
            .filter(|name| is_in_use(name))
            .count();
        if others != 0 {
            note(format!(
                "tasks that match one of the {others} earlier rules in group_rules are counted \
                 there, and not here"
            ));
        }
        Ok(Self {
            name,
            way: Way::Rule {
                source,
                is_added: Cell::new(false),
            },
            _grouping: grouping,
        })
    }

    /// Returns whether a group of the module has tasks of the command, or of the target.
    pub fn has(&self, group: &str) -> bool {
        // The module shows paths of the initial cgroup namespace: this one's may begin further
        // down. Nobody else has a cgroup of this name.
        let at = match &self.way {
            Way::Is(target) => return target.has(group),
            Way::Cgroup(_) if !owner::has_initial_cgroups() => group.find(&self.name),
            _ => Some(0),
        };
        // The command may create cgroups below its own.
        at.is_some_and(|at| names::is_within(&group[at..], &self.name))
    }

    /// Makes `command` enter the group before it executes its program.
    pub fn enter(&self, command: &mut Command) -> Result {
        let (path, entry) = match &self.way {
            Way::Cgroup(Cgroup(path)) => (path.join("cgroup.procs"), Entry::Zero),
            Way::Rule { source, .. } => {
                let rule = format!("add {} children ", self.name);
                (source.path("group_rules"), Entry::WithPid(rule))
            }
            Way::Is(_) => return Ok(()),
        };
        sys::write_first(command, writable(&path)?, entry);
        Ok(())
    }

    /// Must be called once the command executes its program. Notes if it is not in the group.
    pub fn has_entered(&self) {
        let Way::Rule { source, is_added } = &self.way else {
            return;
        };
        is_added.set(rule_names(source).is_ok_and(|names| names.contains(&self.name)));
        if !is_added.get() {
            note(format!(
                "the rule {} could not be added: the kernel log says why (dmesg)",
                self.name
            ));
        }
    }

    /// Must be called when the command has ended: the next one enters anew.
    pub fn leave(&self) {
        if let Way::Rule { source, is_added } = &self.way {
            if is_added.take() {
                let rule = format!("remove {}", self.name);
                noted(source.write("group_rules", &rule));
            }
        }
    }
}

impl Drop for CommandGroup<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns whether tasks may match a rule, by its name: not that of a `run` that was killed.
fn is_in_use(rule: &str) -> bool {
    Owner::of(rule, RUN).is_none_or(|owner| owner.state() != State::Ended)
}

/// Returns the rule by which the module itself groups tasks.
fn live_rule(source: &Source) -> Result<String> {
    match source.is_live() {
        true => rule_of(source),
        false => Err(Error::new("these are copies of the module's files")),
    }
}

/// The folder of a cgroup that is removed when this is dropped.
#[derive(Debug)]
struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a cgroup. Fails if no process can enter it, as below a threaded one.
    fn new(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path).at(&path)?;
        let this = Self(path);
        let procs = this.0.join("cgroup.procs");
        sys::try_entry(writable(&procs)?).at(procs)?;
        Ok(this)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            note(Error::at(format!("{} stays", self.0.display()), error));
        }
    }
}

fn writable(path: &Path) -> Result<OwnedFd> {
    Ok(OpenOptions::new().write(true).open(path).at(path)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_in_use() {
        let this = Owner::this().unwrap();
        assert!(is_in_use("theirs") && is_in_use(&format!("{RUN}x")));
        assert!(is_in_use(&format!("{RUN}{this}")));
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let number = sys::number_of(child.id()).unwrap().unwrap();
        let of_child = this.to_string();
        let (_, rest) = of_child.split_once('-').unwrap();
        let namespace = rest
            .split_once('-')
            .map_or(String::new(), |(_, n)| format!("-{n}"));
        let rule = format!("{RUN}{}-{number}{namespace}", child.id());
        assert!(is_in_use(&rule));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_in_use(&rule));
    }
}
