// SPDX-License-Identifier: GPL-2.0

//! `enable`, `metrics` and `reset`.

use core::fmt;

use kernel::prelude::*;

use super::{
    Control,
    Setting, //
};
use crate::{
    engine::MetricSet,
    monitor::Monitor,
    reading::Reading,
    resched::OFFERED, //
};

/// The input that the file `metrics` and the module parameter accept, for the kernel log.
pub(crate) const METRICS_EXPECTED: &str = match cfg!(HAVE_SCHED_SET_NEED_RESCHED_TP) {
    true => "metric names (see hist/), or all, default, none",
    false => {
        "metric names (see hist/), or all, default, none; this kernel has no tracepoint \
         sched_set_need_resched_tp for resched and resched_lazy"
    }
};

pub(super) struct Enable;

impl Control for Enable {
    const EXPECTED: &'static str = "0 or 1";
    type Value<'a> = bool;

    fn parse(&self, input: &[u8]) -> Option<bool> {
        match input {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        }
    }

    fn set(&self, monitor: &Monitor, enabled: bool) -> Result {
        monitor.set_enabled(enabled)
    }
}

impl Setting for Enable {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        u8::from(reading.setup.enabled)
    }
}

/// The names of the metrics that are on.
pub(super) struct Metrics;

impl Control for Metrics {
    const EXPECTED: &'static str = METRICS_EXPECTED;
    type Value<'a> = MetricSet;

    fn parse(&self, input: &[u8]) -> Option<MetricSet> {
        MetricSet::parse(input, OFFERED)
    }

    fn set(&self, monitor: &Monitor, metrics: MetricSet) -> Result {
        monitor.set_metrics(metrics)
    }
}

impl Setting for Metrics {
    const SIZE: usize = 256;

    fn get(&self, reading: &Reading) -> impl fmt::Display {
        reading.setup.metrics
    }
}

/// Restarts the counts from 0 in all files but `openmetrics` and `raw`.
pub(super) struct Reset;

impl Control for Reset {
    const EXPECTED: &'static str = "1";
    type Value<'a> = ();

    fn parse(&self, input: &[u8]) -> Option<()> {
        (input == b"1").then_some(())
    }

    fn set(&self, monitor: &Monitor, (): ()) -> Result {
        monitor.reset()
    }
}
