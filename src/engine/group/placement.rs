// SPDX-License-Identifier: GPL-2.0

//! What is recorded of a group for which a plain switch has no use.

use crate::engine::idle::LongWaits;

/// Where the tasks of a group waited on one CPU. Written and read as
/// [`GroupRecords`](crate::engine::group::GroupRecords) are. The default is all zeros.
#[derive(Debug, Default)]
pub struct GroupPlacement {
    /// Their long waits that have ended there.
    pub long_waits: LongWaits,
}

impl GroupPlacement {
    /// Adds all that `other` recorded on the same CPU, and makes that forget it. Nothing else may
    /// write either of the two meanwhile.
    pub fn absorb(&self, other: &Self) {
        self.long_waits.add_all(&other.long_waits.read());
        other.long_waits.clear();
    }
}
