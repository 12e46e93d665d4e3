// SPDX-License-Identifier: GPL-2.0

//! Finds the group of a key, such as the ID of a cgroup, or another value.

use core::{
    array,
    ops::{
        DerefMut,
        Range, //
    },
};

use crate::engine::group::{
    Group,
    Secret, //
};

/// A key and its value (by default a group), or an empty entry.
pub type Entry<V = Group> = Option<(u128, V)>;

/// The number of entries of a bucket.
const BUCKET: usize = 16;

/// The most entries that [`Index::for_each_value`] looks at.
pub const VALUES_AT_ONCE: usize = 32 * BUCKET;

/// A hash table from keys to groups, or to other small values, in memory of a fixed size.
///
/// Tables are used with a lock held and interrupts off, and users choose keys. So the work is
/// bounded, whatever the keys are: a key is in one of two buckets of [`BUCKET`] entries. It goes to
/// the one with more room, so that while a quarter of the table is free both are practically never
/// full. The hash has a secret: otherwise a user could fill two buckets on purpose, and then others
/// would be refused.
#[derive(Debug)]
pub struct Index<B> {
    /// The buckets, one after the other; the last one may be shorter. In each, the entries in use
    /// come first.
    entries: B,
    len: usize,
    secret: Secret,
}

impl<V: Copy, B: DerefMut<Target = [Entry<V>]>> Index<B> {
    /// Creates an empty table that stores its entries in `entries`.
    pub fn new(mut entries: B, secret: Secret) -> Self {
        entries.fill(None);
        Self {
            entries,
            len: 0,
            secret,
        }
    }

    /// Returns the value of `key`.
    pub fn find(&self, key: u128) -> Option<V> {
        let (_, value) = (*self.entries.get(self.place_of(key)?)?)?;
        Some(value)
    }

    /// Returns the value of `key`, to be changed.
    pub fn find_mut(&mut self, key: u128) -> Option<&mut V> {
        let place = self.place_of(key)?;
        let (_, value) = self.entries.get_mut(place)?.as_mut()?;
        Some(value)
    }

    /// Calls `change` with the values of [`VALUES_AT_ONCE`] entries, of which `first` is the first.
    /// Returns the entry with which to go on, or `None` at the end.
    ///
    /// Begin with 0. Each value that is in the table throughout is changed, even if other keys come
    /// and go between two calls.
    pub fn for_each_value(&mut self, first: usize, change: impl FnMut(&mut V)) -> Option<usize> {
        // Entries move within their bucket only, and a bucket is looked at as a whole.
        let next = first.saturating_add(VALUES_AT_ONCE).min(self.entries.len());
        let used = self.entries.get_mut(first..next)?.iter_mut().flatten();
        used.map(|(_, value)| value).for_each(change);
        (next < self.entries.len()).then_some(next)
    }

    /// Makes `value` the value of `key`, which has none yet. Returns false if there is no room.
    pub fn insert(&mut self, key: u128, value: V) -> bool {
        // In a table that is nearly full, too many keys would find both buckets full.
        if self.len >= self.entries.len() / 4 * 3 {
            return false;
        }
        let mut most = 0;
        let mut place = None;
        for bucket in self.buckets_of(key) {
            let used = self.used(bucket.clone());
            if bucket.len() - used > most {
                most = bucket.len() - used;
                place = Some(bucket.start + used);
            }
        }
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
        let Some(place) = self.place_of(key) else {
            return;
        };
        let bucket = self.bucket(place / BUCKET);
        let last = (bucket.start + self.used(bucket)).saturating_sub(1);
        let moved = self.entries.get_mut(last).and_then(Option::take);
        match self.entries.get_mut(place) {
            Some(entry) if place != last => *entry = moved,
            _ => {}
        }
        self.len -= 1;
    }

    fn place_of(&self, key: u128) -> Option<usize> {
        for bucket in self.buckets_of(key) {
            let first = bucket.start;
            let mut used = self.entries.get(bucket)?.iter().map_while(|entry| *entry);
            if let Some(offset) = used.position(|(other, _)| other == key) {
                return Some(first + offset);
            }
        }
        None
    }

    /// Returns the places of the two buckets of `key`, of which the second is empty if there is
    /// only one.
    fn buckets_of(&self, key: u128) -> [Range<usize>; 2] {
        let hash = self.secret.hash(&key.to_le_bytes());
        let (low, high) = (hash as u32 as usize, (hash >> u32::BITS) as usize);
        let count = self.entries.len().div_ceil(BUCKET);
        let first = low.checked_rem(count).unwrap_or(0);
        // Any but the first.
        let second = match high.checked_rem(count.saturating_sub(1)) {
            Some(offset) => (first + 1 + offset).checked_rem(count).unwrap_or(0),
            None => count,
        };
        [self.bucket(first), self.bucket(second)]
    }

    fn bucket(&self, number: usize) -> Range<usize> {
        let len = self.entries.len();
        let [first, end] = array::from_fn(|i| ((number + i) * BUCKET).min(len));
        first..end
    }

    /// Returns the number of entries in use in the places of a bucket.
    fn used(&self, bucket: Range<usize>) -> usize {
        let entries = self.entries.get(bucket).unwrap_or_default();
        entries.iter().take_while(|entry| entry.is_some()).count()
    }
}
