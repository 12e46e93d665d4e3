// SPDX-License-Identifier: GPL-2.0

//! The course of a recording, in a bounded number of columns.

use std::rc::Rc;

use crate::{
    distribution::Distribution, engine::histogram::bucket::Scheme, raw::Names, window::Window,
};

/// The metric whose greatest sample is kept for each CPU.
pub const CPU_METRIC: &str = "runq";

/// A part of the time: one or more intervals that follow one another.
#[derive(Clone, Debug)]
pub struct Column {
    /// The beginning, in nanoseconds since the first snapshot of the recording.
    pub begin: u64,
    pub end: u64,
    /// The local wall-clock time of the beginning, in nanoseconds since 1970.
    pub clock: u64,
    /// The time that its intervals cover, in nanoseconds.
    pub span: u64,
    /// The number of intervals.
    pub intervals: u64,
    /// Whether something is missing before it.
    pub after_gap: bool,
    /// The samples of each metric, in the order of the names.
    pub metrics: Vec<Distribution>,
    /// For each CPU, an upper bound of the greatest sample of [`CPU_METRIC`]; 0 if there is none.
    pub cpus: Vec<u64>,
}

impl Column {
    fn merge(&mut self, later: &Self) {
        self.end = later.end;
        self.span = self.span.saturating_add(later.span);
        self.intervals += later.intervals;
        for (mine, theirs) in self.metrics.iter_mut().zip(&later.metrics) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.cpus.iter_mut().zip(&later.cpus) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// The columns of a recording. If there are more than a limit, each two of them become one, so the
/// memory does not depend on the length of the recording.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub names: Rc<Names>,
    pub scheme: Scheme,
    pub cpus: Vec<u32>,
    pub columns: Vec<Column>,
    limit: usize,
    intervals: u64,
}

impl Timeline {
    /// Creates a timeline of at most `limit` columns, two at least, for windows like this one.
    pub fn new(window: &Window, limit: usize) -> Self {
        Self {
            names: Rc::clone(&window.names),
            scheme: window.scheme,
            cpus: window.cpus.iter().map(|cpu| cpu.number).collect(),
            columns: Vec::new(),
            limit: limit.max(2),
            intervals: 1,
        }
    }

    /// Appends an interval. `end` is its end, in nanoseconds since the first snapshot, and `clock`
    /// the local wall-clock time of its beginning. Returns `None` if the window has other names,
    /// CPUs or buckets.
    pub fn push(&mut self, window: &Window, end: u64, clock: u64, after_gap: bool) -> Option<()> {
        let cpus = window.cpus.iter().map(|cpu| cpu.number);
        if window.scheme != self.scheme
            || window.names != self.names
            || !cpus.eq(self.cpus.iter().copied())
        {
            return None;
        }
        let metrics = &window.names.metrics;
        let of_cpus = window.names.metric(CPU_METRIC);
        let span = window.span.unwrap_or_default();
        let greatest = |cpu: &crate::window::WindowCpu| {
            let parts = of_cpus
                .into_iter()
                .flat_map(|metric| cpu.samples_of(metric));
            parts.filter_map(|part| part.max.value()).max().unwrap_or(0)
        };
        let column = Column {
            begin: end.saturating_sub(span),
            end,
            clock,
            span,
            intervals: 1,
            after_gap,
            metrics: metrics
                .iter()
                .map(|metric| window.distribution(metric, &|_| true))
                .collect(),
            cpus: window.cpus.iter().map(greatest).collect(),
        };
        match self.columns.last_mut() {
            Some(last) if last.intervals < self.intervals && !after_gap => last.merge(&column),
            _ => self.columns.push(column),
        }
        if self.columns.len() > self.limit {
            self.intervals *= 2;
            self.halve(false);
        }
        if self.columns.len() > self.limit {
            // There are too many gaps to keep them apart.
            self.halve(true);
        }
        Some(())
    }

    /// Makes one column of each two, unless there is a gap between them.
    fn halve(&mut self, across_gaps: bool) {
        let columns = std::mem::take(&mut self.columns);
        for column in columns {
            match self.columns.last_mut() {
                Some(last)
                    if last.intervals + column.intervals <= self.intervals
                        && (across_gaps || !column.after_gap) =>
                {
                    last.merge(&column);
                }
                _ => self.columns.push(column),
            }
        }
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        self.names
            .metrics
            .iter()
            .position(|metric| metric.name == name)
    }

    pub fn total(&self, place: usize) -> Distribution {
        let mut all = Distribution::new(self.scheme);
        for column in &self.columns {
            if let Some(samples) = column.metrics.get(place) {
                all.merge(samples);
            }
        }
        all
    }

    /// Returns the local wall-clock time of a time in nanoseconds since the first snapshot.
    pub fn clock(&self, at: u64) -> u64 {
        let column = self.columns.iter().rfind(|column| column.begin <= at);
        column.or(self.columns.first()).map_or(0, |column| {
            let later = column.clock.saturating_add(at.saturating_sub(column.begin));
            later.saturating_sub(column.begin.saturating_sub(at))
        })
    }

    /// Returns the time that the columns cover, in nanoseconds.
    pub fn span(&self) -> u64 {
        self.columns
            .iter()
            .fold(0, |sum, c| sum.saturating_add(c.span))
    }
}

/// The rows of a heat map: two to a power of two. Row `2k` begins at `2^k` ns, row `2k + 1` half a
/// power of two above it. All buckets lie within one row.
pub fn row(ns: u64) -> usize {
    let power = ns.max(1).ilog2();
    let upper_half = power > 0 && (ns >> (power - 1)) & 1 != 0;
    2 * power as usize + usize::from(upper_half)
}

/// Returns the lowest row that heat maps show. Shorter durations count in it.
pub fn lowest_row() -> usize {
    row(64)
}

/// Returns the least duration of a row, in nanoseconds.
pub fn row_begin(row: usize) -> u64 {
    let power = 1_u64 << (row / 2).min(62);
    if row % 2 == 0 {
        power
    } else {
        power + power / 2
    }
}

/// The number of rows: one more than that of the last, open bucket.
pub const ROWS: usize = 2 * crate::engine::histogram::bucket::VALUE_BITS as usize + 1;

/// Returns the number of samples in each row.
pub fn rows(distribution: &Distribution) -> [u64; ROWS] {
    let mut rows = [0_u64; ROWS];
    for (bounds, count) in distribution.buckets() {
        let row = &mut rows[row(bounds.lower).min(ROWS - 1)];
        *row = row.saturating_add(count);
    }
    rows
}
