// SPDX-License-Identifier: GPL-2.0

//! `help metrics` and `help causes`: the engine's own tables.

use std::ffi::OsString;

use schedhist_core::engine::{
    idle::{Distance, WaitCause, WaitPart},
    switch::sample::Cause,
    Metric, MetricSet, ShownMetric,
};

use crate::output::wrap_after;

/// Returns the text of a topic, if these words ask for one.
pub fn asked_for(words: &[OsString]) -> Option<String> {
    match words {
        [help, topic] if help == "help" && topic == "metrics" => Some(metrics()),
        [help, topic] if help == "help" && topic == "causes" => Some(causes()),
        _ => None,
    }
}

/// Appends names with what they mean, below a heading.
fn rows<'a>(out: &mut String, heading: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) {
    wrap_after(out, "", 0, heading);
    let rows: Vec<_> = rows.collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, help) in rows {
        wrap_after(out, &format!("  {name:width$}  "), width + 4, help);
    }
}

/// Appends names that say what they mean, below a heading.
fn names<'a>(out: &mut String, heading: &str, names: impl Iterator<Item = &'a str>) {
    let names: Vec<_> = names.collect();
    wrap_after(out, "", 0, heading);
    wrap_after(out, "  ", 2, &names.join(", "));
}

fn metrics() -> String {
    let mut out = String::new();
    let heading = "Metrics: durations, in nanoseconds in files and in JSON";
    let all = ShownMetric::ALL.iter();
    rows(
        &mut out,
        heading,
        all.map(|metric| (metric.name, metric.help)),
    );
    let is_default = |part: &Metric| MetricSet::DEFAULT.contains(*part);
    let is_extra = |metric: &&ShownMetric| !metric.parts.iter().all(is_default);
    let extra = ShownMetric::ALL.iter().filter(is_extra);
    let heading = "Off unless they are set (schedhist ctl metrics all):";
    names(&mut out, heading, extra.map(|metric| metric.name));
    out + "docs/metrics.md defines each.\n"
}

fn causes() -> String {
    let mut out = String::new();
    let all = WaitCause::ALL.iter();
    rows(
        &mut out,
        "Why a task waited long: the first that applies",
        all.map(|cause| (cause.name(), cause.help())),
    );
    let all = WaitPart::ALL.iter();
    rows(
        &mut out,
        "Where the time of long waits went",
        all.map(|part| (part.name(), part.help())),
    );
    names(
        &mut out,
        "How far the CPU was that was idle meanwhile",
        Distance::ALL.iter().map(|distance| distance.name()),
    );
    names(
        &mut out,
        "The cause of an outlier, or of an event",
        Cause::ALL.iter().map(|cause| cause.name()),
    );
    out + "docs/long-waits.md and docs/events.md define each.\n"
}
