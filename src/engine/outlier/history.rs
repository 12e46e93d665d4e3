// SPDX-License-Identifier: GPL-2.0

//! The last slices on a CPU: the tasks that had it, and when.

use core::array;

use crate::engine::{
    identity::IdentityCells,
    Cell,
    Identity, //
};

/// The number of slices that are kept, a power of two. Small under loom, as in [`super::log`].
pub const SLICES: usize = if cfg!(loom) { 2 } else { 256 };

/// A slice of a task, or of the idle task, on a CPU; times in nanoseconds of the CPU's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The task that had the CPU.
    pub task: Identity,
    /// The time at which the task got the CPU.
    pub since: u64,
    /// The time at which the task left the CPU.
    pub until: u64,
}

#[derive(Debug, Default)]
struct Entry {
    since: Cell,
    until: Cell,
    task: IdentityCells,
}

/// The last [`SLICES`] slices on a CPU.
///
/// Only the CPU itself writes and reads it, with interrupts off.
#[derive(Debug)]
pub struct History {
    /// The number of slices ever recorded.
    count: Cell,
    /// Slices with a number below this one are ignored.
    forgotten: Cell,
    entries: [Entry; SLICES],
}

impl Default for History {
    fn default() -> Self {
        Self {
            count: Cell::new(0),
            forgotten: Cell::new(0),
            // Too many for a derived default.
            entries: array::from_fn(|_| Entry::default()),
        }
    }
}

impl History {
    /// Records a slice that has just ended. Slices must come in chronological order; there may be
    /// gaps between them. If a slice begins before the last one ended, the clock went backwards:
    /// all earlier slices are then forgotten.
    pub fn push(&self, slice: &Slice) {
        let count = self.count.get();
        let last = self.entry(count.wrapping_sub(1));
        if last.is_some_and(|last| slice.since < last.until.get()) {
            self.forgotten.set(count);
        }
        if let Some(entry) = self.entry(count) {
            entry.since.set(slice.since);
            entry.until.set(slice.until);
            entry.task.set(&slice.task);
        }
        self.count.set(count.wrapping_add(1));
    }

    /// Returns the kept slices that overlap the time from `since` to `until`, oldest first, each
    /// clipped to that time.
    pub fn between(&self, since: u64, until: u64) -> impl Iterator<Item = Slice> + '_ {
        let count = self.count.get();
        let oldest = self
            .forgotten
            .get()
            .max(count.saturating_sub(SLICES as u64));
        let mut first = count;
        // Search backwards, as callers mostly ask for recent slices.
        while first > oldest {
            match self.entry(first.wrapping_sub(1)) {
                Some(entry) if entry.until.get() > since => first = first.wrapping_sub(1),
                _ => break,
            }
        }
        (first..count).filter_map(move |number| {
            let entry = self.entry(number)?;
            let slice = Slice {
                task: entry.task.get(),
                since: entry.since.get().max(since),
                until: entry.until.get().min(until),
            };
            (slice.since < slice.until).then_some(slice)
        })
    }

    /// Returns the entry of the slice with this number.
    fn entry(&self, number: u64) -> Option<&Entry> {
        self.entries.get(number as usize % SLICES)
    }
}
