// SPDX-License-Identifier: GPL-2.0

//! The groups of keys and of names.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*};

use schedhist_engine::{
    engine::group::{
        hash::Secret,
        index::{Entry, Index},
        names::Names,
        table::{GroupTable, Place},
    },
    testing::group,
};

const SECRET: Secret = Secret::new([1, 2]);

/// The number of entries of a table, that of the keys, and what happens to which key.
type Use = (usize, u128, Vec<(bool, u128)>);

/// Generates uses of a table that may be full, or of one with many buckets.
fn any_use() -> impl Strategy<Value = Use> {
    let any = |size, keys, most| (size, Just(keys), vec((any::<bool>(), 0..keys), 0..most));
    prop_oneof![any(0..20_usize, 20, 200), any(200..201, 150, 2000)]
}

proptest! {
    /// The table is a map, however full it is and whatever is removed from it.
    #[test]
    fn is_a_map((size, keys, steps) in any_use()) {
        let mut index = Index::new(vec![None; size], SECRET);
        let mut model = HashMap::new();
        // Far apart, as IDs and names are.
        let key = |number: u128| number * 0x0123_4567_89ab_cdef_0123;
        for (number, (is_insertion, of)) in (0..).zip(steps) {
            let key = key(of);
            if !is_insertion {
                index.remove(key);
                model.remove(&key);
            } else if !model.contains_key(&key) {
                let has_room = model.len() < size / 4 * 3;
                prop_assert_eq!(index.insert(key, group(number)), has_room);
                if has_room {
                    model.insert(key, group(number));
                }
            }
            prop_assert_eq!(index.find(key), model.get(&key).copied());
        }
        for key in (0..keys).map(key) {
            prop_assert_eq!(index.find(key), model.get(&key).copied());
        }
    }
}

/// What was in the memory before does not matter.
#[test]
fn a_new_table_is_empty() {
    let index = Index::new(vec![Some((5, group(1))); 8], SECRET);
    assert_eq!(index.find(5), None);
}

/// A table of the size that the module gives it has room for a key of each group.
#[test]
fn has_room_for_all() {
    for limit in 1..200 {
        let mut index = Index::new(vec![None; 2 * limit + 2], SECRET);
        for key in 0..limit {
            assert!(index.insert(key as u128, group(1)));
        }
    }
}

/// Returns the longest run of entries in use: no search passes a free entry.
fn longest_run(entries: &[Entry]) -> usize {
    let runs = entries.split(Option::is_none).map(<[Entry]>::len);
    runs.max().unwrap_or(0)
}

/// Asserts that a table of all groups has room for these keys, and that no search is long.
fn assert_spread(keys: impl Iterator<Item = u128>) {
    let mut entries = vec![None; 2 * 4095 + 2];
    let mut index = Index::new(&mut entries[..], SECRET);
    let mut count = 0;
    for (number, key) in (1..).zip(keys) {
        assert!(index.insert(key, group(number)), "{number}: {key:x}");
        count += 1;
    }
    assert_eq!(count, 4095);
    let longest = longest_run(&entries);
    assert!(longest < 32, "a run of {longest}");
}

/// Keys that follow each other, as the IDs of the cgroups of one boot do, are spread.
#[test]
fn neighbouring_keys_are_spread() {
    for step in [1, 2, 64, 1 << 32, 1 << 64] {
        assert_spread((0..4095).map(|number| 1000 + number * step));
    }
}

/// However the keys are chosen, no more of them than have room in two buckets make searches longer:
/// the next is refused. Here the secret is known.
#[test]
fn full_buckets_refuse() {
    const BUCKETS: u64 = 4;

    let is_in_first_two = |key: &u128| {
        let hash = SECRET.hash(&key.to_le_bytes());
        let first = (hash & u64::from(u32::MAX)) % BUCKETS;
        let second = (first + 1 + (hash >> 32) % (BUCKETS - 1)) % BUCKETS;
        first < 2 && second < 2
    };
    let mut entries = vec![None; 64];
    let mut index = Index::new(&mut entries[..], SECRET);
    let keys: Vec<u128> = (0..).filter(is_in_first_two).take(33).collect();
    for key in &keys[..32] {
        assert!(index.insert(*key, group(1)));
    }
    assert!(!index.insert(keys[32], group(1)));
    // One that leaves makes room, wherever it was.
    index.remove(keys[5]);
    assert_eq!(
        (index.find(keys[5]), index.find(keys[31])),
        (None, Some(group(1)))
    );
    assert!(index.insert(keys[32], group(2)));
    assert_eq!(index.find(keys[32]), Some(group(2)));
    assert!(entries[..32].iter().all(Option::is_some));
    assert!(entries[32..].iter().all(Option::is_none));
}

type AllNames = Names<Vec<Vec<u8>>, Vec<Entry>>;

fn names(count: usize, entries: usize) -> AllNames {
    Names::new(vec![Vec::new(); count], vec![None; entries], SECRET)
}

proptest! {
    /// Names find the group that got them last, as long as it has them.
    #[test]
    fn names_are_like_a_map(steps in vec((1..=12_u32, 0..20_u8), 0..200)) {
        let entries = GroupTable::<Vec<Place>, Vec<Entry>>::entries(12);
        let mut names = names(12, entries);
        let mut of: Vec<Option<u8>> = vec![None; 13];
        let mut last: HashMap<u8, u32> = HashMap::new();
        for (number, name) in steps {
            let mut text = vec![name; 1 + usize::from(name)];
            names.set(group(number), &mut text);
            let before = of[number as usize].replace(name);
            let expected = before.map_or(Vec::new(), |old| vec![old; 1 + usize::from(old)]);
            prop_assert_eq!(text, expected);
            last.insert(name, number);
            for name in 0..20 {
                let known = last.get(&name).filter(|number| of[**number as usize] == Some(name));
                let found = names.find(&vec![name; 1 + usize::from(name)]);
                prop_assert_eq!(found, known.map(|number| group(*number)));
            }
        }
    }
}

#[test]
fn names_of_no_group() {
    let mut all = names(2, 6);
    let mut name = b"a".to_vec();
    for number in [0, 3] {
        all.set(group(number), &mut name);
        assert_eq!((&name[..], all.get(group(number))), (&b"a"[..], None));
        assert!(all.get_mut(group(number)).is_none());
    }
    assert_eq!(all.find(b"a"), None);
    all.set(group(2), &mut name);
    assert_eq!(all.find(b"a"), Some(group(2)));
    // They need not be found.
    let mut all = names(2, 0);
    all.set(group(2), &mut b"a".to_vec());
    assert_eq!(all.find(b"a"), None);
    assert_eq!(all.get(group(2)), Some(&b"a".to_vec()));
    all.get_mut(group(2)).expect("there is one").push(b'b');
    assert_eq!(all.get(group(2)), Some(&b"ab".to_vec()));
}
