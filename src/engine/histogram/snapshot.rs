// SPDX-License-Identifier: GPL-2.0

//! A copy of a histogram to read from, of one CPU or added up over several.

use core::{
    num::NonZeroU64,
    ops::{
        Deref,
        DerefMut, //
    },
};

use crate::engine::{
    cell::Cell,
    div::div_rem,
    histogram::{
        bucket::{
            Bounds,
            Scheme, //
        },
        totals::{
            Extremes,
            Worst, //
        },
    },
    metric::{
        Counter,
        Metric, //
    },
    switch::cpu::Cpu, //
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

    /// All of them, in the order in which they are shown.
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

    /// Returns how many of `count` samples are not greater than the quantile: at least 1, unless
    /// `count` is 0.
    const fn rank(self, count: u64) -> u64 {
        // Split, so that nothing overflows.
        (count / Self::WHOLE) * self.per_100k
            + ((count % Self::WHOLE) * self.per_100k).div_ceil(Self::WHOLE)
    }
}

/// What a CPU had recorded when it was last reset.
///
/// Whoever shows what came after subtracts its counts: the CPU's own only ever grow. Extremes cannot be
/// subtracted, so the CPU begins new ones at a reset, and those of all periods before it stand here.
///
/// # Invariants
///
/// `counts` has as many elements as [`Cpu::cells`] says for the scheme, and for all metrics or those of
/// [`MetricSet::DEFAULT`](crate::engine::metric::MetricSet::DEFAULT); `stride` is `scheme.buckets()`.
#[derive(Debug)]
pub struct Baseline<B> {
    counters: [u64; Counter::COUNT],
    sums: [u128; Metric::COUNT],
    /// Of all periods before the reset, back to when the module was loaded.
    extremes: [Extremes; Metric::COUNT],
    counts: B,
    stride: usize,
}

impl<B: DerefMut<Target = [u64]>> Baseline<B> {
    /// Creates a baseline of nothing over `counts`, or gives up when those are not
    /// as many as [`Cpu::cells`] says.
    pub fn new(scheme: Scheme, mut counts: B) -> Option<Self> {
        if !Cpu::<[Cell]>::is_number_of_cells(scheme, counts.len()) {
            return None;
        }
        counts.fill(0);
        // INVARIANT: Just checked.
        Some(Self {
            counters: [0; Counter::COUNT],
            sums: [0; Metric::COUNT],
            extremes: [Extremes::NONE; Metric::COUNT],
            counts,
            stride: scheme.buckets(),
        })
    }

    /// Takes over the extremes of `earlier`, the baseline of the same CPU that this one is to replace. To
    /// be called before [`Baseline::take`].
    pub fn follow(&mut self, earlier: &Self) {
        self.extremes = earlier.extremes;
    }

    /// Takes what `cpu` has recorded as the baseline, adds the extremes of the period that ends now to
    /// those of the periods before, and begins new ones.
    ///
    /// Must not run at the same time as [`Cpu::switch`] on the same `Cpu`, so that all of it is of
    /// the same moment. Does not allocate.
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
    /// Returns what `counter` was.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Returns how many samples of `metric` there were.
    pub fn count(&self, metric: Metric) -> u64 {
        let counts = self.counts(metric).iter();
        counts.fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// Returns the extremes of `metric` before the reset, since the module was loaded.
    pub fn extremes(&self, metric: Metric) -> Extremes {
        self.extremes[metric as usize]
    }

    fn counts(&self, metric: Metric) -> &[u64] {
        let first = metric as usize * self.stride;
        self.counts.get(first..first + self.stride).unwrap_or(&[])
    }
}

/// Returns the extremes of `metric` on `cpu` since the module was loaded: those since the last reset, and
/// those before it, which `baseline` has.
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

/// A copy of the histograms of one metric, added up.
///
/// The probes go on while it is made. Its count is the sum of its buckets by construction; sum,
/// minimum and maximum may be ahead of the buckets, or behind them, by the samples that were
/// recorded meanwhile.
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
    /// Creates an empty snapshot over `counts`, or gives up when those are not
    /// `scheme.buckets()` many.
    pub fn new(scheme: Scheme, mut counts: B) -> Option<Self> {
        if counts.len() != scheme.buckets() {
            return None;
        }
        counts.fill(0);
        // INVARIANT: Just checked.
        Some(Self {
            scheme,
            counts,
            sum: 0,
            min: u64::MAX,
            worst: None,
        })
    }

    /// Adds what `cpu` has recorded of `metric` since `baseline`.
    pub fn add<C, D>(&mut self, cpu: &Cpu<C>, baseline: Option<&Baseline<D>>, metric: Metric)
    where
        C: AsRef<[Cell]> + ?Sized,
        D: Deref<Target = [u64]>,
    {
        for (count, bucket) in self.counts.iter_mut().zip(cpu.buckets(metric)) {
            *count = count.wrapping_add(bucket.get());
        }
        let mut sum = cpu.sum(metric);
        if let Some(baseline) = baseline {
            for (count, before) in self.counts.iter_mut().zip(baseline.counts(metric)) {
                *count = count.wrapping_sub(*before);
            }
            sum = sum.wrapping_sub(baseline.sums[metric as usize]);
        }
        self.add_totals(cpu.number(), sum, cpu.extremes(metric));
    }

    /// Adds what `cpu` has recorded of `metric` since the module was loaded. The `baseline` of the last
    /// reset has the extremes of the time before it.
    pub fn add_since_load<C, D>(
        &mut self,
        cpu: &Cpu<C>,
        baseline: Option<&Baseline<D>>,
        metric: Metric,
    ) where
        C: AsRef<[Cell]> + ?Sized,
        D: Deref<Target = [u64]>,
    {
        for (count, bucket) in self.counts.iter_mut().zip(cpu.buckets(metric)) {
            *count = count.wrapping_add(bucket.get());
        }
        let extremes = extremes_since_load(cpu, baseline, metric);
        self.add_totals(cpu.number(), cpu.sum(metric), extremes);
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

    /// Returns the least sample, unless there is none.
    pub fn min(&self) -> Option<u64> {
        (self.min != u64::MAX).then_some(self.min)
    }

    /// Returns the greatest sample, unless there is none.
    pub fn max(&self) -> Option<u64> {
        self.worst.map(|(_, worst)| worst.value)
    }

    /// Returns the greatest sample with whose it was, and the number of the CPU that took it.
    pub fn worst(&self) -> Option<(u32, Worst)> {
        self.worst
    }

    /// Returns the mean, rounded down, unless there is no sample.
    pub fn mean(&self) -> Option<u64> {
        let (mean, _) = div_rem(self.sum, NonZeroU64::new(self.count())?);
        // It is not greater than the maximum, unless the sum is far ahead of the buckets.
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns the buckets that are not empty, in ascending order, each with its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Bounds, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count != 0)
            .map(|(index, count)| (self.scheme.bounds(index), *count))
    }

    /// Returns all quantiles, in the order of [`Quantile::ALL`], each with the bounds of the bucket
    /// that it lies in, unless there is no sample.
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
