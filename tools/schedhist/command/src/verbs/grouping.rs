// SPDX-License-Identifier: GPL-2.0

//! The rule by which the module groups tasks, set for as long as a verb needs it.
//!
//! Several programs may need a rule at once. Each holds a shared lock while it does; the last one
//! restores `none`. A second lock makes each change of that state one step.

use std::fs::{
    self,
    File, //
};

use crate::{
    failure::{
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

/// Shared by all users of a rule. Its text is the rule that one of them has written.
const USERS: &str = "/run/schedhist-users.lock";

/// The greatest number of groups.
const MOST_GROUPS: usize = 4095;

/// How much memory the counters of groups may take, in bytes, unless the limit of groups is higher
/// already; and how much a group takes on each possible CPU.
const MEMORY: usize = 64 << 20;
const OF_GROUP: usize = 512;

/// Returns the limit of groups for a rule that makes many of them.
fn limit_for_many(cpus: usize, now: &str) -> usize {
    let fit = MEMORY / (OF_GROUP * cpus.max(1));
    let now = now.trim().parse().unwrap_or_default();
    fit.max(now).min(MOST_GROUPS)
}

/// A rule that holds while this exists. SIGINT, SIGTERM and SIGHUP must be blocked before: see
/// [`sys::Waiter`].
#[derive(Debug)]
pub struct Grouping<'a> {
    source: &'a Source,
    /// `None` for a folder with copies.
    users: Option<File>,
}

impl<'a> Grouping<'a> {
    /// Makes the module group tasks by `rule`, unless it does so, or by another one that `fits`.
    ///
    /// # Errors
    ///
    /// Fails if tasks are grouped by another rule, which someone else may rely on; or if there is
    /// no such process.
    pub fn new(source: &'a Source, rule: &str, fits: impl Fn(&str) -> bool) -> Result<Self> {
        let other = |now: &str| {
            Failure::Error(format!(
                "{}: tasks are grouped by '{now}' already, and '{rule}' is needed: schedhist ctl \
                 group_by none ends that",
                source.path("group_by").display()
            ))
        };
        if !source.is_live() {
            let text = source.text("groups")?;
            let now = text.lines().find_map(|line| line.strip_prefix("group_by "));
            let now = now.unwrap_or_default();
            let grouping = Self {
                source,
                users: None,
            };
            return if fits(now) {
                Ok(grouping)
            } else {
                Err(other(now))
            };
        }
        let now = || -> Result<String> { Ok(source.text("group_by")?.trim().to_owned()) };
        // First, as it tells whether there is a module, and who may use it.
        now()?;
        let _change = locks::change()?;
        let rule_now = now()?;
        if !fits(&rule_now) && rule_now != "none" {
            return Err(other(&rule_now));
        }
        let users = locks::locked(USERS, Lock::Shared)?;
        if !fits(&rule_now) {
            // A limit applies to the groups that the next write begins, so it can be restored at
            // once. Few rules make more groups than the limit usually is.
            let many = ["process", "thread"].contains(&rule);
            let limit = source.text("group_limit")?;
            if many {
                let cpus = source.read()?.taken.snapshot.cpus.len();
                let most = limit_for_many(cpus, &limit);
                source.write("group_limit", &most.to_string())?;
            }
            let written = source.write("group_by", rule);
            if many {
                source.write("group_limit", limit.trim())?;
            }
            written?;
            let written = now()?;
            fs::write(USERS, &written).map_err(|error| Failure::at(USERS, error))?;
        }
        Ok(Self {
            source,
            users: Some(users),
        })
    }
}

impl Drop for Grouping<'_> {
    fn drop(&mut self) {
        let Some(users) = &self.users else { return };
        let Ok(_change) = locks::change() else {
            return;
        };
        // Only the last user gets it.
        if !sys::lock(users, Lock::ExclusiveNow) {
            return;
        }
        let written = fs::read_to_string(USERS).unwrap_or_default();
        let now = self.source.text("group_by").unwrap_or_default();
        // Others may have added rules to the list meanwhile, and rely on them.
        let is_used = written == "list"
            && self
                .source
                .text("group_rules")
                .is_ok_and(|rules| rules.lines().any(|line| line.starts_with("rule ")));
        if !written.is_empty() && written == now.trim() && !is_used {
            let _ = self.source.write("group_by", "none");
        }
        let _ = fs::write(USERS, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_for_many_groups() {
        assert_eq!(limit_for_many(4, "255\n"), 4095);
        assert_eq!(limit_for_many(64, "255\n"), 2048);
        assert_eq!(limit_for_many(256, "255\n"), 512);
        assert_eq!(limit_for_many(4096, "255\n"), 255);
        assert_eq!(limit_for_many(256, "4000\n"), 4000);
    }
}
