// SPDX-License-Identifier: GPL-2.0

//! Helpers that the engine's tests share.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::cell::RefCell;

use proptest::prelude::*;
use schedhist_engine::engine::{
    cell::Cell,
    group::task_group::Group,
    histogram::{
        bucket::{Precision, Scheme},
        snapshot::{Baseline, Snapshot},
    },
    identity::Identity,
    metric::{Metric, MetricSet},
    switch::{
        cpu::Cpu,
        sample::{Cause, Observer, Sample, Side},
        settings::Dynamic,
        task_state::TaskState,
    },
};
use schedhist_engine::testing::{new_records, prev_state_of, task, Switch, IDLE};

/// Returns all schemes, the coarsest first.
pub(crate) fn schemes() -> impl Iterator<Item = Scheme> {
    (Precision::MIN..=Precision::MAX)
        .filter_map(Precision::new)
        .map(Scheme::new)
}

/// Generates any scheme.
pub(crate) fn any_scheme() -> impl Strategy<Value = Scheme> {
    proptest::sample::select(schemes().collect::<Vec<_>>())
}

/// Generates a value of any magnitude.
pub(crate) fn any_value() -> impl Strategy<Value = u64> {
    (0..u64::BITS, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

/// Generates a duration, mostly of a scheduler's magnitudes; some are too long for the buckets.
pub(crate) fn any_duration() -> impl Strategy<Value = u64> {
    (20..u64::BITS, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

/// Creates the records of a CPU on which only `oncpu` and `idle` are on.
pub(crate) fn new_cpu(scheme: Scheme) -> Cpu<Vec<Cell>> {
    let cpu = new_records(3, scheme, MetricSet::DEFAULT);
    cpu.begin(
        0,
        MetricSet::parse(b"oncpu idle", MetricSet::ALL).expect("names of metrics"),
    );
    cpu
}

/// The task that leaves a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// The idle task.
    Idle,
    /// A task, which blocks.
    Blocked,
}

/// The task that runs in these tests.
pub(crate) const TASK: Identity = Identity {
    pid: 42,
    prio: 120,
    comm: *b"a \\\n task\0\0\0\0\0\0\0",
    group: Group::OTHER,
};

/// Records the samples that an observer receives.
#[derive(Default)]
struct Notes {
    slices: RefCell<Vec<(u64, u64)>>,
    samples: RefCell<Vec<Sample>>,
}

impl Observer for &Notes {
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        move || match side {
            Side::Prev => TASK,
            Side::Next => Identity::default(),
        }
    }

    fn slice(self, since: u64, now: u64) {
        assert!(self.samples.borrow().is_empty(), "a sample was first");
        self.slices.borrow_mut().push((since, now));
    }

    fn sample(self, sample: &Sample) {
        self.samples.borrow_mut().push(*sample);
    }
}

/// Switches from `who` to a task, and returns the sample that the engine took.
pub(crate) fn switch(cpu: &Cpu<Vec<Cell>>, now: u64, who: Who) -> Option<u64> {
    let (prev, metric, cause) = match who {
        Who::Idle => (IDLE, Metric::Idle, Cause::Idle),
        Who::Blocked => (task(1), Metric::Oncpu, Cause::Interruptible),
    };
    let notes = Notes::default();
    let untracked = TaskState::untracked();
    let prev_state = prev_state_of(Cause::Interruptible);
    let states = |_| &untracked;
    let switch = Switch::new(now, prev, prev_state, task(1), &states);
    cpu.switch::<Dynamic>(&switch, &notes);
    let (slices, samples) = (notes.slices.into_inner(), notes.samples.into_inner());
    let expected: Vec<Sample> = slices
        .iter()
        .map(|(since, until)| Sample::new(metric, until - since, cause, now))
        .collect();
    assert_eq!(samples, expected);
    assert!(samples.len() <= 1);
    samples.first().map(|sample| sample.value)
}

/// Creates the records of a CPU on which a task ran for `durations`, one after the other.
pub(crate) fn cpu_of(scheme: Scheme, durations: &[u64]) -> Cpu<Vec<Cell>> {
    let cpu = new_cpu(scheme);
    record(&cpu, durations);
    cpu
}

/// Lets a task run on `cpu` for `durations`, each from 1 on.
pub(crate) fn record(cpu: &Cpu<Vec<Cell>>, durations: &[u64]) {
    for duration in durations {
        cpu.forget();
        switch(cpu, 1, Who::Idle);
        switch(cpu, 1 + duration, Who::Blocked);
    }
}

/// Creates a snapshot of the `oncpu` histograms of `cpus`, added up.
pub(crate) fn snapshot_of(scheme: Scheme, cpus: &[Cpu<Vec<Cell>>]) -> Snapshot<Vec<u64>> {
    parts_of(scheme, cpus, &[Metric::Oncpu])
}

/// Creates a snapshot of the histograms of `parts` of `cpus`, added up.
pub(crate) fn parts_of<'a>(
    scheme: Scheme,
    cpus: impl IntoIterator<Item = &'a Cpu<Vec<Cell>>>,
    parts: &[Metric],
) -> Snapshot<Vec<u64>> {
    let counts = vec![7; scheme.buckets()];
    let mut snapshot = Snapshot::new(scheme, counts).expect("the number of counts is right");
    for cpu in cpus {
        for part in parts {
            snapshot.add(cpu, None::<&Baseline<Vec<u64>>>, *part);
        }
    }
    snapshot
}
