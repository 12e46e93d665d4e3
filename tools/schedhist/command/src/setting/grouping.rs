// SPDX-License-Identifier: GPL-2.0

//! The rule by which the module groups tasks, set for as long as a verb needs it.

use std::{cell::Cell, fs, path::Path};

use crate::{
    error::{Error, Result},
    setting::{
        owner::{Owner, State},
        Setting,
    },
    source::Source,
};

/// Where cgroups of version 2 are mounted.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns whether they are mounted there.
pub fn has_cgroups() -> bool {
    Path::new(CGROUPS).join("cgroup.procs").exists()
}

/// Returns an error about `option` if they are not.
pub fn need_cgroups(option: &str) -> Result {
    match has_cgroups() {
        true => Ok(()),
        false => Err(Error::at(option, no_cgroups())),
    }
}

/// Says that they are not.
pub fn no_cgroups() -> String {
    format!("no cgroup hierarchy of version 2 is mounted at {CGROUPS}")
}

/// The names of the cgroups and rules of `run` begin so.
pub const RUN: &str = "schedhist-run-";

const MAX_GROUPS: u64 = 4095;

/// How much memory groups may take, in bytes, unless the limit is higher already; and how much
/// there is for each of them on each possible CPU: its counters take 688 bytes of that, and its
/// histograms the rest.
const MEMORY: u64 = 64 << 20;
const OF_GROUP: u64 = 1024;

/// What to do if there are not enough groups.
pub const MORE_GROUPS: &str = "schedhist ctl group_limit N, then write group_by anew";

/// What is said of an interval of groups in which `group_by` was written.
pub const ANEW: &str = "tasks were grouped anew: since then";

/// What is said of samples of a group, with the reason.
pub const NO_HISTOGRAM: &str = "are in no histogram: a group gets these a moment after its first \
     task has run, unless their memory is used up, as schedhist doctor tells";

/// How many cgroups may come while a verb runs.
const NEW_CGROUPS: u64 = 64;

/// Returns the number of groups that a rule makes, if there is no telling but that they are many.
fn groups_of(rule: &str) -> Option<u64> {
    match rule.split(' ').next() {
        Some("process") if rule != "process" => None,
        Some("process" | "thread") => Some(MAX_GROUPS),
        Some("cgroup") => {
            let path = format!("{CGROUPS}/cgroup.stat");
            let text = fs::read_to_string(path).unwrap_or_default();
            let mut lines = text.lines();
            let number = lines.find_map(|line| line.strip_prefix("nr_descendants "))?;
            Some(number.parse::<u64>().ok()?.saturating_add(NEW_CGROUPS))
        }
        _ => None,
    }
}

/// Returns how many of them may take room.
fn limit_of_groups(wanted: u64, cpus: usize) -> u64 {
    let of_group = OF_GROUP * u64::try_from(cpus).unwrap_or(u64::MAX).max(1);
    wanted.min(MEMORY / of_group).min(MAX_GROUPS)
}

fn raise<'a>(source: &'a Source, name: &str, limit: u64) -> Result<Setting<'a>> {
    Setting::new(source, name, &|now| {
        let is_enough = now == "none" || now.parse().is_ok_and(|now: u64| now >= limit);
        Ok((!is_enough).then(|| limit.to_string()))
    })
}

/// Raises the limits, if the rule needs it. They apply to the groups that the next write of
/// `group_by` begins, so they can be restored at once.
fn raise_limits<'a>(source: &'a Source, rule: &str) -> Result<Vec<Setting<'a>>> {
    let Some(groups) = groups_of(rule) else {
        return Ok(Vec::new());
    };
    let cpus = source.read()?.timed.snapshot.cpus.len();
    Ok(vec![
        raise(source, "group_limit", limit_of_groups(groups, cpus))?,
        raise(source, "group_memory_limit", MEMORY)?,
    ])
}

/// Returns the rule by which tasks are grouped, `none` if they are not.
pub fn rule_of(source: &Source) -> Result<String> {
    let groups = source.groups()?;
    Ok(groups.map_or_else(|| "none".to_owned(), |groups| groups.rule))
}

/// Returns the rules of the list, each with its name.
pub fn rules(source: &Source) -> Result<Vec<String>> {
    let text = source.text("group_rules")?;
    let rules = text.lines().filter_map(|line| line.strip_prefix("rule "));
    Ok(rules.map(str::to_owned).collect())
}

/// Returns the names of the rules of the list.
pub fn rule_names(source: &Source) -> Result<Vec<String>> {
    let name = |rule: &String| Some(rule.split(' ').next()?.to_owned());
    Ok(rules(source)?.iter().filter_map(name).collect())
}

/// Who else relies on a setting that a verb has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliance {
    None,
    /// A `run` in another container has a rule in the list.
    OfRuns,
    /// A user has added a rule to the list.
    OfUsers,
}

/// Returns who else relies on the setting `name`.
pub fn reliance(source: &Source, name: &str) -> Reliance {
    let is_list = || {
        source
            .text("group_by")
            .is_ok_and(|rule| rule.trim() == "list")
    };
    if !source.is_live() || name != "group_by" || !is_list() {
        return Reliance::None;
    }
    let (mut of_runs, mut of_users) = (false, false);
    for name in rule_names(source).unwrap_or_default() {
        match Owner::of(&name, RUN).map(|owner| owner.state()) {
            None => of_users = true,
            Some(State::Alive | State::Unknown) => of_runs = true,
            Some(State::Ended) => {}
        }
    }
    match (of_users, of_runs) {
        (true, _) => Reliance::OfUsers,
        (false, true) => Reliance::OfRuns,
        (false, false) => Reliance::None,
    }
}

/// Finds the rules of each `run` that was killed, and removes them if `removes` is true.
pub fn left(source: &Source, removes: bool) -> Vec<String> {
    let names = rule_names(source).unwrap_or_default().into_iter();
    let is_left = |name: &String| {
        Owner::of(name, RUN).is_some_and(|owner| owner.state() == State::Ended)
            && (!removes
                || source
                    .write("group_rules", &format!("remove {name}"))
                    .is_ok())
    };
    let names = names.filter(is_left);
    names
        .map(|name| format!("group_rules has {name}, by a schedhist run that was killed"))
        .collect()
}

/// A rule that holds while this exists. SIGINT, SIGTERM and SIGHUP must be blocked before: see
/// [`sys::Waiter`](crate::sys::Waiter).
#[derive(Debug)]
pub struct Grouping<'a> {
    /// `None` for a folder with copies.
    _setting: Option<Setting<'a>>,
}

impl<'a> Grouping<'a> {
    /// Makes the module group tasks by `rule`, unless it does so, or by another one that `fits`.
    ///
    /// # Errors
    ///
    /// Fails if tasks are grouped by another rule, which someone else may rely on; or if there is
    /// no such process.
    pub fn new(source: &'a Source, rule: &str, fits: &dyn Fn(&str) -> bool) -> Result<Self> {
        let wanted = |now: &str| {
            if fits(now) {
                Ok(None)
            } else if now == "none" && source.is_live() {
                Ok(Some(rule.to_owned()))
            } else {
                let why = format!(
                    "tasks are grouped by '{now}' already, and '{rule}' is needed: schedhist ctl \
                     group_by none ends that"
                );
                Err(Error::at(source.path("group_by"), why))
            }
        };
        let without = |rule: &str| wanted(rule).map(|_| Self { _setting: None });
        if !source.is_live() {
            return without(&rule_of(source)?);
        }
        loop {
            let rule_now = match source.text("group_by") {
                Ok(now) => now,
                // Under lockdown nobody can read or write it: a parameter of the module has set it.
                Err(error) => match rule_of(source) {
                    Ok(rule) if fits(&rule) => return without(&rule),
                    _ => return Err(error),
                },
            };
            let is_needed = wanted(rule_now.trim())?.is_some();
            let limits = is_needed.then(|| raise_limits(source, rule));
            let _limits = limits.transpose()?;
            let is_late = Cell::new(false);
            let setting = Setting::new(source, "group_by", &|now| {
                let rule = wanted(now)?;
                is_late.set(rule.is_some() && !is_needed);
                Ok(rule.filter(|_| !is_late.get()))
            })?;
            // Otherwise the last user of the rule has ended meanwhile, and limits must be raised.
            if !is_late.get() {
                return Ok(Self {
                    _setting: Some(setting),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_groups() {
        assert_eq!(limit_of_groups(MAX_GROUPS, 4), 4095);
        assert_eq!(limit_of_groups(MAX_GROUPS, 64), 1024);
        assert_eq!(limit_of_groups(MAX_GROUPS, 256), 256);
        assert_eq!(limit_of_groups(MAX_GROUPS, 4096), 16);
        assert_eq!(limit_of_groups(300, 64), 300);
        assert_eq!(limit_of_groups(u64::MAX, 0), 4095);
    }

    #[test]
    fn rules_that_make_many_groups() {
        assert_eq!(groups_of("process"), Some(MAX_GROUPS));
        assert_eq!(groups_of("thread"), Some(MAX_GROUPS));
        assert_eq!(groups_of("thread 812"), Some(MAX_GROUPS));
        assert_eq!(groups_of("process 812"), None);
        assert_eq!(groups_of("list"), None);
    }
}
