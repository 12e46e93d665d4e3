// SPDX-License-Identifier: GPL-2.0

//! The thresholds above which samples are outliers.

use crate::engine::{
    switch::Sample,
    Cell,
    Metric,
    MetricSet,
    ShownMetric, //
};

/// The thresholds: those set for each shown metric, and those that samples are compared with.
///
/// Only one setter at a time writes the cells; any CPU reads them.
#[derive(Debug)]
pub struct Thresholds {
    /// The thresholds that are set, in the order of [`ShownMetric::ALL`]; 0 for none.
    shown: [Cell; ShownMetric::ALL.len()],
    /// The value that a sample of each metric must exceed; `u64::MAX` for none.
    effective: [Cell; Metric::COUNT],
}

impl Default for Thresholds {
    /// None is set.
    fn default() -> Self {
        Self {
            shown: Default::default(),
            effective: [const { Cell::new(u64::MAX) }; Metric::COUNT],
        }
    }
}

impl Thresholds {
    /// Returns the threshold of `shown`, in nanoseconds; 0 for none.
    pub fn get(&self, shown: ShownMetric) -> u64 {
        Self::index(shown)
            .and_then(|index| self.shown.get(index))
            .map_or(0, Cell::get)
    }

    /// Sets the threshold of `shown`, in nanoseconds; 0 removes it.
    ///
    /// A metric that is part of several is compared with the least of their thresholds.
    pub fn set(&self, shown: ShownMetric, nanoseconds: u64) {
        if let Some(cell) = Self::index(shown).and_then(|index| self.shown.get(index)) {
            cell.set(nanoseconds);
        }
        for metric in Metric::ALL {
            let least = ShownMetric::ALL
                .into_iter()
                .filter(|shown| shown.parts.contains(&metric))
                .map(|shown| self.get(shown))
                .filter(|threshold| *threshold != 0)
                .min();
            self.effective[metric as usize].set(least.unwrap_or(u64::MAX));
        }
    }

    /// Returns whether any threshold is set.
    pub fn is_any_set(&self) -> bool {
        self.shown.iter().any(|cell| cell.get() != 0)
    }

    /// Returns whether any threshold is set that applies to one of `metrics`.
    pub fn is_any_set_of(&self, metrics: MetricSet) -> bool {
        ShownMetric::ALL.into_iter().any(|shown| {
            let is_measured = |part: &Metric| metrics.contains(*part);
            self.get(shown) != 0 && shown.parts.iter().any(is_measured)
        })
    }

    /// Returns whether `sample` is above the threshold of its metric.
    #[inline(always)]
    pub fn is_exceeded_by(&self, sample: &Sample) -> bool {
        sample.value > self.effective[sample.metric as usize].get()
    }

    fn index(shown: ShownMetric) -> Option<usize> {
        ShownMetric::ALL
            .into_iter()
            .position(|other| other == shown)
    }
}
