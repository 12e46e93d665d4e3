// SPDX-License-Identifier: GPL-2.0

//! `group_by`, `group_rules`, `group_limit`, `group_memory_limit`, `groups`, `group_summary`,
//! `group_tasks` and `group_hist/METRIC`.

use core::fmt;

use kernel::prelude::*;

use super::{
    Amount,
    Control,
    Setting,
    View, //
};
use crate::{
    boundary::{
        abstractions::{
            local_clock,
            Text, //
        },
        log,
        params, //
    },
    engine::{
        format::{
            groups,
            input,
            Head, //
        },
        group::{
            Command,
            GroupMetric,
            Pattern,
            Rule, //
        },
        switch::Waiters, //
    },
    groups::Limits,
    in_progress::InProgress,
    monitor::Monitor,
    reading::Reading,
    recorder::Member, //
};

/// The rule by which tasks are grouped.
pub(super) struct GroupBy;

impl Control for GroupBy {
    const EXPECTED: &'static str = Rule::EXPECTED;
    const MAX_LEN: usize = params::GROUP_BY_SIZE;
    type Value<'a> = Rule<'a>;

    fn parse<'a>(&self, input: &'a [u8]) -> Option<Rule<'a>> {
        Rule::parse(input)
    }

    fn set(&self, monitor: &Monitor, rule: Rule<'_>) -> Result {
        monitor
            .set_groups(rule)
            .inspect_err(|error| group_error(rule, *error))
    }
}

/// Logs why a rule that was parsed was refused.
pub(crate) fn group_error(rule: Rule<'_>, error: Error) {
    let names = match rule {
        Rule::Cgroup { under, .. } => under,
        Rule::Process(pids) | Rule::Thread(pids) => pids.text(),
        Rule::Comm => b"comm",
        Rule::List => b"list",
        Rule::None => b"none",
    };
    let why = match error {
        ENOENT => "no such cgroup in the default hierarchy (v2)",
        ESRCH => "no such process",
        ENOMEM => "no memory for the counters of as many groups, or none within group_memory_limit",
        _ => return,
    };
    log::refused("group_by", names, format_args!("{why}"));
}

impl Setting for GroupBy {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        Name(reading)
    }
}

pub(super) struct Name<'a>(pub(super) &'a Reading);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.setup.groups {
            Some(groups) => f.write_str(groups.text()),
            None => f.write_str("none"),
        }
    }
}

/// The groups: counters, quantiles, and who keeps them waiting.
pub(super) struct Groups;

/// The list of rules. What is written changes it.
pub(super) struct Rules;

impl View for Rules {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        groups::rules_head(out)?;
        if let Some(all) = &reading.setup.groups {
            all.for_each_rule(|rule| Ok(groups::rule(out, rule)?))?;
        }
        Ok(())
    }
}

impl Control for Rules {
    const EXPECTED: &'static str = Command::EXPECTED;
    const MAX_LEN: usize = params::GROUP_BY_SIZE + Command::MAX_NAME;
    type Value<'a> = Command<'a>;

    fn parse<'a>(&self, input: &'a [u8]) -> Option<Command<'a>> {
        Command::parse(input)
    }

    fn set(&self, monitor: &Monitor, command: Command<'_>) -> Result {
        monitor
            .change_rules(command)
            .inspect_err(|error| rule_error(command, *error))
    }
}

/// Logs why a command that was parsed was refused.
pub(crate) fn rule_error(command: Command<'_>, error: Error) {
    let (name, is_cgroup) = match command {
        Command::Add(rule) => (rule.name, matches!(rule.pattern, Pattern::Cgroup(_))),
        Command::Remove(name) => (name, false),
    };
    let why = match error {
        EINVAL => "group_by is not list",
        EEXIST => "there is a rule of this name",
        ENOSPC => "too many rules, groups, or followed processes",
        ENOENT if is_cgroup => "no such cgroup in the default hierarchy (v2)",
        ENOENT => "no such rule",
        ESRCH => "no such process",
        _ => return,
    };
    log::refused("group_rules", name, format_args!("{why}"));
}

impl View for Groups {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let Some(all) = &reading.setup.groups else {
            let head = Head {
                time: local_clock(),
                ..Head::default()
            };
            return Ok(groups::head(out, Name(reading), &head)?);
        };
        let all = all.hold();
        groups::head(out, Name(reading), &all.head())?;
        all.for_each_reading(reading, |one| {
            groups::group(out, one)?;
            for (other, count, nanoseconds) in one.totals.neighbours() {
                let name = all.name(other)?.unwrap_or(KVec::new());
                groups::neighbour(out, one.group, other, (count, nanoseconds), &name)?;
            }
            Ok(())
        })?;
        // Last: a wait that ends meanwhile is then missing, and not there twice.
        InProgress::new(reading)?
            .find(reading, |_| {}, &mut Waiters::default())
            .for_each_group(|group, waits, unseen| {
                Ok(groups::in_progress(out, group, waits, unseen)?)
            })
    }
}

/// A table of the groups for people.
pub(super) struct Summary;

impl View for Summary {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        groups::summary_head(out, Name(reading), reading.setup.enabled)?;
        let Some(all) = &reading.setup.groups else {
            return Ok(());
        };
        let all = all.hold();
        all.for_each(|group, name| {
            let totals = all.totals(group);
            if totals.samples(GroupMetric::Oncpu) == 0 {
                return Ok(());
            }
            let worst = totals.neighbours().max_by_key(|(.., sum)| *sum);
            let worst = match worst {
                Some((group, ..)) => all.name(group)?,
                None => None,
            };
            let histograms = all.histograms(group)?;
            let worst = worst.as_deref();
            Ok(groups::summary_row(out, name, &totals, &histograms, worst)?)
        })
    }
}

pub(super) struct Tasks;

impl View for Tasks {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        groups::tasks_head(out)?;
        if let Some(recorder) = &reading.recorder {
            for Member { pid, comm, group } in &recorder.members()? {
                groups::task(out, *pid, *group, comm)?;
            }
        }
        Ok(())
    }
}

/// The maximum number of groups.
pub(super) struct GroupLimit;

impl Control for GroupLimit {
    const EXPECTED: &'static str = "a number of groups, 1 to 4095";
    type Value<'a> = u32;

    fn parse<'a>(&self, input: &'a [u8]) -> Option<u32> {
        const { assert!(Limits::MAX_GROUPS == 4095) };
        let number = u32::try_from(input::number(input)?).ok()?;
        (1..=Limits::MAX_GROUPS).contains(&number).then_some(number)
    }

    fn set(&self, monitor: &Monitor, groups: u32) -> Result {
        monitor.change_group_limits(|limits| limits.groups = groups);
        Ok(())
    }
}

impl Setting for GroupLimit {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        reading.setup.group_limits.groups
    }
}

/// The maximum memory of groups: their counters, histograms and tables.
pub(super) struct GroupMemoryLimit;

impl Amount for GroupMemoryLimit {
    const EXPECTED: &'static str = "a number of bytes (1 or more), or none";

    fn get(&self, reading: &Reading) -> u64 {
        reading.setup.group_limits.memory
    }

    fn set(&self, monitor: &Monitor, bytes: u64) -> Result {
        monitor.change_group_limits(|limits| limits.memory = bytes);
        Ok(())
    }
}

/// The histograms of a metric, one block for each group.
pub(super) struct Histograms(pub(super) GroupMetric);

impl View for Histograms {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let Some(all) = &reading.setup.groups else {
            return Ok(());
        };
        let all = all.hold();
        all.for_each(|group, name| {
            let histogram = all.histogram(group, self.0)?;
            Ok(groups::histogram(out, self.0, group, name, &histogram)?)
        })
    }
}
