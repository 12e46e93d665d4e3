// SPDX-License-Identifier: GPL-2.0

//! Snapshots and baselines: copies of histograms for readers, and their state at the last reset.

use core::{
    num::NonZeroU64,
    ops::{
        Deref,
        DerefMut, //
    },
};

use crate::engine::{
    div::div_rem,
    group::{
        GroupMetric,
        GroupRecords, //
    },
    histogram::{
        Bounds,
        Extremes,
        Scheme,
        Worst, //
    },
    switch::Cpu,
    Cell,
    Counter,
    Metric, //
};

/// A quantile that the files show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// Its name, as in `p99.9`.
    pub name: &'static str,
    /// Its share of the samples, in hundred-thousandths.
    per_100k: u64,
}

impl Quantile {
    const WHOLE: u64 = 100_000;

    /// All quantiles, in the order in which the files show them.
    pub const ALL: [Self; 5] = [
        Self::new("p50", 50_000),
        Self::new("p90", 90_000),
        Self::new("p99", 99_000),
        Self::new("p99.9", 99_900),
        Self::new("p99.99", 99_990),
    ];

    const fn new(name: &'static str, per_100k: u64) -> Self {
        Self { name, per_100k }
    }

    /// Returns how many of `count` samples do not exceed the quantile: at least 1, unless `count`
    /// is 0.
    const fn rank(self, count: u64) -> u64 {
        // Split so that nothing overflows.
        (count / Self::WHOLE) * self.per_100k
            + ((count % Self::WHOLE) * self.per_100k).div_ceil(Self::WHOLE)
    }
}

/// The records of a CPU at its last reset.
///
/// Readers subtract the counts of the baseline from those of the CPU, which only ever grow.
/// Extremes cannot be subtracted: the CPU begins new ones at a reset, and the baseline keeps those
/// of all earlier periods.
///
/// # Invariants
///
/// `counts` has as many elements as [`Cpu::cells`] says for the scheme, and for all metrics or
/// those of [`MetricSet::DEFAULT`](crate::engine::metric::MetricSet::DEFAULT); `stride` is
/// `scheme.buckets()`.
#[derive(Debug)]
pub struct Baseline<B> {
    counters: [u64; Counter::COUNT],
    sums: [u128; Metric::COUNT],
    /// The extremes of all periods from the load of the module to the reset.
    extremes: [Extremes; Metric::COUNT],
    counts: B,
    stride: usize,
}

impl<B: DerefMut<Target = [u64]>> Baseline<B> {
    /// Creates a baseline of zeros that stores its counts in `counts`; returns `None` unless
    /// `counts` has as many elements as [`Cpu::cells`] says.
    pub fn new(scheme: Scheme, mut counts: B) -> Option<Self> {
        if !Cpu::<[Cell]>::is_number_of_cells(scheme, counts.len()) {
            return None;
        }
        counts.fill(0);
        // INVARIANT: The number of elements was just checked, and `stride` is `scheme.buckets()`.
        Some(Self {
            counters: [0; Counter::COUNT],
            sums: [0; Metric::COUNT],
            extremes: [Extremes::NONE; Metric::COUNT],
            counts,
            stride: scheme.buckets(),
        })
    }

    /// Copies the extremes of `earlier`, the baseline of the same CPU that this one replaces. Must
    /// be called before [`Baseline::take`].
    pub fn follow(&mut self, earlier: &Self) {
        self.extremes = earlier.extremes;
    }

    /// Makes the current records of `cpu` the baseline. Adds the extremes of the period that ends
    /// now to those of the periods before, and makes the CPU begin new ones.
    ///
    /// Must not run at the same time as [`Cpu::switch`] on the same `Cpu`, so that all values are
    /// of the same moment. Does not allocate.
    pub fn take<C: AsRef<[Cell]> + ?Sized>(&mut self, cpu: &Cpu<C>) {
        for (mine, counter) in self.counters.iter_mut().zip(Counter::ALL) {
            *mine = cpu.counter(counter);
        }
        let buckets = Metric::ALL
            .into_iter()
            .flat_map(|metric| cpu.buckets(metric));
        for (mine, bucket) in self.counts.iter_mut().zip(buckets) {
            *mine = bucket.get();
        }
        for (mine, metric) in self.sums.iter_mut().zip(Metric::ALL) {
            *mine = cpu.sum(metric);
        }
        for (mine, metric) in self.extremes.iter_mut().zip(Metric::ALL) {
            *mine = mine.fold(cpu.extremes(metric));
        }
        cpu.restart_extremes();
    }
}

impl<B: Deref<Target = [u64]>> Baseline<B> {
    /// Returns the value of `counter` at the reset.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Returns the number of samples of `metric` at the reset.
    pub fn count(&self, metric: Metric) -> u64 {
        let counts = self.counts(metric).iter();
        counts.fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// Returns the extremes of `metric` from the load of the module to the reset.
    pub fn extremes(&self, metric: Metric) -> Extremes {
        self.extremes[metric as usize]
    }

    fn counts(&self, metric: Metric) -> &[u64] {
        let first = metric as usize * self.stride;
        self.counts.get(first..first + self.stride).unwrap_or(&[])
    }
}

/// Returns the extremes of `metric` on `cpu` since the module was loaded: those since the last
/// reset, together with those before it from `baseline`.
pub fn extremes_since_load<C, D>(
    cpu: &Cpu<C>,
    baseline: Option<&Baseline<D>>,
    metric: Metric,
) -> Extremes
where
    C: AsRef<[Cell]> + ?Sized,
    D: Deref<Target = [u64]>,
{
    let before = baseline.map_or(Extremes::NONE, |baseline| baseline.extremes(metric));
    before.fold(cpu.extremes(metric))
}

/// A copy of the histograms of one shown metric, added up over its parts and over CPUs.
///
/// The probes keep recording while the copy is made. Its count is the sum of its buckets by
/// construction; sum, minimum and maximum may be ahead of the buckets, or behind them, by the
/// samples that were recorded meanwhile.
///
/// # Invariants
///
/// `counts` has `scheme.buckets()` elements.
#[derive(Debug)]
pub struct Snapshot<B> {
    scheme: Scheme,
    counts: B,
    sum: u128,
    min: u64,
    worst: Option<(u32, Worst)>,
}

impl<B: DerefMut<Target = [u64]>> Snapshot<B> {
    /// Creates an empty snapshot that stores its counts in `counts`; returns `None` unless `counts`
    /// has `scheme.buckets()` elements.
    pub fn new(scheme: Scheme, mut counts: B) -> Option<Self> {
        if counts.len() != scheme.buckets() {
            return None;
        }
        counts.fill(0);
        // INVARIANT: The number of elements was just checked.
        Some(Self {
            scheme,
            counts,
            sum: 0,
            min: u64::MAX,
            worst: None,
        })
    }

    /// Adds the samples of `metric` that `cpu` has recorded since `baseline`.
    pub fn add<C, D>(&mut self, cpu: &Cpu<C>, baseline: Option<&Baseline<D>>, metric: Metric)
    where
        C: AsRef<[Cell]> + ?Sized,
        D: Deref<Target = [u64]>,
    {
        self.add_buckets(cpu.buckets(metric));
        let mut sum = cpu.sum(metric);
        if let Some(baseline) = baseline {
            for (count, before) in self.counts.iter_mut().zip(baseline.counts(metric)) {
                *count = count.wrapping_sub(*before);
            }
            sum = sum.wrapping_sub(baseline.sums[metric as usize]);
        }
        self.add_totals(cpu.number(), sum, cpu.extremes(metric));
    }

    /// Adds the samples of `metric` that `cpu` has recorded since the module was loaded. The
    /// `baseline` of the last reset holds the extremes from before the reset.
    pub fn add_since_load<C, D>(
        &mut self,
        cpu: &Cpu<C>,
        baseline: Option<&Baseline<D>>,
        metric: Metric,
    ) where
        C: AsRef<[Cell]> + ?Sized,
        D: Deref<Target = [u64]>,
    {
        self.add_buckets(cpu.buckets(metric));
        let extremes = extremes_since_load(cpu, baseline, metric);
        self.add_totals(cpu.number(), cpu.sum(metric), extremes);
    }

    /// Adds the samples of `metric` that the CPU `number` has recorded for a group: `records`, and
    /// the `buckets` of the metric.
    pub fn add_group(
        &mut self,
        number: u32,
        records: &GroupRecords,
        buckets: &[Cell],
        metric: GroupMetric,
    ) {
        self.add_buckets(buckets);
        let extremes = Extremes {
            min: u64::MAX,
            worst: records.worst(metric),
        };
        self.add_totals(number, records.sum(metric), extremes);
    }

    /// Adds the counts of `buckets`. The sum and the extremes must be read later: the CPU writes a
    /// sample's bucket first, so that a maximum is seldom below a sample that is counted here.
    fn add_buckets(&mut self, buckets: &[Cell]) {
        for (count, bucket) in self.counts.iter_mut().zip(buckets) {
            *count = count.wrapping_add(bucket.get());
        }
    }

    /// Adds the sum and the extremes of the CPU `number`.
    fn add_totals(&mut self, number: u32, sum: u128, extremes: Extremes) {
        self.sum = self.sum.wrapping_add(sum);
        self.min = self.min.min(extremes.min);
        if let Some(worst) = extremes.worst {
            if self.max().is_none_or(|max| worst.value > max) {
                self.worst = Some((number, worst));
            }
        }
    }
}

impl<B: Deref<Target = [u64]>> Snapshot<B> {
    /// Returns the counts of all buckets.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the scheme of the buckets.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// Returns the sum of all samples.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns the least sample, or `None` if there is no sample.
    pub fn min(&self) -> Option<u64> {
        (self.min != u64::MAX).then_some(self.min)
    }

    /// Returns the greatest sample, or `None` if there is no sample.
    pub fn max(&self) -> Option<u64> {
        self.worst.map(|(_, worst)| worst.value)
    }

    /// Returns the number of the CPU that took the greatest sample, and the sample with its task
    /// and time.
    pub fn worst(&self) -> Option<(u32, Worst)> {
        self.worst
    }

    /// Returns the mean, rounded down, or `None` if there is no sample.
    pub fn mean(&self) -> Option<u64> {
        let (mean, _) = div_rem(self.sum, NonZeroU64::new(self.count())?);
        // The mean is at most the maximum, unless the sum is far ahead of the buckets.
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns the non-empty buckets, in ascending order, each with its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Bounds, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count != 0)
            .map(|(index, count)| (self.scheme.bounds(index), *count))
    }

    /// Returns all quantiles, in the order of [`Quantile::ALL`], each with the bounds of its
    /// bucket, or with `None` if there is no sample.
    pub fn quantiles(&self) -> impl Iterator<Item = (Quantile, Option<Bounds>)> {
        let all = self.count();
        let mut found = [None; Quantile::ALL.len()];
        let ranks = Quantile::ALL.into_iter().map(|quantile| quantile.rank(all));
        let mut wanted = ranks.zip(&mut found).peekable();
        let mut below: u64 = 0;
        for (index, count) in self.counts.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            below = below.wrapping_add(*count);
            while let Some((_, bounds)) = wanted.next_if(|(rank, _)| below >= *rank) {
                *bounds = Some(self.scheme.bounds(index));
            }
        }
        Quantile::ALL.into_iter().zip(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let p50 = Quantile::ALL[0];
        assert_eq!(p50.rank(0), 0);
        assert_eq!(p50.rank(1), 1);
        assert_eq!(p50.rank(2), 1);
        assert_eq!(p50.rank(3), 2);
        let p9999 = Quantile::ALL[4];
        assert_eq!(p9999.rank(9_999), 9_999);
        assert_eq!(p9999.rank(10_000), 9_999);
        assert_eq!(p9999.rank(u64::MAX), u64::MAX - u64::MAX / 10_000);
    }
}
