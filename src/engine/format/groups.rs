// SPDX-License-Identifier: GPL-2.0

//! The text formats of groups.

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
        text::{
            histogram_body,
            upper_bound, //
        },
        values::Comm,
        Escaped,
        Nanoseconds, //
    },
    group::{
        CulpritKind,
        Group,
        GroupCounter,
        GroupMetric,
        GroupReading,
        GroupTotals,
        Members, //
    },
    histogram::{
        Quantile,
        Snapshot, //
    },
    idle::{
        Distance,
        WaitCause,
        WaitPart, //
    },
    switch::Waits, //
};

/// The quantiles that a line of a group shows, by their place in [`Quantile::ALL`]: p50 and p99.
const QUANTILES: [usize; 2] = [0, 2];

/// Figures of all groups together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    /// The time, in nanoseconds.
    pub time: u64,
    /// The maximum number of groups.
    pub limit: u32,
    /// The number of decisions for which there was no group.
    pub refused: u64,
    /// The number of decisions for which there was no memory.
    pub no_memory: u64,
    /// The memory of their records and tables, in bytes.
    pub memory: usize,
    /// The number of groups that gave up their places.
    pub gone: u64,
    /// The number of processes that a rule should have followed, for which there was no room.
    pub unfollowed: u64,
    /// The number of tasks that got their group later than at their move to another cgroup.
    pub late: u64,
}

/// Writes the first lines of the text of groups.
pub fn head(out: &mut impl Write, rule: impl Display, head: &Head) -> fmt::Result {
    writeln!(out, "# schedhist groups version 1")?;
    writeln!(out, "group_by {rule}")?;
    writeln!(out, "time {}", head.time)?;
    writeln!(out, "limit {}", head.limit)?;
    writeln!(out, "refused {}", head.refused)?;
    writeln!(out, "memory_bytes {}", head.memory)?;
    writeln!(out, "gone {}", head.gone)?;
    writeln!(out, "unfollowed {}", head.unfollowed)?;
    writeln!(out, "late {}", head.late)?;
    writeln!(out, "no_memory {}", head.no_memory)
}

/// Writes the first line of the text of a list of rules.
pub fn rules_head(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "# schedhist group rules version 1")
}

/// Writes the line of a rule of a list.
pub fn rule(out: &mut impl Write, rule: impl Display) -> fmt::Result {
    writeln!(out, "rule {rule}")
}

/// Writes the line of a group, and a line for each other group that kept it waiting.
///
/// The first word of a line is its kind; pairs of a key and a value follow. The name comes last, as
/// it may contain spaces; in it, the backslash and anything that is not printable are written as
/// `\xNN`. A quantile is the upper bound of its bucket, or the maximum if that is less; quantiles
/// and the maximum are `-` if there is no sample.
pub fn group<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    one: &GroupReading<'_, B>,
) -> fmt::Result {
    let GroupReading { totals, slices, .. } = one;
    write!(out, "group id {}", one.group.number())?;
    for (metric, histogram) in GroupMetric::ALL.into_iter().zip(&one.histograms) {
        let name = metric.name();
        let (count, sum) = (totals.samples(metric), one.sum(metric));
        write!(out, " {name}_count {count} {name}_sum_ns {sum}")?;
        for i in QUANTILES {
            let quantile = Quantile::ALL[i].name;
            let bound = OrDash(quantile_of(histogram, i));
            write!(out, " {name}_{quantile}_ns {bound}")?;
        }
        write!(out, " {name}_max_ns {}", OrDash(histogram.max()))?;
    }
    for counter in GroupCounter::ALL {
        write!(out, " {} {}", counter.name(), totals.counter(counter))?;
    }
    let all = GroupMetric::ALL.into_iter();
    let all = all.fold(0_u64, |sum, metric| {
        sum.wrapping_add(totals.samples(metric))
    });
    let held = one.histograms.iter();
    let held = held.fold(0_u64, |sum, histogram| sum.wrapping_add(histogram.count()));
    // The histograms may be ahead: they were read later.
    write!(out, " not_in_histogram {}", all.saturating_sub(held))?;
    for culprit in CulpritKind::ALL {
        let (name, (count, ns)) = (culprit.name(), totals.ended_by(culprit));
        write!(out, " ended_by_{name} {count} ended_by_{name}_ns {ns}")?;
    }
    for culprit in CulpritKind::ALL {
        let (name, (count, ns)) = (culprit.name(), totals.preempted_by(culprit));
        write!(
            out,
            " preempted_by_{name} {count} preempted_by_{name}_ns {ns}"
        )?;
    }
    for (distance, count) in Distance::BETWEEN_CPUS.iter().zip(totals.migrations()) {
        write!(out, " migrations_{} {count}", distance.name())?;
    }
    let waits = totals.long_waits();
    write!(out, " long_waits {}", waits.waits())?;
    for part in WaitPart::ALL {
        let (name, sum) = (part.name(), waits.part(part));
        write!(out, " long_wait_{name}_ns {sum}")?;
    }
    for cause in WaitCause::ALL {
        let (name, (count, sum)) = (cause.name(), waits.cause(cause));
        write!(out, " long_waits_{name} {count} long_waits_{name}_ns {sum}")?;
    }
    write!(
        out,
        " oncpu_in_progress {} oncpu_in_progress_ns {}",
        slices.count, slices.in_progress
    )?;
    let Members { tasks, is_live } = one.members;
    write!(out, " tasks {tasks} live {}", u8::from(is_live))?;
    writeln!(out, " name {}", Escaped(one.name))
}

/// Writes the line of a group of which waits are in progress, or slices whose beginning was not
/// seen.
pub fn in_progress(
    out: &mut impl Write,
    group: Group,
    waits: &Waits,
    unseen: &Waits,
) -> fmt::Result {
    if waits.count == 0 && unseen.count == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "in_progress id {} runq_in_progress {} runq_in_progress_ns {} \
         oncpu_unseen {} oncpu_unseen_ns {}",
        group.number(),
        waits.count,
        waits.sum,
        unseen.count,
        unseen.sum,
    )
}

/// Writes the line of another group that kept `group` waiting.
pub fn neighbour(
    out: &mut impl Write,
    group: Group,
    other: Group,
    waits: (u64, u128),
    name: &[u8],
) -> fmt::Result {
    writeln!(
        out,
        "  neighbour id {} of {} ended {} ended_ns {} name {}",
        other.number(),
        group.number(),
        waits.0,
        waits.1,
        Escaped(name)
    )
}

/// Writes the histogram of a group: a block of lines as in
/// [`text::histogram`](crate::engine::format::text::histogram).
pub fn histogram<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    metric: GroupMetric,
    group: Group,
    name: &[u8],
    histogram: &Snapshot<B>,
) -> fmt::Result {
    writeln!(out, "# schedhist group histogram version 1")?;
    writeln!(out, "metric {}", metric.name())?;
    writeln!(out, "group {}", group.number())?;
    writeln!(out, "name {}", Escaped(name))?;
    histogram_body(out, histogram)
}

/// Writes the first line of the text of tasks.
pub fn tasks_head(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "# schedhist group tasks version 1")
}

/// Writes the line of a task.
pub fn task(out: &mut impl Write, pid: i32, group: Group, comm: &[u8]) -> fmt::Result {
    let number = group.number();
    writeln!(out, "task pid {pid} group {number} comm {}", Comm(comm))
}

/// Writes the head of the table for people.
pub fn summary_head(out: &mut impl Write, rule: impl Display, enabled: bool) -> fmt::Result {
    let state = if enabled { "enabled" } else { "disabled" };
    writeln!(
        out,
        "# schedhist group summary version 1, by {rule}, {state}"
    )?;
    writeln!(
        out,
        "{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}  {:>5}{:>6}{:>7}{:>6}  group, most kept waiting by",
        "oncpu", "waits", "waited", "p50", "p99", "max", "own", "other", "kernel", "idle"
    )
}

/// Writes a group's row of the table: how long its tasks ran, their waits, and for which share of
/// the time that they waited a task of their own group, of another, or a kernel thread had the CPU
/// when the wait ended, or the CPU was idle.
pub fn summary_row<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    name: &[u8],
    totals: &GroupTotals,
    histograms: &[Snapshot<B>; GroupMetric::COUNT],
    neighbour: Option<&[u8]>,
) -> fmt::Result {
    let [oncpu, runq, _] = histograms;
    Nanoseconds(Some(clamp(oncpu.sum()))).write_column(out)?;
    write!(out, "{:>10}", totals.samples(GroupMetric::Runq))?;
    Nanoseconds(Some(clamp(runq.sum()))).write_column(out)?;
    for i in QUANTILES {
        Nanoseconds(quantile_of(runq, i)).write_column(out)?;
    }
    Nanoseconds(runq.max()).write_column(out)?;
    let all = CulpritKind::ALL.map(|culprit| clamp(totals.ended_by(culprit).1));
    let sum = all.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    write!(out, "  ")?;
    for (ns, width) in all.into_iter().zip([4, 5, 6, 5]) {
        // Rounded down; divided first if the product would overflow. `sum` is large then, too.
        let percent = match ns.checked_mul(100) {
            Some(product) => product.checked_div(sum).unwrap_or(0),
            None => ns.checked_div(sum / 100).unwrap_or(0),
        };
        write!(out, "{:>width$}%", percent.min(100))?;
    }
    write!(out, "  {}", Escaped(name))?;
    if let Some(neighbour) = neighbour {
        write!(out, ", {}", Escaped(neighbour))?;
    }
    writeln!(out)
}

/// Returns the upper bound of quantile `i` of [`Quantile::ALL`], or `None` if there is no sample.
fn quantile_of<B: Deref<Target = [u64]>>(histogram: &Snapshot<B>, i: usize) -> Option<u64> {
    let (_, bounds) = histogram.quantiles().nth(i)?;
    upper_bound(bounds?, histogram.max())
}

fn clamp(nanoseconds: u128) -> u64 {
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// A number, or `-` for none.
struct OrDash(Option<u64>);

impl Display for OrDash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "{number}"),
            None => f.write_char('-'),
        }
    }
}
