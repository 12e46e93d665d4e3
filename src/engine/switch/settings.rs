// SPDX-License-Identifier: GPL-2.0

//! What of a CPU's settings is known when the probe is compiled.
//!
//! The probe is compiled for any settings, and once for each precision with the metrics that are on by
//! default, with constants in place of loads and branches.

use crate::engine::{
    cell::Cell,
    histogram::bucket::{
        Precision,
        Scheme, //
    },
    metric::{
        Metric,
        MetricSet, //
    },
    switch::cpu::{
        Cpu,
        Header, //
    },
};

/// What of the settings of a CPU is known when the code is compiled.
pub trait Settings {
    /// How many cells the buckets take at least.
    const CELLS: usize;

    /// Which metrics are on.
    fn metrics(header: &Header) -> MetricSet;

    /// Returns the bucket in `buckets`, those of all metrics, that `value` of `metric` goes to, unless
    /// it is too large for all but the last.
    fn bucket<'a>(
        header: &Header,
        buckets: &'a [Cell],
        metric: Metric,
        value: u64,
    ) -> Option<&'a Cell>;

    /// Returns the last bucket of `metric`.
    fn last_bucket<'a>(header: &Header, buckets: &'a [Cell], metric: Metric) -> Option<&'a Cell>;
}

/// Nothing of the settings is known.
#[derive(Clone, Copy, Debug)]
pub struct Dynamic;

impl Settings for Dynamic {
    const CELLS: usize = 0;

    #[inline(always)]
    fn metrics(header: &Header) -> MetricSet {
        MetricSet::from_bits(header.on.get() as u32)
    }

    #[inline(always)]
    fn bucket<'a>(
        header: &Header,
        buckets: &'a [Cell],
        metric: Metric,
        value: u64,
    ) -> Option<&'a Cell> {
        let first = (metric as usize).wrapping_mul(header.stride);
        buckets.get(first.wrapping_add(header.scheme.finite_index(value)?))
    }

    #[inline(always)]
    fn last_bucket<'a>(header: &Header, buckets: &'a [Cell], metric: Metric) -> Option<&'a Cell> {
        let end = (metric as usize)
            .wrapping_add(1)
            .wrapping_mul(header.stride);
        buckets.get(end.wrapping_sub(1))
    }
}

/// [`MetricSet::DEFAULT`] is on, and `P` is the precision, in bits.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const P: u32>;

impl<const P: u32> Fixed<P> {
    const SCHEME: Scheme = match Precision::new(P) {
        Some(precision) => Scheme::new(precision),
        None => panic!("this is no precision"),
    };
}

impl<const P: u32> Settings for Fixed<P> {
    const CELLS: usize = Cpu::<[Cell]>::cells(Self::SCHEME, MetricSet::DEFAULT);

    #[inline(always)]
    fn metrics(_: &Header) -> MetricSet {
        MetricSet::DEFAULT
    }

    #[inline(always)]
    fn bucket<'a>(_: &Header, buckets: &'a [Cell], metric: Metric, value: u64) -> Option<&'a Cell> {
        let first = metric as usize * const { Self::SCHEME.buckets() };
        // All indices lie within these: the compiler knows, and checks none.
        let buckets = buckets.get(..Self::CELLS)?;
        buckets.get(first.wrapping_add(Self::SCHEME.finite_index(value)?))
    }

    #[inline(always)]
    fn last_bucket<'a>(_: &Header, buckets: &'a [Cell], metric: Metric) -> Option<&'a Cell> {
        let buckets = buckets.get(..Self::CELLS)?;
        let end = (metric as usize + 1) * const { Self::SCHEME.buckets() };
        buckets.get(end.wrapping_sub(1))
    }
}
