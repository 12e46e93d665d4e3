// SPDX-License-Identifier: GPL-2.0

//! The groups as OpenMetrics text: see [`openmetrics`](crate::engine::format::openmetrics), whose
//! conventions hold here, too.
//!
//! The text is written family by family:
//!
//! 1. [`head`], once;
//! 2. [`counters`], once;
//! 3. for each metric: [`histogram_head`], then [`histogram_samples`] for each group;
//! 4. [`not_in_histogram`], once;
//! 5. [`end`](crate::engine::format::openmetrics::end), once.
//!
//! Samples of a group have the label `group`, with a [`LabelValue`]. A sample that is in no
//! histogram is counted in the bucket `+Inf` alone, so that `_count` and `_sum` are always of all
//! samples.

use core::{
    fmt::{
        self,
        Display,
        Write, //
    },
    ops::Deref, //
};

use crate::engine::{
    format::{
        openmetrics::{
            self,
            family,
            seconds_family,
            Labels,
            Seconds,
            BUCKETS, //
        },
        text::Escaped,
    },
    group::{
        records::{
            CulpritKind,
            GroupCounter,
            GroupMetric, //
        },
        totals::GroupTotals,
        verdict::Group, //
    },
    histogram::snapshot::Snapshot,
    metric::{
        Counter,
        Metric, //
    },
};

/// The maximum length of the text of all groups together, in bytes. There is room for 1500 groups
/// whose names take 50 bytes each.
pub const MAX_LEN: usize = 32 << 20;

/// The maximum length of a [`LabelValue`], in bytes. A group with a longer one is left out, so that
/// no few groups can take all the room.
pub const MAX_LABEL: usize = 1024;

/// The number of lines of a group: those of its histograms, of its counters, of its waits by
/// culprit, and of `not_in_histogram`.
const LINES: usize =
    GroupMetric::COUNT * (BUCKETS + 2) + GroupCounter::COUNT + CulpritKind::COUNT * 4 + 1;

/// The maximum length of a line of a group besides its label, in bytes.
const LINE: usize = 112;

/// The maximum length of what is written besides the groups, in bytes.
pub const HEAD_LEN: usize = 32 << 10;

/// Returns the maximum length of the text of a group whose label takes `label` bytes.
pub const fn group_len(label: usize) -> usize {
    LINES * (LINE + label)
}

/// The name of a group as the value of a label, escaped as OpenMetrics wants it.
///
/// It is the name as in the other files, where `\xNN` stands for what is not printable. If an
/// earlier group has the same name, or the name is `gone`, `\#` and the number of the group follow,
/// so that each group has a value of its own: a thread may have the name `other`, and a PID may be
/// used again.
#[derive(Clone, Copy, Debug)]
pub struct LabelValue<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The group, if its name is that of an earlier one, or may be.
    pub repeated: Option<Group>,
}

impl Display for LabelValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = openmetrics::LabelValue(f);
        write!(value, "{}", Escaped(self.name))?;
        if let Some(group) = self.repeated {
            write!(value, "\\#{}", group.number())?;
        }
        Ok(())
    }
}

/// The counters of all groups together.
#[derive(Clone, Copy, Debug, Default)]
pub struct All {
    /// The number of groups, [`Group::OTHER`] included.
    pub groups: u32,
    /// Those that have samples but are not in the text, as they do not fit into it.
    pub left_out: u32,
    /// The maximum number of groups.
    pub limit: u32,
    /// The number of decisions for which there was no group.
    pub refused: u64,
    /// The memory of their records, in bytes.
    pub memory: usize,
}

/// Writes the families without a group.
pub fn head(out: &mut impl Write, rule: impl Display, all: &All) -> fmt::Result {
    let help = "What the tasks of a group have in common.";
    family(out, "group_by_info", "gauge", help)?;
    out.write_str("schedhist_group_by_info{rule=\"")?;
    write!(openmetrics::LabelValue(out), "{rule}")?;
    writeln!(out, "\"}} 1")?;

    family(out, "groups", "gauge", "The number of groups.")?;
    writeln!(out, "schedhist_groups {}", all.groups)?;

    let help = "Groups that have samples but are not in this text, which would be too long.";
    family(out, "groups_left_out", "gauge", help)?;
    writeln!(out, "schedhist_groups_left_out {}", all.left_out)?;

    family(out, "group_limit", "gauge", "The maximum number of groups.")?;
    writeln!(out, "schedhist_group_limit {}", all.limit)?;

    let help = "Decisions for which there was no group: the tasks are in the group other.";
    family(out, "group_refused", "counter", help)?;
    writeln!(out, "schedhist_group_refused_total {}", all.refused)?;

    let help = "The memory of the records of groups.";
    family(out, "group_memory_bytes", "gauge", help)?;
    writeln!(out, "# UNIT schedhist_group_memory_bytes bytes")?;
    writeln!(out, "schedhist_group_memory_bytes {}", all.memory)
}

/// Writes all counters of `groups`, each of which comes with its [`LabelValue`].
pub fn counters<'a>(
    out: &mut impl Write,
    groups: impl Iterator<Item = (&'a str, &'a GroupTotals)> + Clone,
) -> fmt::Result {
    for counter in GroupCounter::ALL {
        let values = { groups.clone() }
            .map(|(group, totals)| (Labels::of_group(group), totals.counter(counter)));
        match counter {
            GroupCounter::ThrottledNs => {
                let values = values.map(|(labels, sum)| (labels, u128::from(sum)));
                times(out, "group_throttled", help(counter), values)?;
            }
            _ => {
                let name = counter.name();
                counts(out, format_args!("group_{name}"), help(counter), values)?;
            }
        }
    }
    let which = "Waits for a CPU that ended while the culprit had the CPU";
    waits(
        out,
        "group_ended_by",
        which,
        groups.clone(),
        GroupTotals::ended_by,
    )?;
    let which = "Waits for a CPU that began when the culprit preempted the task";
    waits(
        out,
        "group_preempted_by",
        which,
        groups,
        GroupTotals::preempted_by,
    )
}

/// Returns the help text of `counter`.
fn help(counter: GroupCounter) -> &'static str {
    match counter {
        GroupCounter::Voluntary => Counter::Voluntary.help(),
        GroupCounter::Involuntary => Counter::Involuntary.help(),
        GroupCounter::Migrations => Counter::Migrations.help(),
        GroupCounter::Throttled => Counter::Throttled.help(),
        GroupCounter::ThrottledNs => Metric::Throttled.help(),
    }
}

/// Writes two families of waits by culprit: how many there were, and how long they took.
fn waits<'a>(
    out: &mut impl Write,
    name: &str,
    which: &str,
    groups: impl Iterator<Item = (&'a str, &'a GroupTotals)> + Clone,
    of: impl Fn(&GroupTotals, CulpritKind) -> (u64, u128) + Copy,
) -> fmt::Result {
    family(out, name, "counter", format_args!("{which}."))?;
    for (group, totals) in groups.clone() {
        for culprit in CulpritKind::ALL {
            let labels = Labels::of_group(group).and_culprit(culprit.name());
            count(out, name, labels, of(totals, culprit).0)?;
        }
    }
    seconds_family(out, name, "counter", format_args!("{which}: their sum."))?;
    for (group, totals) in groups {
        for culprit in CulpritKind::ALL {
            let labels = Labels::of_group(group).and_culprit(culprit.name());
            time(out, name, labels, of(totals, culprit).1)?;
        }
    }
    Ok(())
}

/// Writes the family `schedhist_NAME`.
fn counts<'a>(
    out: &mut impl Write,
    name: impl Display + Copy,
    help: impl Display,
    values: impl Iterator<Item = (Labels<'a>, u64)>,
) -> fmt::Result {
    family(out, name, "counter", help)?;
    for (labels, value) in values {
        count(out, name, labels, value)?;
    }
    Ok(())
}

/// Writes the family `schedhist_NAME_seconds`, of times in nanoseconds.
fn times<'a>(
    out: &mut impl Write,
    name: impl Display + Copy,
    help: impl Display,
    values: impl Iterator<Item = (Labels<'a>, u128)>,
) -> fmt::Result {
    seconds_family(out, name, "counter", help)?;
    for (labels, sum) in values {
        time(out, name, labels, sum)?;
    }
    Ok(())
}

/// Writes a sample of [`counts`].
fn count(out: &mut impl Write, name: impl Display, labels: Labels<'_>, count: u64) -> fmt::Result {
    writeln!(out, "schedhist_{name}_total{labels} {count}")
}

/// Writes a sample of [`times`].
fn time(out: &mut impl Write, name: impl Display, labels: Labels<'_>, sum: u128) -> fmt::Result {
    let sum = Seconds(sum);
    writeln!(out, "schedhist_{name}_seconds_total{labels} {sum}")
}

/// Writes the lines before the samples of `metric`.
pub fn histogram_head(out: &mut impl Write, metric: GroupMetric) -> fmt::Result {
    let help = match metric {
        GroupMetric::Oncpu => Metric::Oncpu.help(),
        GroupMetric::Runq => "Waits of tasks for a CPU.",
        GroupMetric::Offcpu => Metric::Offcpu.help(),
    };
    let name = metric.name();
    seconds_family(out, format_args!("group_{name}"), "histogram", help)
}

/// Writes the histogram of `metric` of the group whose [`LabelValue`] is `group`. `count` is the
/// number of its samples, in the histogram or not.
pub fn histogram_samples<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    metric: GroupMetric,
    group: &str,
    count: u64,
    snapshot: &Snapshot<B>,
) -> fmt::Result {
    let (name, labels) = (metric.name(), Labels::of_group(group));
    openmetrics::samples(out, format_args!("group_{name}"), labels, count, snapshot)
}

/// Writes how many samples of each group are in no histogram.
///
/// Counts are read while they grow, so this is not exact and may fall.
pub fn not_in_histogram<'a>(
    out: &mut impl Write,
    groups: impl Iterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let help = "Samples that are in no histogram: there was no memory for it yet.";
    family(out, "group_not_in_histogram", "gauge", help)?;
    for (group, count) in groups {
        let labels = Labels::of_group(group);
        writeln!(out, "schedhist_group_not_in_histogram{labels} {count}")?;
    }
    Ok(())
}
