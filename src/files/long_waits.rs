// SPDX-License-Identifier: GPL-2.0

//! `long_wait_ns` and `long_waits`.

use core::fmt;

use kernel::prelude::*;

use super::{
    Control,
    Setting,
    View, //
};
use crate::{
    boundary::abstractions::Text,
    engine::format::{
        text,
        OrNone,
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

impl Control for LongWait {
    const EXPECTED: &'static str = "a number of nanoseconds (1 or more), or none";
    type Value<'a> = OrNone;

    fn parse(&self, input: &[u8]) -> Option<OrNone> {
        OrNone::parse(input, u64::MAX)
    }

    fn set(&self, monitor: &Monitor, OrNone(nanoseconds): OrNone) -> Result {
        monitor.set_long_wait(nanoseconds)
    }
}

impl Setting for LongWait {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        OrNone(reading.setup.long_wait)
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
