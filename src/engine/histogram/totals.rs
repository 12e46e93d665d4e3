// SPDX-License-Identifier: GPL-2.0

//! The totals of a histogram, kept besides its buckets: the sum, the extremes, and the task of the
//! greatest sample.

use core::mem::{
    offset_of,
    size_of, //
};

use crate::engine::{
    histogram::VALUE_BITS,
    identity::IdentityCells,
    Cell,
    Identity,
    Metric,
    SeqCount, //
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

/// Storage for a [`Worst`], but for its value.
#[derive(Debug, Default)]
pub(in crate::engine) struct WorstCells {
    /// 0 while there is none.
    time: Cell,
    task: IdentityCells,
}

impl WorstCells {
    pub(in crate::engine) fn set(&self, time: u64, task: &Identity) {
        self.time.set(time);
        self.task.set(task);
    }

    pub(in crate::engine) fn get(&self, value: u64) -> Worst {
        Worst {
            value,
            task: self.task.get(),
            time: self.time.get(),
        }
    }

    /// Records a new least or greatest sample of the metric, whose `range` does not contain it.
    /// Rare: new extremes become ever less likely.
    #[cold]
    #[inline(never)]
    fn extend(
        &self,
        range: &Range,
        seqcount: &SeqCount,
        value: u64,
        time: u64,
        task: impl FnOnce() -> Identity,
    ) {
        let (min, max) = (range.min(), range.max());
        let is_first = self.time.get() == 0;
        if is_first || value > max {
            let task = task();
            seqcount.write(|| self.set_extremes(range, value.min(min), value, time, &task));
        } else {
            seqcount.write(|| range.set(value, max));
        }
    }

    fn set_extremes(&self, range: &Range, min: u64, max: u64, time: u64, task: &Identity) {
        range.set(min, max);
        self.set(time, task);
    }
}

/// How often bit 63 of each metric's sum was found changed, modulo 2^16, of four metrics in a cell.
#[derive(Debug, Default)]
struct HalfWraps([Cell; Metric::COUNT.div_ceil(4)]);

impl HalfWraps {
    fn place(&self, metric: Metric) -> (&Cell, u32) {
        let number = metric as usize;
        (&self.0[number / 4], number as u32 % 4 * u16::BITS)
    }

    fn get(&self, metric: Metric) -> u16 {
        let (cell, shift) = self.place(metric);
        (cell.get() >> shift) as u16
    }

    fn set(&self, metric: Metric, number: u16) {
        let (cell, shift) = self.place(metric);
        let others = cell.get() & !(u64::from(u16::MAX) << shift);
        cell.set(others | (u64::from(number) << shift));
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Sum<'a> {
    /// The sum modulo 2^64.
    sum: &'a Cell,
    metric: Metric,
    totals: &'a Totals,
}

impl Sum<'_> {
    /// Adds a sample of any size. Slow.
    pub(in crate::engine) fn add_large(self, value: u64) {
        let half = value & HALF;
        self.carry();
        // Bit 63 must not change twice between two calls of `carry()`. Only a duration of 292 years
        // takes two steps.
        for part in [value - half, half] {
            if part != 0 {
                self.sum.publish_more(part);
                self.carry();
            }
        }
    }

    /// Counts the change of bit 63 since the last call.
    fn carry(self) {
        let Totals {
            seqcount,
            half_wraps,
            ..
        } = self.totals;
        let number = half_wraps.get(self.metric);
        if u64::from(number) & 1 != self.sum.get() >> 63 {
            seqcount.write(|| half_wraps.set(self.metric, number.wrapping_add(1)));
        }
    }
}

/// Returns the whole sum of which `sum` are the lower 64 bits. Bit 63 was found changed
/// `half_wraps` times, and has changed at most once since.
pub(in crate::engine) fn whole_sum(half_wraps: u64, sum: u64) -> u128 {
    let unnoticed = (half_wraps & 1) ^ (sum >> 63);
    let wraps = half_wraps.wrapping_add(unnoticed) >> 1;
    (u128::from(wraps) << 64) | u128::from(sum)
}

/// The totals of all histograms of a CPU.
///
/// The four metrics of a plain switch, from a task that sleeps to one that was woken, come first:
/// their sums, and then their ranges on a line of their own. Those of a preemption and of the idle
/// task share the next line. The caller's records begin before the totals and fill the line of the
/// first sums: see [`Totals::BEFORE`].
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
#[repr(C)]
pub(in crate::engine) struct Totals {
    /// The sums of the metrics of a plain switch, modulo 2^64.
    sums: [Cell; 4],
    /// The ranges of the same metrics.
    ranges: [Range; 4],
    /// Two cells of the caller, for what it counts at the switches that need the next totals.
    pub(in crate::engine) beside: [Cell; 2],
    /// The sums and ranges of the other metrics.
    others: [(Cell, Range); Metric::COUNT - 4],
    /// Guards what follows, and the ranges. One for all metrics: it changes rarely.
    seqcount: SeqCount,
    half_wraps: HalfWraps,
    worst: [WorstCells; Metric::COUNT],
}

impl Totals {
    /// The totals should begin this many bytes after the beginning of a cache line.
    pub(in crate::engine) const BEFORE: usize = 32;

    /// [`Totals::carry`] must be called at least once in this many samples of each metric.
    pub(in crate::engine) const CARRY_EVERY: u64 = 1 << 20;

    pub(in crate::engine) fn new() -> Self {
        // A plain switch needs one cache line here, besides the one that the totals share with what
        // comes before them. A preemption and a slice of the idle task need one more.
        const {
            assert!(
                cfg!(loom)
                    || (Self::BEFORE + offset_of!(Self, ranges) == 64
                        && Self::BEFORE + offset_of!(Self, beside) == 2 * 64
                        && Self::BEFORE + offset_of!(Self, others) == 2 * 64 + 16
                        && size_of::<[(Cell, Range); 2]>() == 48)
            );
        }
        Self {
            sums: Default::default(),
            ranges: [const { Range::new() }; 4],
            beside: Default::default(),
            others: [const { (Cell::new(0), Range::new()) }; Metric::COUNT - 4],
            seqcount: SeqCount::default(),
            half_wraps: HalfWraps::default(),
            worst: Default::default(),
        }
    }

    /// Returns the sum of `metric`, modulo 2^64, and its range. Each index is a constant, so that
    /// none is checked.
    #[inline(always)]
    fn of(&self, metric: Metric) -> (&Cell, &Range) {
        const fn both((sum, range): &(Cell, Range)) -> (&Cell, &Range) {
            (sum, range)
        }

        match metric {
            Metric::Oncpu => (&self.sums[0], &self.ranges[0]),
            Metric::RunqWakeup => (&self.sums[1], &self.ranges[1]),
            Metric::Offcpu => (&self.sums[2], &self.ranges[2]),
            Metric::BlockedInterruptible => (&self.sums[3], &self.ranges[3]),
            Metric::RunqPreempt => both(&self.others[0]),
            Metric::Idle => both(&self.others[1]),
            Metric::BlockedUninterruptible => both(&self.others[2]),
            Metric::Wakeup => both(&self.others[3]),
            Metric::Throttled => both(&self.others[4]),
            Metric::Resched => both(&self.others[5]),
            Metric::ReschedLazy => both(&self.others[6]),
        }
    }

    /// Returns the sum of `metric`, modulo 2^64.
    #[inline(always)]
    fn sum_mod(&self, metric: Metric) -> &Cell {
        self.of(metric).0
    }

    #[inline(always)]
    fn range(&self, metric: Metric) -> &Range {
        self.of(metric).1
    }

    /// Adds a sample, which must be less than 2 to the power of [`VALUE_BITS`], to the sum of
    /// `metric`.
    #[inline(always)]
    pub(in crate::engine) fn add(&self, metric: Metric, value: u64) {
        let sum = self.sum_mod(metric);
        match metric {
            // After the sum of a group, and each after the other: see `GroupSlices::add()` and
            // `Cpu::current_slice()`.
            Metric::Oncpu | Metric::Idle => sum.publish_more(value),
            _ => sum.add(value),
        }
    }

    /// Returns the sum of `metric`, to add a large sample.
    #[inline(always)]
    pub(in crate::engine) fn whole(&self, metric: Metric) -> Sum<'_> {
        Sum {
            sum: self.sum_mod(metric),
            metric,
            totals: self,
        }
    }

    /// Counts the changes of bit 63 of all sums since the last call.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn carry(&self) {
        for metric in Metric::ALL {
            self.whole(metric).carry();
        }
    }

    /// Reads the sum of all samples of `metric`.
    pub(in crate::engine) fn sum(&self, metric: Metric) -> u128 {
        // The sequence counter ensures that bit 63 of this `sum` has changed at most once since
        // this `half_wraps`.
        let (half_wraps, sum) = self
            .seqcount
            .read(|| (self.half_wraps.get(metric), self.sum_mod(metric).get()));
        whole_sum(half_wraps.into(), sum)
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
            self.worst[metric as usize].extend(range, &self.seqcount, value, time, task);
        }
    }

    fn set_extremes(&self, metric: Metric, min: u64, max: u64, time: u64, task: &Identity) {
        let (range, worst) = (self.range(metric), &self.worst[metric as usize]);
        self.seqcount
            .write(|| worst.set_extremes(range, min, max, time, task));
    }

    /// Reads the least and the greatest sample of `metric`, both as of the same moment.
    pub(in crate::engine) fn extremes(&self, metric: Metric) -> Extremes {
        let (range, worst) = (self.range(metric), &self.worst[metric as usize]);
        self.seqcount.read(|| {
            let worst = worst.get(range.max());
            Extremes {
                min: range.min(),
                worst: (worst.time != 0).then_some(worst),
            }
        })
    }

    /// Discards the extremes and begins new ones. Must not run at the same time as the writer.
    pub(in crate::engine) fn restart_extremes(&self) {
        let nobody = Identity::default();
        self.seqcount.write(|| {
            for (metric, worst) in Metric::ALL.into_iter().zip(&self.worst) {
                worst.set_extremes(self.range(metric), u64::MAX, u64::MAX, 0, &nobody);
            }
        });
    }

    /// Copies the totals of `other`. Must not run at the same time as the writer of either.
    pub(in crate::engine) fn take_over(&self, other: &Self) {
        for metric in Metric::ALL {
            self.sum_mod(metric).set(other.sum_mod(metric).get());
        }
        for metric in Metric::ALL {
            let half_wraps = other.half_wraps.get(metric);
            self.seqcount
                .write(|| self.half_wraps.set(metric, half_wraps));
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
                let range = totals.range(Metric::Idle);
                totals.seqcount.write(|| {
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
