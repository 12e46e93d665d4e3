// SPDX-License-Identifier: GPL-2.0

//! What a histogram holds besides its buckets: sum, extremes, and whose the greatest sample was.

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

/// All bits but the topmost.
const HALF: u64 = u64::MAX >> 1;

// A sum grows by less than 2^63 from one call of `carry` to the next.
const _: () = assert!(Totals::CARRY_EVERY.ilog2() + VALUE_BITS < 63);

/// The greatest sample of a histogram, and whose it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// The sample, in nanoseconds.
    pub value: u64,
    /// The task.
    pub task: Identity,
    /// When the sample was taken, in nanoseconds of the CPU's clock.
    pub time: u64,
}

/// The least and the greatest sample of a histogram over some period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The least sample, in nanoseconds; `u64::MAX` when there is none.
    pub min: u64,
    /// The greatest sample, unless there is none.
    pub worst: Option<Worst>,
}

impl Extremes {
    /// Those of a period without samples.
    pub const NONE: Self = Self {
        min: u64::MAX,
        worst: None,
    };

    /// Returns the extremes of this period and a `later` one together. Of two equal maxima the first
    /// stays, as it does while recording.
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

/// The least and the greatest sample of a metric, in the form in which one comparison looks at both.
#[derive(Debug)]
struct Range {
    /// The least sample, subtracted from 0; 1 while there is no sample.
    minus_min: Cell,
    /// How much the greatest sample is above the least.
    width: Cell,
}

impl Range {
    const fn new() -> Self {
        Self {
            minus_min: Cell::new(1),
            width: Cell::new(0),
        }
    }

    /// Returns whether `value` is neither less than the least nor greater than the greatest sample. If
    /// there is no sample, no value is, but for `u64::MAX`, which no duration is.
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

/// What of a metric's totals changes seldom.
#[derive(Debug)]
struct Rare {
    /// Of the other cells here, and of the metric's [`Range`].
    seqcount: SeqCount,
    /// How often bit 63 of the metric's sum has changed, as far as that has been noticed.
    half_wraps: Cell,
    /// When the greatest sample was taken; 0 while there is none.
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

/// What the histograms of a CPU hold besides their buckets.
///
/// What each sample needs of all metrics stands side by side: the sums take one cache line, the ranges
/// two. So a switch that ends several durations touches few lines.
///
/// # Sums
///
/// A sum of 64 bits would wrap: 20000 tasks that sleep for an hour each get there in ten days. To look
/// for a carry takes three instructions for each sample. Instead, [`Totals::carry`] counts how often
/// bit 63 of a sum has changed, from time to time, but at least once while the sum grows by 2^63. The
/// whole sum follows from that count and the 64 bits, also when the bit has changed since: then it
/// does not fit the count's lowest bit. `cnt32_to_63()` in the kernel does the same.
#[derive(Debug)]
#[repr(C, align(64))]
pub(in crate::engine) struct Totals {
    /// The sums modulo 2^64.
    sums: [Cell; Metric::COUNT],
    ranges: [Range; Metric::COUNT],
    rare: [Rare; Metric::COUNT],
}

// What each sample needs takes three cache lines.
const _: () = assert!(
    cfg!(loom)
        || (offset_of!(Totals, ranges) == 64
            && offset_of!(Totals, rare) == 3 * 64
            && size_of::<Totals>() == 9 * 64)
);

impl Totals {
    /// [`Totals::carry`] is to be called at least once while each metric gets so many samples.
    pub(in crate::engine) const CARRY_EVERY: u64 = 1 << 20;

    pub(in crate::engine) const fn new() -> Self {
        Self {
            sums: [const { Cell::new(0) }; Metric::COUNT],
            ranges: [const { Range::new() }; Metric::COUNT],
            rare: [const { Rare::new() }; Metric::COUNT],
        }
    }

    /// Adds a sample that is less than 2 to the power of [`VALUE_BITS`] to the sum of `metric`.
    #[inline(always)]
    pub(in crate::engine) fn add(&self, metric: Metric, value: u64) {
        self.sums[metric as usize].add(value);
    }

    /// Adds any sample to the sum of `metric`. Slow.
    pub(in crate::engine) fn add_large(&self, metric: Metric, value: u64) {
        let half = value & HALF;
        self.carry_of(metric);
        // No sum may grow by 2^63 twice unnoticed. Only a duration of 292 years takes two steps.
        for part in [value - half, half] {
            if part != 0 {
                self.add(metric, part);
                self.carry_of(metric);
            }
        }
    }

    /// Notices the sums that have wrapped.
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
        if half_wraps.get() & 1 != self.sums[metric as usize].get() >> 63 {
            seqcount.write(|| half_wraps.add(1));
        }
    }

    /// Reads the sum of all samples of `metric`.
    pub(in crate::engine) fn sum(&self, metric: Metric) -> u128 {
        let rare = &self.rare[metric as usize];
        // By the counter, the sum has changed its bit once at most since the count of that.
        let (half_wraps, sum) = rare
            .seqcount
            .read(|| (rare.half_wraps.get(), self.sums[metric as usize].get()));
        let unnoticed = (half_wraps & 1) ^ (sum >> 63);
        let wraps = half_wraps.wrapping_add(unnoticed) >> 1;
        (u128::from(wraps) << 64) | u128::from(sum)
    }

    /// Compares a sample of `metric` with the least and the greatest.
    #[inline(always)]
    pub(in crate::engine) fn compare(
        &self,
        metric: Metric,
        value: u64,
        time: u64,
        task: impl FnOnce() -> Identity,
    ) {
        let range = &self.ranges[metric as usize];
        if !range.contains(value) {
            self.extend(metric, value, time, task);
        }
    }

    /// Notes a new least or greatest sample. Rare: it gets ever harder to be one.
    #[cold]
    #[inline(never)]
    fn extend(&self, metric: Metric, value: u64, time: u64, task: impl FnOnce() -> Identity) {
        let (range, rare) = (&self.ranges[metric as usize], &self.rare[metric as usize]);
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
            self.ranges[metric as usize].set(min, max);
            rare.time.set(time);
            rare.task.set(task);
        });
    }

    /// Reads the least and the greatest sample of `metric`, as they were at one time.
    pub(in crate::engine) fn extremes(&self, metric: Metric) -> Extremes {
        let (range, rare) = (&self.ranges[metric as usize], &self.rare[metric as usize]);
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

    /// Begins new least and greatest samples. Must not run at the same time as the writer.
    pub(in crate::engine) fn restart_extremes(&self) {
        for metric in Metric::ALL {
            self.set_extremes(metric, u64::MAX, u64::MAX, 0, &Identity::default());
        }
    }

    /// Takes over what `other` holds. Must not run at the same time as the writer of either.
    pub(in crate::engine) fn take_over(&self, other: &Self) {
        for (mine, theirs) in self.sums.iter().zip(&other.sums) {
            mine.set(theirs.get());
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

    /// A CPU that is stopped in the midst of its update, as a virtual CPU may be: its samples do not
    /// vanish meanwhile.
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
            // It may wait, or say what there was before; but not that there was nothing.
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
