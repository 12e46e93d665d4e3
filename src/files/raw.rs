// SPDX-License-Identifier: GPL-2.0

//! `raw`.

use kernel::prelude::*;

use super::View;
use crate::{
    boundary::abstractions::{
        context::cond_resched,
        is_online,
        local_clock,
        Text, //
    },
    engine::{
        format::{
            raw,
            Scope, //
        },
        switch::Waiters, //
    },
    in_progress::InProgress,
    monitor::Monitor,
    reading::Reading, //
};

/// All records, for programs. All numbers count from the load of the module, or from when the
/// groups began, and a reset does not affect them.
pub(super) struct Raw;

impl View for Raw {
    fn size_hint(&self, monitor: &Monitor, last_len: usize) -> usize {
        let mut length = raw::Length(last_len);
        if last_len == 0 {
            // If this fails, reading does.
            let _ = write(&monitor.read(), &mut length);
        }
        // The snapshot may grow before it is read.
        length.0 + length.0 / 4 + 32768
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        write(reading, out)
    }
}

impl raw::Sink for Text<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.write_bytes(bytes);
    }
}

fn write(reading: &Reading, out: &mut impl raw::Sink) -> Result {
    let info = raw::Info {
        time: local_clock(),
        enabled: reading.setup.enabled,
        metrics: reading.setup.metrics,
        scheme: reading.setup.records.scheme(),
        cpus: reading.setup.records.cpus().count() as u32,
    };
    raw::begin(out, &info, reading.cpus(Scope::All), |cpu| {
        // There may be thousands, of 10 KiB each.
        cond_resched();
        reading.current_slice(cpu)
    });
    for cpu in reading.setup.records.cpus().map(|cpu| cpu.number()) {
        if !is_online(cpu) {
            raw::offline(out, cpu);
        }
    }
    if let Some(idles) = &reading.setup.idles {
        for cpu in reading.setup.records.cpus().map(|cpu| cpu.number()) {
            raw::long_waits(out, cpu, reading.setup.long_wait, &idles.sums(cpu));
        }
    }
    if let Some(chains) = &reading.setup.chains {
        chains.for_each(|cpu, chain, hops| {
            raw::chain(out, cpu, chain, hops);
            Ok(())
        })?;
    }
    // To the end: what is in progress has the numbers of these groups.
    let groups = reading.setup.groups.as_ref().map(|groups| groups.hold());
    if let Some(groups) = &groups {
        let rule = groups.text().as_bytes();
        raw::grouping(out, groups.since(), rule, &groups.head(), groups.scheme());
        groups.for_each_reading(reading, |one| {
            raw::group(out, one);
            Ok(())
        })?;
    }
    if reading.recorder.is_some() {
        // Last: a wait that ends meanwhile is then missing, and not there twice.
        let mut waiters = Waiters::default();
        let found = InProgress::new(reading)?;
        let found = found.find(reading, |slice| raw::task(out, slice), &mut waiters);
        raw::waiters(out, local_clock(), &waiters);
        found.for_each_group(|group, waits, unseen| {
            raw::in_progress(out, group, waits, unseen);
            Ok(())
        })?;
    }
    raw::end(out);
    Ok(())
}
