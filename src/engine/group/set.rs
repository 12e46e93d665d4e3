// SPDX-License-Identifier: GPL-2.0

//! A set of groups.

use core::ops::{
    Deref,
    DerefMut, //
};

use crate::engine::group::Group;

/// A set of groups: a bit for each, in memory of a fixed size.
#[derive(Debug)]
pub struct GroupSet<B> {
    words: B,
    len: usize,
}

impl<B: Deref<Target = [u64]>> GroupSet<B> {
    /// Returns the number of words that a set of `groups` groups needs.
    pub const fn words(groups: usize) -> usize {
        groups.div_ceil(u64::BITS as usize)
    }

    /// Creates the set whose groups have a bit in `words`.
    pub fn new(words: B) -> Self {
        let len = words.iter().map(|word| word.count_ones() as usize).sum();
        Self { words, len }
    }

    fn split(group: Group) -> (usize, u64) {
        let number = group.number();
        ((number / u64::BITS) as usize, 1 << (number % u64::BITS))
    }

    /// Returns whether `group` is in the set.
    pub fn contains(&self, group: Group) -> bool {
        let (word, bit) = Self::split(group);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Returns the number of groups in the set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no group in the set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the groups in the set, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Group> + '_ {
        let words = self.words.iter().zip((0_u32..).step_by(u64::BITS as usize));
        words
            .filter(|(word, _)| **word != 0)
            .flat_map(|(word, first)| {
                let bits = (0..u64::BITS).filter(move |bit| (word >> bit) & 1 != 0);
                bits.filter_map(move |bit| Group::new(first + bit))
            })
    }
}

impl<B: DerefMut<Target = [u64]>> GroupSet<B> {
    /// Adds `group`. No effect if there is no room for its bit.
    pub fn insert(&mut self, group: Group) {
        let (word, bit) = Self::split(group);
        if let Some(word) = self.words.get_mut(word) {
            self.len += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Removes `group`.
    pub fn remove(&mut self, group: Group) {
        let (word, bit) = Self::split(group);
        if let Some(word) = self.words.get_mut(word) {
            self.len -= usize::from(*word & bit != 0);
            *word &= !bit;
        }
    }
}
