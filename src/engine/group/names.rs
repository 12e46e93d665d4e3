// SPDX-License-Identifier: GPL-2.0

//! The names of groups, and which group has which.
//!
//! A name comes from the rule: `src/groups/decide.rs` takes a thread's own name, or a cgroup,
//! `src/groups/registry.rs` makes the name of a process and finds the path of a cgroup, and
//! `src/groups/rules.rs` takes the name of a rule of the list.

use core::{
    mem,
    ops::{
        Deref,
        DerefMut, //
    },
};

use crate::engine::group::{
    Entry,
    Group,
    Index,
    Secret, //
};

/// The names of the groups from 1 on.
///
/// A group keeps its name until its place gets another group.
#[derive(Debug)]
pub struct Names<N, I> {
    names: N,
    /// Finds a group by the hash of its name. May have no room, if groups are not found by name.
    index: Index<I>,
    secret: Secret,
}

impl<T, N, I> Names<N, I>
where
    T: Deref<Target = [u8]>,
    N: DerefMut<Target = [T]>,
    I: DerefMut<Target = [Entry]>,
{
    /// Creates the names in the memory of `names`, which should be empty. `entries` has as many
    /// entries as [`GroupTable::entries`] returns, or none.
    ///
    /// [`GroupTable::entries`]: crate::engine::group::table::GroupTable::entries
    pub fn new(names: N, entries: I, secret: Secret) -> Self {
        Self {
            names,
            index: Index::new(entries, secret),
            secret,
        }
    }

    /// Returns the name of `group`.
    pub fn get(&self, group: Group) -> Option<&T> {
        self.names.get(group.place()?)
    }

    /// Returns the name of `group`, to be changed. Only if groups are not found by name.
    pub fn get_mut(&mut self, group: Group) -> Option<&mut T> {
        self.names.get_mut(group.place()?)
    }

    /// Returns the group that got this name last. Its place may not be in use any more.
    pub fn find(&self, name: &[u8]) -> Option<Group> {
        let group = self.index.find(self.key_of(name))?;
        (**self.get(group)? == *name).then_some(group)
    }

    /// Makes `name` the name of `group`, and the name that it had `name`.
    pub fn set(&mut self, group: Group, name: &mut T) {
        let key = self.key_of(name);
        let Some(known) = group.place().and_then(|number| self.names.get_mut(number)) else {
            return;
        };
        mem::swap(known, name);
        let old_key = self.key_of(name);
        // Another group may have got the old name meanwhile.
        if self.index.find(old_key) == Some(group) {
            self.index.remove(old_key);
        }
        match self.index.find_mut(key) {
            Some(known) => *known = group,
            // Without room, the group is not found.
            None => _ = self.index.insert(key, group),
        }
    }

    fn key_of(&self, name: &[u8]) -> u128 {
        u128::from(self.secret.hash(name))
    }
}
