// SPDX-License-Identifier: GPL-2.0

//! Readers on other CPUs while a CPU records.
//!
//! The cells are relaxed atomics, and so a reader may see one sample in one of them and not yet in
//! another. What must hold nevertheless is tested here. Real threads show what this machine's memory
//! model allows; run under Miri, as `cargo miri test --test concurrent` with `-Zmiri-many-seeds`, the
//! same tests are shown stale values as far as the language allows them.
//!
//! The version protocol of the worst sample (`Totals` in `cpu.rs`) is sound by the fences: a reader
//! that sees any cell of a later sample has, by its acquire fence and the writer's first release
//! fence, to see the odd version or a later one when it reads the version again; and one that sees
//! the even version sees, by the writer's second release fence and its own first acquire fence, all
//! cells of that sample.

use std::{
    sync::atomic::{
        AtomicBool,
        AtomicU64,
        Ordering, //
    },
    thread, //
};

use schedhist_engine::engine::{
    bucket::{
        Precision,
        Scheme, //
    },
    cell::Cell,
    cpu::{
        Cpu,
        Identity,
        Next,
        Prev, //
    },
    metric::{
        Counter,
        Metric,
        MetricSet, //
    },
    snapshot::{
        Baseline,
        Snapshot, //
    },
};

/// How many samples a writer records.
const SAMPLES: u64 = if cfg!(miri) { 100 } else { 200_000 };

fn scheme() -> Scheme {
    Scheme::new(Precision::new(Precision::DEFAULT).expect("within range"))
}

/// A CPU that measures, with `count` samples of the same value in the metric [`Metric::Idle`].
fn cpu(number: u32, value: u64, count: u64) -> Cpu<Vec<Cell>> {
    let cells = Cpu::<Vec<Cell>>::cells(scheme(), MetricSet::DEFAULT);
    let bucket = Metric::Idle as usize * scheme().buckets() + scheme().index(value);
    let cell = |index| Cell::new(if index == bucket { count } else { 0 });
    let cpu = Cpu::new(number, scheme(), (0..cells).map(cell).collect());
    let cpu = cpu.expect("as many cells as asked for");
    cpu.begin(1, MetricSet::DEFAULT);
    cpu.switch(1, Prev::Idle, Next::Idle, |_| Identity::default());
    cpu
}

/// Who the `n`th sample is of: all that is shown of it follows from `n`.
fn identity(n: u64) -> Identity {
    let [a, b, c, d, e, f, g, h] = n.to_le_bytes();
    Identity {
        pid: i32::try_from(n).expect("not too many"),
        prio: -i32::try_from(n).expect("not too many"),
        comm: [a, b, c, d, e, f, g, h, h, g, f, e, d, c, b, a],
    }
}

/// Runs `write` on one thread and `read` again and again on two others, until it has ended.
fn meanwhile(write: impl FnOnce() + Send, read: impl Fn() + Sync) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    read();
                    if cfg!(miri) {
                        thread::yield_now();
                    }
                }
                read();
            });
        }
        scope.spawn(|| {
            write();
            done.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn the_worst_sample_is_never_torn() {
    let cpu = cpu(3, 0, 0);
    let seen = AtomicU64::new(0);
    let write = || {
        // Each is the worst so far, and so all of them are written.
        let mut now = 1;
        for n in 1..=SAMPLES {
            now += n;
            cpu.switch(now, Prev::Idle, Next::Idle, |_| identity(n));
        }
    };
    let last = AtomicU64::new(0);
    let read = || {
        let least = last.load(Ordering::Acquire);
        let Some(worst) = cpu.worst(Metric::Idle) else {
            return;
        };
        let n = worst.value;
        assert_eq!(worst.task, identity(n), "the sample {n}");
        assert_eq!(worst.time, 1 + n * (n + 1) / 2, "the sample {n}");
        assert!(n >= least, "{n} after {least}");
        last.fetch_max(n, Ordering::AcqRel);
        seen.fetch_add(1, Ordering::Relaxed);
    };
    meanwhile(write, read);
    assert_eq!(last.into_inner(), SAMPLES);
    assert!(seen.into_inner() > 0);
}

#[test]
fn counts_never_go_down() {
    // Two CPUs write at the same time, and each starts where 32 bits are about to overflow.
    let start = u64::from(u32::MAX) - SAMPLES / 2;
    let cpus = [cpu(0, 100, start), cpu(1, 100, start)];
    let cells = Cpu::<Vec<Cell>>::cells(scheme(), MetricSet::DEFAULT);
    let baselines = [0, 1].map(|number: usize| {
        let mut baseline = Baseline::new(scheme(), vec![0; cells]).expect("the right size");
        baseline.take(&cpus[number]);
        baseline
    });
    let write = || {
        thread::scope(|scope| {
            for cpu in &cpus {
                scope.spawn(move || {
                    let mut now = 1;
                    for n in 0..SAMPLES {
                        now += 100 + n % 2;
                        cpu.switch(now, Prev::Idle, Next::Idle, |_| Identity::default());
                    }
                });
            }
        });
    };
    let take = |is_reset: bool| {
        let counts = vec![0; scheme().buckets()];
        let mut snapshot = Snapshot::new(scheme(), counts).expect("the right size");
        for (cpu, baseline) in cpus.iter().zip(&baselines) {
            snapshot.add(cpu, is_reset.then_some(baseline), Metric::Idle);
        }
        snapshot
    };
    let (last_count, last_sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let switches = AtomicU64::new(0);
    let read = || {
        let least = last_count.load(Ordering::Acquire);
        let snapshot = take(false);
        assert!(snapshot.count() >= 2 * start, "{}", snapshot.count());
        assert!(snapshot.count() >= least, "{} {least}", snapshot.count());
        last_count.fetch_max(snapshot.count(), Ordering::AcqRel);

        let least = last_sum.load(Ordering::Acquire);
        let since = take(true);
        assert!(since.count() <= 2 * SAMPLES, "{}", since.count());
        let sum = u64::try_from(since.sum()).expect("a small sum");
        assert!(sum >= least && sum <= 2 * 101 * SAMPLES, "{sum} {least}");
        last_sum.fetch_max(sum, Ordering::AcqRel);

        let least = switches.load(Ordering::Acquire);
        let now = cpus.iter().map(|cpu| cpu.counter(Counter::Switches)).sum();
        assert!(now >= least, "{now} {least}");
        switches.fetch_max(now, Ordering::AcqRel);
    };
    meanwhile(write, read);
    let snapshot = take(false);
    assert_eq!(snapshot.count(), 2 * (start + SAMPLES));
    assert!(snapshot.count() > 2 * u64::from(u32::MAX));
    assert!(snapshot
        .buckets()
        .any(|(_, count)| count > u64::from(u32::MAX)));
    let since = take(true);
    assert_eq!(since.count(), 2 * SAMPLES);
    assert_eq!(since.sum(), u128::from(2 * SAMPLES * 100 + SAMPLES));
}
