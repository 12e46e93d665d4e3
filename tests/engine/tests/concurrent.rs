// SPDX-License-Identifier: GPL-2.0

//! Readers on other CPUs while a CPU records.
//!
//! The cells are relaxed atomics, and so a reader may see a sample in one of them and not yet in
//! another. These tests check the guarantees that hold nevertheless. Real threads show what this
//! machine's memory model allows; `loom.rs` shows everything that the language allows, with fewer
//! steps. Under Miri, as in `cargo miri test --test concurrent` with `-Zmiri-many-seeds`, these
//! tests see stale values, too.
//!
//! `seqcount.rs` argues why the sequence counter is sound.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use schedhist_engine::engine::{
    cell::Cell,
    group::task_group::Group,
    histogram::{
        bucket::{Precision, Scheme},
        snapshot::{Baseline, Snapshot},
    },
    identity::Identity,
    metric::{Counter, Metric, MetricSet},
    outlier::{
        history::Slice,
        log::{next_after, Culprit, Limit, Log, CULPRITS, KEPT},
    },
    switch::{
        cpu::Cpu,
        sample::{Cause, Sample},
    },
};
use schedhist_engine::testing::idle_at;

/// The number of samples that a writer records.
const SAMPLES: u64 = if cfg!(miri) { 100 } else { 200_000 };

fn scheme() -> Scheme {
    Scheme::new(Precision::new(Precision::DEFAULT).expect("within range"))
}

/// Creates a measuring CPU with `count` samples of the same value in [`Metric::Idle`].
fn cpu(number: u32, value: u64, count: u64) -> Cpu<Vec<Cell>> {
    let cells = Cpu::<Vec<Cell>>::cells(scheme(), MetricSet::DEFAULT);
    let bucket = Metric::Idle as usize * scheme().buckets() + scheme().index(value);
    let cell = |index| Cell::new(if index == bucket { count } else { 0 });
    let cpu = Cpu::new(number, scheme(), (0..cells).map(cell).collect());
    let cpu = cpu.expect("as many cells as asked for");
    cpu.begin(1, MetricSet::DEFAULT);
    idle_at(&cpu, 1, |_| Identity::default());
    cpu
}

/// Returns the task of the `n`th sample: `n` determines all of it.
fn identity(n: u64) -> Identity {
    let [a, b, c, d, e, f, g, h] = n.to_le_bytes();
    Identity {
        pid: i32::try_from(n).expect("not too many"),
        prio: -i32::from(a),
        comm: [a, b, c, d, e, f, g, h, h, g, f, e, d, c, b, a],
        group: Group::new(n as u32 % 1024).expect("not too many"),
    }
}

/// Runs `write` on one thread, and `read` repeatedly on two others until `write` has ended.
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
        // Each sample is the worst so far, and so all of them are written.
        let mut now = 1;
        for n in 1..=SAMPLES {
            now += n;
            idle_at(&cpu, now, |_| identity(n));
        }
    };
    let last = AtomicU64::new(0);
    let read = || {
        let least = last.load(Ordering::Acquire);
        let Some(worst) = cpu.worst(Metric::Idle) else {
            assert_eq!(least, 0, "there was a sample, and now there is none");
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

/// Returns how many culprits the `n`th outlier has, and how many slices each of them.
fn shape(n: u64) -> (u64, u64) {
    (n % (CULPRITS as u64 + 1), 1 + n % 3)
}

/// Returns the `n`th outlier's sample. It begins at `n << 32`; each slice takes `n`, and `n` is
/// missing.
fn outlier(n: u64) -> Sample {
    let (tasks, rounds) = shape(n);
    let value = n * (tasks * rounds + 1);
    Sample {
        metric: Metric::ALL[n as usize % Metric::COUNT],
        value,
        end: (n << 32) + value,
        cause: Cause::ALL[n as usize / Metric::COUNT % Cause::COUNT],
        moved: false,
    }
}

/// Returns the `i`th culprit of the `n`th outlier.
fn culprit(n: u64, i: u64) -> Identity {
    identity(n * (CULPRITS as u64 + 1) + i)
}

#[test]
fn outliers_are_never_torn() {
    const OUTLIERS: u64 = if cfg!(miri) { 3 * KEPT as u64 } else { 30_000 };

    let log = Log::default();
    let write = || {
        for n in 1..=OUTLIERS {
            let (tasks, rounds) = shape(n);
            let mut now = n << 32;
            for _ in 0..rounds {
                for i in 0..tasks {
                    let until = now + n;
                    log.slice(&Slice {
                        task: culprit(n, i),
                        since: now,
                        until,
                    });
                    now = until;
                }
            }
            let reported = log.report(n, &outlier(n), &identity(n), None);
            let (_, culprits) = reported.expect("there is a place");
            assert_eq!(culprits.count() as u64, tasks);
        }
    };
    // Returns whether the outlier was still there.
    let read = |n| {
        let mut culprits = [Culprit::default(); CULPRITS];
        let Some(found) = log.read(n, &mut culprits) else {
            return false;
        };
        let (tasks, rounds) = shape(n);
        assert_eq!(found.id, n);
        assert_eq!(found.sample, outlier(n));
        assert_eq!(found.sample.start(), n << 32);
        assert_eq!(found.task, identity(n));
        assert_eq!(u64::from(found.culprits), tasks);
        assert_eq!(found.missing, n);
        for (i, found) in (0..tasks).zip(culprits) {
            assert_eq!(found.task, culprit(n, i));
            assert_eq!(found.ran, n * rounds);
            assert_eq!(u64::from(found.slices), rounds);
        }
        true
    };
    let seen = AtomicU64::new(0);
    let last = AtomicU64::new(0);
    let check = || {
        // The oldest is the next to be overwritten, and the newest may be half written.
        let least = last.load(Ordering::Acquire);
        let oldest = log.first_after(0);
        let newest = log.first_after(least);
        assert!(newest.is_none_or(|newest| newest > least));
        for n in [oldest, newest].into_iter().flatten() {
            if read(n) {
                seen.fetch_add(1, Ordering::Relaxed);
                last.fetch_max(n, Ordering::AcqRel);
            }
        }
        // The kept outliers come in order, one after the other.
        let mut before = 0;
        while let Some(n) = log.first_after(before) {
            assert!(n > before && n <= OUTLIERS);
            before = n;
        }
    };
    meanwhile(write, check);
    assert!(seen.into_inner() > 0);
    // At rest, all kept outliers are there.
    for n in 1..=OUTLIERS {
        assert_eq!(read(n), n > OUTLIERS - KEPT as u64, "{n}");
    }
    assert_eq!(log.reported(), OUTLIERS);
}

/// Lets `threads` threads take numbers, each until there are no more or it has `most`. Returns all
/// numbers that they got.
fn take_all(limit: &Limit, threads: usize, most: u64) -> Vec<u64> {
    let mut all = Vec::new();
    thread::scope(|scope| {
        let take = || {
            let mut mine = Vec::new();
            while (mine.len() as u64) < most {
                let Some(number) = limit.take() else {
                    break;
                };
                assert!(mine.last().is_none_or(|last| *last < number));
                mine.push(number);
            }
            mine
        };
        let takers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        for taker in takers {
            all.extend(taker.join().expect("a taker does not fail"));
        }
    });
    all.sort_unstable();
    all
}

#[test]
fn a_limit_is_kept_by_all_together() {
    const MANY: u64 = if cfg!(miri) { 50 } else { 20_000 };

    let limit = Limit::new(MANY);
    assert_eq!(limit.last(), 0);
    assert!(take_all(&limit, 4, u64::MAX).into_iter().eq(1..=MANY));
    assert_eq!((limit.get(), limit.last()), (MANY, MANY));
    assert_eq!(limit.take(), None);
    // This many more, whatever the limit was before.
    limit.set(7);
    assert!(take_all(&limit, 4, u64::MAX)
        .into_iter()
        .eq(MANY + 1..=MANY + 7));
    assert_eq!((limit.get(), limit.last()), (7, MANY + 7));
    // No limit.
    limit.set(0);
    let (first, last) = (MANY + 8, MANY + 7 + 4 * MANY);
    assert!(take_all(&limit, 4, MANY).into_iter().eq(first..=last));
    assert_eq!((limit.get(), limit.last()), (0, last));
    // Fewer than were allowed.
    limit.set(1);
    assert_eq!(take_all(&limit, 4, u64::MAX), [last + 1]);
}

/// The limit is set repeatedly while numbers are taken: no number is given twice, none is left out.
#[test]
fn numbers_are_never_used_again() {
    const TIMES: u64 = if cfg!(miri) { 20 } else { 5_000 };

    let limit = Limit::new(1);
    let done = AtomicBool::new(false);
    let (taken, allowed) = thread::scope(|scope| {
        let take = || {
            let mut mine = Vec::new();
            loop {
                let is_last = done.load(Ordering::Acquire);
                mine.extend(core::iter::from_fn(|| limit.take()));
                if is_last {
                    return mine;
                }
                thread::yield_now();
            }
        };
        let takers: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
        let mut allowed = 1;
        for n in 0..TIMES {
            limit.set(1 + n % 5);
            allowed += 1 + n % 5;
            if n % 3 == 0 {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
        let mut taken = Vec::new();
        for taker in takers {
            taken.extend(taker.join().expect("a taker does not fail"));
        }
        (taken, allowed)
    });
    let count = taken.len() as u64;
    assert!(count <= allowed);
    assert_eq!(limit.last(), count);
    assert_eq!(taken.iter().max(), Some(&count));
    let different: BTreeSet<u64> = taken.into_iter().collect();
    assert_eq!(different.len() as u64, count);
}

/// CPUs report outliers at the same time, while readers go from one to the next. No reader falls
/// far behind, and so each gets all, in order.
#[test]
fn a_reader_gets_all_outliers() {
    const OUTLIERS: u64 = if cfg!(miri) { 30 } else { 20_000 };
    const WRITERS: u64 = 3;

    let limit = Limit::new(OUTLIERS);
    let logs: Vec<Log> = (0..WRITERS).map(|_| Log::default()).collect();
    let seen = [AtomicU64::new(0), AtomicU64::new(0)];
    let (limit, all, seen) = (&limit, &logs, &seen);
    let write = |log: &Log| loop {
        // All writers may come this far at once.
        let slowest = seen.iter().map(|seen| seen.load(Ordering::Acquire)).min();
        if limit.last() + WRITERS > slowest.unwrap_or_default() + KEPT as u64 {
            thread::yield_now();
            continue;
        }
        let Some(id) = log.take(limit) else {
            break;
        };
        if id % 3 == 0 {
            // Another CPU may overtake this one.
            thread::yield_now();
        }
        assert!(log.report(id, &outlier(id), &identity(id), None).is_some());
        limit.done();
    };
    let first_after = |seen| {
        all.iter()
            .filter_map(|log| Some((log.first_after(seen)?, log)))
            .min_by_key(|(id, _)| *id)
    };
    let is_any_before = |id| all.iter().any(|log| log.may_report_before(id));
    let read = |mine: &AtomicU64| {
        let mut before = 0;
        while before < OUTLIERS {
            let Some((id, log)) = next_after(before, first_after, is_any_before) else {
                thread::yield_now();
                continue;
            };
            // The writers must not wait for a reader that has failed.
            let next = if id == before + 1 { id } else { OUTLIERS };
            mine.store(next, Ordering::Release);
            assert_eq!(id, before + 1);
            let found = log.read(id, &mut [Culprit::default(); CULPRITS]);
            let found = found.map(|found| (found.id, found.sample, found.task));
            assert_eq!(found, Some((id, outlier(id), identity(id))));
            before = id;
        }
        assert!(next_after(before, first_after, is_any_before).is_none());
    };
    thread::scope(|scope| {
        for log in all {
            scope.spawn(move || write(log));
        }
        for mine in seen {
            scope.spawn(move || read(mine));
        }
    });
    assert_eq!(limit.last(), OUTLIERS);
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
                        idle_at(cpu, now, |_| Identity::default());
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
