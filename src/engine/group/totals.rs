// SPDX-License-Identifier: GPL-2.0

//! What a group's tasks did, added up over CPUs.

use crate::engine::{
    group::{
        CulpritKind,
        Group,
        GroupCounter,
        GroupMetric,
        GroupPlacement,
        GroupRecords,
        WaitCells, //
    },
    idle::{
        Distance,
        WaitSums, //
    },
};

/// The number of other groups that [`GroupTotals`] names.
pub const NEIGHBOURS: usize = 8;

/// The counters of a group, added up over CPUs.
///
/// The probes keep recording meanwhile: see
/// [`Snapshot`](crate::engine::histogram::snapshot::Snapshot).
#[derive(Debug, Default)]
pub struct GroupTotals {
    samples: [u64; GroupMetric::COUNT],
    counters: [u64; GroupCounter::COUNT],
    ended_by: [(u64, u128); CulpritKind::COUNT],
    preempted_by: [(u64, u128); CulpritKind::COUNT],
    neighbours: [Option<Neighbour>; NEIGHBOURS],
    long_waits: WaitSums,
    migrations: [u64; Distance::BETWEEN_CPUS.len()],
}

/// Waits that ended while a task of another group had the CPU.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    group: Group,
    count: u64,
    nanoseconds: u128,
    /// The lead of this group over groups that have no room, as in [`GroupRecords`].
    lead: u128,
}

impl GroupTotals {
    /// Adds what the group did on another CPU. `name` returns the group as which a neighbour is to
    /// be named.
    pub fn add(&mut self, records: &GroupRecords, name: impl Fn(Group) -> Group) {
        for (sum, metric) in self.samples.iter_mut().zip(GroupMetric::ALL) {
            *sum = sum.wrapping_add(records.samples(metric));
        }
        for (sum, counter) in self.counters.iter_mut().zip(GroupCounter::ALL) {
            *sum = sum.wrapping_add(records.counter(counter));
        }
        for culprit in CulpritKind::ALL {
            let i = culprit as usize;
            add(&mut self.ended_by[i], records.ended_by(culprit));
            add(&mut self.preempted_by[i], records.preempted_by(culprit));
        }
        for (group, count, nanoseconds) in records.neighbours() {
            self.add_neighbour(name(group), count, u128::from(nanoseconds));
        }
    }

    /// Adds where its tasks ran and waited on another CPU.
    pub fn add_placement(&mut self, placement: &GroupPlacement) {
        self.long_waits.add(&placement.long_waits.read());
        for (sum, count) in self.migrations.iter_mut().zip(placement.migrations()) {
            *sum = sum.wrapping_add(count);
        }
    }

    /// Adds waits that `group` ended. If there is no room, the waits of some group are left out:
    /// which, is decided as for the groups that [`GroupRecords`] names.
    fn add_neighbour(&mut self, group: Group, count: u64, nanoseconds: u128) {
        let mut known = self.neighbours.iter_mut().flatten();
        if let Some(known) = known.find(|neighbour| neighbour.group == group) {
            known.count = known.count.wrapping_add(count);
            known.nanoseconds += nanoseconds;
            known.lead += nanoseconds;
            return;
        }
        let mut new = Neighbour {
            group,
            count,
            nanoseconds,
            lead: nanoseconds,
        };
        if let Some(free) = self.neighbours.iter_mut().find(|place| place.is_none()) {
            *free = Some(new);
            return;
        }
        let leads = self.neighbours.iter().flatten().map(|known| known.lead);
        let lost = leads.fold(nanoseconds, u128::min);
        new.lead -= lost;
        for place in &mut self.neighbours {
            let Some(known) = place else {
                continue;
            };
            known.lead -= lost;
            if known.lead == 0 && new.lead != 0 {
                *place = Some(new);
                new.lead = 0;
            }
        }
    }

    /// Returns the number of samples of `metric`.
    pub fn samples(&self, metric: GroupMetric) -> u64 {
        self.samples[metric as usize]
    }

    /// Returns a counter.
    pub fn counter(&self, counter: GroupCounter) -> u64 {
        self.counters[counter as usize]
    }

    /// Returns the number of waits that ended while `culprit` had the CPU, and how long they took
    /// in nanoseconds.
    pub fn ended_by(&self, culprit: CulpritKind) -> (u64, u128) {
        self.ended_by[culprit as usize]
    }

    /// Returns the number of waits that began when `culprit` preempted the task, and how long they
    /// took in nanoseconds.
    pub fn preempted_by(&self, culprit: CulpritKind) -> (u64, u128) {
        self.preempted_by[culprit as usize]
    }

    /// Returns the numbers of its migrations, by [`Distance::BETWEEN_CPUS`].
    pub fn migrations(&self) -> [u64; Distance::BETWEEN_CPUS.len()] {
        self.migrations
    }

    /// Returns the sums of its long waits.
    pub fn long_waits(&self) -> &WaitSums {
        &self.long_waits
    }

    /// Returns other groups that had the CPU when waits ended, with the number of these waits and
    /// how long they took in nanoseconds, in no order. Of the groups that the CPUs name, each that
    /// took more than one of `NEIGHBOURS + 1` parts of their time is there. The sum may be less
    /// than [`GroupTotals::ended_by`] says of other groups.
    pub fn neighbours(&self) -> impl Iterator<Item = (Group, u64, u128)> + '_ {
        let all = self.neighbours.iter().flatten();
        all.map(|known| (known.group, known.count, known.nanoseconds))
    }
}

fn add(sum: &mut (u64, u128), waits: &WaitCells) {
    sum.0 = sum.0.wrapping_add(waits.count());
    sum.1 += u128::from(waits.nanoseconds());
}
