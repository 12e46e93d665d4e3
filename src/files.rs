// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/schedhist/`.
//!
//! `Documentation/ABI/testing/debugfs-schedhist` describes them.
//!
//! To add a file, write a type for it in a module below this one, and put it into the tree in
//! [`create`] with its name. The type implements [`View`] if the file can be read and [`Control`]
//! if it can be written; [`Setting`] instead if both, and its text is one line, or [`Amount`] if
//! that is a number or `none`; `Stream` if a read blocks. Add it to the ABI document; and one that
//! can be written, to `ctl` of the command, to `TAKEN` in `tests/guest/fuzzer.py` and to
//! `docs/security.md`.

use core::fmt::{
    self,
    Write, //
};

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            Folder,
            Readable,
            Text,
            Tree,
            Writable, //
        },
        log, //
    },
    engine::{
        format::{
            OrNone,
            Scope, //
        },
        group::GroupMetric,
        ShownMetric, //
    },
    monitor::Monitor,
    reading::Reading, //
};

mod chains;
mod controls;
mod groups;
mod histogram;
mod long_waits;
mod openmetrics;
mod outlier_controls;
mod outliers;
mod raw;
mod status;
mod summary;

pub(crate) use controls::METRICS_EXPECTED;
pub(crate) use groups::{
    group_error,
    rule_error, //
};

/// Creates all files. They can be opened once the tree is published.
///
/// Sleeps. Fails with `EEXIST` if debugfs has a folder of this name, with `EPERM` if debugfs is
/// off, and with `ENOMEM`.
pub(crate) fn create(monitor: &Arc<Monitor>) -> Result<Tree> {
    let mut files = Files {
        tree: Tree::new(c"schedhist")?,
        monitor,
    };
    let root = files.tree.root();
    files.of_scope(root, Scope::All)?;
    files.read_only(root, "raw", raw::Raw)?;
    files.read_only(root, "status", status::Status)?;

    files.read_write(root, "enable", controls::Enable)?;
    files.read_write(root, "metrics", controls::Metrics)?;
    files.write_only(root, "reset", controls::Reset)?;

    files.read_write(root, "group_by", groups::GroupBy)?;
    files.read_write(root, "group_rules", groups::Rules)?;
    files.read_only(root, "groups", groups::Groups)?;
    files.read_only(root, "group_summary", groups::Summary)?;
    files.read_only(root, "group_tasks", groups::Tasks)?;
    files.read_write(root, "group_limit", groups::GroupLimit)?;
    files.read_write(root, "group_memory_limit", groups::GroupMemoryLimit)?;
    let hist = files.tree.folder(root, c"group_hist")?;
    for metric in GroupMetric::ALL {
        files.read_only(hist, metric.name(), groups::Histograms(metric))?;
    }

    files.read_write(root, "long_wait_ns", long_waits::LongWait)?;
    files.read_only(root, "long_waits", long_waits::LongWaits)?;

    files.read_write(root, "chain", chains::Chain)?;
    files.read_only(root, "chains", chains::KeptChains)?;
    files.read_only(root, "slices", chains::KeptSlices)?;

    let thresholds = files.tree.folder(root, c"threshold_ns")?;
    for shown in ShownMetric::ALL {
        let threshold = outlier_controls::Threshold(shown);
        files.read_write(thresholds, shown.name, threshold)?;
    }
    files.read_write(root, "outlier_rate", outlier_controls::OutlierRate)?;
    files.read_write(root, "outlier_limit", outlier_controls::OutlierLimit)?;
    files.read_write(root, "on_outlier", outlier_controls::OnOutlier)?;
    files.read_only(root, "outliers", outliers::KeptOutliers)?;
    let pipe = outliers::Pipe(monitor.outliers().clone());
    files.tree.stream(root, c"outlier_pipe", pipe)?;

    let per_cpu = files.tree.folder(root, c"per_cpu")?;
    for cpu in monitor.read().setup.records.cpus() {
        let name = CString::try_from_fmt(fmt!("cpu{}", cpu.number()))?;
        let folder = files.tree.folder(per_cpu, &name)?;
        files.of_scope(folder, Scope::Cpu(cpu.number()))?;
    }
    Ok(files.tree)
}

/// The files that are being created.
struct Files<'a> {
    tree: Tree,
    monitor: &'a Arc<Monitor>,
}

impl Files<'_> {
    /// Creates the files that exist for all CPUs together and for each CPU.
    fn of_scope(&mut self, folder: Folder, scope: Scope) -> Result {
        self.read_only(folder, "summary", summary::Summary(scope))?;
        self.read_only(folder, "openmetrics", openmetrics::OpenMetrics(scope))?;
        let hist = self.tree.folder(folder, c"hist")?;
        for shown in ShownMetric::ALL {
            self.read_only(hist, shown.name, histogram::Histogram(scope, shown))?;
        }
        Ok(())
    }

    fn read_only(&mut self, folder: Folder, name: &'static str, view: impl View) -> Result {
        let (name, file) = self.file(name, view)?;
        self.tree.read_only(folder, &name, file)
    }

    fn read_write(
        &mut self,
        folder: Folder,
        name: &'static str,
        file: impl View + Control,
    ) -> Result {
        let (name, file) = self.file(name, file)?;
        self.tree.read_write(folder, &name, file)
    }

    fn write_only(&mut self, folder: Folder, name: &'static str, control: impl Control) -> Result {
        let (name, file) = self.file(name, control)?;
        self.tree.write_only(folder, &name, file)
    }

    fn file<T>(&self, name: &'static str, kind: T) -> Result<(CString, MonitorFile<T>)> {
        let file = MonitorFile {
            monitor: self.monitor.clone(),
            name,
            kind,
        };
        Ok((CString::try_from_fmt(fmt!("{name}"))?, file))
    }
}

struct MonitorFile<T> {
    monitor: Arc<Monitor>,
    name: &'static str,
    kind: T,
}

/// A kind of file that can be read.
trait View: Send + Sync + 'static {
    /// Estimates the length of the text, as [`Readable::size_hint`] does.
    fn size_hint(&self, _monitor: &Monitor, last_len: usize) -> usize {
        last_len.max(4096)
    }

    /// Writes the text of the file, as of `reading`. Process context, may sleep.
    ///
    /// May be called again, as [`Readable::show`] may, and also if there was a reset meanwhile.
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result;
}

/// A kind of file that can be written.
trait Control: Send + Sync + 'static {
    /// The path of the folder, with a slash at its end, for the kernel log.
    const FOLDER: &'static str = "";

    /// The input that the file accepts, for the kernel log.
    const EXPECTED: &'static str;

    /// The length of the longest input, in bytes.
    const MAX_LEN: usize = 256;

    /// The type of parsed input.
    type Value<'a>;

    /// Parses the input, without the white space around it. Returns `None` if the input does not
    /// match [`Self::EXPECTED`].
    fn parse<'a>(&self, input: &'a [u8]) -> Option<Self::Value<'a>>;

    /// Applies a parsed value. Process context, may sleep.
    fn set(&self, monitor: &Monitor, value: Self::Value<'_>) -> Result;
}

/// A control that can be read, too. Its text is one line.
trait Setting: Control {
    /// Estimates the length of the text in bytes.
    const SIZE: usize = 64;

    /// Returns the current value.
    fn get(&self, reading: &Reading) -> impl fmt::Display;
}

impl<T: Setting> View for T {
    fn size_hint(&self, _monitor: &Monitor, _last_len: usize) -> usize {
        T::SIZE
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        Ok(writeln!(out, "{}", self.get(reading))?)
    }
}

/// A setting that is a number, or `none`, which is 0.
trait Amount: Send + Sync + 'static {
    const FOLDER: &'static str = "";
    const EXPECTED: &'static str = "a number of nanoseconds (1 or more), or none";
    const MAX: u64 = u64::MAX;

    fn get(&self, reading: &Reading) -> u64;

    /// See [`Control::set`].
    fn set(&self, monitor: &Monitor, amount: u64) -> Result;
}

impl<T: Amount> Control for T {
    const FOLDER: &'static str = T::FOLDER;
    const EXPECTED: &'static str = T::EXPECTED;
    type Value<'a> = OrNone;

    fn parse(&self, input: &[u8]) -> Option<OrNone> {
        OrNone::parse(input, T::MAX)
    }

    fn set(&self, monitor: &Monitor, OrNone(amount): OrNone) -> Result {
        Amount::set(self, monitor, amount)
    }
}

impl<T: Amount> Setting for T {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        OrNone(Amount::get(self, reading))
    }
}

impl<T: View> Readable for MonitorFile<T> {
    fn size_hint(&self, last_len: usize) -> usize {
        self.kind.size_hint(&self.monitor, last_len)
    }

    fn show(&self, out: &mut Text<'_>) -> Result {
        let reading = self.monitor.read();
        self.kind.show(&reading, out)?;
        self.monitor.if_reset_since(&reading, |reading| {
            out.clear();
            self.kind.show(reading, out)
        })
    }
}

impl<T: Control> Writable for MonitorFile<T> {
    fn max_len(&self) -> usize {
        T::MAX_LEN
    }

    fn write(&self, input: &[u8]) -> Result {
        match self.kind.parse(input.trim_ascii()) {
            Some(value) => self.kind.set(&self.monitor, value),
            None => Err(self.refuse(input, format_args!("expected {}", T::EXPECTED))),
        }
    }

    fn refuse(&self, input: &[u8], why: fmt::Arguments<'_>) -> Error {
        log::refused(
            format_args!("{}{}", T::FOLDER, self.name),
            input.trim_ascii(),
            why,
        )
    }
}
