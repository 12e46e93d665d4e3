// SPDX-License-Identifier: GPL-2.0

//! The tasks that had the CPU, and those that are blamed, against a reference that keeps
//! everything.

mod outlier;

use proptest::{collection::vec, prelude::*, sample::Index};

use schedhist_engine::engine::{
    metric::Metric,
    outlier::{
        history::{History, Stay, STAYS},
        log::{Culprit, Log, Outlier, CULPRITS, KEPT},
    },
    switch::sample::{Cause, Sample},
};

use outlier::{any_cause, any_metric, any_span, identity, read};

/// Generates up to `most` stays, one after the other, some with a gap before, of up to 80 tasks. In
/// some lists the clock goes backwards now and then.
fn any_stays(most: usize) -> impl Strategy<Value = Vec<Stay>> {
    let gap = prop_oneof![3 => Just(0), 1 => any_span()];
    let back = prop_oneof![30 => Just(0), 1 => any_span()];
    let stay = (gap, back, any_span(), 0..80, 0..3u8);
    let start = prop_oneof![Just(0), any_span(), 0..u64::MAX];
    let all = (start, any::<bool>(), 1..=80, vec(stay, 0..most));
    all.prop_map(|(start, goes_back, pids, stays)| {
        let mut now = start;
        let make = |(gap, back, length, pid, name)| {
            if goes_back {
                now = now.saturating_sub(back);
            }
            let since = now.saturating_add(gap);
            now = since.saturating_add(length);
            Stay {
                task: identity(pid % pids, name),
                since,
                until: now,
            }
        };
        stays.into_iter().map(make).collect()
    })
}

/// A time: near the beginning or the end of a stay, or any other.
#[derive(Clone, Debug)]
struct When {
    near: Index,
    is_end: bool,
    off: i64,
    other: Option<u64>,
}

fn any_when() -> impl Strategy<Value = When> {
    let other = prop_oneof![9 => Just(None), 1 => any::<u64>().prop_map(Some)];
    let off = prop_oneof![3 => Just(0), 2 => -2..=2i64, 1 => -2_000..2_000i64];
    (any::<Index>(), any::<bool>(), off, other).prop_map(|(near, is_end, off, other)| When {
        near,
        is_end,
        off,
        other,
    })
}

impl When {
    fn among(&self, stays: &[Stay]) -> u64 {
        match self.other {
            Some(time) => time,
            None if stays.is_empty() => self.off.unsigned_abs(),
            None => {
                let stay = self.near.get(stays);
                let time = if self.is_end { stay.until } else { stay.since };
                time.saturating_add_signed(self.off)
            }
        }
    }
}

/// Returns the last of `stays`, without those before the clock went backwards, clipped to the time
/// between `since` and `until`.
fn between(stays: &[Stay], since: u64, until: u64) -> Vec<Stay> {
    let went_back = |pair: &[Stay]| pair[1].since < pair[0].until;
    let forgotten = stays.windows(2).rposition(went_back);
    let oldest = forgotten.map_or(0, |before| before + 1);
    let kept = &stays[oldest.max(stays.len().saturating_sub(STAYS))..];
    let mut clipped = Vec::new();
    for stay in kept {
        let (since, until) = (stay.since.max(since), stay.until.min(until));
        if since < until {
            clipped.push(Stay {
                since,
                until,
                ..*stay
            });
        }
    }
    clipped
}

fn pushed(stays: &[Stay]) -> History {
    let history = History::new();
    for stay in stays {
        history.push(stay);
    }
    history
}

proptest! {
    #[test]
    fn a_history_is_the_last_stays(
        stays in any_stays(3 * STAYS),
        asked in vec((any_when(), any_when()), 20),
    ) {
        let history = pushed(&stays);
        for (since, until) in asked {
            let (since, until) = (since.among(&stays), until.among(&stays));
            let found: Vec<Stay> = history.between(since, until).collect();
            prop_assert_eq!(found, between(&stays, since, until));
        }
        let found: Vec<Stay> = history.between(0, u64::MAX).collect();
        prop_assert_eq!(found, between(&stays, 0, u64::MAX));
    }
}

#[test]
fn a_history_forgets_the_oldest() {
    let last = 2 * STAYS as u64 + 7;
    let stay = |number: u64| Stay {
        task: identity(i32::try_from(number).expect("not so many"), 0),
        since: 10 * number,
        until: 10 * number + 10,
    };
    let stays: Vec<Stay> = (0..last).map(stay).collect();
    for len in [0, 1, STAYS - 1, STAYS, STAYS + 1, 2 * STAYS, 2 * STAYS + 1] {
        let history = pushed(&stays[..len]);
        let found: Vec<Stay> = history.between(0, u64::MAX).collect();
        assert_eq!(found, stays[len.saturating_sub(STAYS)..len]);
    }
}

/// Returns the tasks that had the CPU between `start` and `end`, and how much of the time is
/// unaccounted for.
fn blamed(stays: &[Stay], start: u64, end: u64) -> (Vec<Culprit>, u64) {
    let mut culprits: Vec<Culprit> = Vec::new();
    for stay in between(stays, start, end) {
        let ran = stay.until - stay.since;
        let known = culprits
            .iter_mut()
            .find(|culprit| culprit.task.pid == stay.task.pid);
        match known {
            Some(culprit) => {
                culprit.ran += ran;
                culprit.slices += 1;
            }
            None => culprits.push(Culprit {
                task: stay.task,
                ran,
                slices: 1,
            }),
        }
    }
    culprits.truncate(CULPRITS);
    let named: u64 = culprits.iter().map(|culprit| culprit.ran).sum();
    (culprits, end - start - named)
}

proptest! {
    #[test]
    fn culprits_are_those_of_the_reference(
        stays in any_stays(2 * STAYS),
        windows in vec((any_when(), any_when(), any_metric(), any_cause()), 2 * KEPT),
    ) {
        let log = Log::new();
        for stay in &stays {
            log.stay(stay);
        }
        for ((one, other, metric, cause), id) in windows.into_iter().zip(1..) {
            let (one, other) = (one.among(&stays), other.among(&stays));
            let (start, end) = (one.min(other), one.max(other));
            let sample = Sample { metric, value: end - start, end, cause };
            let victim = identity(1000, 2);
            let (outlier, culprits) = log.report(id, &sample, &victim).expect("always");
            let culprits: Vec<Culprit> = culprits.collect();

            let (expected, missing) = blamed(&stays, start, end);
            prop_assert_eq!(&culprits, &expected);
            prop_assert_eq!(outlier, Outlier {
                id,
                sample,
                task: victim,
                culprits: u32::try_from(expected.len()).expect("32 at most"),
                missing,
            });
            prop_assert_eq!(outlier.sample.start(), start);

            prop_assert!(culprits.len() <= CULPRITS);
            let ran: u64 = culprits.iter().map(|culprit| culprit.ran).sum();
            prop_assert_eq!(ran + outlier.missing, sample.value);
            let within = between(&stays, start, end);
            let known: u64 = within.iter().map(|stay| stay.until - stay.since).sum();
            let mut pids: Vec<i32> = within.iter().map(|stay| stay.task.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            let is_all_known = known == sample.value && pids.len() <= CULPRITS;
            prop_assert_eq!(outlier.missing == 0, is_all_known);

            prop_assert_eq!(read(&log, id), Some((outlier, culprits)));
        }
    }

    /// With any stays, by a clock that jumps, each nanosecond is blamed on one task, or missing.
    #[test]
    fn nobody_is_blamed_twice(
        stays in vec((any_span(), any_span(), 0..80), 0..2 * STAYS),
        samples in vec((any_span(), prop_oneof![any_span(), any::<u64>()]), 4),
    ) {
        let log = Log::new();
        for (one, other, pid) in stays {
            let (since, until) = (one.min(other), one.max(other));
            log.stay(&Stay { task: identity(pid, 0), since, until });
        }
        for ((value, end), id) in samples.into_iter().zip(1..) {
            let cause = Cause::Wakeup;
            let sample = Sample { metric: Metric::Offcpu, value, end, cause };
            let task = identity(1, 1);
            let (outlier, culprits) = log.report(id, &sample, &task).expect("always");
            prop_assert_eq!(outlier.sample.start(), end.saturating_sub(value));
            let ran = culprits.map(|culprit| u128::from(culprit.ran)).sum::<u128>();
            prop_assert_eq!(ran + u128::from(outlier.missing), u128::from(value));
        }
    }
}

/// The extremes: one task in all stays, and one task too many.
#[test]
fn at_most_32_culprits() {
    for (tasks, missing) in [(1, 0), (31, 0), (32, 0), (33, 10), (64, 320)] {
        let log = Log::new();
        for number in 0..tasks {
            log.stay(&Stay {
                task: identity(number, 0),
                since: 10 * u64::try_from(number).expect("not negative"),
                until: 10 * u64::try_from(number).expect("not negative") + 10,
            });
        }
        let end = 10 * u64::try_from(tasks).expect("not negative");
        let sample = Sample {
            metric: Metric::RunqWakeup,
            value: end,
            end,
            cause: Cause::Wakeup,
        };
        let (outlier, culprits) = log.report(1, &sample, &identity(1, 0)).expect("always");
        assert_eq!(outlier.missing, missing);
        // The oldest tasks are named.
        let pids: Vec<i32> = culprits.map(|culprit| culprit.task.pid).collect();
        assert_eq!(pids, (0..tasks.min(32)).collect::<Vec<_>>());
    }
}

/// The time that the probe needs to find the culprits, at worst: in the longest history, in which
/// as many tasks as can be told apart come first.
#[test]
#[ignore = "a measurement"]
fn time_of_a_report() {
    for tasks in [1, 2, 32, 256] {
        let log = Log::new();
        for number in 0..STAYS as u64 {
            let pid = i32::try_from(number).expect("not so many") % tasks;
            log.stay(&Stay {
                task: identity(pid, 0),
                since: number,
                until: number + 1,
            });
        }
        let sample = Sample {
            metric: Metric::RunqWakeup,
            value: STAYS as u64,
            end: STAYS as u64,
            cause: Cause::Wakeup,
        };
        let rounds = 10_000_u32;
        let start = std::time::Instant::now();
        for id in 0..u64::from(rounds) {
            let task = identity(1, 0);
            assert!(log.report(id, &sample, &task).is_some());
        }
        println!("{tasks} tasks: {:?}", start.elapsed() / rounds);
    }
}
