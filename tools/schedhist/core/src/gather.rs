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

/// Returns the value of a key in a short list, which gets the key if it lacks it.
pub fn entry<K: PartialEq, V: Default>(all: &mut Vec<(K, V)>, key: K) -> &mut V {
    let place = all.iter().position(|(known, _)| *known == key);
    let place = place.unwrap_or_else(|| {
        all.push((key, V::default()));
        all.len() - 1
    });
    &mut all[place].1
}
