// SPDX-License-Identifier: GPL-2.0

//! The counters and histograms as [OpenMetrics 1.0] text, for Prometheus and programs that read its
//! format.
//!
//! The text is written family by family, so that memory for one snapshot is enough:
//!
//! 1. [`head`], once;
//! 2. for each counter: [`counter_head`], then [`counter_sample`] for each scope;
//! 3. [`outliers`], once, and [`long_waits`] if they are looked at;
//! 4. for each metric: [`histogram_head`], then [`histogram_samples`] for each scope;
//! 5. [`end`], once.
//!
//! Each [`ShownMetric`] is a family of its own, so that `schedhist_runq_seconds` is not mixed up
//! with its parts, `schedhist_runq_wakeup_seconds` and `schedhist_runq_preempt_seconds`. Samples of
//! all CPUs have no label; those of one CPU have the label `cpu`.
//!
//! The buckets are merged into one for each power of two: `2^8 - 1` ns up to `2^40 - 1` ns, and
//! `+Inf`. They are always the same, independent of the precision and of the counts. Their bounds
//! are upper bounds of the histograms' own buckets at every precision, and inclusive as `le`
//! requires, so no sample is moved. Seconds are nanoseconds with a decimal point inserted, so
//! nothing is rounded.
//!
//! OpenMetrics' info family is a gauge here, as in Prometheus' own metrics, and there are no
//! exemplars. Programs that only know the older Prometheus format, such as node_exporter's textfile
//! collector, can therefore read the text, too.
//!
//! [OpenMetrics 1.0]: https://prometheus.io/docs/specs/om/open_metrics_spec/

use core::{
    fmt::{
        self,
        Display,
        Write, //
    },
    num::NonZeroU64,
    ops::Deref, //
};

use crate::engine::{
    div::div_rem,
    format::Scope,
    histogram::{
        Precision,
        Snapshot,
        VALUE_BITS, //
    },
    idle::{
        WaitCause,
        WaitPart,
        WaitSums, //
    },
    Counter,
    MetricSet,
    ShownMetric, //
};

/// The first bucket holds the values below `2^FIRST_BITS` ns.
const FIRST_BITS: u32 = 8;

/// The number of `le` buckets of a histogram, `+Inf` included.
pub const BUCKETS: usize = (VALUE_BITS - FIRST_BITS + 1) as usize + 1;

/// The maximum length of the text of one scope, in bytes. Each further scope adds at most the same.
pub const MAX_LEN: usize = 11 * 1024 + ShownMetric::ALL.len() * (BUCKETS + 6) * 112;

/// Writes the families without a scope: the build and the settings.
pub fn head(
    out: &mut impl Write,
    version: impl Display,
    precision: Precision,
    enabled: bool,
    metrics: MetricSet,
) -> fmt::Result {
    family(out, "build_info", "gauge", "The version of schedhist.")?;
    out.write_str("schedhist_build_info{version=\"")?;
    write!(LabelValue(out), "{version}")?;
    writeln!(out, "\"}} 1")?;

    family(
        out,
        "enabled",
        "gauge",
        "Whether schedhist is enabled: 0 or 1.",
    )?;
    writeln!(out, "schedhist_enabled {}", u8::from(enabled))?;

    let help = "Whether the metric is among those that are measured when enabled: 0 or 1.";
    family(out, "metric_enabled", "gauge", help)?;
    for shown in ShownMetric::ALL {
        let on = u8::from(metrics.shows(shown));
        writeln!(
            out,
            "schedhist_metric_enabled{{metric=\"{}\"}} {on}",
            shown.name
        )?;
    }

    let help = "In the histograms behind these a bucket is at most 2^-N of its value wide.";
    family(out, "precision_bits", "gauge", help)?;
    writeln!(out, "# UNIT schedhist_precision_bits bits")?;
    writeln!(out, "schedhist_precision_bits {}", precision.bits())
}

/// Writes the lines before the samples of `counter`.
pub fn counter_head(out: &mut impl Write, counter: Counter) -> fmt::Result {
    family(out, counter.name(), "counter", counter.help())
}

/// Writes a sample of `counter`.
pub fn counter_sample(
    out: &mut impl Write,
    counter: Counter,
    scope: Scope,
    value: u64,
) -> fmt::Result {
    let name = counter.name();
    writeln!(out, "schedhist_{name}_total{} {value}", Labels::new(scope))
}

/// Writes the numbers of reported and of suppressed outliers of all CPUs.
pub fn outliers(out: &mut impl Write, reported: u64, suppressed: u64) -> fmt::Result {
    let help = "Samples above a threshold that were reported as outliers.";
    family(out, "outliers", "counter", help)?;
    writeln!(out, "schedhist_outliers_total {reported}")?;
    let help = "Outliers not reported because of outlier_rate or outlier_limit.";
    family(out, "outliers_suppressed", "counter", help)?;
    writeln!(out, "schedhist_outliers_suppressed_total {suppressed}")
}

/// Writes the sums of the long waits of `scope`.
pub fn long_waits(out: &mut impl Write, scope: Scope, sums: &WaitSums) -> fmt::Result {
    let labels = Labels::new(scope);
    let help = "Waits for a CPU of long_wait_ns or more.";
    family(out, "long_waits", "counter", help)?;
    writeln!(out, "schedhist_long_waits_total{labels} {}", sums.waits())?;
    let mut seconds = |name: fmt::Arguments<'_>, help, sum| {
        family(out, format_args!("{name}_seconds"), "counter", help)?;
        writeln!(out, "# UNIT schedhist_{name}_seconds seconds")?;
        let sum = Seconds(u128::from(sum));
        writeln!(out, "schedhist_{name}_seconds_total{labels} {sum}")
    };
    for part in WaitPart::ALL {
        let name = part.name();
        seconds(
            format_args!("long_wait_{name}"),
            part.help(),
            sums.part(part),
        )?;
    }
    for cause in WaitCause::ALL {
        let (name, (_, sum)) = (cause.name(), sums.cause(cause));
        seconds(format_args!("long_waits_{name}"), cause.help(), sum)?;
    }
    for cause in WaitCause::ALL {
        let (name, (waits, _)) = (cause.name(), sums.cause(cause));
        family(
            out,
            format_args!("long_waits_{name}"),
            "counter",
            cause.help(),
        )?;
        writeln!(out, "schedhist_long_waits_{name}_total{labels} {waits}")?;
    }
    Ok(())
}

/// Writes the lines before the samples of `shown`.
pub fn histogram_head(out: &mut impl Write, shown: ShownMetric) -> fmt::Result {
    let name = shown.name;
    family(out, format_args!("{name}_seconds"), "histogram", shown.help)?;
    writeln!(out, "# UNIT schedhist_{name}_seconds seconds")
}

/// Writes the samples of `shown`: the cumulative buckets, the count and the sum.
///
/// The snapshot should have no baseline: a scraper takes a decreasing count for a restart.
pub fn histogram_samples<B: Deref<Target = [u64]>>(
    out: &mut impl Write,
    shown: ShownMetric,
    scope: Scope,
    snapshot: &Snapshot<B>,
) -> fmt::Result {
    let (name, labels) = (shown.name, Labels::new(scope));
    let mut buckets = snapshot.buckets().peekable();
    let mut below: u64 = 0;
    for bits in FIRST_BITS..=VALUE_BITS {
        let upper = (1u64 << bits) - 1;
        while let Some((_, count)) = buckets.next_if(|(bounds, _)| bounds.upper <= upper) {
            below = below.wrapping_add(count);
        }
        let labels = labels.and_le(upper);
        writeln!(out, "schedhist_{name}_seconds_bucket{labels} {below}")?;
    }
    // Computed from the buckets, so that it agrees with them.
    let count = buckets.fold(below, |sum, (_, count)| sum.wrapping_add(count));
    let (all, sum) = (labels.and_le(u64::MAX), Seconds(snapshot.sum()));
    writeln!(out, "schedhist_{name}_seconds_bucket{all} {count}")?;
    writeln!(out, "schedhist_{name}_seconds_count{labels} {count}")?;
    writeln!(out, "schedhist_{name}_seconds_sum{labels} {sum}")
}

/// Writes the last line.
pub fn end(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "# EOF")
}

/// Writes the first lines of a family without a unit.
fn family(out: &mut impl Write, name: impl Display + Copy, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP schedhist_{name} {help}")?;
    writeln!(out, "# TYPE schedhist_{name} {kind}")
}

/// The labels of a sample, in braces; empty if there are none.
#[derive(Clone, Copy, Debug, Default)]
struct Labels {
    cpu: Option<u32>,
    /// The upper bound of a bucket in nanoseconds; `u64::MAX` for `+Inf`.
    le: Option<u64>,
}

impl Labels {
    /// The labels of `scope`: none for all CPUs.
    fn new(scope: Scope) -> Self {
        let cpu = match scope {
            Scope::All => None,
            Scope::Cpu(cpu) => Some(cpu),
        };
        Self {
            cpu,
            ..Self::default()
        }
    }

    fn and_le(self, le: u64) -> Self {
        Self {
            le: Some(le),
            ..self
        }
    }
}

impl Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = '{';
        let mut next = || core::mem::replace(&mut before, ',');
        if let Some(cpu) = self.cpu {
            write!(f, "{}cpu=\"{cpu}\"", next())?;
        }
        match self.le {
            None => {}
            Some(u64::MAX) => write!(f, "{}le=\"+Inf\"", next())?,
            Some(le) => write!(f, "{}le=\"{}\"", next(), Seconds(u128::from(le)))?,
        }
        match before {
            '{' => Ok(()),
            _ => f.write_char('}'),
        }
    }
}

/// A number of nanoseconds, written in seconds with all nine decimals.
struct Seconds(u128);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NANOSECONDS: NonZeroU64 = match NonZeroU64::new(1_000_000_000) {
            Some(number) => number,
            None => panic!("this is not 0"),
        };

        let (whole, rest) = div_rem(self.0, NANOSECONDS);
        write!(f, "{whole}.{rest:09}")
    }
}

/// Writes and escapes the value of a label, between its quotation marks.
struct LabelValue<'a, W>(&'a mut W);

impl<W: Write> Write for LabelValue<'_, W> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        s.chars().try_for_each(|c| self.write_char(c))
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        match c {
            '\n' => self.0.write_str("\\n"),
            '"' => self.0.write_str("\\\""),
            '\\' => self.0.write_str("\\\\"),
            _ => self.0.write_char(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        format,
        string::String, //
    };

    #[test]
    fn seconds_are_exact() {
        for (nanoseconds, expected) in [
            (0, "0.000000000"),
            (1, "0.000000001"),
            (255, "0.000000255"),
            (999_999_999, "0.999999999"),
            (1_000_000_000, "1.000000000"),
            (u128::from(u64::MAX), "18446744073.709551615"),
            (1 << 64, "18446744073.709551616"),
            (u128::MAX, "340282366920938463463374607431.768211455"),
        ] {
            assert_eq!(format!("{}", Seconds(nanoseconds)), expected);
        }
    }

    #[test]
    fn label_values_are_escaped() {
        let mut text = String::new();
        write!(LabelValue(&mut text), "a\"b\\c\nd").expect("a String takes all");
        assert_eq!(text, "a\\\"b\\\\c\\nd");
    }
}
