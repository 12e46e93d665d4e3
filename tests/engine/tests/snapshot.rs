// SPDX-License-Identifier: GPL-2.0

//! Snapshots: merging, and quantiles against a sorted list of all values.

mod common;

use common::{any_duration, any_scheme, cpu_of, new_cpu, record, snapshot_of, switch, Who};
use proptest::{collection::vec, prelude::*};
use schedhist_engine::engine::{
    cell::Cell,
    histogram::{
        bucket::Scheme,
        snapshot::{Baseline, Snapshot},
    },
    metric::{Counter, Metric, MetricSet},
    switch::cpu::Cpu,
};

/// The share of each quantile as a fraction, by its name.
const SHARES: [(&str, usize, usize); 5] = [
    ("p50", 1, 2),
    ("p90", 9, 10),
    ("p99", 99, 100),
    ("p99.9", 999, 1000),
    ("p99.99", 9999, 10000),
];

/// Returns the least value that this share of all values does not exceed.
fn naive_quantile(sorted: &[u64], numerator: usize, denominator: usize) -> Option<u64> {
    let rank = (sorted.len() * numerator).div_ceil(denominator);
    sorted.get(rank.checked_sub(1)?).copied()
}

proptest! {
    #[test]
    fn merging_is_adding(
        scheme in any_scheme(),
        durations in vec(vec(any_duration(), 0..50), 0..5),
    ) {
        let cpus: Vec<_> = durations.iter().map(|each| cpu_of(scheme, each)).collect();
        let together: Vec<u64> = durations.concat();
        let merged = snapshot_of(scheme, &cpus);
        let whole = snapshot_of(scheme, &[cpu_of(scheme, &together)]);

        prop_assert!(merged.buckets().eq(whole.buckets()));
        prop_assert_eq!(merged.count(), u64::try_from(together.len()).expect("not so many"));
        let sum: u128 = together.iter().map(|value| u128::from(*value)).sum();
        prop_assert_eq!(merged.sum(), sum);
        let extremes = together.iter().min().copied().zip(together.iter().max().copied());
        prop_assert_eq!(merged.min().zip(merged.max()), extremes);
        let mean = sum.checked_div(u128::from(merged.count()));
        prop_assert_eq!(merged.mean().map(u128::from), mean);
    }

    #[test]
    fn a_quantile_is_the_bucket_of_the_exact_one(
        scheme in any_scheme(),
        earlier in vec(any_duration(), 0..20),
        mut durations in vec(any_duration(), 0..2000),
    ) {
        let cpu = cpu_of(scheme, &earlier);
        let cells = Cpu::<Vec<Cell>>::cells(scheme, MetricSet::DEFAULT);
        let mut baseline = Baseline::new(scheme, vec![0; cells]).expect("the right number");
        baseline.take(&cpu);
        record(&cpu, &durations);
        let mut snapshot = Snapshot::new(scheme, vec![0; scheme.buckets()]).expect("the same");
        snapshot.add(&cpu, Some(&baseline), Metric::Oncpu);
        prop_assert_eq!(snapshot.count(), durations.len() as u64);
        durations.sort_unstable();
        for ((quantile, found), (name, numerator, denominator)) in snapshot.quantiles().zip(SHARES) {
            prop_assert_eq!(quantile.name, name);
            let exact = naive_quantile(&durations, numerator, denominator);
            let bucket = exact.map(|value| scheme.bounds(scheme.index(value)));
            prop_assert_eq!(found, bucket);
        }
    }
}

/// With 10000 samples of 1 to 10000 the rank of a quantile is its value.
#[test]
fn ranks() {
    let scheme = common::schemes().last().expect("there are schemes");
    let durations: Vec<u64> = (1..=10_000).collect();
    let snapshot = snapshot_of(scheme, &[cpu_of(scheme, &durations)]);
    let values = [5_000, 9_000, 9_900, 9_990, 9_999];
    for ((quantile, bounds), value) in snapshot.quantiles().zip(values) {
        let bounds = bounds.expect("there are samples");
        assert!(
            bounds.lower <= value && value <= bounds.upper,
            "{}: {bounds:?}",
            quantile.name
        );
        assert_eq!(Some(bounds), Some(scheme.bounds(scheme.index(value))));
    }
}

/// The buckets count beyond 32 bits.
#[test]
fn large_counts() {
    let cells = Cpu::<Vec<Cell>>::cells(Scheme::DEFAULT, MetricSet::DEFAULT);
    let buckets = (0..cells).map(|_| Cell::new(u32::MAX.into())).collect();
    let cpu = Cpu::new(0, Scheme::DEFAULT, buckets).expect("the right number");
    cpu.begin(1, MetricSet::DEFAULT);
    switch(&cpu, 1, Who::Idle);
    switch(&cpu, 10, Who::Blocked);
    let snapshot = snapshot_of(Scheme::DEFAULT, &[cpu]);
    let sum = Scheme::DEFAULT.buckets() as u64 * u64::from(u32::MAX) + 1;
    assert_eq!(snapshot.count(), sum);
    assert!(snapshot.buckets().any(|(_, count)| count == 1 << 32));
}

/// Of equal maxima, the one of the first CPU is shown.
#[test]
fn the_first_of_equal_maxima_is_kept() {
    let scheme = common::schemes().next().expect("there are schemes");
    let cpu = |start| {
        let cpu = new_cpu(scheme);
        switch(&cpu, start, Who::Idle);
        switch(&cpu, start + 9, Who::Blocked);
        cpu
    };
    let worst_of = |starts: [u64; 2]| {
        let (_, worst) = snapshot_of(scheme, &starts.map(cpu)).worst()?;
        Some((worst.value, worst.time))
    };
    assert_eq!(worst_of([1, 100]), Some((9, 10)));
    assert_eq!(worst_of([100, 1]), Some((9, 109)));
}

/// A baseline holds the counts at the reset, and the CPU begins new extremes.
#[test]
fn a_baseline_is_of_the_reset() {
    let scheme = common::schemes().next().expect("there are schemes");
    let cpu = cpu_of(scheme, &[7, 5, 9]);
    assert_eq!(cpu.number(), 3);
    let cells = Cpu::<Vec<Cell>>::cells(scheme, MetricSet::DEFAULT);
    let mut baseline = Baseline::new(scheme, vec![0; cells]).expect("the right number");
    baseline.take(&cpu);
    assert_eq!(cpu.min(Metric::Oncpu), u64::MAX);
    assert_eq!(cpu.worst(Metric::Oncpu), None);
    switch(&cpu, 11, Who::Blocked);
    assert_eq!(cpu.min(Metric::Oncpu), 1);
    assert_eq!(cpu.worst(Metric::Oncpu).map(|worst| worst.value), Some(1));
    assert_eq!(baseline.counter(Counter::Switches), 6);
    assert_eq!(baseline.count(Metric::Oncpu), 3);
    assert_eq!(baseline.count(Metric::Idle), 0);
    assert_eq!(baseline.extremes(Metric::Oncpu).min, 5);
}

#[test]
fn there_are_as_many_counts_as_cells() {
    let scheme = common::schemes().next().expect("there are schemes");
    for off in [0, 2] {
        assert!(Snapshot::new(scheme, vec![0; scheme.buckets() + off - 1]).is_none());
    }
    let good = [MetricSet::DEFAULT, MetricSet::ALL]
        .map(|metrics| Cpu::<Vec<Cell>>::cells(scheme, metrics));
    for len in 0..2 * good[1] {
        let baseline = Baseline::new(scheme, vec![0; len]);
        assert_eq!(baseline.is_some(), good.contains(&len), "{len}");
        let cells: Vec<Cell> = (0..len).map(|_| Cell::new(0)).collect();
        assert_eq!(
            Cpu::new(0, scheme, cells).is_some(),
            good.contains(&len),
            "{len}"
        );
    }
}
