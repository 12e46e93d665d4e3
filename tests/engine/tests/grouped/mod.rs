// SPDX-License-Identifier: GPL-2.0

//! The records of groups on a made-up CPU, driven through the engine's observer.

#![allow(dead_code, reason = "not every test needs all of it")]

pub(crate) use schedhist_engine::testing::group;

use std::collections::BTreeMap;

use schedhist_engine::engine::{
    cell::Cell,
    group::{
        observer::{CpuGroups, Grouped, Occupant},
        placement::GroupPlacement,
        records::{group_scheme, GroupMetric, GroupRecords},
        task_group::{Group, TaskGroup},
    },
    histogram::{bucket::Scheme, snapshot::Snapshot},
    identity::Identity,
    idle::{Distance, LongWait, WaitCause},
    metric::Metric,
    switch::{
        sample::{Cause, Observer, Sample, Side},
        switch_out::PrevState,
    },
};

/// Returns the group of a task in the group `number`.
pub(crate) fn user(number: u32) -> TaskGroup {
    TaskGroup::new(group(number), false)
}

/// Returns the group of a kernel thread in the group `number`.
pub(crate) fn kernel(number: u32) -> TaskGroup {
    TaskGroup::new(group(number), true)
}

/// Returns the identity of the task that leaves the CPU in each switch, or of the one that gets it.
pub(crate) fn identity(side: Side) -> Identity {
    let (pid, comm) = match side {
        Side::Prev => (1, *b"prev\0\0\0\0\0\0\0\0\0\0\0\0"),
        Side::Next => (2, *b"next \\\n\x7f\0\0\0\0\0\0\0\0"),
    };
    Identity {
        pid,
        prio: 120,
        comm,
        ..Identity::default()
    }
}

/// Returns the count and the nanoseconds of each neighbour, by its number. One that was renamed may
/// be there several times.
pub(crate) fn neighbours(records: &GroupRecords) -> BTreeMap<u32, (u64, u64)> {
    let mut sums = BTreeMap::new();
    for (group, count, ns) in records.neighbours() {
        let (whole, whole_ns): &mut (u64, u64) = sums.entry(group.number()).or_default();
        *whole += count;
        *whole_ns += ns;
    }
    sums
}

/// The groups on a CPU.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) occupant: Occupant,
    /// The number of the group of the task that has the CPU.
    pub(crate) current: Cell,
    pub(crate) records: Vec<GroupRecords>,
    /// Empty if nobody looks at them.
    pub(crate) placements: Vec<GroupPlacement>,
    /// The histograms of each group; empty while there is no memory for them.
    pub(crate) buckets: Vec<Vec<Cell>>,
    /// Which groups have requested memory for histograms.
    pub(crate) wanted: Vec<Cell>,
    scheme: Scheme,
    /// The last turn at which the sums of a group were carried.
    pub(crate) turn: Cell,
}

impl Groups {
    /// Creates the records of `groups` groups, with histograms, on a CPU whose own have `scheme`.
    pub(crate) fn new(groups: usize, scheme: Scheme) -> Self {
        let cells = GroupMetric::COUNT * group_scheme(scheme).buckets();
        let new = |_| (0..cells).map(|_| Cell::new(0)).collect();
        Self {
            buckets: (0..groups).map(new).collect(),
            ..Self::without_histograms(groups, scheme)
        }
    }

    /// Creates the same without histograms.
    pub(crate) fn without_histograms(groups: usize, scheme: Scheme) -> Self {
        Self {
            occupant: Occupant::default(),
            current: Cell::new(0),
            records: (0..groups).map(|_| GroupRecords::default()).collect(),
            placements: (0..groups).map(|_| GroupPlacement::default()).collect(),
            buckets: (0..groups).map(|_| Vec::new()).collect(),
            wanted: (0..groups).map(|_| Cell::new(0)).collect(),
            scheme,
            turn: Cell::new(0),
        }
    }

    /// Returns the observer of a switch.
    pub(crate) fn observer(&self) -> impl Observer + '_ {
        Grouped::new(identity, self)
    }

    /// Records a sample of the task that has the CPU, which was taken at `end`.
    pub(crate) fn sample(&self, metric: Metric, value: u64, end: u64) {
        self.record(self.observer(), metric, value, end);
    }

    /// Records the same with another observer, in the order of the engine.
    pub(crate) fn record(&self, observer: impl Observer, metric: Metric, value: u64, end: u64) {
        let index = self.scheme.index(value);
        match index + 1 < self.scheme.buckets() {
            true => observer.add(metric, value, self.scheme, index),
            false => observer.add_large(metric, value, self.scheme),
        }
        observer.sample(&Sample::new(metric, value, Cause::Wakeup, end));
    }

    /// Lets a task of the group `victim` wait for `wait` nanoseconds, until it gets the CPU from a
    /// task with the group `culprit`.
    pub(crate) fn wait(&self, victim: u32, culprit: TaskGroup, wait: u64) {
        let observer = self.observer().enter(culprit).enter(user(victim));
        self.record(observer, Metric::RunqWakeup, wait, 1 + wait);
    }

    /// Lets something of each kind happen in group 1, with ten migrations, two long waits and a
    /// throttled absence of `throttled` nanoseconds. Its waits are ended, and its tasks preempted,
    /// by a task of the same group, by one of another group, by a kernel thread, and by nobody.
    pub(crate) fn example(&self, throttled: u64) {
        self.wait(1, user(1), 1_000);
        self.wait(1, user(2), 30_000);
        self.wait(1, kernel(2), 2_000);
        self.wait(1, TaskGroup::IDLE, 7_000);
        let observer = self.observer();
        for (culprit, wait) in [
            (user(1), 1),
            (user(2), 20),
            (kernel(1), 300),
            (TaskGroup::IDLE, 4_000),
        ] {
            observer.preempted(culprit, wait);
        }
        for (number, distance) in (1..).zip(Distance::BETWEEN_CPUS) {
            (0..number).for_each(|_| observer.migrated(distance));
        }
        let long_wait = LongWait {
            parts: [100, 10, 20, 30, 15, 25],
            longest: None,
            why: WaitCause::Forked,
        };
        (0..2).for_each(|_| self.placement_of(1).long_waits.add(&long_wait));
        observer.throttled(throttled);
        self.sample(Metric::Oncpu, 500, 1_000_000);
        self.sample(Metric::Oncpu, 1_500, 2_000_000);
        for state in [0, 1, 2] {
            observer.leave(PrevState::new(false, state));
        }
    }

    /// Returns the placement of the group `number`.
    pub(crate) fn placement_of(&self, number: u32) -> &GroupPlacement {
        &self.placements[number as usize]
    }

    /// Returns the records of the group `number`.
    pub(crate) fn of(&self, number: u32) -> &GroupRecords {
        &self.records[number as usize]
    }

    /// Returns the histograms of the group `number`, as if of the CPU 3.
    pub(crate) fn histograms(&self, number: u32) -> [Snapshot<Vec<u64>>; GroupMetric::COUNT] {
        let scheme = group_scheme(self.scheme);
        let stride = scheme.buckets();
        GroupMetric::ALL.map(|metric| {
            let counts = vec![7; stride];
            let mut snapshot = Snapshot::new(scheme, counts).expect("the right number of counts");
            let first = metric as usize * stride;
            let buckets = self.buckets[number as usize].get(first..first + stride);
            let buckets = buckets.unwrap_or_default();
            snapshot.add_group(3, self.of(number), buckets, metric);
            snapshot
        })
    }
}

impl CpuGroups for &Groups {
    fn occupant(&self) -> &Occupant {
        &self.occupant
    }

    fn enter(self, group: Group) -> Self {
        let has_records = (group.number() as usize) < self.records.len();
        let number = if has_records { group.number() } else { 0 };
        self.current.set(u64::from(number));
        self
    }

    fn records(&self) -> &GroupRecords {
        &self.records[self.current.get() as usize]
    }

    fn placement(&self) -> Option<&GroupPlacement> {
        self.placements.get(self.current.get() as usize)
    }

    fn current(&self) -> (&GroupRecords, &[Cell]) {
        let current = self.current.get() as usize;
        (&self.records[current], &self.buckets[current])
    }

    fn carry(&self, turn: u64) {
        self.turn.set(turn);
        let number = turn % self.records.len() as u64;
        self.records[number as usize].carry();
    }

    fn want_buckets(&self) {
        self.wanted[self.current.get() as usize].set(1);
    }
}
