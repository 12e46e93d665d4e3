// SPDX-License-Identifier: GPL-2.0

//! The settings of a CPU that are known when the probe is compiled.
//!
//! The probe is compiled once for any settings, and once for each precision with the metrics that
//! are on by default. The latter have constants in place of loads and branches.

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

/// The settings of a CPU that are known when the code is compiled.
pub trait Settings {
    /// The minimum number of cells of the buckets.
    const CELLS: usize;

    /// Returns the metrics that are on.
    fn metrics(header: &Header) -> MetricSet;

    /// Returns the bucket of `value` of `metric` in `buckets`, which holds the buckets of all
    /// metrics. Returns `None` if `value` is too large for all buckets but the last.
    fn bucket<'a>(
        header: &Header,
        buckets: &'a [Cell],
        metric: Metric,
        value: u64,
    ) -> Option<&'a Cell>;

    /// Returns the last bucket of `metric`.
    fn last_bucket<'a>(header: &Header, buckets: &'a [Cell], metric: Metric) -> Option<&'a Cell>;
}

/// No setting is known when the code is compiled.
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
        // All indices lie within these cells, so the compiler drops the next bounds check.
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
