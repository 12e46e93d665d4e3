// SPDX-License-Identifier: GPL-2.0

//! What a group's tasks did on one CPU.

mod fold;
mod metric;
mod neighbours;

pub use self::{
    metric::{
        group_scheme,
        CulpritKind,
        GroupCounter,
        GroupMetric, //
    },
    neighbours::NEIGHBOURS, //
};

use core::mem::size_of;

use self::neighbours::Neighbour;
use crate::engine::{
    group::{
        Group,
        TaskGroup, //
    },
    histogram::{
        totals::{
            whole_sum,
            WorstCells, //
        },
        Worst, //
    },
    Cell,
    Identity,
    SeqCount, //
};

/// A number of waits, and how long they took.
#[derive(Debug, Default)]
pub struct WaitCells {
    count: Cell,
    nanoseconds: Cell,
}

impl WaitCells {
    #[inline(always)]
    fn add(&self, nanoseconds: u64) {
        self.count.add(1);
        self.nanoseconds.add(nanoseconds);
    }

    fn add_all(&self, other: &Self) {
        self.count.add(other.count());
        self.nanoseconds.add(other.nanoseconds());
    }

    /// Returns the number of waits.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Returns how long the waits took, in nanoseconds.
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.get()
    }
}

/// Counters and histograms of a group on one CPU.
///
/// The CPU writes it within its switches, and any CPU may read it meanwhile. Once no task can be in
/// the group any more, another CPU may write it: [`GroupRecords::absorb`] and
/// [`GroupRecords::clear`]. The cells that each switch needs come first. The default is all zeros.
#[repr(C)]
#[derive(Debug, Default)]
pub struct GroupRecords {
    counts: [Cell; GroupMetric::COUNT],
    /// The sums modulo 2^64, in nanoseconds.
    sums: [Cell; GroupMetric::COUNT],
    /// The greatest samples, each plus 1; 0 while there is none.
    maxima: [Cell; GroupMetric::COUNT],
    counters: [Cell; GroupCounter::COUNT],
    /// Waits, by the occupant of the CPU when they ended.
    ended_by: [WaitCells; CulpritKind::COUNT],
    /// Waits after a preemption, by the preempting task.
    preempted_by: [WaitCells; CulpritKind::COUNT],
    /// How often [`GroupRecords::carry`] has found bit 63 of each sum changed.
    half_wraps: [Cell; GroupMetric::COUNT],
    /// The tasks and times of the greatest samples.
    worst: [WorstCells; GroupMetric::COUNT],
    /// The other groups that had the CPU when most of the waits ended.
    neighbours: [Neighbour; NEIGHBOURS],
    /// Guards what changes rarely, with the maxima, and the neighbours while one takes the place of
    /// another.
    seqcount: SeqCount,
}

// With a pointer and a number besides they take eight cache lines.
const _: () = assert!(cfg!(loom) || size_of::<GroupRecords>() <= 8 * 64 - 16);

impl GroupRecords {
    #[inline(always)]
    pub(in crate::engine) fn count(&self, counter: GroupCounter) {
        self.counters[counter as usize].add(1);
    }

    /// Counts an absence of a throttled task.
    #[cold]
    pub(in crate::engine) fn throttled(&self, nanoseconds: u64) {
        self.count(GroupCounter::Throttled);
        self.counters[GroupCounter::ThrottledNs as usize].add(nanoseconds);
    }

    /// Adds a sample, which must be less than 2 to the power of
    /// [`VALUE_BITS`](crate::engine::histogram::bucket::VALUE_BITS), to the count and the sum of
    /// `metric`.
    #[inline(always)]
    pub(in crate::engine) fn add(&self, metric: GroupMetric, value: u64) {
        self.counts[metric as usize].add(1);
        let sum = &self.sums[metric as usize];
        match metric {
            // After the time of the switch: see `GroupSlices::add()`.
            GroupMetric::Oncpu => sum.publish_more(value),
            _ => sum.add(value),
        }
    }

    /// Adds a sample of any size that a clock can measure. Slow.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn add_large(&self, metric: GroupMetric, value: u64) {
        self.carry_of(metric);
        self.add(metric, value);
        self.carry_of(metric);
    }

    /// Counts the changes of bit 63 of all sums since the last call. To be called while each sum
    /// grows by less than 2^63: see `Totals`, whose sums are kept in the same way.
    pub fn carry(&self) {
        for metric in GroupMetric::ALL {
            self.carry_of(metric);
        }
    }

    fn carry_of(&self, metric: GroupMetric) {
        let half_wraps = &self.half_wraps[metric as usize];
        if half_wraps.get() & 1 != self.sums[metric as usize].get() >> 63 {
            self.seqcount.write(|| half_wraps.add(1));
        }
    }

    /// Returns whether `value` is greater than each sample of `metric` so far.
    #[inline(always)]
    pub(in crate::engine) fn is_greatest(&self, metric: GroupMetric, value: u64) -> bool {
        value >= self.maxima[metric as usize].get()
    }

    /// Makes a sample, which was taken at `now`, the greatest of `metric`.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn extend(
        &self,
        metric: GroupMetric,
        value: u64,
        now: u64,
        task: impl FnOnce() -> Identity,
    ) {
        let task = task();
        self.seqcount.write(|| {
            // No duration is `u64::MAX`.
            self.maxima[metric as usize].set(value.saturating_add(1));
            self.worst[metric as usize].set(now, &task);
        });
    }

    /// Records that a wait of a task of `group`, whose records these are, ended while `culprit` had
    /// the CPU.
    #[inline(always)]
    pub(in crate::engine) fn wait_ended(&self, group: Group, culprit: TaskGroup, wait: u64) {
        // Not by the number of the culprit's kind: branches are shorter than computing that.
        match culprit.user_group() {
            Some(other) if other == group => self.ended_by[CulpritKind::Own as usize].add(wait),
            Some(other) => {
                self.ended_by[CulpritKind::Other as usize].add(wait);
                self.wait_ended_by_other(other, wait);
            }
            None => self.ended_by[CulpritKind::new(group, culprit) as usize].add(wait),
        }
    }

    /// Records that a wait of a task of `group`, whose records these are, began when `culprit`
    /// preempted the task.
    #[inline(always)]
    pub(in crate::engine) fn wait_after_preemption(
        &self,
        group: Group,
        culprit: TaskGroup,
        wait: u64,
    ) {
        self.preempted_by[CulpritKind::new(group, culprit) as usize].add(wait);
    }

    /// Reads a counter.
    pub fn counter(&self, counter: GroupCounter) -> u64 {
        self.counters[counter as usize].get()
    }

    /// Returns the number of samples of `metric`.
    pub fn samples(&self, metric: GroupMetric) -> u64 {
        self.counts[metric as usize].get()
    }

    /// Reads the sum of all samples of `metric`, in nanoseconds.
    pub fn sum(&self, metric: GroupMetric) -> u128 {
        let (half_wraps, sum) = (
            &self.half_wraps[metric as usize],
            &self.sums[metric as usize],
        );
        let (half_wraps, sum) = self.seqcount.read(|| (half_wraps.get(), sum.get()));
        whole_sum(half_wraps, sum)
    }

    /// Reads the greatest sample of `metric`; `None` when there is none.
    pub fn worst(&self, metric: GroupMetric) -> Option<Worst> {
        self.seqcount.read(|| {
            let value = self.maxima[metric as usize].get().checked_sub(1)?;
            Some(self.worst[metric as usize].get(value))
        })
    }

    /// Returns the waits that ended while `culprit` had the CPU.
    pub fn ended_by(&self, culprit: CulpritKind) -> &WaitCells {
        &self.ended_by[culprit as usize]
    }

    /// Returns the waits that began when `culprit` preempted the task.
    pub fn preempted_by(&self, culprit: CulpritKind) -> &WaitCells {
        &self.preempted_by[culprit as usize]
    }
}
