// SPDX-License-Identifier: GPL-2.0

//! What other CPUs read of a CPU's records. They may do so while it records.

use super::Cpu;
use crate::engine::{
    histogram::{
        Extremes,
        Scheme,
        Worst, //
    },
    Cell,
    Counter,
    Metric,
    MetricSet, //
};

impl<B: AsRef<[Cell]> + ?Sized> Cpu<B> {
    /// Returns the number of the CPU.
    pub fn number(&self) -> u32 {
        self.header.number
    }

    /// Returns the metrics that have buckets.
    pub fn capacity(&self) -> MetricSet {
        if self.buckets.as_ref().len() < Self::cells(self.header.scheme, MetricSet::ALL) {
            MetricSet::DEFAULT
        } else {
            MetricSet::ALL
        }
    }

    /// Returns the scheme of the buckets.
    pub fn scheme(&self) -> Scheme {
        self.header.scheme
    }

    /// Reads a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.header.counter(counter).get()
    }

    /// Returns the buckets of `metric`.
    pub fn buckets(&self, metric: Metric) -> &[Cell] {
        let first = metric as usize * self.header.stride;
        self.buckets
            .as_ref()
            .get(first..first + self.header.stride)
            .unwrap_or(&[])
    }

    /// Returns the number of samples of `metric`.
    pub fn count_of(&self, metric: Metric) -> u64 {
        self.buckets(metric)
            .iter()
            .fold(0, |sum, bucket| sum.wrapping_add(bucket.get()))
    }

    /// Reads the sum of all values of `metric`, in nanoseconds.
    pub fn sum(&self, metric: Metric) -> u128 {
        self.header.totals.sum(metric)
    }

    /// Reads the least value of `metric`, in nanoseconds; `u64::MAX` when there is none.
    pub fn min(&self, metric: Metric) -> u64 {
        self.extremes(metric).min
    }

    /// Reads the greatest sample of `metric`; `None` when there is none.
    pub fn worst(&self, metric: Metric) -> Option<Worst> {
        self.extremes(metric).worst
    }

    /// Reads the least and the greatest sample of `metric` since the extremes last began anew.
    /// Waits while the CPU is changing them.
    pub fn extremes(&self, metric: Metric) -> Extremes {
        self.header.totals.extremes(metric)
    }
}
