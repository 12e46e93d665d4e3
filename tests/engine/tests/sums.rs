// SPDX-License-Identifier: GPL-2.0

//! Sums are exact, even beyond 64 bits: 20000 tasks that sleep for an hour each exceed them in ten
//! days.

mod common;

use common::{any_scheme, switch, Who};
use proptest::{collection::vec, prelude::*};

use schedhist_engine::engine::{
    histogram::{
        bucket::{Scheme, OVERFLOW},
        snapshot::{Baseline, Snapshot},
    },
    metric::{Counter, Metric, MetricSet},
    switch::cpu::Requested,
};
use schedhist_engine::testing::{records, Records};

/// Lets a task have `cpu` for `duration`. Each run begins at 1, so that long ones can follow each
/// other.
fn run(cpu: &Records, duration: u64) {
    cpu.forget();
    switch(cpu, 1, Who::Idle);
    switch(cpu, 1 + duration, Who::Blocked);
}

fn sum(durations: &[u64]) -> u128 {
    durations.iter().map(|duration| u128::from(*duration)).sum()
}

/// Generates durations of all magnitudes. Half of them are too large for a bucket with an upper
/// bound, and some take a sum through half of its range or more.
fn any_durations() -> impl Strategy<Value = Vec<u64>> {
    let any = (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| (bits >> shift).min(u64::MAX - 1));
    let edge = proptest::sample::select(vec![
        OVERFLOW - 1,
        OVERFLOW,
        (1 << 63) - 1,
        1 << 63,
        (1 << 63) + 1,
        u64::MAX - 1,
    ]);
    vec(prop_oneof![2 => any, 1 => edge], 0..60)
}

proptest! {
    #[test]
    fn as_the_naive_reference(
        scheme in any_scheme(),
        metrics in proptest::sample::select(vec![MetricSet::DEFAULT, MetricSet::ALL]),
        before in any_durations(),
        after in any_durations(),
    ) {
        let cpu = records(0, scheme, metrics);
        let mut so_far = 0;
        for duration in &before {
            run(&cpu, *duration);
            so_far += u128::from(*duration);
            prop_assert_eq!(cpu.sum(Metric::Oncpu), so_far);
        }
        // A reset, and then a switch to larger records.
        let cells = Records::cells(scheme, metrics);
        let mut baseline = Baseline::new(scheme, vec![0; cells]).expect("as many as asked for");
        baseline.take(&cpu);
        cpu.request(&cpu, Metric::Resched, Requested::Running, 1);
        let larger = records(0, scheme, MetricSet::ALL);
        larger.take_over(&cpu);
        // What becomes of a request is not seen.
        let counts = [Counter::ReschedSet, Counter::ReschedUnused].map(|it| larger.counter(it));
        prop_assert_eq!(counts, [u64::from(metrics.contains(Metric::Resched)); 2]);
        for duration in &after {
            run(&larger, *duration);
        }
        prop_assert_eq!(cpu.sum(Metric::Oncpu), sum(&before));
        prop_assert_eq!(larger.sum(Metric::Oncpu), sum(&before) + sum(&after));

        let empty = || Snapshot::new(scheme, vec![0; scheme.buckets()]).expect("the right size");
        let (mut since_load, mut since_reset) = (empty(), empty());
        since_load.add_since_load(&larger, Some(&baseline), Metric::Oncpu);
        since_reset.add(&larger, Some(&baseline), Metric::Oncpu);
        prop_assert_eq!(since_load.sum(), sum(&before) + sum(&after));
        prop_assert_eq!(since_reset.sum(), sum(&after));
        let mean = sum(&after).checked_div(after.len() as u128);
        prop_assert_eq!(since_reset.mean().map(u128::from), mean);
        // The sum of two CPUs.
        since_load.add_since_load(&cpu, Some(&baseline), Metric::Oncpu);
        prop_assert_eq!(since_load.sum(), 2 * sum(&before) + sum(&after));
    }
}

/// Only durations that have a finite bucket: after 2^23 of them the sum has gone through half of
/// its range, and the CPU must notice that by itself, now and then. That does not end: the sum does
/// not get there before the CPU has switched 2^20 times.
#[test]
fn short_durations_wrap_in_the_end() {
    const LONGEST: u64 = OVERFLOW - 1;
    const TIMES: u64 = (1 << 23) + 10;
    const BEFORE: u64 = 1 << 20;

    let scheme = Scheme::DEFAULT;
    let cpu = records(0, scheme, MetricSet::DEFAULT);
    let start = |now| {
        cpu.forget();
        switch(&cpu, now, Who::Idle);
    };
    start(1);
    for now in 1..=BEFORE {
        switch(&cpu, now, Who::Idle);
    }
    let first = (1 << 63) - 1;
    switch(&cpu, 1 + first, Who::Idle);
    let mut now = u64::MAX;
    for _ in 0..TIMES {
        if now > first - LONGEST {
            now = 1;
            start(now);
        }
        now += LONGEST;
        switch(&cpu, now, Who::Idle);
    }
    let sum = u128::from(first) + u128::from(TIMES) * u128::from(LONGEST);
    assert!(sum > 1 << 64);
    assert_eq!(cpu.sum(Metric::Idle), sum);
}
