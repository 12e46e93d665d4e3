// SPDX-License-Identifier: GPL-2.0

//! The rate at which outliers may be reported.

use proptest::{collection::vec, prelude::*};

use schedhist_engine::engine::outlier::rate::Rate;

const SECOND: u64 = 1_000_000_000;

/// A textbook token bucket: it counts nanoseconds, and each token takes `interval`.
struct Bucket {
    capacity: u64,
    interval: u64,
    level: u64,
    last: u64,
}

impl Bucket {
    fn new(per_second: u64) -> Self {
        let interval = SECOND.div_ceil(per_second);
        let capacity = per_second * interval;
        Self {
            capacity,
            interval,
            level: capacity,
            last: 0,
        }
    }

    fn take(&mut self, now: u64) -> bool {
        let elapsed = now - self.last;
        self.last = now;
        self.level = self.capacity.min(self.level.saturating_add(elapsed));
        let may = self.level >= self.interval;
        if may {
            self.level -= self.interval;
        }
        may
    }
}

fn any_rate() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 1..20u64,
        2 => 1..=Rate::MAX,
        1 => Just(1_000_000),
        1 => Just(Rate::MAX),
    ]
}

/// Generates the time between two attempts: often less than the interval of a token.
fn any_gap() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        2 => 0..10u64,
        4 => 0..SECOND / 3,
        1 => 0..3 * SECOND,
    ]
}

proptest! {
    #[test]
    fn it_is_a_bucket_of_tokens(
        start in prop_oneof![Just(0), 1..100 * SECOND, Just(u64::MAX / 2)],
        runs in vec((any_rate(), vec(any_gap(), 0..60)), 1..5),
    ) {
        let rate = Rate::new(1);
        let mut now = start;
        for (per_second, gaps) in runs {
            // Setting a rate fills the bucket.
            rate.set(per_second);
            prop_assert_eq!(rate.get(), per_second);
            let mut bucket = Bucket::new(per_second);
            bucket.last = now;
            for gap in gaps {
                now += gap;
                prop_assert_eq!(rate.take(now), bucket.take(now), "at {}", now);
            }
        }
    }

    /// However the clocks of the CPUs differ: never more than a burst, plus the tokens for the time
    /// between the first and the last.
    #[test]
    fn it_is_never_exceeded(per_second in 1..50u64, times in vec(0..2 * SECOND, 1..200)) {
        let rate = Rate::new(per_second);
        let taken: Vec<u64> = times.into_iter().filter(|now| rate.take(*now)).collect();
        // The bucket is full at first, so that at least one attempt succeeds.
        let first = taken.iter().min().expect("the first is taken");
        let last = taken.iter().max().expect("the first is taken");
        let most = per_second + (last - first) / SECOND.div_ceil(per_second);
        prop_assert!(taken.len() as u64 <= most, "{} of {most}", taken.len());
    }

    /// This many in a burst, none after it, and as many in each second that follows.
    #[test]
    fn it_recovers(per_second in 1..2000u64, start in 0..SECOND) {
        let rate = Rate::new(per_second);
        let count = |now| (0..2 * per_second).filter(|_| rate.take(now)).count() as u64;
        prop_assert_eq!(count(start), per_second);
        prop_assert_eq!(count(start), 0);
        let interval = SECOND.div_ceil(per_second);
        prop_assert_eq!(count(start + interval - 1), 0);
        prop_assert_eq!(count(start + interval), 1);
        let later = start + interval + per_second * interval;
        prop_assert_eq!(count(later), per_second);
        prop_assert_eq!(count(later + 3600 * SECOND), per_second);
    }
}

#[test]
fn without_a_limit_there_is_always_a_turn() {
    let rate = Rate::new(0);
    for _ in 0..1000 {
        assert!(rate.take(7));
    }
    assert_eq!(rate.get(), 0);
    rate.set(1);
    assert!(rate.take(7) && !rate.take(7));
    rate.set(0);
    assert!(rate.take(7));
}

#[test]
fn a_rate_is_at_most_one_turn_per_nanosecond() {
    for (per_second, expected) in [
        (Rate::MAX - 1, Rate::MAX - 1),
        (Rate::MAX, Rate::MAX),
        (Rate::MAX + 1, Rate::MAX),
        (u64::MAX, Rate::MAX),
    ] {
        assert_eq!(Rate::new(per_second).get(), expected);
    }
}
