// SPDX-License-Identifier: GPL-2.0

//! `openmetrics`.

use kernel::prelude::*;

use super::View;
use crate::{
    boundary::abstractions::Text,
    engine::{
        format::{
            openmetrics,
            Scope, //
        },
        Counter, //
    },
    monitor::Monitor,
    reading::{
        Reading,
        Since, //
    },
    VERSION, //
};

/// All records, for a monitoring system.
///
/// All numbers count from the load of the module, and a reset does not affect them: a counter of
/// OpenMetrics must only grow.
pub(super) struct OpenMetrics(pub(super) Scope);

impl View for OpenMetrics {
    fn size_hint(&self, _monitor: &Monitor, _last_len: usize) -> usize {
        openmetrics::MAX_LEN + 1
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let scope = self.0;
        if scope == Scope::All {
            let setup = &reading.setup;
            let precision = setup.records.scheme().precision();
            openmetrics::head(out, VERSION, precision, setup.enabled, setup.metrics)?;
        }
        for counter in Counter::ALL {
            let value = reading.counter(Since::Load, scope, counter);
            openmetrics::counter_head(out, counter)?;
            openmetrics::counter_sample(out, counter, scope, value)?;
        }
        if scope == Scope::All {
            let reported = reading.reported(Since::Load);
            openmetrics::outliers(out, reported, reading.suppressed(Since::Load))?;
        }
        if let Some(sums) = reading.long_waits(Since::Load, scope) {
            openmetrics::long_waits(out, scope, &sums)?;
        }
        reading.for_each_shown(Since::Load, scope, |metric, snapshot| {
            openmetrics::histogram_head(out, metric)?;
            Ok(openmetrics::histogram_samples(
                out, metric, scope, snapshot,
            )?)
        })?;
        Ok(openmetrics::end(out)?)
    }
}
