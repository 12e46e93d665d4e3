// SPDX-License-Identifier: GPL-2.0

//! Readers on other CPUs while a CPU records.
//!
//! The cells are relaxed atomics, and so a reader may see a sample in one of them and not yet in
//! another. `loom.rs` checks the guarantees that hold nevertheless, with all that the language
//! allows. Here are the longest two of them on real threads, also for ThreadSanitizer.
//!
//! `seqcount.rs` argues why the sequence counter is sound.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use schedhist_engine::engine::{
    group::task_group::Group,
    histogram::bucket::Scheme,
    identity::Identity,
    metric::{Metric, MetricSet},
    outlier::{
        history::Slice,
        log::{Culprit, Log, CULPRITS},
        KEPT,
    },
    switch::sample::{Cause, Sample},
};
use schedhist_engine::testing::{idle_at, records};

/// The number of samples that a writer records.
const SAMPLES: u64 = 200_000;

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
    let cpu = records(3, Scheme::DEFAULT, MetricSet::DEFAULT);
    idle_at(&cpu, 1, |_| Identity::default());
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
    Sample::new(
        Metric::ALL[n as usize % Metric::COUNT],
        value,
        Cause::ALL[n as usize / Metric::COUNT % Cause::COUNT],
        (n << 32) + value,
    )
}

/// Returns the `i`th culprit of the `n`th outlier.
fn culprit(n: u64, i: u64) -> Identity {
    identity(n * (CULPRITS as u64 + 1) + i)
}

#[test]
fn outliers_are_never_torn() {
    const OUTLIERS: u64 = 30_000;

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
