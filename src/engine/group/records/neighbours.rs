// SPDX-License-Identifier: GPL-2.0

//! The other groups that kept a group waiting.

use super::{
    GroupRecords,
    WaitCells, //
};
use crate::engine::{
    group::Group,
    Cell, //
};

/// The number of other groups that [`GroupRecords`] names.
pub const NEIGHBOURS: usize = 4;

/// Waits that ended while a task of one other group had the CPU.
#[derive(Debug, Default)]
pub(super) struct Neighbour {
    /// The number of the group; 0 while this is free.
    pub(super) group: Cell,
    pub(super) waits: WaitCells,
    /// The nanoseconds of `waits`, minus the lead of this group over groups that have no room: see
    /// [`GroupRecords::wait_ended_by_neighbour`]. A wait adds to both, and so does not write this.
    lost: Cell,
}

impl Neighbour {
    pub(super) fn get(&self) -> NeighbourValues {
        NeighbourValues {
            group: self.group.get(),
            count: self.waits.count(),
            nanoseconds: self.waits.nanoseconds(),
            lost: self.lost.get(),
        }
    }

    pub(super) fn set(&self, values: NeighbourValues) {
        self.group.set(values.group);
        self.waits.count.set(values.count);
        self.waits.nanoseconds.set(values.nanoseconds);
        self.lost.set(values.lost);
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NeighbourValues {
    pub(super) group: u64,
    count: u64,
    nanoseconds: u64,
    lost: u64,
}

impl NeighbourValues {
    /// Returns whether these are those of a place that no group has.
    pub(super) fn is_free(&self) -> bool {
        self.count == 0
    }

    fn group(&self) -> Option<Group> {
        (!self.is_free()).then_some(Group::new(u32::try_from(self.group).ok()?)?)
    }

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

impl GroupRecords {
    /// Records a wait that a task of another group, `group`, ended.
    #[inline(always)]
    pub(super) fn wait_ended_by_other(&self, group: Group, wait: u64) {
        let [first, ..] = &self.neighbours;
        // If the group is `other`, this may be the first wait here, and takes the free place.
        match first.group.get() as u32 == group.number() {
            true => first.waits.add(wait),
            false => self.wait_ended_by_neighbour(group, wait),
        }
    }

    /// Records the wait for the group that ended it, if there is room for that group, or
    /// makes room. What is recorded of the group that had the room then counts for no group.
    ///
    /// This is the algorithm of Misra and Gries for frequent items, with waits as weights. A wait
    /// of a group without room shortens the leads of all groups that have room, until one of them
    /// has none left and is replaced. So whenever a group ended more than one of `NEIGHBOURS + 1`
    /// parts of the time that other groups did, it has room.
    ///
    /// The groups that have room come first. The very first of them is found without a call, so it
    /// is one with a great lead.
    #[inline(never)]
    fn wait_ended_by_neighbour(&self, group: Group, wait: u64) {
        let key = u64::from(group.number());
        let [first, ..] = &self.neighbours;
        for neighbour in &self.neighbours {
            let owner = neighbour.group.get();
            if owner == key {
                neighbour.waits.add(wait);
                // Not as soon as the other lead is greater: two groups that take turns would change
                // places each time.
                if neighbour.get().lead() / 2 > first.get().lead() {
                    self.swap(first, neighbour);
                }
                return;
            }
            if neighbour.get().is_free() {
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
            if neighbour.get().is_free() {
                return self.seqcount.write(|| neighbour.set(waits));
            }
            if neighbour.get().lead() < least.get().lead() {
                least = neighbour;
            }
        }
        let lost = waits.lead().min(least.get().lead());
        self.neighbours
            .iter()
            .for_each(|known| known.lost.add(lost));
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
    pub(super) fn absorb_neighbour(&self, waits: NeighbourValues) {
        let has_room = |known: &&Neighbour| known.group.get() == waits.group;
        match self.neighbours.iter().find(has_room) {
            Some(known) => self.seqcount.write(|| known.set(known.get().and(waits))),
            None => self.make_room(waits),
        }
    }

    /// Makes `to` the neighbour wherever one of the groups for which `is_it` returns true is, and
    /// calls `renamed` with that group. `to` may then be there several times.
    ///
    /// Any CPU may call this. A switch that is in progress on the CPU of the records may undo it.
    pub fn rename_neighbours(
        &self,
        is_it: impl Fn(Group) -> bool,
        to: Group,
        mut renamed: impl FnMut(Group),
    ) {
        for (group, ..) in self.neighbours().filter(|(group, ..)| is_it(*group)) {
            for known in &self.neighbours {
                known
                    .group
                    .replace(u64::from(group.number()), u64::from(to.number()));
            }
            renamed(group);
        }
    }

    /// Returns the other groups that had the CPU when waits ended, with the number of these waits
    /// and the nanoseconds that they took. Waits that ended by further groups are only in
    /// [`GroupRecords::ended_by`]. A group that ended more than one of `NEIGHBOURS + 1` parts of
    /// their time is there, but while the CPU is recording, it may be missing.
    ///
    /// A group that is [renamed](GroupRecords::rename_neighbours) may be there several times.
    pub fn neighbours(&self) -> impl Iterator<Item = (Group, u64, u64)> + '_ {
        let read = || self.neighbours.each_ref().map(Neighbour::get);
        let all = self.seqcount.read(read).into_iter();
        all.filter_map(|of| Some((of.group()?, of.count, of.nanoseconds)))
    }
}
