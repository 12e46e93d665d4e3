// SPDX-License-Identifier: GPL-2.0

//! The guard under which readers see the groups.

use core::ops::Deref;

use kernel::{
    prelude::*,
    sync::lock::{
        mutex::MutexBackend,
        Guard, //
    },
};

use super::{
    kind::copy,
    Groups, //
};
use crate::{
    boundary::abstractions::for_each_task,
    engine::{
        group::{
            Group,
            GroupMetric,
            GroupReading,
            GroupSet,
            GroupSlices,
            GroupTotals,
            Members, //
        },
        histogram::Snapshot, //
    },
    reading::Reading, //
};

/// The groups. While this guard exists, no group is retired and no place is reused.
pub(crate) struct GroupsGuard<'a> {
    groups: &'a Groups,
    retired: Guard<'a, GroupSet<KVVec<u64>>, MutexBackend>,
}

impl Groups {
    /// Waits until no place changes its group, so that several groups can be read. Sleeps.
    pub(crate) fn hold(&self) -> GroupsGuard<'_> {
        GroupsGuard {
            groups: self,
            retired: self.retired.lock(),
        }
    }
}

impl Deref for GroupsGuard<'_> {
    type Target = Groups;

    fn deref(&self) -> &Groups {
        self.groups
    }
}

impl GroupsGuard<'_> {
    /// Calls `show` with each group and its name: [`Group::OTHER`] first, then, once there is any,
    /// the one of all that are gone. Fails with `ENOMEM`, and as `show` does.
    pub(crate) fn for_each(&self, mut show: impl FnMut(Group, &[u8]) -> Result) -> Result {
        for group in self.numbers() {
            if let Some(name) = self.name(group)? {
                show(group, &name)?;
            }
        }
        Ok(())
    }

    /// Calls `show` with what is read of each group. Stops on an error.
    pub(crate) fn for_each_reading(
        &self,
        reading: &Reading,
        mut show: impl FnMut(&GroupReading<'_, KVVec<u64>>) -> Result,
    ) -> Result {
        let members = self.members()?;
        self.for_each(|group, name| {
            let of_group = members.get(group.number() as usize);
            show(&GroupReading {
                group,
                name,
                members: of_group.copied().unwrap_or_default(),
                totals: self.totals(group),
                slices: self.slices(group, reading),
                histograms: self.histograms(group)?,
            })
        })
    }

    /// Calls `each` with those groups whose records are those of `group`.
    fn for_each_part(&self, group: Group, mut each: impl FnMut(Group)) {
        each(group);
        // The records of the retired groups are being moved there.
        if group == self.gone() {
            self.retired.iter().for_each(each);
        }
    }

    /// Returns the counters of `group`, added up over CPUs.
    pub(crate) fn totals(&self, group: Group) -> GroupTotals {
        let mut totals = GroupTotals::default();
        let name = |neighbour| match self.retired.contains(neighbour) {
            true => self.gone(),
            false => neighbour,
        };
        self.for_each_part(group, |part| {
            for (_, cpu) in self.memories.cpus() {
                if let Some(records) = cpu.records(part) {
                    totals.add(records, name);
                }
                if let Some(placement) = cpu.placement(part) {
                    totals.add_placement(placement);
                }
            }
        });
        totals
    }

    /// Returns the slices of the tasks of `group`, added up over CPUs. `reading` is one of these
    /// groups.
    fn slices(&self, group: Group, reading: &Reading) -> GroupSlices {
        let mut slices = GroupSlices::default();
        self.for_each_part(group, |part| {
            let cpus = reading.setup.records.cpus().zip(self.memories.cpus());
            for (cpu, (_, memory)) in cpus {
                if let Some(records) = memory.records(part) {
                    slices.add(part, records, memory.occupant(), || {
                        reading.current_slice(cpu)
                    });
                }
            }
        });
        slices
    }

    /// Copies all histograms of `group`. Fails with `ENOMEM`.
    pub(crate) fn histograms(
        &self,
        group: Group,
    ) -> Result<[Snapshot<KVVec<u64>>; GroupMetric::COUNT]> {
        Ok([
            self.histogram(group, GroupMetric::Oncpu)?,
            self.histogram(group, GroupMetric::Runq)?,
            self.histogram(group, GroupMetric::Offcpu)?,
        ])
    }

    /// Copies the histogram of `metric` of `group`, added up over CPUs. Fails with `ENOMEM`.
    pub(crate) fn histogram(
        &self,
        group: Group,
        metric: GroupMetric,
    ) -> Result<Snapshot<KVVec<u64>>> {
        let stride = self.scheme.buckets();
        let first = metric as usize * stride;
        let counts = KVVec::from_elem(0, stride, GFP_KERNEL)?;
        let mut histogram = Snapshot::new(self.scheme, counts).ok_or(EINVAL)?;
        self.for_each_part(group, |part| {
            for (number, cpu) in self.memories.cpus() {
                let Some(records) = cpu.records(part) else {
                    continue;
                };
                let buckets = cpu
                    .buckets(part)
                    .and_then(|all| all.get(first..first + stride));
                histogram.add_group(number, records, buckets.unwrap_or(&[]), metric);
            }
        });
        Ok(histogram)
    }

    /// Returns a copy of the name of `group`, or `None` if there is no such group.
    pub(crate) fn name(&self, group: Group) -> Result<Option<KVec<u8>>> {
        let group = match group {
            Group::OTHER => return Ok(Some(copy(b"other", GFP_KERNEL)?)),
            group if group == self.gone() => {
                let gone = self.registry.lock().gone;
                return match gone {
                    0 => Ok(None),
                    _ => Ok(Some(copy(b"gone", GFP_KERNEL)?)),
                };
            }
            group => group,
        };
        // Allocated first, as this must not sleep with the lock held.
        let mut room = KVec::new();
        loop {
            let len = {
                let registry = self.registry.lock();
                if !registry.places.is_used(group) {
                    return Ok(None);
                }
                let Some(name) = registry.names.get(group) else {
                    return Ok(None);
                };
                if name.len() <= room.capacity() {
                    room.extend_from_slice(name, GFP_NOWAIT)?;
                    break;
                }
                name.len()
            };
            room = KVec::with_capacity(len, GFP_KERNEL)?;
        }
        Ok(Some(room))
    }

    /// Returns the tasks of each group, by its number. Sleeps; fails with `ENOMEM`.
    fn members(&self) -> Result<KVVec<Members>> {
        let len = self.limits.groups as usize + 2;
        let mut members = KVVec::from_elem(Members::default(), len, GFP_KERNEL)?;
        for_each_task(|task| {
            let group = self.peek(task).unwrap_or(Group::OTHER);
            if let Some(of) = members.get_mut(group.number() as usize) {
                of.tasks += 1;
            }
        });
        for (of, group) in members.iter_mut().zip((0..).filter_map(Group::new)) {
            of.is_live = of.tasks != 0 || group == Group::OTHER || self.is_kept(group);
        }
        Ok(members)
    }
}
