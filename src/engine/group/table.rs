// SPDX-License-Identifier: GPL-2.0

//! The places of groups: which key has which group, and which places can be had again.
//!
//! A group keeps its place until another one wants it. It then goes through three states:
//!
//! 1. In use: its key finds it, and tasks get it as their group.
//! 2. Retired: no key finds it, so that no task gets it any more. What it recorded counts as that
//!    of the groups that are gone, and is being moved there, CPU by CPU. If its key or its name
//!    comes again, that is another group.
//! 3. Vacant: nothing is recorded in it, and no task has it. The next group takes the place.
//!
//! Whether a group is dead is decided without a lock, by a walk over all tasks, and so may not be
//! true any more when the group is to be retired. Therefore each place remembers when a key last
//! found it: [`GroupTable::retire`] leaves out those that were found since the walk began.

use core::ops::DerefMut;

use crate::engine::group::{
    Entry,
    Group,
    Index,
    Secret, //
};

/// The place of a group.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    state: State,
    /// The key, while the place is in use.
    key: u128,
    /// The time at which the key last found it; while the place is vacant, the number of the one
    /// that becomes vacant next.
    found: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Vacant,
    Used,
    Retired,
}

impl Place {
    /// A place that no group has.
    pub const VACANT: Self = Self {
        state: State::Vacant,
        key: 0,
        found: 0,
    };
}

/// The most places that [`GroupTable::retire`] looks at.
pub const PLACES_AT_ONCE: usize = 256;

/// The places of the groups from 1 on.
#[derive(Debug)]
pub struct GroupTable<P, I> {
    places: P,
    index: Index<I>,
    /// Counts the times that a key was looked up.
    time: u64,
    vacant: usize,
    /// The first and the last of the vacant places, if there are any: the one that became vacant
    /// first is given away first.
    first: usize,
    last: usize,
    /// The place that was retired last: the next ones come after it, so that a group that died
    /// lately usually keeps its place for long.
    hand: usize,
}

impl<P: DerefMut<Target = [Place]>, I: DerefMut<Target = [Entry]>> GroupTable<P, I> {
    /// Returns the number of entries that the index of `places` places needs.
    pub const fn entries(places: usize) -> usize {
        // See `Index::insert()`.
        2 * places + 2
    }

    /// Creates vacant places in the memory of `places`. `entries` has as many entries as
    /// [`GroupTable::entries`] returns.
    pub fn new(mut places: P, entries: I, secret: Secret) -> Self {
        for (place, next) in places.iter_mut().zip(1..) {
            *place = Place {
                found: next,
                ..Place::VACANT
            };
        }
        Self {
            vacant: places.len(),
            first: 0,
            last: places.len().saturating_sub(1),
            places,
            index: Index::new(entries, secret),
            time: 0,
            hand: 0,
        }
    }

    /// Returns the current time, for [`GroupTable::retire`].
    pub fn now(&self) -> u64 {
        self.time
    }

    /// Returns the number of places.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of places that are vacant.
    pub fn vacant(&self) -> usize {
        self.vacant
    }

    /// Returns the key of `group`, if its place is in use.
    pub fn key(&self, group: Group) -> Option<u128> {
        let place = self.places.get(group.place()?)?;
        (place.state == State::Used).then_some(place.key)
    }

    /// Returns whether the place of `group` is in use.
    pub fn is_used(&self, group: Group) -> bool {
        self.key(group).is_some()
    }

    /// Returns the group of `key`. This is no reason for it to keep its place.
    pub fn peek(&self, key: u128) -> Option<Group> {
        self.index.find(key)
    }

    /// Returns the group of `key`, which a task is about to get.
    pub fn find(&mut self, key: u128) -> Option<Group> {
        let group = self.index.find(key)?;
        self.touch(group);
        Some(group)
    }

    /// Remembers that a task is about to get `group`.
    fn touch(&mut self, group: Group) {
        self.time += 1;
        let place = group.place().and_then(|number| self.places.get_mut(number));
        if let Some(place) = place {
            place.found = self.time;
        }
    }

    /// Gives a vacant place to the group of `key`, which has none. Returns `None` if there is none,
    /// or, which practically does not happen, if the [`Index`] has no room for this key.
    pub fn take(&mut self, key: u128) -> Option<Group> {
        let group = group_of(self.first)?;
        let place = self.places.get_mut(self.first)?;
        if self.vacant == 0 || !self.index.insert(key, group) {
            return None;
        }
        self.vacant -= 1;
        self.first = place.found as usize;
        place.state = State::Used;
        place.key = key;
        self.touch(group);
        Some(group)
    }

    /// Makes `key` the key of `group`. Returns false, and does nothing, if its place is not in use,
    /// or if the [`Index`] has no room for this key.
    pub fn give(&mut self, group: Group, key: u128) -> bool {
        let Some(place) = group.place().and_then(|number| self.places.get_mut(number)) else {
            return false;
        };
        if place.state != State::Used || !self.index.insert(key, group) {
            return false;
        }
        self.index.remove(place.key);
        place.key = key;
        self.touch(group);
        true
    }

    /// Retires up to `most` groups for which `is_dead` returns true, unless a task was about to get
    /// them since the time `since`. Calls `retired` with each. Looks at the next
    /// [`PLACES_AT_ONCE`] places only.
    pub fn retire(
        &mut self,
        since: u64,
        most: usize,
        mut is_dead: impl FnMut(Group) -> bool,
        mut retired: impl FnMut(Group),
    ) {
        let mut left = most;
        for _ in 0..self.places.len().min(PLACES_AT_ONCE) {
            if left == 0 {
                return;
            }
            self.hand = (self.hand + 1).checked_rem(self.places.len()).unwrap_or(0);
            let (Some(place), Some(group)) = (self.places.get_mut(self.hand), group_of(self.hand))
            else {
                return;
            };
            if place.state == State::Used && place.found <= since && is_dead(group) {
                place.state = State::Retired;
                self.index.remove(place.key);
                retired(group);
                left -= 1;
            }
        }
    }

    /// Makes the place of `group` vacant, and returns true, if it is retired.
    pub fn vacate(&mut self, group: Group) -> bool {
        let Some(number) = group.place() else {
            return false;
        };
        match self.places.get_mut(number) {
            Some(place) if place.state == State::Retired => *place = Place::VACANT,
            _ => return false,
        }
        if self.vacant == 0 {
            self.first = number;
        } else if let Some(last) = self.places.get_mut(self.last) {
            last.found = number as u64;
        }
        self.last = number;
        self.vacant += 1;
        true
    }
}

/// Returns the group whose place has the number `number`.
fn group_of(number: usize) -> Option<Group> {
    Group::new(u32::try_from(number).ok()?.checked_add(1)?)
}
