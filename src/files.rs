// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/schedhist/`, and what each shows.
//!
//! ```text
//! enable               0 or 1; can be written
//! metrics              the names of the metrics that are on; can be written
//! reset                write 1 to start from 0
//! threshold_ns/METRIC  a sample above this is an outlier; can be written
//! outlier_rate         how many outliers are reported per second; can be written
//! outlier_limit        how many more outliers are reported at all; can be written
//! on_outlier           what else is done at an outlier; can be written
//! outliers             the last outliers, and who had the CPU meanwhile
//! outlier_pipe         outliers as they happen: a read blocks until there is one
//! status               settings and counters, of all CPUs and of each
//! summary              a table for people
//! openmetrics          everything, for a monitoring system
//! raw                  everything, for a program: include/uapi/schedhist_raw.h
//! hist/METRIC          a histogram, of all CPUs
//! per_cpu/cpuN/...     hist/METRIC, summary and openmetrics of one CPU
//! ```

use core::fmt::{
    self,
    Write, //
};

use kernel::{
    c_str,
    prelude::*,
    str::CString,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            clock::local_clock,
            debugfs::{
                File,
                Folder,
                Mode,
                Stream,
                Text,
                Tree, //
            },
        },
        log, //
    },
    engine::{
        format::{
            input::{
                Actions,
                OrNone, //
            },
            openmetrics, raw,
            text::{
                self,
                Scope, //
            },
        },
        histogram::snapshot::{
            Baseline,
            Snapshot, //
        },
        metric::{
            Counter,
            Metric,
            MetricSet,
            Series, //
        },
        outlier::rate::Rate, //
    },
    monitor::{
        Monitor,
        Reading, //
    },
    outliers::Outliers,
    records::CpuRecords, //
    VERSION,
};

mod outliers;

/// What `metrics` expects, as the log says it.
pub(crate) const METRICS_EXPECTED: &str = "metric names (see hist/), or all, default, none";

/// Which file.
enum View {
    Enable,
    Metrics,
    Reset,
    Threshold(Series),
    OutlierRate,
    OutlierLimit,
    OnOutlier,
    Outliers,
    OutlierPipe,
    Status,
    Summary(Scope),
    Histogram(Scope, Series),
    OpenMetrics(Scope),
    Raw,
}

/// A file, and where its contents come from.
pub(crate) struct MonitorFile {
    monitor: Arc<Monitor>,
    view: View,
}

/// Creates all files. They can be opened when the tree has been published.
///
/// Sleeps. Fails with `EEXIST` when debugfs has a folder of this name, with `EPERM` when it is off,
/// and with `ENOMEM`.
pub(crate) fn create(monitor: &Arc<Monitor>) -> Result<Tree<MonitorFile>> {
    let file = |view| MonitorFile {
        monitor: monitor.clone(),
        view,
    };
    let mut tree = Tree::new(c_str!("schedhist"))?;
    let root = tree.root();
    let hist = tree.folder(root, c_str!("hist"))?;
    create_histograms(&mut tree, hist, Scope::All, &file)?;
    let thresholds = tree.folder(root, c_str!("threshold_ns"))?;
    for metric in Series::ALL {
        let name = CString::try_from_fmt(fmt!("{}", metric.name))?;
        let threshold = file(View::Threshold(metric));
        tree.file(thresholds, &name, Mode::ReadWrite, threshold)?;
    }
    let per_cpu = tree.folder(root, c_str!("per_cpu"))?;
    for cpu in monitor.read().records.cpus() {
        let scope = Scope::Cpu(cpu.number());
        let name = CString::try_from_fmt(fmt!("cpu{}", cpu.number()))?;
        let folder = tree.folder(per_cpu, &name)?;
        let hist = tree.folder(folder, c_str!("hist"))?;
        create_histograms(&mut tree, hist, scope, &file)?;
        create_renderings(&mut tree, folder, scope, &file)?;
    }
    create_renderings(&mut tree, root, Scope::All, &file)?;
    for (name, mode, view) in [
        (c_str!("raw"), Mode::ReadOnly, View::Raw),
        (c_str!("status"), Mode::ReadOnly, View::Status),
        (c_str!("outliers"), Mode::ReadOnly, View::Outliers),
        (c_str!("outlier_pipe"), Mode::ReadOnly, View::OutlierPipe),
        (c_str!("outlier_rate"), Mode::ReadWrite, View::OutlierRate),
        (c_str!("outlier_limit"), Mode::ReadWrite, View::OutlierLimit),
        (c_str!("on_outlier"), Mode::ReadWrite, View::OnOutlier),
        (c_str!("metrics"), Mode::ReadWrite, View::Metrics),
        (c_str!("reset"), Mode::WriteOnly, View::Reset),
        (c_str!("enable"), Mode::ReadWrite, View::Enable),
    ] {
        tree.file(root, name, mode, file(view))?;
    }
    Ok(tree)
}

/// Creates the files in `folder` that show all metrics at once.
fn create_renderings(
    tree: &mut Tree<MonitorFile>,
    folder: Folder,
    scope: Scope,
    file: &impl Fn(View) -> MonitorFile,
) -> Result {
    let summary = file(View::Summary(scope));
    tree.file(folder, c_str!("summary"), Mode::ReadOnly, summary)?;
    let openmetrics = file(View::OpenMetrics(scope));
    tree.file(folder, c_str!("openmetrics"), Mode::ReadOnly, openmetrics)
}

/// Creates a file for each metric in `folder`.
fn create_histograms(
    tree: &mut Tree<MonitorFile>,
    folder: Folder,
    scope: Scope,
    file: &impl Fn(View) -> MonitorFile,
) -> Result {
    for metric in Series::ALL {
        let name = CString::try_from_fmt(fmt!("{}", metric.name))?;
        tree.file(
            folder,
            &name,
            Mode::ReadOnly,
            file(View::Histogram(scope, metric)),
        )?;
    }
    Ok(())
}

impl File for MonitorFile {
    fn size_hint(&self, last: usize) -> usize {
        match self.view {
            View::Enable | View::Reset => 2,
            View::Threshold(_) | View::OutlierRate | View::OutlierLimit | View::OnOutlier => 32,
            View::Metrics => 256,
            View::Outliers => outliers::size_hint(self.monitor.outliers()),
            View::OutlierPipe => 0,
            View::Status => {
                let cpus = self.monitor.read().records.cpus().count();
                1024 + cpus * (Counter::COUNT + 1) * 32
            }
            View::Summary(_) => 1024 + Series::ALL.len() * 160,
            // Most histograms have less than half of their buckets filled.
            View::Histogram(..) => 512 + self.monitor.read().records.scheme().buckets() * 16,
            View::OpenMetrics(_) => openmetrics::MAX_LEN + 1,
            View::Raw => {
                let mut length = raw::Length(last);
                if last == 0 {
                    self.monitor.read().show_raw(&mut length);
                }
                // It grows meanwhile.
                length.0 + length.0 / 4 + 32768
            }
        }
    }

    fn show(&self, out: &mut Text<'_>) -> Result {
        let reading = self.monitor.read();
        self.show_reading(&reading, out)?;
        self.monitor.if_reset_since(&reading, |reading| {
            out.clear();
            self.show_reading(reading, out)
        })
    }

    fn write(&self, input: &[u8]) -> Result {
        let word = input.trim_ascii();
        let watch = self.monitor.outliers();
        match self.view {
            View::Enable => match word {
                b"0" => self.monitor.set_enabled(false),
                b"1" => self.monitor.set_enabled(true),
                _ => self.refuse(word, "0 or 1"),
            },
            View::Metrics => match MetricSet::parse(word) {
                Ok(metrics) => self.monitor.set_metrics(metrics),
                Err(_) => self.refuse(word, METRICS_EXPECTED),
            },
            View::Reset => match word {
                b"1" => self.monitor.reset(),
                _ => self.refuse(word, "1"),
            },
            View::Threshold(metric) => match OrNone::parse(word, u64::MAX) {
                Some(OrNone(nanoseconds)) => watch.set_threshold(metric, nanoseconds),
                None => self.refuse(word, "a number of nanoseconds (1 or more), or none"),
            },
            View::OutlierRate => match OrNone::parse(word, Rate::MAX) {
                Some(OrNone(rate)) => {
                    watch.set_rate(rate);
                    Ok(())
                }
                None => self.refuse(word, "outliers per second, 1 to 1000000000, or none"),
            },
            View::OutlierLimit => match OrNone::parse(word, u64::MAX) {
                Some(OrNone(limit)) => {
                    watch.set_limit(limit);
                    Ok(())
                }
                None => self.refuse(word, "a number (1 or more), or none"),
            },
            // Without it the kernel warns when it is asked for a snapshot.
            View::OnOutlier => match Actions::parse(word, cfg!(CONFIG_TRACER_SNAPSHOT)) {
                Some(actions) => {
                    watch.set_actions(actions);
                    Ok(())
                }
                None => self.refuse(word, "none, tracing_off, snapshot, or both words"),
            },
            View::Outliers
            | View::OutlierPipe
            | View::Status
            | View::Summary(_)
            | View::Histogram(..)
            | View::OpenMetrics(_)
            | View::Raw => Err(EINVAL),
        }
    }

    fn stream(&self) -> Option<&dyn Stream> {
        match self.view {
            View::OutlierPipe => Some(self.monitor.outliers()),
            _ => None,
        }
    }
}

/// The names that the kernel log has for files that can be written.
impl fmt::Display for MonitorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.view {
            View::Enable => "enable",
            View::Metrics => "metrics",
            View::Reset => "reset",
            View::OutlierRate => "outlier_rate",
            View::Threshold(metric) => return write!(f, "threshold_ns/{}", metric.name),
            View::OutlierLimit => "outlier_limit",
            View::OnOutlier => "on_outlier",
            View::Outliers
            | View::OutlierPipe
            | View::Status
            | View::Summary(_)
            | View::Histogram(..)
            | View::OpenMetrics(_)
            | View::Raw => "a file that is only read",
        })
    }
}

impl MonitorFile {
    /// Says in the log what was wrong with what was written to the file.
    fn refuse(&self, word: &[u8], expected: &str) -> Result {
        Err(log::refused(
            self,
            word,
            format_args!("expected {expected}"),
        ))
    }

    /// Writes the text of the file, as things were at `reading`.
    fn show_reading(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let watch = self.monitor.outliers();
        match self.view {
            View::Enable => Ok(writeln!(out, "{}", u8::from(reading.enabled))?),
            View::Metrics => Ok(writeln!(out, "{}", reading.metrics)?),
            View::Reset | View::OutlierPipe => Err(EINVAL),
            View::Threshold(metric) => Ok(writeln!(out, "{}", OrNone(watch.threshold(metric)))?),
            View::OutlierRate => Ok(writeln!(out, "{}", OrNone(watch.rate()))?),
            View::OutlierLimit => Ok(writeln!(out, "{}", OrNone(watch.limit()))?),
            View::OnOutlier => Ok(writeln!(out, "{}", watch.actions())?),
            View::Outliers => Ok(outliers::show_all(watch, out)?),
            View::Status => {
                reading.show_status(out)?;
                Ok(show_outlier_counts(reading, watch, out)?)
            }
            View::Summary(scope) => reading.show_summary(out, scope),
            View::Histogram(scope, metric) => {
                let snapshot = reading.snapshot(Since::Reset, scope, metric)?;
                Ok(text::histogram(out, metric, scope, &snapshot)?)
            }
            View::OpenMetrics(scope) => reading.show_openmetrics(out, scope, watch),
            View::Raw => {
                reading.show_raw(out);
                Ok(())
            }
        }
    }
}

/// Writes what the status tells of outliers: like its other counts, since the last reset.
fn show_outlier_counts(reading: &Reading, outliers: &Outliers, out: &mut Text<'_>) -> fmt::Result {
    let all = Scope::All;
    let before = reading.baselines.as_ref();
    let reported = before.map_or(0, |baselines| baselines.reported);
    let suppressed = before.map_or(0, |baselines| baselines.suppressed);
    let reported = outliers.last().wrapping_sub(reported);
    let suppressed = outliers.suppressed().wrapping_sub(suppressed);
    text::status_line(out, all, "outliers", reported)?;
    text::status_line(out, all, "outliers_suppressed", suppressed)?;
    text::status_line(out, all, "outlier_memory_bytes", outliers.memory())
}

/// Since when a file counts. All of a file is of one epoch.
#[derive(Clone, Copy)]
enum Since {
    /// Since the module was loaded: what programs read, which subtract by themselves.
    Load,
    /// Since the last reset: what people read.
    Reset,
}

impl Reading {
    fn show_status(&self, out: &mut Text<'_>) -> fmt::Result {
        let all = Scope::All;
        writeln!(out, "# schedhist status version 1")?;
        text::status_line(out, all, "version", VERSION)?;
        text::status_line(out, all, "enabled", u8::from(self.enabled))?;
        text::status_line(out, all, "metrics", self.metrics)?;
        text::status_line(out, all, "unit", "ns")?;
        text::status_line(
            out,
            all,
            "precision",
            self.records.scheme().precision().bits(),
        )?;
        text::status_line(out, all, "cpus_possible", self.records.cpus().count())?;
        text::status_line(out, all, "memory_bytes", self.records.memory())?;
        text::status_line(out, all, "task_memory_bytes", self.task_memory)?;
        self.show_counters(out, all)?;
        for cpu in self.records.cpus() {
            self.show_counters(out, Scope::Cpu(cpu.number()))?;
        }
        Ok(())
    }

    fn show_counters(&self, out: &mut Text<'_>, scope: Scope) -> fmt::Result {
        for counter in Counter::ALL {
            let value = self.counter(Since::Reset, scope, counter);
            text::status_line(out, scope, counter.name(), value)?;
        }
        let wakeups = self.count(scope, Metric::RunqWakeup);
        text::status_line(out, scope, "wakeups", wakeups)
    }

    fn show_summary(&self, out: &mut Text<'_>, scope: Scope) -> Result {
        text::summary_head(out, scope, self.enabled, |counter| {
            self.counter(Since::Reset, scope, counter)
        })?;
        for metric in Series::ALL {
            let snapshot = self.snapshot(Since::Reset, scope, metric)?;
            if self.metrics.shows(metric) || snapshot.count() != 0 {
                text::summary_row(out, metric, &snapshot)?;
            }
        }
        Ok(())
    }

    /// All of it is since the module was loaded, whatever was reset: a counter only ever grows.
    fn show_openmetrics(&self, out: &mut Text<'_>, scope: Scope, outliers: &Outliers) -> Result {
        if scope == Scope::All {
            let precision = self.records.scheme().precision();
            openmetrics::head(out, VERSION, precision, self.enabled, self.metrics)?;
        }
        for counter in Counter::ALL {
            let value = self.counter(Since::Load, scope, counter);
            openmetrics::counter_head(out, counter)?;
            openmetrics::counter_sample(out, counter, scope, value)?;
        }
        if scope == Scope::All {
            openmetrics::outliers(out, outliers.last(), outliers.suppressed())?;
        }
        for metric in Series::ALL {
            let snapshot = self.snapshot(Since::Load, scope, metric)?;
            if self.metrics.shows(metric) || snapshot.count() != 0 {
                openmetrics::histogram_head(out, metric)?;
                openmetrics::histogram_samples(out, metric, scope, &snapshot)?;
            }
        }
        Ok(openmetrics::end(out)?)
    }

    /// All of it is since the module was loaded, as in [`Reading::show_openmetrics`].
    fn show_raw(&self, out: &mut impl raw::Sink) {
        let info = raw::Info {
            time: local_clock(),
            enabled: self.enabled,
            metrics: self.metrics,
            scheme: self.records.scheme(),
            cpus: self.records.cpus().count() as u32,
        };
        raw::snapshot(out, &info, self.cpus(Scope::All));
    }

    /// Goes through the records of the CPUs in `scope`, each with its baseline if there was a reset.
    fn cpus(
        &self,
        scope: Scope,
    ) -> impl Iterator<Item = (&CpuRecords, Option<&Baseline<KVVec<u64>>>)> + '_ {
        self.records
            .cpus()
            .enumerate()
            .filter(move |(_, cpu)| scope == Scope::All || scope == Scope::Cpu(cpu.number()))
            .map(|(i, records)| {
                let baselines = self.baselines.as_ref();
                (
                    records,
                    baselines.and_then(|baselines| baselines.cpus.get(i)),
                )
            })
    }

    /// Reads a counter, added up over the CPUs in `scope`.
    fn counter(&self, since: Since, scope: Scope, counter: Counter) -> u64 {
        self.cpus(scope).fold(0, |sum, (records, baseline)| {
            let before = match since {
                Since::Load => 0,
                Since::Reset => baseline.map_or(0, |baseline| baseline.counter(counter)),
            };
            sum.wrapping_add(records.counter(counter).wrapping_sub(before))
        })
    }

    /// Counts the samples of `metric` since the last reset, added up over the CPUs in `scope`.
    fn count(&self, scope: Scope, metric: Metric) -> u64 {
        self.cpus(scope).fold(0, |sum, (records, baseline)| {
            let before = baseline.map_or(0, |baseline| baseline.count(metric));
            sum.wrapping_add(records.count_of(metric).wrapping_sub(before))
        })
    }

    /// Copies the histogram of `metric`, added up over the CPUs in `scope`.
    fn snapshot(&self, since: Since, scope: Scope, metric: Series) -> Result<Snapshot<KVVec<u64>>> {
        let scheme = self.records.scheme();
        let counts = KVVec::from_elem(0, scheme.buckets(), GFP_KERNEL)?;
        let mut snapshot = Snapshot::new(scheme, counts).ok_or(EINVAL)?;
        for (records, baseline) in self.cpus(scope) {
            for part in metric.parts {
                match since {
                    Since::Load => snapshot.add_since_load(records, baseline, *part),
                    Since::Reset => snapshot.add(records, baseline, *part),
                }
            }
        }
        Ok(snapshot)
    }
}
