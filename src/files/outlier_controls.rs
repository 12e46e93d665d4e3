// SPDX-License-Identifier: GPL-2.0

//! `threshold_ns/METRIC`, `outlier_rate`, `outlier_limit` and `on_outlier`.

use core::fmt;

use kernel::prelude::*;

use super::{
    Amount,
    Control,
    Setting, //
};
use crate::{
    engine::{
        format::Actions,
        outlier::Rate,
        ShownMetric, //
    },
    monitor::Monitor,
    reading::Reading, //
};

pub(super) struct Threshold(pub(super) ShownMetric);

impl Amount for Threshold {
    const FOLDER: &'static str = "threshold_ns/";

    fn get(&self, reading: &Reading) -> u64 {
        reading.outliers.threshold(self.0)
    }

    fn set(&self, monitor: &Monitor, nanoseconds: u64) -> Result {
        monitor.outliers().set_threshold(self.0, nanoseconds)
    }
}

/// The maximum number of outliers reported per second.
pub(super) struct OutlierRate;

impl Amount for OutlierRate {
    const EXPECTED: &'static str = "outliers per second, 1 to 1000000000, or none";
    const MAX: u64 = Rate::MAX;

    fn get(&self, reading: &Reading) -> u64 {
        reading.outliers.rate()
    }

    fn set(&self, monitor: &Monitor, rate: u64) -> Result {
        monitor.outliers().set_rate(rate);
        Ok(())
    }
}

/// The maximum number of outliers reported from now on.
pub(super) struct OutlierLimit;

impl Amount for OutlierLimit {
    const EXPECTED: &'static str = "a number (1 or more), or none";

    fn get(&self, reading: &Reading) -> u64 {
        reading.outliers.limit()
    }

    fn set(&self, monitor: &Monitor, limit: u64) -> Result {
        monitor.outliers().set_limit(limit);
        Ok(())
    }
}

/// The actions at an outlier besides its report.
pub(super) struct OnOutlier;

impl Control for OnOutlier {
    const EXPECTED: &'static str = match cfg!(CONFIG_TRACER_SNAPSHOT) {
        true => "none, tracing_off, snapshot, or both words",
        false => "none or tracing_off",
    };
    type Value<'a> = Actions;

    fn parse(&self, input: &[u8]) -> Option<Actions> {
        // A kernel without this option warns at a request for a snapshot.
        Actions::parse(input, cfg!(CONFIG_TRACER_SNAPSHOT))
    }

    fn set(&self, monitor: &Monitor, actions: Actions) -> Result {
        monitor.outliers().set_actions(actions);
        Ok(())
    }
}

impl Setting for OnOutlier {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        reading.outliers.actions()
    }
}
