// SPDX-License-Identifier: GPL-2.0

//! `status`.

use core::fmt::{
    self,
    Write, //
};

use kernel::prelude::*;

use super::View;
use crate::{
    boundary::abstractions::Text,
    chains::AllChains,
    engine::{
        format::{
            text,
            Scope, //
        },
        Counter,
        Metric, //
    },
    long_waits::CpuIdles,
    monitor::Monitor,
    reading::{
        Reading,
        Since, //
    },
    VERSION, //
};

/// Settings and counters, for all CPUs together and for each. The counters count from the last
/// reset.
pub(super) struct Status;

impl View for Status {
    fn size_hint(&self, monitor: &Monitor, _last_len: usize) -> usize {
        let cpus = monitor.read().setup.records.cpus().count();
        1024 + cpus * (Counter::COUNT + 1) * 32
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        writeln!(out, "# schedhist status version 1")?;
        let records = &reading.setup.records;
        line(out, "version", VERSION)?;
        line(out, "enabled", u8::from(reading.setup.enabled))?;
        line(out, "metrics", reading.setup.metrics)?;
        line(out, "unit", "ns")?;
        line(out, "precision", records.scheme().precision().bits())?;
        line(out, "cpus_possible", records.cpus().count())?;
        line(out, "memory_bytes", records.memory())?;
        line(out, "task_memory_bytes", reading.task_memory())?;
        show_counters(reading, out, Scope::All)?;
        for cpu in records.cpus() {
            show_counters(reading, out, Scope::Cpu(cpu.number()))?;
        }
        line(out, "outliers", reading.reported(Since::Reset))?;
        let suppressed = reading.suppressed(Since::Reset);
        line(out, "outliers_suppressed", suppressed)?;
        line(out, "outlier_memory_bytes", reading.outliers.memory())?;
        let idle_memory = reading.setup.idles.as_ref().map_or(0, CpuIdles::memory);
        line(out, "long_wait_memory_bytes", idle_memory)?;
        let chain_memory = reading.setup.chains.as_deref();
        let chain_memory = chain_memory.map_or(0, AllChains::memory);
        line(out, "chain_memory_bytes", chain_memory)?;
        Ok(())
    }
}

/// Writes a line about the whole machine.
fn line(out: &mut Text<'_>, key: &str, value: impl fmt::Display) -> fmt::Result {
    text::status_line(out, Scope::All, key, value)
}

/// Writes a line for each counter of `scope`.
fn show_counters(reading: &Reading, out: &mut Text<'_>, scope: Scope) -> fmt::Result {
    for counter in Counter::ALL {
        let value = reading.counter(Since::Reset, scope, counter);
        text::status_line(out, scope, counter.name(), value)?;
    }
    let wakeups = reading.count(Since::Reset, scope, Metric::RunqWakeup);
    text::status_line(out, scope, "wakeups", wakeups)
}
