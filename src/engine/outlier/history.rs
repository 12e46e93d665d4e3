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
struct Place {
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
    places: [Place; SLICES],
}

impl Default for History {
    fn default() -> Self {
        Self {
            count: Cell::new(0),
            forgotten: Cell::new(0),
            // Too many for a derived default.
            places: array::from_fn(|_| Place::default()),
        }
    }
}

impl History {
    /// Records a slice that has just ended. Slices must come in chronological order; there may be
    /// gaps between them. If a slice begins before the last one ended, the clock went backwards:
    /// all earlier slices are then forgotten.
    pub fn push(&self, slice: &Slice) {
        let count = self.count.get();
        let last = self.place(count.wrapping_sub(1));
        if last.is_some_and(|last| slice.since < last.until.get()) {
            self.forgotten.set(count);
        }
        if let Some(place) = self.place(count) {
            place.since.set(slice.since);
            place.until.set(slice.until);
            place.task.set(&slice.task);
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
            match self.place(first.wrapping_sub(1)) {
                Some(place) if place.until.get() > since => first = first.wrapping_sub(1),
                _ => break,
            }
        }
        (first..count).filter_map(move |number| {
            let place = self.place(number)?;
            let slice = Slice {
                task: place.task.get(),
                since: place.since.get().max(since),
                until: place.until.get().min(until),
            };
            (slice.since < slice.until).then_some(slice)
        })
    }

    /// Returns the place of the slice with this number.
    fn place(&self, number: u64) -> Option<&Place> {
        self.places.get(number as usize % SLICES)
    }
}
