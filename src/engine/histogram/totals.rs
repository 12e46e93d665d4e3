// SPDX-License-Identifier: GPL-2.0

//! The totals of a histogram, kept besides its buckets: the sum, the extremes, and the task of the
//! greatest sample.

use core::mem::{
    offset_of,
    size_of, //
};

use crate::engine::{
    cell::Cell,
    histogram::bucket::VALUE_BITS,
    identity::{
        Identity,
        IdentityCells, //
    },
    metric::Metric,
    seqcount::SeqCount, //
};

/// All bits but the most significant one.
const HALF: u64 = u64::MAX >> 1;

// A sum grows by less than 2^63 from one call of `carry` to the next.
const _: () = assert!(Totals::CARRY_EVERY.ilog2() + VALUE_BITS < 63);

/// The greatest sample of a histogram, with its task and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// The sample, in nanoseconds.
    pub value: u64,
    /// The task.
    pub task: Identity,
    /// The time at which the sample was taken, in nanoseconds of the CPU's clock.
    pub time: u64,
}

/// The least and the greatest sample of a histogram over some period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The least sample, in nanoseconds; `u64::MAX` when there is none.
    pub min: u64,
    /// The greatest sample; `None` when there is none.
    pub worst: Option<Worst>,
}

impl Extremes {
    /// The extremes of a period without samples.
    pub const NONE: Self = Self {
        min: u64::MAX,
        worst: None,
    };

    /// Returns the extremes of this period and a `later` one together. Of two equal maxima the
    /// earlier one is kept, as while recording.
    pub fn fold(self, later: Self) -> Self {
        let worst = match (self.worst, later.worst) {
            (Some(first), Some(second)) if second.value > first.value => Some(second),
            (first, second) => first.or(second),
        };
        Self {
            min: self.min.min(later.min),
            worst,
        }
    }
}

/// The least and the greatest sample of a metric, stored so that one comparison checks both.
#[derive(Debug)]
struct Range {
    /// The least sample, subtracted from 0; 1 while there is no sample.
    minus_min: Cell,
    /// The greatest sample minus the least.
    width: Cell,
}

impl Range {
    const fn new() -> Self {
        Self {
            minus_min: Cell::new(1),
            width: Cell::new(0),
        }
    }

    /// Returns whether `value` lies between the least and the greatest sample, inclusive. Without a
    /// sample, this holds only for `u64::MAX`, which no duration is.
    #[inline(always)]
    fn contains(&self, value: u64) -> bool {
        value.wrapping_add(self.minus_min.get()) <= self.width.get()
    }

    fn min(&self) -> u64 {
        self.minus_min.get().wrapping_neg()
    }

    fn max(&self) -> u64 {
        self.min().wrapping_add(self.width.get())
    }

    fn set(&self, min: u64, max: u64) {
        self.minus_min.set(min.wrapping_neg());
        self.width.set(max.wrapping_sub(min));
    }
}

/// The parts of a metric's totals that change rarely.
#[derive(Debug)]
struct Rare {
    /// Guards the other cells here, and the metric's [`Range`].
    seqcount: SeqCount,
    /// The number of changes of bit 63 of the metric's sum that [`Totals::carry`] has noticed so
    /// far.
    half_wraps: Cell,
    /// The time of the greatest sample; 0 while there is none.
    time: Cell,
    task: IdentityCells,
}

impl Rare {
    const fn new() -> Self {
        Self {
            seqcount: SeqCount::new(),
            half_wraps: Cell::new(0),
            time: Cell::new(0),
            task: IdentityCells::new(),
        }
    }
}

/// Returns the whole sum of which `sum` are the lower 64 bits. Bit 63 was found changed `half_wraps`
/// times, and has changed at most once since.
pub(in crate::engine) fn whole_sum(half_wraps: u64, sum: u64) -> u128 {
    let unnoticed = (half_wraps & 1) ^ (sum >> 63);
    let wraps = half_wraps.wrapping_add(unnoticed) >> 1;
    (u128::from(wraps) << 64) | u128::from(sum)
}

/// The totals of all histograms of a CPU.
///
/// The cells that each sample needs are grouped across the first metrics: the sums take one cache
/// line, the ranges two. A switch that ends several durations therefore touches few lines.
///
/// # Sums
///
/// A sum of 64 bits would wrap: 20000 tasks that each sleep for an hour at a time get there in ten
/// days. Checking for a carry would take three instructions per sample. Instead, [`Totals::carry`]
/// is called from time to time, at least once while a sum grows by 2^63, and counts how often bit
/// 63 of each sum has changed. The count and the 64 bits give the whole sum, even if bit 63 has
/// changed since the count: the bit then differs from the count's lowest bit. The kernel's
/// `cnt32_to_63()` does the same.
#[derive(Debug)]
#[repr(C, align(64))]
pub(in crate::engine) struct Totals {
    /// The sums of the first metrics, modulo 2^64.
    sums: [Cell; Self::FIRST],
    ranges: [Range; Self::FIRST],
    /// The sums and ranges of the other metrics.
    others: [(Cell, Range); Metric::COUNT - Self::FIRST],
    rare: [Rare; Metric::COUNT],
}

// The cells that each sample of the first metrics needs take three cache lines.
const _: () = assert!(
    cfg!(loom)
        || (offset_of!(Totals, ranges) == 64
            && offset_of!(Totals, others) == 3 * 64
            && size_of::<Totals>() == 11 * 64)
);

impl Totals {
    /// The number of metrics whose sums fit into a cache line.
    const FIRST: usize = 8;

    /// [`Totals::carry`] must be called at least once in this many samples of each metric.
    pub(in crate::engine) const CARRY_EVERY: u64 = 1 << 20;

    pub(in crate::engine) const fn new() -> Self {
        Self {
            sums: [const { Cell::new(0) }; Self::FIRST],
            ranges: [const { Range::new() }; Self::FIRST],
            others: [const { (Cell::new(0), Range::new()) }; Metric::COUNT - Self::FIRST],
            rare: [const { Rare::new() }; Metric::COUNT],
        }
    }

    /// Returns the sum of `metric`, modulo 2^64.
    #[inline(always)]
    fn sum_mod(&self, metric: Metric) -> &Cell {
        match (metric as usize).checked_sub(Self::FIRST) {
            None => &self.sums[metric as usize],
            Some(other) => &self.others[other].0,
        }
    }

    /// Returns the range of `metric`.
    #[inline(always)]
    fn range(&self, metric: Metric) -> &Range {
        match (metric as usize).checked_sub(Self::FIRST) {
            None => &self.ranges[metric as usize],
            Some(other) => &self.others[other].1,
        }
    }

    /// Adds a sample, which must be less than 2 to the power of [`VALUE_BITS`], to the sum of
    /// `metric`.
    #[inline(always)]
    pub(in crate::engine) fn add(&self, metric: Metric, value: u64) {
        self.sum_mod(metric).add(value);
    }

    /// Adds a sample of any size to the sum of `metric`. Slow.
    pub(in crate::engine) fn add_large(&self, metric: Metric, value: u64) {
        let half = value & HALF;
        self.carry_of(metric);
        // Bit 63 must not change twice between two calls of `carry_of()`. Only a duration of 292
        // years takes two steps.
        for part in [value - half, half] {
            if part != 0 {
                self.add(metric, part);
                self.carry_of(metric);
            }
        }
    }

    /// Counts the changes of bit 63 of all sums since the last call.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn carry(&self) {
        for metric in Metric::ALL {
            self.carry_of(metric);
        }
    }

    fn carry_of(&self, metric: Metric) {
        let Rare {
            seqcount,
            half_wraps,
            ..
        } = &self.rare[metric as usize];
        if half_wraps.get() & 1 != self.sum_mod(metric).get() >> 63 {
            seqcount.write(|| half_wraps.add(1));
        }
    }

    /// Reads the sum of all samples of `metric`.
    pub(in crate::engine) fn sum(&self, metric: Metric) -> u128 {
        let rare = &self.rare[metric as usize];
        // The sequence counter ensures that bit 63 of this `sum` has changed at most once since
        // this `half_wraps`.
        let (half_wraps, sum) = rare
            .seqcount
            .read(|| (rare.half_wraps.get(), self.sum_mod(metric).get()));
        whole_sum(half_wraps, sum)
    }

    /// Compares a sample of `metric` with the extremes, and updates them if it lies outside.
    #[inline(always)]
    pub(in crate::engine) fn compare(
        &self,
        metric: Metric,
        value: u64,
        time: u64,
        task: impl FnOnce() -> Identity,
    ) {
        let range = self.range(metric);
        if !range.contains(value) {
            self.extend(metric, value, time, task);
        }
    }

    /// Records a new least or greatest sample. Rare: new extremes become ever less likely.
    #[cold]
    #[inline(never)]
    fn extend(&self, metric: Metric, value: u64, time: u64, task: impl FnOnce() -> Identity) {
        let (range, rare) = (self.range(metric), &self.rare[metric as usize]);
        let (min, max) = (range.min(), range.max());
        let is_first = rare.time.get() == 0;
        if is_first || value > max {
            self.set_extremes(metric, value.min(min), value, time, &task());
        } else {
            rare.seqcount.write(|| range.set(value, max));
        }
    }

    fn set_extremes(&self, metric: Metric, min: u64, max: u64, time: u64, task: &Identity) {
        let rare = &self.rare[metric as usize];
        rare.seqcount.write(|| {
            self.range(metric).set(min, max);
            rare.time.set(time);
            rare.task.set(task);
        });
    }

    /// Reads the least and the greatest sample of `metric`, both as of the same moment.
    pub(in crate::engine) fn extremes(&self, metric: Metric) -> Extremes {
        let (range, rare) = (self.range(metric), &self.rare[metric as usize]);
        rare.seqcount.read(|| {
            let worst = Worst {
                value: range.max(),
                task: rare.task.get(),
                time: rare.time.get(),
            };
            Extremes {
                min: range.min(),
                worst: (worst.time != 0).then_some(worst),
            }
        })
    }

    /// Discards the extremes and begins new ones. Must not run at the same time as the writer.
    pub(in crate::engine) fn restart_extremes(&self) {
        for metric in Metric::ALL {
            self.set_extremes(metric, u64::MAX, u64::MAX, 0, &Identity::default());
        }
    }

    /// Copies the totals of `other`. Must not run at the same time as the writer of either.
    pub(in crate::engine) fn take_over(&self, other: &Self) {
        for metric in Metric::ALL {
            self.sum_mod(metric).set(other.sum_mod(metric).get());
        }
        for (mine, theirs) in self.rare.iter().zip(&other.rare) {
            mine.seqcount
                .write(|| mine.half_wraps.set(theirs.half_wraps.get()));
        }
        for metric in Metric::ALL {
            let Extremes { min, worst } = other.extremes(metric);
            if let Some(Worst { value, task, time }) = worst {
                self.set_extremes(metric, min, value, time, &task);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{
        sync::mpsc,
        thread,
        time::Duration, //
    };

    /// Samples of a CPU do not vanish while the CPU is stopped in the middle of an update, as a
    /// virtual CPU may be.
    #[test]
    fn a_stopped_writer_hides_no_sample() {
        let totals = Totals::new();
        let task = Identity {
            pid: 7,
            ..Identity::default()
        };
        totals.compare(Metric::Idle, 100, 1, || task);
        let (started, has_started) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        let totals = &totals;
        thread::scope(|scope| {
            scope.spawn(move || {
                let range = &totals.ranges[Metric::Idle as usize];
                totals.rare[Metric::Idle as usize].seqcount.write(|| {
                    range.minus_min.set(50_u64.wrapping_neg());
                    started.send(()).expect("the other end is there");
                    may_go_on.recv().expect("the other end is there");
                    range.width.set(50);
                });
            });
            has_started.recv().expect("the writer does not fail");
            scope.spawn(move || answer.send(totals.extremes(Metric::Idle)));
            // The reader may wait, or return the earlier extremes, but must not return that there
            // are none.
            let early = answered.recv_timeout(Duration::from_millis(200)).ok();
            go_on.send(()).expect("the writer does not fail");
            let extremes = early.unwrap_or_else(|| answered.recv().expect("the reader ends"));
            let expected = Worst {
                value: 100,
                task,
                time: 1,
            };
            assert_eq!(extremes.worst, Some(expected));
        });
        assert_eq!(totals.extremes(Metric::Idle).min, 50);
    }
}
