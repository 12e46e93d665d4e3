// SPDX-License-Identifier: GPL-2.0

//! Which processes descend from which: the marks that a process passes on to those that it forks.

use core::ops::DerefMut;

use crate::engine::group::{
    Entry,
    Index,
    Secret, //
};

/// The marks of processes, in memory of a fixed size.
///
/// A mark is a bit. A process has a key that no other process ever has. A process that is forked
/// begins with the marks of the process that forked it, so the parent's later death, or a change of
/// its parent, has no effect.
#[derive(Debug)]
pub struct ForkMarks<B> {
    marks: Index<B>,
    /// The marks that are in use. Processes may still have others, which mean nothing.
    used: u64,
    /// The number of marked processes that are not known, as there was no room.
    lost: u64,
}

impl<B: DerefMut<Target = [Entry<u64>]>> ForkMarks<B> {
    /// Creates [`ForkMarks`] in which no process is marked, in the memory of `entries`.
    pub fn new(entries: B, secret: Secret) -> Self {
        Self {
            marks: Index::new(entries, secret),
            used: 0,
            lost: 0,
        }
    }

    /// Returns the marks of the process `key`.
    pub fn marks(&self, key: u128) -> u64 {
        self.marks.find(key).unwrap_or(0) & self.used
    }

    /// Returns how many processes should have got marks for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds `marks` to those of the process `key`. Returns false if there is no room.
    pub fn mark(&mut self, key: u128, marks: u64) -> bool {
        self.used |= marks;
        match self.marks.find_mut(key) {
            Some(known) => {
                *known |= marks;
                true
            }
            None => self.marks.insert(key, marks),
        }
    }

    /// Records that the process `parent` has forked the process `child`. Returns false if there is
    /// no room for the child's marks. May be called again for the same child: what it got since
    /// then stays.
    pub fn fork(&mut self, parent: u128, child: u128) -> bool {
        let marks = self.marks(parent);
        marks == 0 || self.marks.find(child).is_some() || self.marks.insert(child, marks)
    }

    /// Goes on with the count of `other`, in whose stead this is used.
    pub fn take_over(&mut self, other: &Self) {
        self.lost = other.lost;
    }

    /// Counts a process for whose marks there was no room. To be called once for each.
    pub fn count_lost(&mut self) {
        self.lost += 1;
    }

    /// Records that the process `key` has ended: it forks no other process any more.
    pub fn exit(&mut self, key: u128) {
        self.marks.remove(key);
    }

    /// Removes `marks` from all processes. They must not be used again before
    /// [`ForkMarks::clean`] has returned `None`.
    pub fn forget(&mut self, marks: u64) {
        self.used &= !marks;
    }

    /// Removes what [`ForkMarks::forget`] left in some of the memory, as [`Index::for_each_value`]
    /// does.
    pub fn clean(&mut self, first: usize) -> Option<usize> {
        let used = self.used;
        // A process without marks keeps its place until it ends.
        self.marks.for_each_value(first, |of| *of &= used)
    }
}
