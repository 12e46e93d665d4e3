// SPDX-License-Identifier: GPL-2.0

//! Collects into maps, sets and short lists. The standard library's `collect` sorts before: 4 kB
//! for each type.

pub trait Gather: Iterator + Sized {
    fn gather<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: Iterator> Gather for I {}

/// The most names by which something is added up. Each is looked up in a list, and any user can
/// make tasks of any number of names.
const MOST_NAMES: usize = 1000;

/// What stands for all further names.
pub const OTHERS: &str = "(others)";

/// Returns the name as a key of a list: [`OTHERS`] if it is new and the list is full.
pub fn key_in<V>(all: &[(String, V)], name: String) -> String {
    match all.len() < MOST_NAMES || all.iter().any(|(known, _)| *known == name) {
        true => name,
        false => OTHERS.to_owned(),
    }
}

/// Returns the value of a key in a short list, which gets the key if it lacks it.
pub fn entry<K: PartialEq, V: Default>(all: &mut Vec<(K, V)>, key: K) -> &mut V {
    let place = all.iter().position(|(known, _)| *known == key);
    let place = place.unwrap_or_else(|| {
        all.push((key, V::default()));
        all.len() - 1
    });
    &mut all[place].1
}
