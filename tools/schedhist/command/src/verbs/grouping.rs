// SPDX-License-Identifier: GPL-2.0

//! The rule by which the module groups tasks, set for as long as a verb needs it.

use crate::{
    failure::{
        Failure,
        Result, //
    },
    source::Source,
    verbs::setting::Setting,
};

/// The greatest number of groups.
const MOST_GROUPS: usize = 4095;

/// How much memory the counters of groups may take, in bytes, unless the limit of groups is higher
/// already; and how much a group takes on each possible CPU.
const MEMORY: usize = 64 << 20;
const OF_GROUP: usize = 512;

/// Returns the limit of groups for a rule that makes many of them.
fn limit_for_many(cpus: usize) -> usize {
    (MEMORY / (OF_GROUP * cpus.max(1))).min(MOST_GROUPS)
}

/// Raises the limit of groups to that for many groups.
fn raise_limit(source: &Source) -> Result<Setting<'_>> {
    let most = limit_for_many(source.read()?.taken.snapshot.cpus.len());
    Setting::new(source, "group_limit", |now| {
        let is_enough = now.parse::<usize>().is_ok_and(|now| now >= most);
        Ok((!is_enough).then(|| most.to_string()))
    })
}

/// Returns whether tasks are grouped by rules that others may have added, and rely on.
fn has_rules(source: &Source) -> bool {
    let is = |name, test: fn(&str) -> bool| source.text(name).is_ok_and(|text| test(&text));
    is("group_by", |rule| rule.trim() == "list")
        && is("group_rules", |rules| {
            rules.lines().any(|line| line.starts_with("rule "))
        })
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
    pub fn new(source: &'a Source, rule: &str, fits: impl Fn(&str) -> bool) -> Result<Self> {
        let wanted = |now: &str| {
            if fits(now) {
                Ok(None)
            } else if now == "none" && source.is_live() {
                Ok(Some(rule.to_owned()))
            } else {
                Err(Failure::Error(format!(
                    "{}: tasks are grouped by '{now}' already, and '{rule}' is needed: schedhist \
                     ctl group_by none ends that",
                    source.path("group_by").display()
                )))
            }
        };
        if !source.is_live() {
            wanted(&source.groups()?.rule)?;
            return Ok(Self { _setting: None });
        }
        // A limit applies to the groups that the next write begins, so it can be restored at once.
        // Few rules make more groups than the limit usually is.
        let is_written = wanted(source.text("group_by")?.trim())?.is_some();
        let is_many = ["process", "thread"].contains(&rule);
        let limit = (is_written && is_many).then(|| raise_limit(source));
        let _limit = limit.transpose()?;
        let setting = Setting::new(source, "group_by", wanted)?;
        Ok(Self {
            _setting: Some(setting.unless(has_rules)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_for_many_groups() {
        assert_eq!(limit_for_many(4), 4095);
        assert_eq!(limit_for_many(64), 2048);
        assert_eq!(limit_for_many(256), 512);
        assert_eq!(limit_for_many(4096), 32);
    }
}
