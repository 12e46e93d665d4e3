// SPDX-License-Identifier: GPL-2.0

//! The last intervals, in as much detail as the screen shows.

use std::{collections::VecDeque, rc::Rc};

use schedhist_core::{
    distribution::{p99, Distribution, Max, Quantile},
    groups::{offenders, GroupRow, GroupWindow, Offender},
    limits::Judged,
    text::Outlier,
    timeline::{rows, CPU_METRIC, ROWS},
    units,
    window::{self, Window},
};

use crate::{render::is_default, source::Interval};

/// The number of intervals that are kept: at one a second, ten minutes.
pub const KEPT: usize = 600;

/// The number of intervals of a recording that are kept: at one a second, two hours.
pub const PLAYED: usize = 7_200;

/// The number of groups that are kept of each interval but the last.
const GROUPS: usize = 64;

/// The number of groups that are shown as offenders.
const OFFENDERS: usize = 3;

/// The number of slices and waits in progress that are kept of each interval.
const IN_PROGRESS: usize = 8;

#[derive(Clone, Debug)]
pub struct Row {
    pub count: u64,
    /// The quantiles p50, p90, p99 and p99.9, if there are samples beyond them.
    pub quantiles: [Option<u64>; 4],
    pub max: Max,
    /// The number of samples in each row of a heat map.
    pub cells: Box<[u64; ROWS]>,
}

/// What a CPU did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// How much of the time it was not idle, in tenths of a percent.
    pub busy: u16,
    /// The p99 of the waits for it.
    pub p99: Option<u64>,
    /// How many tasks waited for it on average, in hundredths.
    pub waiting: u32,
}

/// Some CPUs, or a group, that the user looks at alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// What they are called together, and their numbers.
    Cpus(String, Vec<u32>),
    Group(String),
}

/// What happened in an interval.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The wall-clock time of the end, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The same time by the module's clock.
    pub end: u64,
    /// The length in nanoseconds; `None`: since the module was loaded.
    pub span: Option<u64>,
    /// The metrics, in the order of the names.
    pub rows: Vec<Row>,
    /// The same for what the user looks at alone, and what that is.
    pub part: Option<(Part, Vec<Row>)>,
    pub switches: u64,
    /// The CPUs, by their order.
    pub cpus: Vec<Cpu>,
    /// How many tasks waited on average.
    pub waiting: Option<f64>,
    /// A recording has them for several intervals.
    pub groups: Rc<GroupsOfInterval>,
    /// Outliers that are new.
    pub outliers: Vec<Outlier>,
    /// The slices and waits in progress at the end that began before the interval did.
    pub in_progress: Vec<String>,
    /// Why tasks waited long.
    pub why: Option<String>,
    pub lawful: bool,
    /// What became of the limits that were asked for.
    pub limits: Vec<Judged>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// What groups did in an interval.
#[derive(Clone, Debug, Default)]
pub struct GroupsOfInterval {
    /// The groups that waited longest.
    pub rows: Vec<GroupRow>,
    /// The length in nanoseconds.
    pub span: Option<u64>,
    /// The groups that kept others waiting longest.
    pub offenders: Vec<Offender>,
}

impl GroupsOfInterval {
    pub fn new(between: &GroupWindow<'_>) -> Self {
        let rows = between.rows();
        let (mut offenders, _) = offenders(&rows);
        offenders.truncate(OFFENDERS);
        Self {
            rows,
            span: between.span,
            offenders,
        }
    }

    /// Keeps those of an interval that is not the last one.
    pub fn truncate(&mut self) {
        self.rows.truncate(GROUPS);
        self.rows.shrink_to_fit();
    }
}

impl Moment {
    pub fn new(interval: &Interval, groups: Rc<GroupsOfInterval>, outliers: Vec<Outlier>) -> Self {
        let window = &interval.window;
        let runq = window.names.metric("runq");
        Self {
            unix_ns: interval.unix_ns,
            end: window.end,
            span: window.span,
            rows: rows_of(window, |_| true),
            part: None,
            switches: window.counter("switches").unwrap_or_default(),
            cpus: cpus(window),
            waiting: runq.and_then(|runq| window.waiting(runq, &|_| true)),
            groups,
            outliers,
            in_progress: interval
                .in_progress
                .iter()
                .take(IN_PROGRESS)
                .cloned()
                .collect(),
            why: window
                .long_waits
                .as_ref()
                .and_then(|all| window::why(&all.sums)),
            lawful: interval.laws().violations.is_empty(),
            limits: Vec::new(),
            notes: interval.notes.clone(),
        }
    }
}

/// Returns the metrics of some CPUs.
pub fn rows_of(window: &Window, is_of: impl Fn(u32) -> bool) -> Vec<Row> {
    let metrics = window.names.metrics.iter();
    metrics
        .map(|metric| row_of(&window.distribution(metric, &is_of)))
        .collect()
}

pub fn row_of(all: &Distribution) -> Row {
    let quantiles = ["50", "90", "99", "99.9"].map(|text| {
        let share = Quantile::parse(text).filter(|share| all.beyond(*share) > 0);
        share.and_then(|share| all.quantile_upper(share))
    });
    Row {
        count: all.count(),
        quantiles,
        max: all.max,
        cells: Box::new(rows(all)),
    }
}

fn cpus(window: &Window) -> Vec<Cpu> {
    let elapsed = window.elapsed();
    let waits = window.names.metric(CPU_METRIC);
    let waits = waits.map_or(&[][..], |metric| &metric.parts);
    let one = |cpu: &schedhist_core::window::WindowCpu| {
        let parts = cpu
            .samples
            .iter()
            .filter(|part| waits.contains(&part.metric));
        let parts: Vec<&window::Samples> = parts.collect();
        let span = cpu.time.map(|time| time.span).or(elapsed);
        let waited = parts
            .iter()
            .fold(0_u128, |all, part| all.saturating_add(part.sum));
        Cpu {
            // More than the whole only without the module's word on what is in progress.
            busy: span.map_or(0, |span| {
                (window.busy(cpu) * 1000 / u128::from(span.max(1))).min(1000) as u16
            }),
            p99: p99(
                window.scheme,
                parts.iter().map(|part| &*part.buckets).collect(),
                parts.iter().filter_map(|part| part.max.value()).max(),
            ),
            waiting: units::tasks_on_average(waited, span)
                .map_or(0, |tasks| (tasks * 100.0).round() as u32),
        }
    };
    window.cpus.iter().map(one).collect()
}

/// An outlier, with its end.
#[derive(Clone, Debug)]
pub struct Ended {
    /// By the wall clock, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// By the module's, which is never set.
    pub end: u64,
    pub outlier: Outlier,
}

/// Returns the wall-clock time of `end` by the module's clock.
pub fn unix_at(moment: &Moment, end: u64) -> u64 {
    let ago = moment.end.saturating_sub(end);
    moment.unix_ns.saturating_sub(ago)
}

#[derive(Debug, Default)]
pub struct History {
    pub names: Vec<String>,
    pub cpus: Vec<u32>,
    /// The intervals, the latest one last.
    pub moments: VecDeque<Moment>,
    /// The last outliers. The latest one comes last.
    pub outliers: VecDeque<Ended>,
    /// How many intervals are kept.
    pub kept: usize,
    /// A metric that is shown even while it is off, as those are that are on by default.
    pub wanted: String,
}

impl History {
    /// Appends an interval. One since the load gives way to the first real one, and if there are
    /// other metrics or CPUs, all of them do.
    pub fn push(&mut self, interval: &Interval, mut moment: Moment) {
        let window = &interval.window;
        let is_shown: Vec<_> = window
            .names
            .metrics
            .iter()
            .map(|it| it.name == self.wanted || is_default(&it.name) || window.is_on(it))
            .collect();
        let part = moment.part.as_mut().map(|(_, rows)| rows);
        for rows in [&mut moment.rows].into_iter().chain(part) {
            let mut is_shown = is_shown.iter();
            rows.retain(|_| is_shown.next() == Some(&true));
        }
        let shown = window.names.metrics.iter().zip(&is_shown);
        let names: Vec<_> = shown
            .filter(|(_, is_shown)| **is_shown)
            .map(|(metric, _)| metric.name.clone())
            .collect();
        let cpus: Vec<_> = interval.window.cpus.iter().map(|cpu| cpu.number).collect();
        if names != self.names || cpus != self.cpus {
            self.moments.clear();
            (self.names, self.cpus) = (names, cpus);
        }
        for outlier in &moment.outliers {
            let end = outlier.end_ns.unwrap_or(interval.window.end);
            self.outliers.push_back(Ended {
                unix_ns: unix_at(&moment, end),
                end,
                outlier: outlier.clone(),
            });
        }
        while self.outliers.len() > self.kept {
            self.outliers.pop_front();
        }
        if moment.span.is_some() {
            self.moments.retain(|moment| moment.span.is_some());
        }
        if let Some(last) = self.moments.back_mut() {
            // Those of a recording are truncated once.
            if let Some(groups) = Rc::get_mut(&mut last.groups) {
                groups.truncate();
            }
        }
        self.moments.push_back(moment);
        while self.moments.len() > self.kept {
            self.moments.pop_front();
        }
    }
}
