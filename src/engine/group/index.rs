// SPDX-License-Identifier: GPL-2.0

//! Finds the group of a key, such as the ID of a cgroup, or another value.

use core::ops::DerefMut;

use crate::engine::group::verdict::Group;

/// A key and its value (by default a group), or an empty entry.
pub type Entry<V = Group> = Option<(u128, V)>;

/// A hash table from keys to groups, or to other small values, in memory of a fixed size: open
/// addressing with linear probing.
#[derive(Debug)]
pub struct Index<B> {
    entries: B,
    len: usize,
}

impl<V: Copy, B: DerefMut<Target = [Entry<V>]>> Index<B> {
    /// Creates an empty table that stores its entries in `entries`.
    pub fn new(mut entries: B) -> Self {
        entries.fill(None);
        Self { entries, len: 0 }
    }

    /// Returns the value of `key`.
    pub fn find(&self, key: u128) -> Option<V> {
        let place = self.place_of(key)?;
        let (_, value) = (*self.entries.get(place)?)?;
        Some(value)
    }

    /// Returns the value of `key`, to be changed.
    pub fn find_mut(&mut self, key: u128) -> Option<&mut V> {
        let place = self.place_of(key)?;
        let (_, value) = self.entries.get_mut(place)?.as_mut()?;
        Some(value)
    }

    /// Calls `change` with each value.
    pub fn for_each_value(&mut self, mut change: impl FnMut(&mut V)) {
        let entries = self.entries.iter_mut().flatten();
        entries.for_each(|(_, value)| change(value));
    }

    /// Makes `value` the value of `key`, which has none yet. Returns false if there is no room.
    pub fn insert(&mut self, key: u128, value: V) -> bool {
        // A table that is nearly full would be slow.
        if self.len >= self.entries.len() / 4 * 3 {
            return false;
        }
        let place = self.place_of(key);
        match place.and_then(|place| self.entries.get_mut(place)) {
            Some(entry) => {
                *entry = Some((key, value));
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Removes `key`, if it is there.
    pub fn remove(&mut self, key: u128) {
        let Some(mut hole) = self.place_of(key) else {
            return;
        };
        if self.take(hole).is_none() {
            return;
        }
        self.len -= 1;
        // No search may end at the hole that would have gone on: fill it with an entry from behind
        // it whose search passes it, which leaves another hole.
        let mut place = hole;
        // A place is free, so this ends earlier.
        for _ in 0..self.entries.len() {
            place = (place + 1).checked_rem(self.entries.len()).unwrap_or(0);
            let Some(Some((other, value))) = self.entries.get(place).copied() else {
                return;
            };
            let first = hash(other).checked_rem(self.entries.len()).unwrap_or(0);
            if self.distance(first, place) >= self.distance(hole, place) {
                self.take(place);
                if let Some(entry) = self.entries.get_mut(hole) {
                    *entry = Some((other, value));
                }
                hole = place;
            }
        }
    }

    /// Frees a place, and returns its entry.
    fn take(&mut self, place: usize) -> Entry<V> {
        self.entries.get_mut(place)?.take()
    }

    /// Returns the number of steps from one place to another, where the first place follows the
    /// last.
    fn distance(&self, from: usize, to: usize) -> usize {
        match to.checked_sub(from) {
            Some(distance) => distance,
            None => to + (self.entries.len() - from),
        }
    }

    /// Returns the place of `key`, or else the free place that it would get. Returns `None` if
    /// there is neither.
    fn place_of(&self, key: u128) -> Option<usize> {
        let first = hash(key).checked_rem(self.entries.len())?;
        let (begin, end) = self.entries.split_at_checked(first)?;
        let from_first = end.iter().chain(begin).enumerate();
        let is_place = |entry: &Entry<V>| entry.is_none_or(|(other, _)| other == key);
        let (offset, _) = { from_first }.find(|(_, entry)| is_place(entry))?;
        (first + offset).checked_rem(self.entries.len())
    }
}

/// Mixes the bits of a key: Fibonacci hashing of its halves.
fn hash(key: u128) -> usize {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

    let low = (key as u64).wrapping_mul(GOLDEN_RATIO);
    let mixed = (low.rotate_left(29) ^ (key >> 64) as u64).wrapping_mul(GOLDEN_RATIO);
    (mixed >> 32) as usize
}
