// SPDX-License-Identifier: GPL-2.0

//! The records of groups on a CPU, and their totals over CPUs.

mod grouped;

use std::collections::BTreeMap;

use grouped::{identity, kernel, neighbours, user, Groups};
use proptest::{collection::vec, prelude::*};
use schedhist_engine::{
    engine::{
        group::{
            records::{group_scheme, CulpritKind, GroupCounter, GroupMetric, NEIGHBOURS},
            task_group::TaskGroup,
            totals::{self, GroupTotals},
        },
        histogram::{
            bucket::{Precision, Scheme, OVERFLOW},
            totals::Worst,
        },
        idle::Distance,
        metric::{Metric, MetricSet},
        switch::{
            sample::{Observer, Side},
            settings::{Fixed, Settings},
            switch_out::PrevState,
        },
    },
    testing::{idle_at, new_records},
};

/// Returns records of groups without histograms.
fn groups(number: usize) -> Groups {
    Groups::without_histograms(number, Scheme::DEFAULT)
}

/// The longest duration that a clock can measure.
const LONGEST: u64 = (1 << 63) - 1;

/// Generates a duration of any magnitude, often one that takes a sum through its 64 bits.
fn any_duration() -> impl Strategy<Value = u64> {
    let any = (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift);
    prop_oneof![Just(0), Just(1), Just(LONGEST), any].prop_map(|value| value.min(LONGEST))
}

/// The observer of groups passes on who the tasks are.
#[test]
fn tasks_are_those_of_the_inner_observer() {
    let groups = groups(1);
    for side in [Side::Prev, Side::Next] {
        assert_eq!(groups.observer().namer(side)(), identity(side));
    }
}

#[test]
fn histograms_of_groups_are_not_finer_than_those_of_cpus() {
    for bits in Precision::MIN..=Precision::MAX {
        let scheme = Scheme::new(Precision::new(bits).expect("within range"));
        assert_eq!(group_scheme(scheme).precision().bits(), bits.min(3));
    }
}

/// What is fixed when the code is compiled.
#[test]
fn cells_of_a_group() {
    let cells = GroupMetric::COUNT * group_scheme(Scheme::DEFAULT).buckets();
    assert_eq!(
        <Fixed<{ Precision::DEFAULT }> as Settings>::GROUP_CELLS,
        cells
    );
}

proptest! {
    /// Counts, sums beyond 64 bits, maxima and buckets, with any precision.
    #[test]
    fn samples_as_the_naive_reference(
        bits in Precision::MIN..=Precision::MAX,
        samples in vec((0..Metric::COUNT, 0..3_u32, any_duration()), 0..100),
    ) {
        let scheme = Scheme::new(Precision::new(bits).expect("within range"));
        let groups = Groups::new(3, scheme);
        let mut expected: BTreeMap<_, Vec<(u64, u64, Side)>> = BTreeMap::new();
        for (time, (metric, number, value)) in (1..).zip(samples) {
            let metric = Metric::ALL[metric];
            groups.observer().enter(user(number));
            groups.sample(metric, value, time);
            if let Some(of) = GroupMetric::of(metric) {
                expected.entry((number, of as usize)).or_default().push((value, time, metric.side()));
            }
        }
        for number in 0..3 {
            let records = groups.of(number);
            let histograms = groups.histograms(number);
            for (metric, histogram) in GroupMetric::ALL.into_iter().zip(histograms) {
                let samples = expected.remove(&(number, metric as usize)).unwrap_or_default();
                prop_assert_eq!(records.samples(metric), samples.len() as u64);
                let sum: u128 = samples.iter().map(|(value, ..)| u128::from(*value)).sum();
                prop_assert_eq!(records.sum(metric), sum);
                prop_assert_eq!(histogram.sum(), sum);
                // The first of the greatest.
                let worst = samples.iter().rev().max_by_key(|(value, ..)| *value);
                let worst = worst.map(|(value, time, side)| Worst {
                    value: *value,
                    task: identity(*side),
                    time: *time,
                });
                prop_assert_eq!(records.worst(metric), worst);
                prop_assert_eq!(histogram.worst(), worst.map(|worst| (3, worst)));
                let scheme = group_scheme(scheme);
                let mut buckets = BTreeMap::new();
                for (value, ..) in samples {
                    *buckets.entry(scheme.bounds(scheme.index(value)).lower).or_default() += 1;
                }
                let found = histogram.buckets().map(|(bounds, count)| (bounds.lower, count));
                prop_assert_eq!(found.collect::<BTreeMap<_, u64>>(), buckets);
            }
        }
    }
}

/// Samples that have a finite bucket carry a sum through its 64 bits unnoticed, unless it is looked
/// at now and then.
#[test]
fn sums_are_carried() {
    const TIMES: u64 = (1 << 23) + 10;

    let groups = groups(2);
    groups.observer().enter(user(1));
    groups.sample(Metric::Oncpu, LONGEST, 1);
    let (scheme, value) = (Scheme::DEFAULT, OVERFLOW - 1);
    let index = scheme.index(value);
    for n in 1..=TIMES {
        let observer = groups.observer();
        observer.add(Metric::Oncpu, value, scheme, index);
        if n % (1 << 19) == 0 {
            // Whichever group has the CPU then. Each of the two has its turn.
            observer.enter(user(0));
            observer.carry(n >> 19);
            observer.enter(user(1));
        }
    }
    let sum = u128::from(LONGEST) + u128::from(TIMES) * u128::from(value);
    assert!(sum > 1 << 64);
    assert_eq!(groups.of(1).sum(GroupMetric::Oncpu), sum);
}

/// Every 128th switch carries the sums of one group, and it is another one's turn each time.
#[test]
fn one_group_is_carried_at_a_time() {
    let cpu = new_records(0, Scheme::DEFAULT, MetricSet::DEFAULT);
    let groups = groups(2);
    for n in 1..=1024 {
        idle_at(&cpu, n, groups.observer());
        assert_eq!(groups.turn.get(), n / 128);
    }
}

/// The waits that other groups ended, by group, in any order: number of the group, and wait.
type Waits = Vec<(u32, u64)>;

/// Adds up waits by group.
fn by_group(waits: &[(u32, u64)]) -> BTreeMap<u32, (u64, u64)> {
    let mut sums = BTreeMap::new();
    for (number, wait) in waits {
        let (count, sum): &mut (u64, u64) = sums.entry(*number).or_default();
        *count += 1;
        *sum += wait;
    }
    sums
}

/// Generates waits that up to 20 other groups end. Some of these are heavy.
fn any_waits() -> impl Strategy<Value = Waits> {
    let wait = prop_oneof![Just(0), 1..100_u64, 100..10_000_u64, 10_000..1_000_000_u64];
    let alike = prop_oneof![1..20_u32, 1..3_u32, Just(20)];
    let mixed = vec((alike, wait), 0..200);
    // One group after the other, each with alike waits.
    let runs = vec((1..20_u32, 1..30_usize, 0..1000_u64), 0..20).prop_map(|runs| {
        let run = |(number, times, wait)| vec![(number, wait); times];
        runs.into_iter().flat_map(run).collect()
    });
    prop_oneof![mixed, runs]
}

/// Lets a task of the group 0 wait for others.
fn after(waits: &[(u32, u64)]) -> Groups {
    let groups = groups(1);
    for (number, wait) in waits {
        groups.wait(0, user(*number), *wait);
    }
    groups
}

/// The neighbour that is found first makes way for one with more than twice its time.
#[test]
fn a_neighbour_with_more_than_twice_the_time_comes_first() {
    for (time, is_first) in [(0, false), (19, false), (21, false), (22, true), (45, true)] {
        let groups = after(&[(7, 10), (8, 0), (8, time)]);
        let first = groups.of(0).neighbours().next();
        let expected = if is_first { (8, 2, time) } else { (7, 1, 10) };
        assert_eq!(
            first.map(|(group, count, ns)| (group.number(), count, ns)),
            Some(expected)
        );
    }
}

proptest! {
    #[test]
    fn waits_are_not_invented_and_heavy_neighbours_are_found(waits in any_waits()) {
        let groups = after(&waits);
        let records = groups.of(0);
        let truth = by_group(&waits);
        let named = neighbours(records);
        let count: u64 = named.values().map(|(count, _)| count).sum();
        let sum: u64 = named.values().map(|(_, ns)| ns).sum();
        let other = records.ended_by(CulpritKind::Other);
        prop_assert_eq!(other.count(), waits.len() as u64);
        prop_assert!(count <= other.count() && sum <= other.nanoseconds());
        prop_assert_eq!(named.len(), truth.len().min(NEIGHBOURS));
        prop_assert_eq!(named.len(), records.neighbours().count());
        for (number, (count, ns)) in &named {
            let (all, whole) = truth[number];
            prop_assert!(*count >= 1 && *count <= all && *ns <= whole, "{} {:?}", number, named);
        }
        for (number, (_, ns)) in &truth {
            let is_heavy = ns * (NEIGHBOURS as u64 + 1) > other.nanoseconds();
            prop_assert!(!is_heavy || named.contains_key(number), "{} {:?}", number, named);
        }
        if truth.len() <= NEIGHBOURS {
            prop_assert_eq!(named, truth);
        }
    }

    /// The totals are the sums over CPUs. Among the neighbours that all CPUs name, the heavy ones
    /// are named.
    #[test]
    fn totals_are_sums(all in vec((any_waits(), 0..5_u64), 0..12)) {
        let mut totals = GroupTotals::default();
        let mut samples = 0;
        let mut other = (0, 0_u128);
        let mut truth: BTreeMap<u32, (u64, u128)> = BTreeMap::new();
        for (waits, times) in &all {
            let groups = after(waits);
            let observer = groups.observer();
            for _ in 0..*times {
                groups.sample(Metric::Oncpu, 10, 20);
                observer.migrated(Distance::Llc);
                observer.leave(PrevState::new(false, 1));
                observer.preempted(kernel(1), 9);
                groups.wait(0, TaskGroup::IDLE, 3);
            }
            let records = groups.of(0);
            totals.add(records, |group| group);
            samples += times;
            for (number, (count, ns)) in neighbours(records) {
                let sums = truth.entry(number).or_default();
                *sums = (sums.0 + count, sums.1 + u128::from(ns));
            }
            other.0 += waits.len() as u64;
            other.1 += waits.iter().map(|(_, wait)| u128::from(*wait)).sum::<u128>();
        }
        prop_assert_eq!(totals.samples(GroupMetric::Oncpu), samples);
        prop_assert_eq!(totals.samples(GroupMetric::Runq), samples + other.0);
        prop_assert_eq!(totals.samples(GroupMetric::Offcpu), 0);
        let counters = GroupCounter::ALL.map(|counter| totals.counter(counter));
        prop_assert_eq!(counters, [samples, 0, samples, 0, 0]);
        let ended = CulpritKind::ALL.map(|culprit| totals.ended_by(culprit));
        let idle = (samples, 3 * u128::from(samples));
        prop_assert_eq!(ended, [(0, 0), other, (0, 0), idle]);
        let preempted = CulpritKind::ALL.map(|culprit| totals.preempted_by(culprit));
        prop_assert_eq!(preempted, [(0, 0), (0, 0), (samples, 9 * u128::from(samples)), (0, 0)]);

        let neighbours: BTreeMap<_, _> = totals
            .neighbours()
            .map(|(group, count, ns)| (group.number(), (count, ns)))
            .collect();
        prop_assert_eq!(neighbours.len(), truth.len().min(totals::NEIGHBOURS));
        let whole: u128 = truth.values().map(|(_, ns)| *ns).sum();
        for (number, (count, ns)) in &neighbours {
            prop_assert!(*count <= truth[number].0 && *ns <= truth[number].1);
        }
        for (number, (_, ns)) in &truth {
            let is_heavy = ns * (totals::NEIGHBOURS as u128 + 1) > whole;
            prop_assert!(!is_heavy || neighbours.contains_key(number), "{} {:?}", number, neighbours);
        }
        if truth.len() <= totals::NEIGHBOURS {
            prop_assert_eq!(neighbours, truth);
        }
    }
}

/// A group that took the place of another has only as much of a lead as it had more than that one.
#[test]
fn a_neighbour_that_came_late_has_a_small_lead() {
    let mut totals = GroupTotals::default();
    let mut add = |number, wait| totals.add(after(&[(number, wait)]).of(0), |group| group);
    (1..=8).for_each(|number| add(number, 100));
    // It is in the place of 1.
    add(9, 150);
    (2..=8).for_each(|number| add(number, 1_000));
    add(10, 60);
    let mut numbers: Vec<u32> = totals
        .neighbours()
        .map(|(group, ..)| group.number())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8, 10]);
}
