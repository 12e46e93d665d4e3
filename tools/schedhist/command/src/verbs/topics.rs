// SPDX-License-Identifier: GPL-2.0

//! `help metrics`, `help causes` and `help chain`.

use std::ffi::OsString;

use schedhist_core::engine::{
    chain::walk::End,
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
        [help, topic] if help == "help" && topic == "chain" => Some(chain()),
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

fn chain() -> String {
    let mut out = String::new();
    let parts = [
        ("ran", "had a CPU, until it woke the one before"),
        ("waited", "waited for a CPU after it had been woken"),
        ("preempted", "waited for one after it had been preempted"),
        ("throttled", "had spent its quota"),
        ("behind", "who had the CPU for most of the time of a wait"),
    ];
    let heading =
        "A chain goes back from the end of a wait or a sleep, waker by waker. The times of \
        its tasks add up to its duration. What each task did until then";
    rows(&mut out, heading, parts.into_iter());
    let meaning = |end: &End| match end {
        End::Start => "where the wait or the sleep begins: nothing is left to explain",
        End::Timer => "the function of a timer woke the last task",
        End::Interrupt => "a hard interrupt woke it: a device's, or another CPU's",
        End::InterruptSoftirq => "a softirq woke it that a hard interrupt had raised",
        End::UnknownSoftirq => "a softirq woke it, and the kernel does not tell for whom",
        End::Idle => "the idle task woke it, for another CPU",
        End::Overwritten => {
            "the slice before is not kept any more: a greater chain reaches further"
        }
        End::Unknown => "what came before was not seen",
        End::Limit => "there are too many hops, or slices",
    };
    let ends = End::ALL.iter().map(|end| (end.name(), meaning(end)));
    rows(&mut out, "Where it ends", ends);
    out + "Off unless chain is set (schedhist ctl chain 1024). docs/chain.md defines each.\n"
}
