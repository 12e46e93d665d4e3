// SPDX-License-Identifier: GPL-2.0

//! `hist/METRIC`.

use kernel::prelude::*;

use super::View;
use crate::{
    boundary::abstractions::Text,
    engine::{
        format::{
            text,
            Scope, //
        },
        ShownMetric, //
    },
    monitor::Monitor,
    reading::{
        Reading,
        Since, //
    },
};

/// The histogram of a metric.
pub(super) struct Histogram(pub(super) Scope, pub(super) ShownMetric);

impl View for Histogram {
    fn size_hint(&self, monitor: &Monitor, _last_len: usize) -> usize {
        // Less than half of the buckets are filled in most histograms.
        512 + monitor.read().setup.records.scheme().buckets() * 16
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let Self(scope, shown) = *self;
        let snapshot = reading.snapshot(Since::Reset, scope, shown)?;
        Ok(text::histogram(out, shown, scope, &snapshot)?)
    }
}
