// SPDX-License-Identifier: GPL-2.0

//! Slices and waits that have not ended: as `watch` reports them, and in notes below tables.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write};

use schedhist_core::{
    raw::{Metric, Snapshot, TaskInProgress},
    text::Outlier,
    units::Unit,
};

use crate::{outliers::shown::bracketed, output::wrap, render::name, table::Cell};

/// What `watch` has reported, so that it reports nothing twice.
#[derive(Debug, Default)]
pub struct Reported {
    /// The time at which it was in progress, by the PID, and for idle tasks by the CPU.
    at: BTreeMap<(i32, u32), u64>,
}

/// A task has one wait at a time. An idle task has a slice on each CPU.
fn key(pid: i32, cpu: u32) -> (i32, u32) {
    (pid, if pid == 0 { cpu } else { 0 })
}

impl Reported {
    /// Returns the slices or waits of a metric that have taken longer than `ns` nanoseconds so far,
    /// and were not reported; the longest is first.
    pub fn more(&mut self, snapshot: &Snapshot, metric: &Metric, ns: u64) -> Vec<TaskInProgress> {
        let mut all = snapshot.in_progress(metric);
        all.retain(|task| {
            let key = key(task.task.pid, task.cpu);
            let is_known = self.at.get(&key).is_some_and(|at| task.since() <= *at);
            if task.duration > ns {
                self.at.insert(key, task.now);
            }
            task.duration > ns && !is_known
        });
        all
    }

    /// Returns whether an outlier is the end of what was reported.
    pub fn ends(&mut self, outlier: &Outlier) -> bool {
        let at = self.at.remove(&key(outlier.pid, outlier.cpu));
        at.zip(outlier.start_ns)
            .is_some_and(|(at, start)| start <= at)
    }
}

/// Returns what the task does in a metric.
fn doing(metric: &str) -> &'static str {
    match metric {
        "oncpu" => "still running",
        "idle" => "still idle",
        "throttled" => "still throttled",
        _ => "still waiting",
    }
}

/// Returns what `watch` prints. `groups` returns the name of a group.
pub fn text(
    task: &TaskInProgress,
    metric: &str,
    snapshot: &Snapshot,
    groups: impl Fn(u32) -> Option<String>,
) -> String {
    let mut head = format!(
        "## CPU {}: {metric} of {}: {} so far, {}",
        task.cpu,
        who(task),
        Unit::Fitting.text(Some(task.duration)),
        doing(metric)
    );
    if let Some(group) = groups(task.task.group.number()) {
        let _ = write!(head, ", group {group}");
    }
    if task.unseen {
        head += "; its beginning was not seen";
    }
    let mut out = String::new();
    wrap(&mut out, &head);
    if let Some(other) = holder(task, snapshot) {
        let time = Unit::Fitting.text(Some(other.duration));
        let group = bracketed(groups(other.task.group.number()));
        let _ = writeln!(out, "  {}{group} has had the CPU for {time}", who(other));
    }
    out
}

/// Returns the task that has the CPU for which another one waits.
fn holder<'a>(task: &TaskInProgress, snapshot: &'a Snapshot) -> Option<&'a TaskInProgress> {
    let other = snapshot.task_on(task.cpu)?;
    (other.task.pid != task.task.pid && task.task.pid != 0).then_some(other)
}

/// Returns what `watch -j` prints.
pub fn json(
    task: &TaskInProgress,
    metric: &str,
    snapshot: &Snapshot,
    groups: impl Fn(u32) -> Option<String>,
) -> String {
    let of_task = |task: &TaskInProgress| {
        let group = task.task.group.number();
        let group_name = groups(group).map_or(Cell::Absent, Cell::Text);
        [
            ("pid", task.task.pid.into()),
            ("comm", Cell::Text(name(&task.task.comm))),
            ("group", group.into()),
            ("group_name", group_name),
            ("duration_ns", Cell::Time(task.duration)),
        ]
    };
    let holder = holder(task, snapshot);
    let holder = holder.map_or(Cell::Unknown, |it| Cell::object(of_task(it)));
    let head = [
        ("schema", Cell::from("schedhist.in_progress.v1")),
        ("time_ns", task.now.into()),
        ("metric", Cell::from(metric)),
        ("cpu", task.cpu.into()),
        ("seen", Cell::Flag(!task.unseen)),
    ];
    let fields = head.into_iter().chain(of_task(task));
    Cell::object(fields.chain([("cpu_has", holder)])).line()
}

fn who(task: &TaskInProgress) -> String {
    match task.task.pid {
        0 => "idle".to_owned(),
        pid => format!("{}:{pid}", name(&task.task.comm)),
    }
}

/// Returns the slices and waits that have taken longer than `ns` nanoseconds so far, the longest
/// first, in words.
pub fn longer(snapshot: &Snapshot, ns: u64) -> Vec<String> {
    let of = |name: &str, what: &'static str| {
        let metric = snapshot.names.metric(name);
        let all = metric.map_or_else(Vec::new, |metric| snapshot.in_progress(metric));
        all.into_iter().map(move |task| (task, what))
    };
    let all = of("oncpu", "has had").chain(of("runq", "has waited for"));
    let mut all: Vec<_> = all.filter(|(task, _)| task.duration > ns).collect();
    all.sort_by_cached_key(|(task, _)| Reverse(task.duration));
    let text = |(task, what): &(TaskInProgress, &str)| {
        let time = Unit::Fitting.text(Some(task.duration));
        format!("{} {what} CPU {} for {time}", who(task), task.cpu)
    };
    all.iter().map(text).collect()
}
