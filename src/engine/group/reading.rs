// SPDX-License-Identifier: GPL-2.0

//! What is read of a group at a time.

use core::ops::Deref;

use crate::engine::{
    group::{
        Group,
        GroupMetric,
        GroupSlices,
        GroupTotals, //
    },
    histogram::Snapshot, //
};

/// The tasks of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Members {
    /// How many there are.
    pub tasks: u32,
    /// Whether there are any, or there is still what they have in common: a rule, or a cgroup that
    /// the reader's cgroup namespace shows.
    pub is_live: bool,
}

/// What is read of a group at a time.
#[derive(Debug)]
pub struct GroupReading<'a, B> {
    /// Its number.
    pub group: Group,
    /// Its name, which may have any bytes.
    pub name: &'a [u8],
    /// Its tasks.
    pub members: Members,
    /// What it counted.
    pub totals: GroupTotals,
    /// The slices of its tasks.
    pub slices: GroupSlices,
    /// By [`GroupMetric`]. Read last: so what comes meanwhile is not missing in them.
    pub histograms: [Snapshot<B>; GroupMetric::COUNT],
}

impl<B: Deref<Target = [u64]>> GroupReading<'_, B> {
    /// Returns the sum of the samples of `metric`, in nanoseconds; of slices, the one that fits
    /// those in progress.
    pub fn sum(&self, metric: GroupMetric) -> u128 {
        match metric {
            GroupMetric::Oncpu => self.slices.ended,
            _ => self.histograms[metric as usize].sum(),
        }
    }
}
