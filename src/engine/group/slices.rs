// SPDX-License-Identifier: GPL-2.0

//! The slices of a group's tasks, ended or in progress.

use crate::engine::{
    atomic::{
        fence,
        spin_loop,
        Ordering::Acquire, //
    },
    group::{
        Group,
        GroupMetric,
        GroupRecords,
        Occupant, //
    },
    switch::{
        CurrentSlice,
        Occupancy, //
    },
};

/// The number of attempts to read between two switches.
const ATTEMPTS: u32 = 1 << 10;

/// The slices of a group's tasks, added up over CPUs. On each CPU, both sums are of one moment, and
/// a slice is in one of them, while the metrics `oncpu` and `idle` are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSlices {
    /// The sum of those that have ended, in nanoseconds.
    pub ended: u128,
    /// The number of those in progress whose beginning was seen.
    pub count: u64,
    /// How long these have taken so far, in nanoseconds.
    pub in_progress: u64,
}

impl GroupSlices {
    /// Adds the slices of `group` on a CPU: its `records` there, what the CPU knows of its
    /// `occupant`, and what `slice` returns as the slice in progress, if that is known.
    pub fn add(
        &mut self,
        group: Group,
        records: &GroupRecords,
        occupant: &Occupant,
        slice: impl Fn() -> Option<CurrentSlice>,
    ) {
        // The sum alone is at most one slice behind.
        let mut found = (records.sum(GroupMetric::Oncpu), None);
        for _ in 0..ATTEMPTS {
            // A switch writes when the slice begins, adds the last one to the group's sum and then
            // to that of all, and changes the occupant. While idle time is recorded, too, `slice()`
            // is from before the first three or from after them: see `Cpu::current_slice()`.
            let now = occupant.now();
            fence(Acquire);
            let ended = records.sum(GroupMetric::Oncpu);
            if now.is_idle() || now.group() != group {
                found = (ended, None);
                break;
            }
            let slice = slice();
            fence(Acquire);
            if records.sum(GroupMetric::Oncpu) == ended && occupant.now() == now {
                found = (
                    ended,
                    slice.filter(|slice| slice.occupancy == Occupancy::Task),
                );
                break;
            }
            spin_loop();
        }
        let (ended, slice) = found;
        self.ended = self.ended.wrapping_add(ended);
        if let Some(slice) = slice {
            self.count += 1;
            self.in_progress = self.in_progress.saturating_add(slice.in_progress());
        }
    }
}
