// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/schedhist/`, and what each shows.
//!
//! ```text
//! enable               0 or 1; can be written
//! status               settings and counters, of all CPUs and of each
//! summary              a table for the eye
//! hist/METRIC          a histogram, of all CPUs
//! per_cpu/cpuN/summary
//! per_cpu/cpuN/METRIC  the same of one CPU
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
    boundary::debugfs::{
        File,
        Mode,
        Text,
        Tree, //
    },
    engine::{
        metric::{
            Counter,
            Metric, //
        },
        snapshot::Snapshot,
        text::{
            self,
            Scope, //
        },
    },
    monitor::Monitor,
    VERSION,
};

/// Which file.
enum View {
    Enable,
    Status,
    Summary(Scope),
    Histogram(Scope, Metric),
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
    for metric in Metric::ALL {
        let name = CString::try_from_fmt(fmt!("{}", metric.name()))?;
        tree.file(
            hist,
            &name,
            Mode::ReadOnly,
            file(View::Histogram(Scope::All, metric)),
        )?;
    }
    let per_cpu = tree.folder(root, c_str!("per_cpu"))?;
    for (cpu, _) in monitor.recorder().cpus() {
        let scope = Scope::Cpu(cpu);
        let name = CString::try_from_fmt(fmt!("cpu{cpu}"))?;
        let folder = tree.folder(per_cpu, &name)?;
        for metric in Metric::ALL {
            let name = CString::try_from_fmt(fmt!("{}", metric.name()))?;
            tree.file(
                folder,
                &name,
                Mode::ReadOnly,
                file(View::Histogram(scope, metric)),
            )?;
        }
        tree.file(
            folder,
            c_str!("summary"),
            Mode::ReadOnly,
            file(View::Summary(scope)),
        )?;
    }
    tree.file(
        root,
        c_str!("summary"),
        Mode::ReadOnly,
        file(View::Summary(Scope::All)),
    )?;
    tree.file(root, c_str!("status"), Mode::ReadOnly, file(View::Status))?;
    tree.file(root, c_str!("enable"), Mode::ReadWrite, file(View::Enable))?;
    Ok(tree)
}

impl File for MonitorFile {
    fn size_hint(&self) -> usize {
        let recorder = self.monitor.recorder();
        match self.view {
            View::Enable => 2,
            View::Status => 512 + recorder.cpus().count() * Counter::COUNT * 32,
            View::Summary(_) => 512 + Metric::COUNT * 100,
            // Most histograms have less than half of their buckets filled.
            View::Histogram(..) => 512 + recorder.scheme().buckets() * 16,
        }
    }

    fn show(&self, out: &mut Text<'_>) -> Result {
        match self.view {
            View::Enable => Ok(writeln!(out, "{}", u8::from(self.monitor.is_enabled()))?),
            View::Status => Ok(self.show_status(out)?),
            View::Summary(scope) => self.show_summary(out, scope),
            View::Histogram(scope, metric) => {
                let snapshot = self.snapshot(scope, metric)?;
                Ok(text::histogram(out, metric, scope, &snapshot)?)
            }
        }
    }

    fn write(&self, input: &[u8]) -> Result {
        match self.view {
            View::Enable => match input.trim_ascii() {
                b"0" => self.monitor.set_enabled(false),
                b"1" => self.monitor.set_enabled(true),
                _ => {
                    pr_warn!("enable: expected 0 or 1\n");
                    Err(EINVAL)
                }
            },
            View::Status | View::Summary(_) | View::Histogram(..) => Err(EINVAL),
        }
    }
}

impl MonitorFile {
    fn show_status(&self, out: &mut Text<'_>) -> fmt::Result {
        let recorder = self.monitor.recorder();
        let enabled = u8::from(self.monitor.is_enabled());
        writeln!(out, "# schedhist status version 1")?;
        text::status_line(out, Scope::All, "version", VERSION)?;
        text::status_line(out, Scope::All, "enabled", enabled)?;
        text::status_line(out, Scope::All, "unit", "ns")?;
        text::status_line(
            out,
            Scope::All,
            "precision",
            recorder.scheme().precision().bits(),
        )?;
        text::status_line(out, Scope::All, "cpus_possible", recorder.cpus().count())?;
        text::status_line(out, Scope::All, "memory_bytes", recorder.memory())?;
        for counter in Counter::ALL {
            let value = self.counter(Scope::All, counter);
            text::status_line(out, Scope::All, counter.name(), value)?;
        }
        for (cpu, records) in recorder.cpus() {
            for counter in Counter::ALL {
                let value = records.counter(counter);
                text::status_line(out, Scope::Cpu(cpu), counter.name(), value)?;
            }
        }
        Ok(())
    }

    fn show_summary(&self, out: &mut Text<'_>, scope: Scope) -> Result {
        let enabled = self.monitor.is_enabled();
        text::summary_head(out, scope, enabled, |counter| self.counter(scope, counter))?;
        for metric in Metric::ALL {
            text::summary_row(out, metric, &self.snapshot(scope, metric)?)?;
        }
        Ok(())
    }

    /// Reads a counter, added up over the CPUs in `scope`.
    fn counter(&self, scope: Scope, counter: Counter) -> u64 {
        let recorder = self.monitor.recorder();
        match scope {
            Scope::All => recorder
                .cpus()
                .map(|(_, records)| records.counter(counter))
                .sum(),
            Scope::Cpu(cpu) => recorder
                .cpu(cpu)
                .map_or(0, |records| records.counter(counter)),
        }
    }

    /// Copies the histogram of `metric`, added up over the CPUs in `scope`.
    fn snapshot(&self, scope: Scope, metric: Metric) -> Result<Snapshot<KVVec<u64>>> {
        let recorder = self.monitor.recorder();
        let scheme = recorder.scheme();
        let counts = KVVec::from_elem(0, scheme.buckets(), GFP_KERNEL)?;
        let mut snapshot = Snapshot::new(scheme, counts).ok_or(EINVAL)?;
        for (cpu, records) in recorder.cpus() {
            if scope == Scope::All || scope == Scope::Cpu(cpu) {
                snapshot.add(records, metric);
            }
        }
        Ok(snapshot)
    }
}
