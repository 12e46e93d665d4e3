// SPDX-License-Identifier: GPL-2.0

//! Records the samples of a switch for groups.

use crate::engine::{
    chain::Start,
    group::{
        group_scheme,
        Group,
        GroupCounter,
        GroupMetric,
        GroupPlacement,
        GroupRecords,
        TaskGroup, //
    },
    histogram::{
        totals::Totals,
        Scheme, //
    },
    idle::Distance,
    switch::{
        Observer,
        PrevState,
        Sample, //
    },
    Cell,
    Identity,
    Metric,
    Side, //
};

/// The group of the task that has a CPU. By default it is not known: 0 is [`TaskGroup::UNKNOWN`].
#[derive(Debug, Default)]
pub struct Occupant(Cell);

impl Occupant {
    /// Makes `task_group` that of the task that has the CPU. To be called within a switch, or while
    /// there can be none.
    #[inline(always)]
    pub fn enter(&self, task_group: TaskGroup) {
        // After the last slice of the one before: see `GroupSlices::add()`.
        self.0.publish(task_group.bits());
    }

    /// Returns the group of the task that has the CPU: within a switch that of the task that
    /// leaves, until [`Occupant::enter`].
    pub fn now(&self) -> TaskGroup {
        TaskGroup::from_bits(self.0.get())
    }
}

/// The most groups whose records a CPU may have.
///
/// A switch carries the sums of one group at most, whatever the number of groups is, and each sum
/// is still carried in time.
pub const MAX_GROUPS: usize = 4097;

/// The number of switches after which the next group's sums are carried.
const CARRY_EVERY: u64 = 128;

const _: () = assert!(MAX_GROUPS as u64 * CARRY_EVERY <= Totals::CARRY_EVERY);

/// The records of all groups on one CPU, one of which is the current one: that of the task that has
/// the CPU.
pub trait CpuGroups: Copy {
    /// Returns the occupant of the CPU.
    fn occupant(&self) -> &Occupant;

    /// Makes `group` the current one, or [`Group::OTHER`] if there are no records of it. Returns
    /// these groups from then on.
    fn enter(self, group: Group) -> Self;

    /// Returns the records of the current group.
    fn records(&self) -> &GroupRecords;

    /// Returns the records of the current group and its histograms: for each [`GroupMetric`] the
    /// buckets of [`group_scheme`]. A group without memory for these has cells that nobody reads.
    fn current(&self) -> (&GroupRecords, &[Cell]);

    /// Returns the placement of the current group, if there is memory for it.
    fn placement(&self) -> Option<&GroupPlacement>;

    /// Calls [`GroupRecords::carry`] for the group number `turn % N` of the `N` groups, which are
    /// [`MAX_GROUPS`] at most.
    fn carry(&self, turn: u64);

    /// Requests memory for the histograms of the current group, if it has none. Called when a
    /// sample is the greatest so far, and so when it is the first.
    fn want_buckets(&self);
}

/// An observer that records samples for groups. Passes samples, slices and identities on to another
/// observer; what concerns groups ends here.
///
/// Its methods are inlined: an observer that a function takes would have to be in memory.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<O, G> {
    inner: O,
    groups: G,
    /// The group of the task that leaves the CPU, once the other one has entered.
    before: TaskGroup,
}

impl<O: Observer, G: CpuGroups> Grouped<O, G> {
    /// Creates an observer.
    #[inline(always)]
    pub fn new(inner: O, groups: G) -> Self {
        let before = TaskGroup::UNKNOWN;
        Self {
            inner,
            groups,
            before,
        }
    }

    /// Counts a sample in `buckets`; the index of its bucket in `scheme` is `index`.
    #[inline(always)]
    fn count(buckets: &[Cell], metric: GroupMetric, scheme: Scheme, index: usize) {
        let coarse = group_scheme(scheme);
        let first = (metric as usize).wrapping_mul(coarse.buckets());
        // The compiler drops the bounds checks if it knows the scheme and the number of cells.
        let buckets = buckets.get(first..first.wrapping_add(coarse.buckets()));
        let index = scheme.index_in(coarse, index);
        if let Some(bucket) = buckets.and_then(|buckets| buckets.get(index)) {
            bucket.add(1);
        }
    }
}

/// Methods that do what the inner observer's do.
macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[inline(always)]
        fn $method(self, $($name: $type),*) $(-> $result)? {
            self.inner.$method($($name),*)
        }
    )*};
}

impl<O: Observer, G: CpuGroups> Observer for Grouped<O, G> {
    const GROUPS: bool = true;
    const CHAIN: bool = O::CHAIN;
    const CARRY_EVERY: u64 = CARRY_EVERY;

    forward! {
        namer(side: Side) -> impl FnOnce() -> Identity;
        slice(since: u64, now: u64);
        idle_begins(now: u64);
        idle_ends(now: u64);
        begins(
            now: u64,
            waited: (Start, u64),
            group: impl FnOnce() -> Group,
            link: impl FnOnce() -> u64
        );
        last_slice(cpu: u32) -> u64;
        cpu_of(last_slice: u64) -> u32;
        wants_moved(value: u64) -> bool;
    }

    #[inline(always)]
    fn leave(self, state: PrevState) {
        self.groups.records().count(match state.is_runnable() {
            true => GroupCounter::Involuntary,
            false => GroupCounter::Voluntary,
        });
    }

    #[inline(always)]
    fn enter(self, task_group: TaskGroup) -> Self {
        let occupant = self.groups.occupant();
        let before = occupant.now();
        occupant.enter(task_group);
        Self {
            groups: self.groups.enter(task_group.group()),
            before,
            ..self
        }
    }

    #[inline(always)]
    fn entered(self) -> TaskGroup {
        self.groups.occupant().now()
    }

    #[inline(always)]
    fn migrated(self, distance: Distance) {
        self.groups.records().count(GroupCounter::Migrations);
        if let Some(placement) = self.groups.placement() {
            placement.migrated(distance);
        }
    }

    #[inline(always)]
    fn preempted(self, culprit: TaskGroup, wait: u64) {
        let group = self.groups.occupant().now().group();
        let records = self.groups.records();
        records.wait_after_preemption(group, culprit, wait);
    }

    #[inline(always)]
    fn throttled(self, away: u64) {
        self.groups.records().throttled(away);
    }

    #[inline(always)]
    fn add(self, metric: Metric, value: u64, scheme: Scheme, index: usize) {
        if let Some(metric) = GroupMetric::of(metric) {
            let (records, buckets) = self.groups.current();
            records.add(metric, value);
            Self::count(buckets, metric, scheme, index);
        }
        self.inner.add(metric, value, scheme, index);
    }

    #[inline(always)]
    fn add_large(self, metric: Metric, value: u64, scheme: Scheme) {
        if let Some(metric) = GroupMetric::of(metric) {
            let (records, buckets) = self.groups.current();
            records.add_large(metric, value);
            Self::count(buckets, metric, scheme, scheme.buckets().wrapping_sub(1));
        }
        self.inner.add_large(metric, value, scheme);
    }

    #[inline(always)]
    fn carry(self, turn: u64) {
        self.groups.carry(turn);
    }

    #[inline(always)]
    fn sample(self, sample: &Sample) {
        let value = sample.value;
        if let Some(metric) = GroupMetric::of(sample.metric) {
            let records = self.groups.records();
            if records.is_greatest(metric, value) {
                let namer = self.namer(sample.metric.side());
                records.extend(metric, value, sample.end, namer);
                self.groups.want_buckets();
            }
        }
        if sample.metric.is_wait() {
            let group = self.groups.occupant().now().group();
            self.groups.records().wait_ended(group, self.before, value);
        }
        self.inner.sample(sample);
    }
}
