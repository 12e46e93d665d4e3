// SPDX-License-Identifier: GPL-2.0

//! OpenMetrics 1.0 text, and the older text of Prometheus.
//!
//! Seconds are nanoseconds with a decimal point inserted, so that nothing is rounded.

use std::fmt::Write;

use super::{classic, Exposition, Family, Kind, Sample, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus, which node_exporter's textfile collector reads, too.
    Prometheus,
}

pub fn encode(exposition: &Exposition, dialect: Dialect) -> String {
    let mut out = String::new();
    for family in &exposition.families {
        // Writing to a String does not fail.
        let _ = write_family(&mut out, family, exposition.created_of(family), dialect);
    }
    if dialect == Dialect::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn write_family(
    out: &mut String,
    family: &Family,
    created: Option<u64>,
    dialect: Dialect,
) -> std::fmt::Result {
    let is_open = dialect == Dialect::OpenMetrics;
    let kind = match family.kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
        Kind::Histogram => "histogram",
    };
    // The older format knows no suffixes: there a counter's name is that of its samples.
    let suffix = if family.kind == Kind::Counter {
        "_total"
    } else {
        ""
    };
    let of_family = if is_open { "" } else { suffix };
    let name = &family.name;
    writeln!(
        out,
        "# HELP {name}{of_family} {}",
        escaped(&family.help, is_open)
    )?;
    writeln!(out, "# TYPE {name}{of_family} {kind}")?;
    if is_open && !family.unit.is_empty() {
        writeln!(out, "# UNIT {name} {}", family.unit)?;
    }
    for sample in &family.samples {
        let labels = labels(sample, None);
        match &sample.value {
            Value::Number(number) => writeln!(out, "{name}{suffix}{labels} {number}")?,
            Value::Seconds(ns) => writeln!(out, "{name}{suffix}{labels} {}", seconds(*ns))?,
            Value::Histogram(distribution) => {
                for (upper, below) in classic(distribution) {
                    let labels = self::labels(sample, Some(&seconds(u128::from(upper))));
                    writeln!(out, "{name}_bucket{labels} {below}")?;
                }
                let count = distribution.count();
                let all = self::labels(sample, Some("+Inf"));
                writeln!(out, "{name}_bucket{all} {count}")?;
                writeln!(out, "{name}_count{labels} {count}")?;
                writeln!(out, "{name}_sum{labels} {}", seconds(distribution.sum))?;
            }
        }
        if let (true, Some(ns)) = (is_open, created) {
            writeln!(out, "{name}_created{labels} {}", seconds(u128::from(ns)))?;
        }
    }
    Ok(())
}

fn seconds(ns: u128) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn labels(sample: &Sample, le: Option<&str>) -> String {
    let mut all: Vec<_> = sample
        .labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)))
        .collect();
    all.extend(le.map(|le| format!("le=\"{le}\"")));
    if all.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", all.join(","))
    }
}

/// Escapes backslashes, line feeds and, if need be, quotation marks.
fn escaped(text: &str, quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quotes => escaped.push_str("\\\""),
            c => escaped.push(c),
        }
    }
    escaped
}
