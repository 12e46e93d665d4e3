// SPDX-License-Identifier: GPL-2.0

//! The groups of keys.

use std::collections::HashMap;

use proptest::{
    collection::vec,
    prelude::*, //
};

use schedhist_engine::engine::group::{
    index::Index,
    verdict::Group, //
};

fn group(number: u32) -> Group {
    Group::new(number).expect("the number is small")
}

proptest! {
    /// The table is a map, however full it is and whatever is removed from it.
    #[test]
    fn is_a_map(
        size in 0_usize..20,
        steps in vec((any::<bool>(), 0_u128..20, 0_u32..1000), 0..200),
    ) {
        let mut index = Index::new(vec![None; size]);
        let mut model = HashMap::new();
        for (is_insertion, key, number) in steps {
            // Far apart, as IDs and names are.
            let key = key * 0x0123_4567_89ab_cdef_0123;
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
            for key in (0..20).map(|key| key * 0x0123_4567_89ab_cdef_0123) {
                prop_assert_eq!(index.find(key), model.get(&key).copied());
            }
        }
    }
}

/// A table of the size that the module gives it has room for a key of each group.
#[test]
fn has_room_for_all() {
    for limit in 1..200 {
        let mut index = Index::new(vec![None; 2 * limit + 2]);
        for key in 0..limit {
            assert!(index.insert(key as u128, group(1)));
        }
    }
}
