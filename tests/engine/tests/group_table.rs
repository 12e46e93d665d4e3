// SPDX-License-Identifier: GPL-2.0

//! The places of groups, and how they are had again.

mod grouped;

use std::collections::{BTreeMap, BTreeSet};

use grouped::{group, kernel, neighbours, user, Groups};
use proptest::{collection::vec, prelude::*};
use schedhist_engine::engine::{
    group::{
        hash::Secret,
        index::Entry,
        records::{GroupMetric, NEIGHBOURS},
        set::GroupSet,
        table::{GroupTable, Place, PLACES_AT_ONCE},
        task_group::{Group, TaskGroup},
    },
    histogram::bucket::Scheme,
    idle::{Distance, WaitSums},
    metric::Metric,
    switch::{sample::Observer, switch_out::PrevState},
};

type Table = GroupTable<Vec<Place>, Vec<Entry>>;

fn table(places: usize) -> Table {
    let entries = vec![None; Table::entries(places)];
    GroupTable::new(vec![Place::VACANT; places], entries, Secret::new([1, 2]))
}

fn retire(
    places: &mut Table,
    since: u64,
    most: usize,
    mut is_dead: impl FnMut(Group) -> bool,
) -> Vec<u32> {
    let mut retired = Vec::new();
    for _ in 0..places.count().div_ceil(PLACES_AT_ONCE) {
        let left = most - retired.len();
        places.retire(since, left, &mut is_dead, |group| {
            retired.push(group.number())
        });
    }
    retired
}

#[test]
fn entries_are_twice_as_many_as_places() {
    // An index is never more than half full, which keeps searches short. 4095 is the most that
    // group_limit takes.
    assert_eq!(Table::entries(4095), 8192);
}

#[test]
fn a_group_that_was_found_since_keeps_its_place() {
    let mut places = table(3);
    for key in 1..=3 {
        assert_eq!(places.take(key), Some(group(key as u32)));
    }
    assert_eq!((places.take(4), places.vacant()), (None, 0));
    let since = places.now();
    assert_eq!(places.find(2), Some(group(2)));
    // To look at it is not to find it.
    assert_eq!(places.peek(3), Some(group(3)));
    let mut retired = retire(&mut places, since, 9, |_| true);
    retired.sort_unstable();
    assert_eq!(retired, [1, 3]);
    assert_eq!((places.peek(1), places.peek(2)), (None, Some(group(2))));
}

/// Those that were retired long ago come last.
#[test]
fn places_are_given_up_in_turn() {
    let mut places = table(5);
    for key in 1..=5 {
        places.take(key);
    }
    let mut order = Vec::new();
    for key in 6..=15 {
        let now = places.now();
        let retired = retire(&mut places, now, 1, |_| true);
        assert_eq!(retired.len(), 1);
        assert!(places.vacate(group(retired[0])));
        assert_eq!(places.take(key), Some(group(retired[0])));
        order.push(retired[0]);
    }
    assert_eq!(
        order[..5].iter().collect::<BTreeSet<_>>().len(),
        5,
        "{order:?}"
    );
    assert_eq!(order[..5], order[5..]);
}

/// However many places there are, they are looked at a few at a time.
#[test]
fn places_are_retired_in_steps() {
    const PLACES: usize = 4095;

    let mut places = table(PLACES);
    for key in 0..PLACES {
        assert!(places.take(key as u128).is_some());
    }
    let since = places.now();
    let (mut looked_at, mut dead) = (0, Vec::new());
    for step in 1..=PLACES.div_ceil(PLACES_AT_ONCE) {
        let is_dead = |group: Group| {
            looked_at += 1;
            group.number() % 100 == 0
        };
        places.retire(since, usize::MAX, is_dead, |group| {
            dead.push(group.number())
        });
        assert!(looked_at <= step * PLACES_AT_ONCE);
    }
    assert!(looked_at >= PLACES);
    dead.sort_unstable();
    assert_eq!(dead, (1..).map(|n| n * 100).take(40).collect::<Vec<_>>());
}

/// The place that has been vacant for the longest time comes first, so that what happened to its
/// last group is long ago.
#[test]
fn vacant_places_are_taken_in_turn() {
    let mut places = table(4);
    for key in 1..=4 {
        assert_eq!(places.take(key), Some(group(key as u32)));
    }
    let since = places.now();
    assert_eq!(retire(&mut places, since, 9, |_| true).len(), 4);
    for number in [3, 1, 4] {
        assert!(places.vacate(group(number)));
    }
    assert_eq!(places.take(5), Some(group(3)));
    assert!(places.vacate(group(2)));
    let taken: Vec<_> = (6..=9).map(|key| places.take(key)).collect();
    assert_eq!(
        taken,
        [Some(group(1)), Some(group(4)), Some(group(2)), None]
    );
}

proptest! {
    /// Against a map of keys, with all that happens to places in any order.
    #[test]
    fn places_are_like_a_map(
        size in 0..12_usize,
        steps in vec((0..6, 0..20_u128, 0..13_u32), 0..200),
    ) {
        let mut places = table(size);
        let mut used: BTreeMap<u128, u32> = BTreeMap::new();
        let mut retired: BTreeSet<u32> = BTreeSet::new();
        for (kind, key, number) in steps {
            match kind {
                0 | 1 => {
                    let found = places.find(key);
                    prop_assert_eq!(found, used.get(&key).copied().map(group));
                    if found.is_none() {
                        let taken = places.take(key);
                        prop_assert_eq!(taken.is_some(), used.len() + retired.len() < size);
                        if let Some(taken) = taken {
                            prop_assert!(!used.values().any(|other| *other == taken.number()));
                            prop_assert!(!retired.contains(&taken.number()));
                            used.insert(key, taken.number());
                        }
                    }
                }
                2 if !used.contains_key(&key) => {
                    let can = used.values().any(|other| *other == number);
                    prop_assert_eq!(places.give(group(number), key), can);
                    if can {
                        used.retain(|_, other| *other != number);
                        used.insert(key, number);
                    }
                }
                3 => {
                    let now = places.now();
                    let found = retire(&mut places, now, key as usize, |group| group.number() % 3 == number % 3);
                    let dead = used.values().filter(|other| **other % 3 == number % 3).count();
                    prop_assert_eq!(found.len(), dead.min(key as usize));
                    used.retain(|_, other| !found.contains(other));
                    retired.extend(found);
                }
                4 => prop_assert_eq!(places.vacate(group(number)), retired.remove(&number)),
                _ => {}
            }
            for number in 0..14 {
                let key = used.iter().find(|(_, other)| **other == number).map(|(key, _)| *key);
                prop_assert_eq!(places.key(group(number)), key);
                prop_assert_eq!(places.is_used(group(number)), key.is_some());
            }
            prop_assert_eq!(places.vacant(), size - used.len() - retired.len());
            for key in 0..20 {
                prop_assert_eq!(places.peek(key), used.get(&key).copied().map(group));
            }
        }
    }

    #[test]
    fn a_set_of_groups_is_a_set(words in 0..4_usize, steps in vec((any::<bool>(), 0..300_u32), 0..100)) {
        let mut set = GroupSet::new(vec![0; words]);
        let mut model = BTreeSet::new();
        for (is_insertion, number) in steps {
            if is_insertion {
                set.insert(group(number));
                if (number as usize) < words * 64 {
                    model.insert(number);
                }
            } else {
                set.remove(group(number));
                model.remove(&number);
            }
            prop_assert_eq!(set.contains(group(number)), model.contains(&number));
            prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            let found: Vec<u32> = set.iter().map(Group::number).collect();
            prop_assert_eq!(found, model.iter().copied().collect::<Vec<_>>());
        }
    }
}

#[test]
fn words_of_sets() {
    for (groups, words) in [(0, 0), (1, 1), (64, 1), (65, 2), (4097, 65)] {
        assert_eq!(GroupSet::<Vec<u64>>::words(groups), words);
    }
    let set = GroupSet::new(vec![5, 1]);
    assert_eq!((set.len(), set.iter().count()), (3, 3));
}

/// Something that a task of a group did.
type Event = (u32, u32, u64);

/// Lets tasks of three groups wait for tasks of others, run and leave.
fn play(groups: &Groups, events: &[Event]) {
    for (victim, culprit, wait) in events {
        let task_group = match culprit {
            20 => kernel(1),
            21 => TaskGroup::IDLE,
            number => user(*number),
        };
        groups.wait(*victim, task_group, *wait);
        groups.sample(Metric::Oncpu, wait / 2, 7 + wait);
        let observer = groups.observer();
        observer.preempted(task_group, *wait);
        observer.migrated(Distance::Llc);
        observer.throttled(*wait);
        observer.leave(PrevState::new(wait % 2 == 0, 1));
    }
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    vec(
        (
            0..3_u32,
            0..22_u32,
            prop_oneof![0..50_u64, 0..1_000_000_u64],
        ),
        0..60,
    )
}

#[test]
fn a_placement_is_absorbed() {
    let examples = [1, 2].map(|_| Groups::new(2, Scheme::DEFAULT));
    examples.iter().for_each(|example| example.example(900));
    let [to, from] = examples.each_ref().map(|example| example.placement_of(1));
    let mut both = to.long_waits.read();
    both.add(&from.long_waits.read());
    to.absorb(from);
    assert_eq!(
        (to.long_waits.read(), to.migrations()),
        (both, [2, 4, 6, 8])
    );
    assert_eq!(
        (from.long_waits.read(), from.migrations()),
        (WaitSums::default(), [0; 4])
    );
}

proptest! {
    /// Neighbours that are gone are one neighbour, and the others stay as they are.
    #[test]
    fn neighbours_are_renamed(events in any_events(), bits in any::<u32>()) {
        let groups = Groups::without_histograms(3, Scheme::DEFAULT);
        play(&groups, &events);
        let is_it = |number: u32| number < 32 && (bits >> number) & 1 != 0;
        for number in 0..3 {
            let mut expected: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            for (other, (count, ns)) in neighbours(groups.of(number)) {
                let sum = expected.entry(if is_it(other) { 99 } else { other }).or_default();
                *sum = (sum.0 + count, sum.1 + ns);
            }
            let before = neighbours(groups.of(number));
            let mut renamed = BTreeSet::new();
            let is_group = |group: Group| is_it(group.number());
            groups.of(number).rename_neighbours(is_group, group(99), |group| {
                renamed.insert(group.number());
            });
            prop_assert_eq!(neighbours(groups.of(number)), expected);
            let were_there: BTreeSet<u32> = before.into_keys().filter(|other| is_it(*other)).collect();
            prop_assert_eq!(renamed, were_there);
            groups.of(number).rename_neighbours(is_group, group(99), |_| panic!("there is none left"));
        }
        // Groups in use still come first: all of them can be had.
        for number in 40..40 + NEIGHBOURS as u32 {
            groups.wait(0, user(number), 1 << 40);
        }
        let found = neighbours(groups.of(0));
        prop_assert!((40..40 + NEIGHBOURS as u32).all(|number| found.contains_key(&number)), "{:?}", found);
    }
}

/// A sum beyond 64 bits stays whole, and goes on to be carried.
#[test]
fn long_sums_are_absorbed() {
    const LONGEST: u64 = (1 << 63) - 1;

    let groups = Groups::without_histograms(3, Scheme::DEFAULT);
    let mut sum = 0;
    for number in [1, 2, 1, 2, 2] {
        groups.observer().enter(user(number));
        groups.sample(Metric::Oncpu, LONGEST, 1);
        sum += u128::from(LONGEST);
    }
    let (to, from) = (groups.of(1), groups.of(2));
    to.absorb(from);
    from.clear();
    assert_eq!(to.sum(GroupMetric::Oncpu), sum);
    groups.observer().enter(user(1));
    for _ in 0..5 {
        groups.sample(Metric::Oncpu, LONGEST, 1);
        sum += u128::from(LONGEST);
        groups.observer().carry(1);
        assert_eq!(to.sum(GroupMetric::Oncpu), sum);
    }
    assert_eq!(from.sum(GroupMetric::Oncpu), 0);
}
