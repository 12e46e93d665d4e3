// SPDX-License-Identifier: GPL-2.0

//! Numbers of waits.

use crate::engine::Cell;

/// A number of waits, and how long they took.
#[derive(Debug, Default)]
pub struct Waits {
    pub(super) count: Cell,
    pub(super) nanoseconds: Cell,
}

impl Waits {
    #[inline(always)]
    pub(super) fn add(&self, nanoseconds: u64) {
        self.count.add(1);
        self.nanoseconds.add(nanoseconds);
    }

    pub(super) fn add_all(&self, other: &Self) {
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
