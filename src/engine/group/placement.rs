// SPDX-License-Identifier: GPL-2.0

//! What is recorded of a group for which a plain switch has no use.

use crate::engine::{
    idle::{
        Distance,
        LongWaits, //
    },
    Cell, //
};

/// Where the tasks of a group ran and waited on one CPU. Written and read as
/// [`GroupRecords`](crate::engine::group::GroupRecords) are. The default is all zeros.
#[derive(Debug, Default)]
pub struct GroupPlacement {
    /// Their long waits that have ended there.
    pub long_waits: LongWaits,
    /// How often they came there from another CPU, by [`Distance::BETWEEN_CPUS`].
    migrations: [Cell; Distance::BETWEEN_CPUS.len()],
}

impl GroupPlacement {
    /// Counts a migration.
    #[inline(always)]
    pub(in crate::engine) fn migrated(&self, distance: Distance) {
        let place = (distance as usize).wrapping_sub(Distance::Core as usize);
        if let Some(cell) = self.migrations.get(place) {
            cell.add(1);
        }
    }

    /// Returns the numbers of migrations, by [`Distance::BETWEEN_CPUS`].
    pub fn migrations(&self) -> [u64; Distance::BETWEEN_CPUS.len()] {
        self.migrations.each_ref().map(Cell::get)
    }

    /// Adds all that `other` recorded on the same CPU, and makes that forget it. Any CPU may call
    /// this.
    ///
    /// Nothing else may write either of the two meanwhile: neither is of a group that has tasks.
    /// Nor may anything read them, as it would find the same twice: readers and the caller hold the
    /// lock under which groups are retired.
    pub fn absorb(&self, other: &Self) {
        self.long_waits.add_all(&other.long_waits.read());
        other.long_waits.clear();
        for (to, from) in self.migrations.iter().zip(&other.migrations) {
            to.add(from.get());
            from.set(0);
        }
    }
}
