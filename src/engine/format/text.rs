// SPDX-License-Identifier: GPL-2.0

//! The text formats of the files.
//!
//! Each text begins with a comment that names the format and its version; the version goes up with
//! every change that could break a reader. Lines of words follow, separated by single spaces and
//! easy to parse with `awk`. Only the summary, which people read, is laid out in columns.

use core::{
    fmt::{
        self,
        Display,
        Write, //
    },
    ops::Deref, //
};

use crate::engine::{
    chain::{
        Chain,
        Hop, //
    },
    format::{
        values::Comm,
        Nanoseconds,
        OrNone, //
    },
    histogram::{
        Bounds,
        Quantile,
        Snapshot, //
    },
    idle::{
        Longest,
        WaitCause,
        WaitPart,
        WaitSums, //
    },
    outlier::{
        Culprit,
        Outlier, //
    },
    Counter,
    ShownMetric, //
};

/// The CPUs whose samples a text shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All CPUs, added up.
    All,
    /// One CPU.
    Cpu(u32),
}

impl Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Cpu(cpu) => write!(f, "{cpu}"),
        }
    }
}

impl Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_overflow() {
            write!(f, "{} inf", self.lower)
        } else {
            write!(f, "{} {}", self.lower, self.upper)
        }
    }
}

/// Writes one histogram.
///
/// `key value` lines come first, with the minimum, the maximum and the quantiles only when the
/// count is not 0. The maximum comes with its task, CPU and time; in the task's name, the backslash
/// and anything that is not printable are written as `\xNN`. A quantile is given by the two bounds
/// of its bucket. Lines `bucket LOWER UPPER COUNT` follow, one for each bucket that is not empty,
/// with inclusive bounds. The upper bound of the last bucket, for values too large for the others,
/// is `inf`.
pub fn histogram<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    shown: ShownMetric,
    scope: Scope,
    snapshot: &Snapshot<B>,
) -> fmt::Result {
    writeln!(out, "# schedhist histogram version 1")?;
    writeln!(out, "metric {}", shown.name)?;
    writeln!(out, "cpu {scope}")?;
    histogram_body(out, snapshot)
}

/// Writes a histogram's body: everything after its identifying lines.
pub(in crate::engine) fn histogram_body<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    snapshot: &Snapshot<B>,
) -> fmt::Result {
    writeln!(out, "unit ns")?;
    writeln!(out, "precision {}", snapshot.scheme().precision().bits())?;
    writeln!(out, "count {}", snapshot.count())?;
    writeln!(out, "sum {}", snapshot.sum())?;
    if let Some(min) = snapshot.min() {
        writeln!(out, "min {min}")?;
    }
    if let Some((cpu, worst)) = snapshot.worst() {
        writeln!(out, "max {}", worst.value)?;
        writeln!(out, "max_cpu {cpu}")?;
        writeln!(out, "max_time {}", worst.time)?;
        writeln!(out, "max_pid {}", worst.task.pid)?;
        writeln!(out, "max_prio {}", worst.task.prio)?;
        writeln!(out, "max_comm {}", Comm(&worst.task.comm))?;
    }
    for (quantile, bounds) in snapshot.quantiles() {
        if let Some(bounds) = bounds {
            writeln!(out, "{} {bounds}", quantile.name)?;
        }
    }
    for (bounds, count) in snapshot.buckets() {
        writeln!(out, "bucket {bounds} {count}")?;
    }
    Ok(())
}

/// Writes the head of the summary: its title, the counters of `scope` and the names of the columns.
pub fn summary_head(
    out: &mut impl Write,
    scope: Scope,
    enabled: bool,
    counter: impl Fn(Counter) -> u64,
) -> fmt::Result {
    let state = if enabled { "enabled" } else { "disabled" };
    writeln!(out, "# schedhist summary version 1, cpu {scope}, {state}")?;
    for (i, each) in Counter::ALL.into_iter().enumerate() {
        let space = if i == 0 { "" } else { "  " };
        write!(out, "{space}{} {}", each.name(), counter(each))?;
    }
    write!(out, "\n\n{:<24}{:>12}{:>10}", "metric", "count", "mean")?;
    for quantile in Quantile::ALL {
        write!(out, "{:>10}", quantile.name)?;
    }
    writeln!(out, "{:>10}  worst", "max")
}

/// Writes the summary's row of `shown`.
///
/// A quantile is shown as the upper bound of its bucket, or as the maximum if that is less: it is
/// too high by the width of a bucket at most, and never too low.
pub fn summary_row<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    shown: ShownMetric,
    snapshot: &Snapshot<B>,
) -> fmt::Result {
    write!(out, "{:<24}{:>12}", shown.name, snapshot.count())?;
    let max = snapshot.max();
    Nanoseconds(snapshot.mean()).write_column(out)?;
    for (_, bounds) in snapshot.quantiles() {
        let upper = bounds.and_then(|bounds| upper_bound(bounds, max));
        Nanoseconds(upper).write_column(out)?;
    }
    Nanoseconds(max).write_column(out)?;
    if let Some((cpu, worst)) = snapshot.worst() {
        write!(
            out,
            "  {}:{} on {cpu}",
            Comm(&worst.task.comm),
            worst.task.pid
        )?;
    }
    writeln!(out)
}

/// Returns the upper bound of a quantile's bucket, or the maximum of all samples if that is less.
pub(in crate::engine) fn upper_bound(bounds: Bounds, max: Option<u64>) -> Option<u64> {
    Some(match max {
        // If the maximum is below the bucket, the sample that became the maximum is in its bucket,
        // but not yet in the totals.
        Some(max) if max >= bounds.lower => bounds.upper.min(max),
        _ => bounds.upper,
    })
}

/// Writes the first line of the text of outliers.
pub fn outliers_head(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "# schedhist outliers version 1")
}

/// Writes an outlier of `cpu` and its culprits, one line each. The first word of a line is its
/// kind; pairs of a key and a value follow, with the keys of the trace events. The name of the task
/// comes last, as it may contain spaces.
pub fn outlier(
    out: &mut impl Write,
    cpu: u32,
    outlier: &Outlier,
    culprits: &[Culprit],
) -> fmt::Result {
    let (sample, task) = (outlier.sample, &outlier.task);
    write!(
        out,
        "outlier id {} metric {} cause {} cpu {cpu} duration_ns {} start_ns {} end_ns {} \
         missing_ns {} culprits {}",
        outlier.id,
        sample.metric.name(),
        sample.cause.name(),
        sample.value,
        sample.start(),
        sample.end,
        outlier.missing,
        culprits.len(),
    )?;
    if let Some(Longest {
        cpu,
        idle,
        distance,
    }) = outlier.longest
    {
        let distance = distance.name();
        write!(out, " idle_cpu {cpu} idle_ns {idle} distance {distance}")?;
    }
    writeln!(
        out,
        " pid {} prio {} group {} comm {}",
        task.pid,
        task.prio,
        task.group.number(),
        Comm(&task.comm),
    )?;
    for culprit in culprits {
        writeln!(
            out,
            "  culprit id {} ran_ns {} slices {} pid {} prio {} group {} comm {}",
            outlier.id,
            culprit.ran,
            culprit.slices,
            culprit.task.pid,
            culprit.task.prio,
            culprit.task.group.number(),
            Comm(&culprit.task.comm),
        )?;
    }
    Ok(())
}

/// The maximum length of the text of an outlier with its head, in bytes: numbers have at most 20
/// digits, and names have 16 bytes, each written as at most four.
pub const OUTLIER_MAX: usize = 1024 + crate::engine::outlier::log::CULPRITS * 256;

/// Writes the first lines of the text of long waits, which last `limit` nanoseconds or more; 0 for
/// none.
pub fn long_waits_head(out: &mut impl Write, limit: u64) -> fmt::Result {
    writeln!(out, "# schedhist long_waits version 1")?;
    writeln!(out, "# long_wait_ns {}", OrNone(limit))
}

/// Writes the sums of the long waits of `scope` on one line: pairs of a key and a value.
pub fn long_waits(out: &mut impl Write, scope: Scope, sums: &WaitSums) -> fmt::Result {
    match scope {
        Scope::All => write!(out, "all waits {}", sums.waits())?,
        Scope::Cpu(cpu) => write!(out, "cpu{cpu} waits {}", sums.waits())?,
    }
    for part in WaitPart::ALL {
        write!(out, " {}_ns {}", part.name(), sums.part(part))?;
    }
    for cause in WaitCause::ALL {
        let (name, (waits, sum)) = (cause.name(), sums.cause(cause));
        write!(out, " {name} {waits} {name}_ns {sum}")?;
    }
    writeln!(out)
}

/// Writes the first lines of the text of chains. `slices` is the number of slices that are kept of
/// each CPU.
pub fn chains_head(out: &mut impl Write, slices: u64) -> fmt::Result {
    writeln!(out, "# schedhist chains version 1")?;
    writeln!(out, "# chain {slices}")
}

/// Writes the chain of an outlier of `cpu` and its hops, one line each, as [`outlier`] does.
pub fn chain(out: &mut impl Write, cpu: u32, chain: &Chain, hops: &[Hop]) -> fmt::Result {
    let (id, sample, walked) = (chain.id, &chain.sample, &chain.walked);
    writeln!(
        out,
        "chain id {id} metric {} cpu {cpu} duration_ns {} end {} blocked_ns {} missing_ns {} \
         hops {}",
        sample.metric.name(),
        sample.value,
        walked.end.name(),
        walked.blocked,
        walked.missing,
        hops.len(),
    )?;
    for (number, hop) in hops.iter().enumerate() {
        let via = if number == 0 { "-" } else { hop.via.name() };
        writeln!(
            out,
            "  hop id {id} via {via} ran_ns {} waited_ns {} preempted_ns {} throttled_ns {} \
             slices {} cpu {} group {} pid {} comm {}",
            hop.ran,
            hop.waited,
            hop.preempted,
            hop.throttled,
            hop.slices,
            hop.cpu,
            hop.group.number(),
            hop.pid,
            Comm(&hop.comm),
        )?;
    }
    Ok(())
}

/// Writes a line of the status: `key value`, or `cpuN key value`.
pub fn status_line(
    out: &mut impl Write,
    scope: Scope,
    key: &str,
    value: impl Display,
) -> fmt::Result {
    match scope {
        Scope::All => writeln!(out, "{key} {value}"),
        Scope::Cpu(cpu) => writeln!(out, "cpu{cpu} {key} {value}"),
    }
}
