// SPDX-License-Identifier: GPL-2.0

//! What the tests of the engine share.

#![allow(dead_code, reason = "not every test needs all of it")]

use proptest::prelude::*;
use schedhist_engine::engine::{
    bucket::{Precision, Scheme},
    cell::Cell,
    cpu::{Cpu, Prev},
    metric::Metric,
    snapshot::Snapshot,
};

/// All schemes, the coarsest first.
pub(crate) fn schemes() -> impl Iterator<Item = Scheme> {
    (Precision::MIN..=Precision::MAX)
        .filter_map(Precision::new)
        .map(Scheme::new)
}

/// Any of them.
pub(crate) fn any_scheme() -> impl Strategy<Value = Scheme> {
    proptest::sample::select(schemes().collect::<Vec<_>>())
}

/// A value of any magnitude.
pub(crate) fn any_value() -> impl Strategy<Value = u64> {
    (0..u64::BITS, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

/// A duration, mostly of the magnitudes that a scheduler knows; some are too long for the buckets.
pub(crate) fn any_duration() -> impl Strategy<Value = u64> {
    (20..u64::BITS, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

/// Creates the records of a CPU.
pub(crate) fn new_cpu(scheme: Scheme) -> Cpu<Vec<Cell>> {
    let cells = Cpu::<Vec<Cell>>::cells(scheme);
    let buckets = (0..cells).map(|_| Cell::new(0)).collect();
    Cpu::new(scheme, buckets).expect("the number of cells is right")
}

/// Creates the records of a CPU on which tasks ran for `durations`, one after the other.
pub(crate) fn cpu_of(scheme: Scheme, durations: &[u64]) -> Cpu<Vec<Cell>> {
    let cpu = new_cpu(scheme);
    for duration in durations {
        cpu.forget();
        cpu.switch(1, Prev::Idle);
        cpu.switch(1 + duration, Prev::Blocked);
    }
    cpu
}

/// Creates a snapshot of the `oncpu` histograms of `cpus`, added up.
pub(crate) fn snapshot_of(scheme: Scheme, cpus: &[Cpu<Vec<Cell>>]) -> Snapshot<Vec<u64>> {
    let counts = vec![7; scheme.buckets()];
    let mut snapshot = Snapshot::new(scheme, counts).expect("the number of counts is right");
    for cpu in cpus {
        snapshot.add(cpu, Metric::Oncpu);
    }
    snapshot
}
