// SPDX-License-Identifier: GPL-2.0

//! `long_wait_ns` and `long_waits`.

use kernel::prelude::*;

use super::{
    Amount,
    View, //
};
use crate::{
    boundary::abstractions::Text,
    engine::format::{
        text,
        Scope, //
    },
    monitor::Monitor,
    reading::{
        Reading,
        Since, //
    },
};

/// From how many nanoseconds on a wait is long.
pub(super) struct LongWait;

impl Amount for LongWait {
    fn get(&self, reading: &Reading) -> u64 {
        reading.setup.long_wait
    }

    fn set(&self, monitor: &Monitor, nanoseconds: u64) -> Result {
        monitor.set_long_wait(nanoseconds)
    }
}

/// The sums of long waits, of all CPUs together and of each.
pub(super) struct LongWaits;

impl View for LongWaits {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        text::long_waits_head(out, reading.setup.long_wait)?;
        let mut show = |scope| match reading.long_waits(Since::Reset, scope) {
            Some(sums) => text::long_waits(out, scope, &sums),
            None => Ok(()),
        };
        show(Scope::All)?;
        for cpu in reading.setup.records.cpus() {
            show(Scope::Cpu(cpu.number()))?;
        }
        Ok(())
    }
}
