// SPDX-License-Identifier: GPL-2.0

//! What a group's tasks did on one CPU.

use core::mem::size_of;

use crate::engine::{
    cell::Cell,
    group::verdict::{
        Group,
        Verdict, //
    },
    histogram::{
        bucket::{
            Precision,
            Scheme, //
        },
        totals::{
            whole_sum,
            Worst, //
        },
    },
    identity::{
        Identity,
        IdentityCells, //
    },
    metric::Metric,
    named::named,
    seqcount::SeqCount, //
};

named! {
    /// A duration that is recorded for groups.
    #[repr(usize)]
    pub enum GroupMetric {
        /// As [`Metric::Oncpu`].
        Oncpu => "oncpu";
        /// [`Metric::RunqWakeup`] and [`Metric::RunqPreempt`] together.
        Runq => "runq";
        /// As [`Metric::Offcpu`].
        Offcpu => "offcpu";
    }
}

impl GroupMetric {
    /// Returns the metric to which samples of `metric` belong; `None` if groups do not record them.
    #[inline(always)]
    pub const fn of(metric: Metric) -> Option<Self> {
        match metric {
            Metric::Oncpu => Some(Self::Oncpu),
            Metric::RunqWakeup | Metric::RunqPreempt => Some(Self::Runq),
            Metric::Offcpu => Some(Self::Offcpu),
            _ => None,
        }
    }
}

named! {
    /// An event that is counted for each group on each CPU.
    #[repr(usize)]
    pub enum GroupCounter {
        /// Switches by which a task left the CPU to block.
        Voluntary => "voluntary";
        /// Switches by which a task left the CPU runnable.
        Involuntary => "involuntary";
        /// Switches to a task that last ran on another CPU.
        Migrations => "migrations";
        /// As [`Counter::Throttled`](crate::engine::metric::Counter::Throttled).
        Throttled => "throttled";
        /// How long these absences took, in nanoseconds.
        ThrottledNs => "throttled_ns";
    }
}

named! {
    /// Who kept a task from its CPU.
    #[repr(usize)]
    pub enum Culprit {
        /// A task of the same group.
        Own => "own";
        /// A task of another group.
        Other => "other";
        /// A kernel thread.
        Kernel => "kernel";
        /// Nobody: the CPU was idle.
        Idle => "idle";
    }
}

impl Culprit {
    /// Returns what a task with the verdict `culprit` is to a task of `group`.
    #[inline(always)]
    pub fn new(group: Group, culprit: Verdict) -> Self {
        match culprit.user_group() {
            Some(other) if other == group => Self::Own,
            Some(_) => Self::Other,
            None if culprit.is_idle() => Self::Idle,
            None => Self::Kernel,
        }
    }
}

/// A number of waits, and how long they took.
#[derive(Debug)]
pub struct Waits {
    count: Cell,
    nanoseconds: Cell,
}

impl Waits {
    const fn new() -> Self {
        Self {
            count: Cell::new(0),
            nanoseconds: Cell::new(0),
        }
    }

    #[inline(always)]
    fn add(&self, nanoseconds: u64) {
        self.count.add(1);
        self.nanoseconds.add(nanoseconds);
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

/// Waits that ended while a task of one other group had the CPU.
#[derive(Debug)]
struct Neighbour {
    /// The number of the group plus 1; 0 while this is free.
    group: Cell,
    waits: Waits,
    /// The lead of this group over groups that have no room: see
    /// [`GroupRecords::wait_ended_by_neighbour`].
    lead: Cell,
}

/// The parts of a metric's totals that change rarely.
#[derive(Debug)]
struct Rare {
    /// How often [`GroupRecords::carry`] has found bit 63 of the sum changed.
    half_wraps: Cell,
    /// The time of the greatest sample.
    time: Cell,
    task: IdentityCells,
}

/// The scheme of the histograms of groups, on a CPU whose own histograms have `scheme`.
///
/// Groups are many, so a bucket is up to 12.5 % of its value wide: their histograms have a quarter
/// of the buckets that the default precision has.
pub const fn group_scheme(scheme: Scheme) -> Scheme {
    match Precision::new(GROUP_PRECISION) {
        Some(precision) if scheme.precision().bits() > GROUP_PRECISION => Scheme::new(precision),
        _ => scheme,
    }
}

/// The finest precision of groups' histograms.
const GROUP_PRECISION: u32 = 3;

/// The number of other groups that [`GroupRecords`] names.
pub const NEIGHBOURS: usize = 4;

/// What a group's tasks did on one CPU.
///
/// Only that CPU writes it, within its switches; any CPU may read it meanwhile. The cells that each
/// switch needs come first.
#[repr(C)]
#[derive(Debug)]
pub struct GroupRecords {
    counts: [Cell; GroupMetric::COUNT],
    /// The sums modulo 2^64, in nanoseconds.
    sums: [Cell; GroupMetric::COUNT],
    /// The greatest samples, each plus 1; 0 while there is none.
    maxima: [Cell; GroupMetric::COUNT],
    counters: [Cell; GroupCounter::COUNT],
    /// Waits by who had the CPU when they ended.
    ended_by: [Waits; Culprit::COUNT],
    /// Waits after a preemption, by who preempted the task.
    preempted_by: [Waits; Culprit::COUNT],
    rare: [Rare; GroupMetric::COUNT],
    /// The other groups that had the CPU when most of the waits ended.
    neighbours: [Neighbour; NEIGHBOURS],
    /// Guards what changes rarely, with the maxima, and the neighbours while one replaces another.
    seqcount: SeqCount,
}

// With a pointer and a number besides they take eight cache lines.
const _: () = assert!(cfg!(loom) || size_of::<GroupRecords>() <= 8 * 64 - 16);

impl GroupRecords {
    /// Creates records in which nothing is recorded. All of its bytes are 0.
    pub const fn new() -> Self {
        Self {
            counts: [const { Cell::new(0) }; GroupMetric::COUNT],
            sums: [const { Cell::new(0) }; GroupMetric::COUNT],
            maxima: [const { Cell::new(0) }; GroupMetric::COUNT],
            counters: [const { Cell::new(0) }; GroupCounter::COUNT],
            ended_by: [const { Waits::new() }; Culprit::COUNT],
            preempted_by: [const { Waits::new() }; Culprit::COUNT],
            rare: [const {
                Rare {
                    half_wraps: Cell::new(0),
                    time: Cell::new(0),
                    task: IdentityCells::new(),
                }
            }; GroupMetric::COUNT],
            neighbours: [const {
                Neighbour {
                    group: Cell::new(0),
                    waits: Waits::new(),
                    lead: Cell::new(0),
                }
            }; NEIGHBOURS],
            seqcount: SeqCount::new(),
        }
    }

    /// Counts an event.
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
        self.sums[metric as usize].add(value);
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
        let rare = &self.rare[metric as usize];
        if rare.half_wraps.get() & 1 != self.sums[metric as usize].get() >> 63 {
            self.seqcount.write(|| rare.half_wraps.add(1));
        }
    }

    /// Returns whether no sample of `metric` so far was greater.
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
        let rare = &self.rare[metric as usize];
        let task = task();
        self.seqcount.write(|| {
            // No duration is `u64::MAX`.
            self.maxima[metric as usize].set(value.saturating_add(1));
            rare.time.set(now);
            rare.task.set(&task);
        });
    }

    /// Records that a wait of a task of `group`, whose records these are, ended while `culprit` had
    /// the CPU.
    #[inline(always)]
    pub(in crate::engine) fn wait_ended(&self, group: Group, culprit: Verdict, wait: u64) {
        let kind = Culprit::new(group, culprit);
        self.ended_by[kind as usize].add(wait);
        if let Culprit::Other = kind {
            self.wait_ended_by_neighbour(culprit.group(), wait);
        }
    }

    /// Records the wait for the group that ended it, if there is room for that group, or makes
    /// room. What is recorded of the group that had the room then counts for no group.
    ///
    /// This is the algorithm of Misra and Gries for frequent items, with waits as weights. A wait of
    /// a group without room shortens the leads of all groups that have room, until one of them has
    /// none left and is replaced. So whenever a group ended more than one of `NEIGHBOURS + 1` parts
    /// of the time that other groups did, it has room.
    #[inline(never)]
    fn wait_ended_by_neighbour(&self, group: Group, wait: u64) {
        let key = u64::from(group.number()) + 1;
        let mut least = &self.neighbours[0];
        for neighbour in &self.neighbours {
            let owner = neighbour.group.get();
            if owner == key {
                neighbour.waits.add(wait);
                let lead = neighbour.lead.get();
                return neighbour.lead.set(lead.saturating_add(wait));
            }
            // Room is taken in this order and never given up, so `key` has none further on.
            if owner == 0 {
                return self.replace(neighbour, key, wait, wait);
            }
            if neighbour.lead.get() < least.lead.get() {
                least = neighbour;
            }
        }
        let lost = wait.min(least.lead.get());
        for neighbour in &self.neighbours {
            neighbour.lead.set(neighbour.lead.get().wrapping_sub(lost));
        }
        if wait > lost {
            self.replace(least, key, wait, wait.wrapping_sub(lost));
        }
    }

    /// Gives the room of `neighbour` to the group of `key`, whose first wait this is.
    #[cold]
    fn replace(&self, neighbour: &Neighbour, key: u64, wait: u64, lead: u64) {
        self.seqcount.write(|| {
            neighbour.group.set(key);
            neighbour.waits.count.set(1);
            neighbour.waits.nanoseconds.set(wait);
        });
        neighbour.lead.set(lead);
    }

    /// Records that a wait of a task of `group`, whose records these are, began when `culprit`
    /// preempted the task.
    #[inline(always)]
    pub(in crate::engine) fn wait_after_preemption(
        &self,
        group: Group,
        culprit: Verdict,
        wait: u64,
    ) {
        self.preempted_by[Culprit::new(group, culprit) as usize].add(wait);
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
        let rare = &self.rare[metric as usize];
        let read = || (rare.half_wraps.get(), self.sums[metric as usize].get());
        let (half_wraps, sum) = self.seqcount.read(read);
        whole_sum(half_wraps, sum)
    }

    /// Reads the greatest sample of `metric`; `None` when there is none.
    pub fn worst(&self, metric: GroupMetric) -> Option<Worst> {
        let rare = &self.rare[metric as usize];
        self.seqcount.read(|| {
            Some(Worst {
                value: self.maxima[metric as usize].get().checked_sub(1)?,
                task: rare.task.get(),
                time: rare.time.get(),
            })
        })
    }

    /// Returns the waits that ended while `culprit` had the CPU.
    pub fn ended_by(&self, culprit: Culprit) -> &Waits {
        &self.ended_by[culprit as usize]
    }

    /// Returns the waits that began when `culprit` preempted the task.
    pub fn preempted_by(&self, culprit: Culprit) -> &Waits {
        &self.preempted_by[culprit as usize]
    }

    /// Returns the other groups that had the CPU when waits ended, with the number of these waits
    /// and the nanoseconds that they took. Waits that ended by further groups are only in
    /// [`GroupRecords::ended_by`]. A group that ended more than one of `NEIGHBOURS + 1` parts of
    /// their time is there, but while the CPU is recording, it may be missing.
    pub fn neighbours(&self) -> impl Iterator<Item = (Group, u64, u64)> + '_ {
        self.neighbours.iter().filter_map(|neighbour| {
            let Neighbour { group, waits, .. } = neighbour;
            let read = || (group.get(), waits.count(), waits.nanoseconds());
            let (key, count, nanoseconds) = self.seqcount.read(read);
            let number = u32::try_from(key.checked_sub(1)?).ok()?;
            Some((Group::new(number)?, count, nanoseconds))
        })
    }
}

impl Default for GroupRecords {
    fn default() -> Self {
        Self::new()
    }
}
