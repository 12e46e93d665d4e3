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

    /// Adds other waits.
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

/// Waits that ended while a task of one other group had the CPU.
#[derive(Debug)]
struct Neighbour {
    /// The number of the group plus 1; 0 while this is free.
    group: Cell,
    waits: Waits,
    /// How much the nanoseconds of the waits are ahead of the lead of this group over groups that
    /// have no room: see [`GroupRecords::wait_ended_by_neighbour`]. So a wait changes both at once.
    lost: Cell,
}

impl Neighbour {
    const fn new() -> Self {
        Self {
            group: Cell::new(0),
            waits: Waits::new(),
            lost: Cell::new(0),
        }
    }

    fn get(&self) -> NeighbourValues {
        NeighbourValues {
            group: self.group.get(),
            count: self.waits.count(),
            nanoseconds: self.waits.nanoseconds(),
            lost: self.lost.get(),
        }
    }

    fn set(&self, values: NeighbourValues) {
        self.group.set(values.group);
        self.waits.count.set(values.count);
        self.waits.nanoseconds.set(values.nanoseconds);
        self.lost.set(values.lost);
    }

    fn lead(&self) -> u64 {
        self.get().lead()
    }

    /// Shortens the lead, which is at least `nanoseconds`.
    fn lose(&self, nanoseconds: u64) {
        self.lost.add(nanoseconds);
    }
}

/// The values of a [`Neighbour`].
#[derive(Clone, Copy, Debug, Default)]
struct NeighbourValues {
    group: u64,
    count: u64,
    nanoseconds: u64,
    lost: u64,
}

impl NeighbourValues {
    fn lead(&self) -> u64 {
        self.nanoseconds.wrapping_sub(self.lost)
    }

    /// Returns the values of what both counted.
    fn and(self, other: Self) -> Self {
        Self {
            group: self.group,
            count: self.count.wrapping_add(other.count),
            nanoseconds: self.nanoseconds.wrapping_add(other.nanoseconds),
            lost: self.lost.wrapping_add(other.lost),
        }
    }
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
    /// Guards what changes rarely, with the maxima, and the neighbours while one takes the place of
    /// another.
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
            neighbours: [const { Neighbour::new() }; NEIGHBOURS],
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
            let key = u64::from(culprit.group().number()) + 1;
            let [first, ..] = &self.neighbours;
            match first.group.get() == key {
                true => first.waits.add(wait),
                false => self.wait_ended_by_neighbour(key, wait),
            }
        }
    }

    /// Records the wait for the group of `key` that ended it, if there is room for that group, or
    /// makes room. What is recorded of the group that had the room then counts for no group.
    ///
    /// This is the algorithm of Misra and Gries for frequent items, with waits as weights. A wait of
    /// a group without room shortens the leads of all groups that have room, until one of them has
    /// none left and is replaced. So whenever a group ended more than one of `NEIGHBOURS + 1` parts
    /// of the time that other groups did, it has room.
    ///
    /// The groups that have room come first. The very first of them is found without a call, so it
    /// is one with a great lead.
    #[inline(never)]
    fn wait_ended_by_neighbour(&self, key: u64, wait: u64) {
        let [first, ..] = &self.neighbours;
        for neighbour in &self.neighbours {
            let owner = neighbour.group.get();
            if owner == key {
                neighbour.waits.add(wait);
                // Not as soon as the other lead is greater: two groups that take turns would change
                // places each time.
                if neighbour.lead() / 2 > first.lead() {
                    self.swap(first, neighbour);
                }
                return;
            }
            if owner == 0 {
                break;
            }
        }
        self.make_room(NeighbourValues {
            group: key,
            count: 1,
            nanoseconds: wait,
            lost: 0,
        });
    }

    /// Records waits that a group ended that has no room.
    #[cold]
    fn make_room(&self, waits: NeighbourValues) {
        let [first, others @ ..] = &self.neighbours;
        let mut least = first;
        for neighbour in core::iter::once(first).chain(others) {
            if neighbour.group.get() == 0 {
                return self.seqcount.write(|| neighbour.set(waits));
            }
            if neighbour.lead() < least.lead() {
                least = neighbour;
            }
        }
        let lost = waits.lead().min(least.lead());
        self.neighbours.iter().for_each(|known| known.lose(lost));
        if waits.lead() > lost {
            let lost = waits.lost.wrapping_add(lost);
            self.seqcount
                .write(|| least.set(NeighbourValues { lost, ..waits }));
        }
    }

    #[cold]
    fn swap(&self, one: &Neighbour, other: &Neighbour) {
        let (first, second) = (one.get(), other.get());
        self.seqcount.write(|| {
            one.set(second);
            other.set(first);
        });
    }

    /// Adds waits that a group ended, which may have room.
    fn absorb_neighbour(&self, waits: NeighbourValues) {
        let has_room = |known: &&Neighbour| known.group.get() == waits.group;
        match self.neighbours.iter().find(has_room) {
            Some(known) => self.seqcount.write(|| known.set(known.get().and(waits))),
            None => self.make_room(waits),
        }
    }

    /// Adds all that `other` recorded on the same CPU.
    ///
    /// To be called by the CPU itself, as all that writes, and not while it records a switch.
    pub fn absorb(&self, other: &Self) {
        for metric in GroupMetric::ALL {
            let i = metric as usize;
            self.counts[i].add(other.samples(metric));
            let sum = self.sum(metric).wrapping_add(other.sum(metric));
            self.seqcount.write(|| {
                self.sums[i].set(sum as u64);
                // As many as bit 63 has changed while the sum grew.
                self.rare[i].half_wraps.set((sum >> 63) as u64);
            });
            if let Some(worst) = other.worst(metric) {
                if self.is_greatest(metric, worst.value) {
                    self.extend(metric, worst.value, worst.time, || worst.task);
                }
            }
        }
        for counter in GroupCounter::ALL {
            self.counters[counter as usize].add(other.counter(counter));
        }
        for culprit in Culprit::ALL {
            self.ended_by[culprit as usize].add_all(other.ended_by(culprit));
            self.preempted_by[culprit as usize].add_all(other.preempted_by(culprit));
        }
        let others = other.neighbours.iter().map(Neighbour::get);
        for waits in others.filter(|waits| waits.group != 0) {
            self.absorb_neighbour(waits);
        }
    }

    /// Forgets all that was recorded. As [`GroupRecords::absorb`].
    pub fn clear(&self) {
        self.seqcount.write(|| {
            for metric in GroupMetric::ALL {
                let (i, rare) = (metric as usize, &self.rare[metric as usize]);
                for cell in [&self.counts[i], &self.sums[i], &self.maxima[i]] {
                    cell.set(0);
                }
                rare.half_wraps.set(0);
            }
            self.counters.iter().for_each(|cell| cell.set(0));
            let waits = self.ended_by.iter().chain(&self.preempted_by);
            waits.for_each(|waits| {
                waits.count.set(0);
                waits.nanoseconds.set(0);
            });
            let neighbours = self.neighbours.iter();
            neighbours.for_each(|known| known.set(NeighbourValues::default()));
        });
    }

    /// Makes `to` the neighbour wherever one of the groups for which `is_it` returns true is. As
    /// [`GroupRecords::absorb`].
    pub fn rename_neighbours(&self, is_it: impl Fn(Group) -> bool, to: Group) {
        let is_it = |values: &NeighbourValues| group_of(values.group).is_some_and(&is_it);
        loop {
            let mut used = self
                .neighbours
                .iter()
                .filter(|known| known.group.get() != 0);
            let Some(renamed) = used.find(|known| is_it(&known.get())) else {
                return;
            };
            let waits = renamed.get();
            // The last one takes the place, so that the places in use come first.
            let last = used.last().unwrap_or(renamed);
            self.seqcount.write(|| {
                renamed.set(last.get());
                last.set(NeighbourValues::default());
            });
            self.absorb_neighbour(NeighbourValues {
                group: u64::from(to.number()) + 1,
                ..waits
            });
        }
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
        let read = || self.neighbours.each_ref().map(Neighbour::get);
        let all = self.seqcount.read(read).into_iter();
        all.filter_map(|of| Some((group_of(of.group)?, of.count, of.nanoseconds)))
    }
}

/// Returns the group of a [`Neighbour`].
fn group_of(key: u64) -> Option<Group> {
    Group::new(u32::try_from(key.checked_sub(1)?).ok()?)
}

impl Default for GroupRecords {
    fn default() -> Self {
        Self::new()
    }
}
