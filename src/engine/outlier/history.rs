// SPDX-License-Identifier: GPL-2.0

//! The last stays on a CPU: who had it, and when.

use crate::engine::{
    cell::Cell,
    identity::{
        Identity,
        IdentityCells, //
    },
};

/// How many stays are kept. A power of two. Few in the model, as in [`super::log`].
pub const STAYS: usize = if cfg!(loom) { 2 } else { 256 };

/// A stay of a task, or of the idle task, on a CPU; times in nanoseconds of the CPU's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Who had the CPU.
    pub task: Identity,
    /// Since when.
    pub since: u64,
    /// Until when.
    pub until: u64,
}

/// A place for a stay.
#[derive(Debug)]
struct Place {
    since: Cell,
    until: Cell,
    task: IdentityCells,
}

impl Place {
    const fn new() -> Self {
        Self {
            since: Cell::new(0),
            until: Cell::new(0),
            task: IdentityCells::new(),
        }
    }
}

/// The last [`STAYS`] stays on a CPU.
///
/// Only the CPU itself writes and reads it, with interrupts off.
#[derive(Debug)]
pub struct History {
    /// How many stays there ever were.
    count: Cell,
    /// How many of the first are to be ignored.
    forgotten: Cell,
    places: [Place; STAYS],
}

impl History {
    /// Creates an empty one.
    pub const fn new() -> Self {
        Self {
            count: Cell::new(0),
            forgotten: Cell::new(0),
            places: [const { Place::new() }; STAYS],
        }
    }

    /// Notes a stay that has just ended. Stays come in the order of time; there may be gaps between
    /// them. Where one begins before the last one ended, the clock went backwards: then those before
    /// are forgotten.
    pub fn push(&self, stay: &Stay) {
        let count = self.count.get();
        let last = self.place(count.wrapping_sub(1));
        if last.is_some_and(|last| stay.since < last.until.get()) {
            self.forgotten.set(count);
        }
        if let Some(place) = self.place(count) {
            place.since.set(stay.since);
            place.until.set(stay.until);
            place.task.set(&stay.task);
        }
        self.count.set(count.wrapping_add(1));
    }

    /// Goes through the stays that are kept and of which some part lies between `since` and `until`,
    /// from the oldest on. Of the first and the last only the part that does is given.
    pub fn between(&self, since: u64, until: u64) -> impl Iterator<Item = Stay> + '_ {
        let count = self.count.get();
        let oldest = self.forgotten.get().max(count.saturating_sub(STAYS as u64));
        let mut first = count;
        // Most of what is asked for is recent.
        while first > oldest {
            match self.place(first.wrapping_sub(1)) {
                Some(place) if place.until.get() > since => first = first.wrapping_sub(1),
                _ => break,
            }
        }
        (first..count).filter_map(move |number| {
            let place = self.place(number)?;
            let stay = Stay {
                task: place.task.get(),
                since: place.since.get().max(since),
                until: place.until.get().min(until),
            };
            (stay.since < stay.until).then_some(stay)
        })
    }

    /// Returns the place of the stay with this number.
    fn place(&self, number: u64) -> Option<&Place> {
        self.places.get(number as usize % STAYS)
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}
