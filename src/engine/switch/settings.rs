// SPDX-License-Identifier: GPL-2.0

//! The settings of a CPU that are known when the probe is compiled.
//!
//! The probe is compiled for each precision with the metrics that are on by default, and for any
//! settings, with and without requests to reschedule: see `src/probes.rs`. All but those for any
//! settings have constants in place of loads and branches.
//!
//! One variant for the six precisions that are not the default would save 14 KiB of code, and take
//! 343 instructions for a switch and its wakeup in place of 284.

use crate::engine::{
    group::{
        group_scheme,
        GroupMetric, //
    },
    histogram::{
        Precision,
        Scheme, //
    },
    switch::{
        Cpu,
        Header, //
    },
    Cell,
    Metric,
    MetricSet, //
};

/// The settings of a CPU that are known when the code is compiled.
pub trait Settings: Copy {
    /// The minimum number of cells of the buckets.
    const CELLS: usize;

    /// The minimum number of cells of the histograms of a group.
    const GROUP_CELLS: usize;

    /// Whether requests to reschedule a CPU may be recorded.
    const RESCHED: bool;

    /// Returns the metrics that are on.
    fn metrics(header: &Header) -> MetricSet;

    /// Returns the bucket scheme, which is `scheme`.
    fn scheme(scheme: Scheme) -> Scheme;

    /// Returns the bucket `index` of `metric` in `buckets`, which holds the buckets of all metrics.
    fn bucket<'a>(
        header: &Header,
        buckets: &'a [Cell],
        metric: Metric,
        index: usize,
    ) -> Option<&'a Cell>;
}

/// No setting is known when the code is compiled, but whether any of [`MetricSet::RESCHED`] may be
/// on.
#[derive(Clone, Copy, Debug)]
pub struct AnyMetrics<const RESCHED: bool>;

/// None of them is on.
pub type Dynamic = AnyMetrics<false>;

/// They may be.
pub type DynamicResched = AnyMetrics<true>;

impl<const RESCHED: bool> Settings for AnyMetrics<RESCHED> {
    const CELLS: usize = 0;
    const GROUP_CELLS: usize = 0;
    const RESCHED: bool = RESCHED;

    #[inline(always)]
    fn metrics(header: &Header) -> MetricSet {
        MetricSet::from_bits(header.on.get() as u32)
    }

    #[inline(always)]
    fn scheme(scheme: Scheme) -> Scheme {
        scheme
    }

    #[inline(always)]
    fn bucket<'a>(
        header: &Header,
        buckets: &'a [Cell],
        metric: Metric,
        index: usize,
    ) -> Option<&'a Cell> {
        let first = (metric as usize).wrapping_mul(header.stride);
        buckets.get(first.wrapping_add(index))
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
    const GROUP_CELLS: usize = GroupMetric::COUNT * group_scheme(Self::SCHEME).buckets();
    const RESCHED: bool = false;

    #[inline(always)]
    fn metrics(_: &Header) -> MetricSet {
        MetricSet::DEFAULT
    }

    #[inline(always)]
    fn scheme(_: Scheme) -> Scheme {
        Self::SCHEME
    }

    #[inline(always)]
    fn bucket<'a>(
        _: &Header,
        buckets: &'a [Cell],
        metric: Metric,
        index: usize,
    ) -> Option<&'a Cell> {
        let first = metric as usize * const { Self::SCHEME.buckets() };
        // All indices lie within these cells, so the compiler drops the next bounds check.
        let buckets = buckets.get(..Self::CELLS)?;
        buckets.get(first.wrapping_add(index))
    }
}
