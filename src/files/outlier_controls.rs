// SPDX-License-Identifier: GPL-2.0

//! `threshold_ns/METRIC`, `outlier_rate`, `outlier_limit` and `on_outlier`.

use core::fmt;

use kernel::prelude::*;

use super::{
    Control,
    Setting, //
};
use crate::{
    engine::{
        format::{
            Actions,
            OrNone, //
        },
        outlier::Rate,
        ShownMetric, //
    },
    monitor::Monitor,
    reading::Reading, //
};

pub(super) struct Threshold(pub(super) ShownMetric);

impl Control for Threshold {
    const FOLDER: &'static str = "threshold_ns/";
    const EXPECTED: &'static str = "a number of nanoseconds (1 or more), or none";
    type Value<'a> = OrNone;

    fn parse(&self, input: &[u8]) -> Option<OrNone> {
        OrNone::parse(input, u64::MAX)
    }

    fn set(&self, monitor: &Monitor, OrNone(nanoseconds): OrNone) -> Result {
        monitor.outliers().set_threshold(self.0, nanoseconds)
    }
}

impl Setting for Threshold {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        OrNone(reading.outliers.threshold(self.0))
    }
}

/// The maximum number of outliers reported per second.
pub(super) struct OutlierRate;

impl Control for OutlierRate {
    const EXPECTED: &'static str = "outliers per second, 1 to 1000000000, or none";
    type Value<'a> = OrNone;

    fn parse(&self, input: &[u8]) -> Option<OrNone> {
        OrNone::parse(input, Rate::MAX)
    }

    fn set(&self, monitor: &Monitor, OrNone(rate): OrNone) -> Result {
        monitor.outliers().set_rate(rate);
        Ok(())
    }
}

impl Setting for OutlierRate {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        OrNone(reading.outliers.rate())
    }
}

/// The maximum number of outliers reported from now on.
pub(super) struct OutlierLimit;

impl Control for OutlierLimit {
    const EXPECTED: &'static str = "a number (1 or more), or none";
    type Value<'a> = OrNone;

    fn parse(&self, input: &[u8]) -> Option<OrNone> {
        OrNone::parse(input, u64::MAX)
    }

    fn set(&self, monitor: &Monitor, OrNone(limit): OrNone) -> Result {
        monitor.outliers().set_limit(limit);
        Ok(())
    }
}

impl Setting for OutlierLimit {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        OrNone(reading.outliers.limit())
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
