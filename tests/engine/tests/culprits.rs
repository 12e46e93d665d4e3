// SPDX-License-Identifier: GPL-2.0

//! The tasks that had the CPU, and those that are blamed, against a reference that keeps
//! everything.

mod outlier;

use proptest::{collection::vec, prelude::*, sample::Index};

use schedhist_engine::engine::{
    outlier::{
        history::{Slice, SLICES},
        log::{Culprit, Log, Outlier, CULPRITS},
        KEPT,
    },
    switch::sample::Sample,
};

use outlier::{any_cause, any_metric, any_span, identity, read};

/// Generates up to `most` slices, one after the other, some with a gap before, of up to 80 tasks.
/// In some lists the clock goes backwards now and then, or all the time.
fn any_slices(most: usize) -> impl Strategy<Value = Vec<Slice>> {
    let gap = prop_oneof![3 => Just(0), 1 => any_span()];
    let back = (0..30, any_span());
    let slice = (gap, back, any_span(), 0..80, 0..3u8);
    let start = prop_oneof![Just(0), any_span(), 0..u64::MAX];
    let jumps = prop_oneof![5 => Just(0), 4 => Just(1), 1 => Just(30)];
    let all = (start, jumps, 1..=80, vec(slice, 0..most));
    all.prop_map(|(start, jumps, pids, slices)| {
        let mut now = start;
        let make = |(gap, (die, back), length, pid, name)| {
            if die < jumps {
                now = now.saturating_sub(back);
            }
            let since = now.saturating_add(gap);
            now = since.saturating_add(length);
            Slice {
                task: identity(pid % pids, name),
                since,
                until: now,
            }
        };
        slices.into_iter().map(make).collect()
    })
}

/// A time: near the beginning or the end of a slice, or any other.
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
    fn among(&self, slices: &[Slice]) -> u64 {
        match self.other {
            Some(time) => time,
            None if slices.is_empty() => self.off.unsigned_abs(),
            None => {
                let slice = self.near.get(slices);
                let time = if self.is_end {
                    slice.until
                } else {
                    slice.since
                };
                time.saturating_add_signed(self.off)
            }
        }
    }
}

/// Returns the last of `slices`, without those before the clock went backwards, clipped to the time
/// between `since` and `until`.
fn between(slices: &[Slice], since: u64, until: u64) -> Vec<Slice> {
    let went_back = |pair: &[Slice]| pair[1].since < pair[0].until;
    let forgotten = slices.windows(2).rposition(went_back);
    let oldest = forgotten.map_or(0, |before| before + 1);
    let kept = &slices[oldest.max(slices.len().saturating_sub(SLICES))..];
    let mut clipped = Vec::new();
    for slice in kept {
        let (since, until) = (slice.since.max(since), slice.until.min(until));
        if since < until {
            clipped.push(Slice {
                since,
                until,
                ..*slice
            });
        }
    }
    clipped
}

/// Returns the tasks that had the CPU between `start` and `end`, and how much of `value` is
/// unaccounted for.
fn blamed(slices: &[Slice], start: u64, end: u64, value: u64) -> (Vec<Culprit>, u64) {
    let mut culprits: Vec<Culprit> = Vec::new();
    for slice in between(slices, start, end) {
        let ran = slice.until - slice.since;
        let known = culprits
            .iter_mut()
            .find(|culprit| culprit.task.pid == slice.task.pid);
        match known {
            Some(culprit) => {
                culprit.ran += ran;
                culprit.slices += 1;
            }
            None => culprits.push(Culprit {
                task: slice.task,
                ran,
                slices: 1,
            }),
        }
    }
    culprits.truncate(CULPRITS);
    let named: u64 = culprits.iter().map(|culprit| culprit.ran).sum();
    (culprits, value - named)
}

/// Generates how long before the time 0 a sample began: seldom at all.
fn any_early() -> impl Strategy<Value = u64> {
    prop_oneof![9 => Just(0), 1 => any_span()]
}

proptest! {
    #[test]
    fn culprits_are_those_of_the_reference(
        slices in any_slices(2 * SLICES),
        windows in vec((any_when(), any_when(), any_metric(), any_cause(), any_early()), 2 * KEPT),
    ) {
        let log = Log::default();
        for slice in &slices {
            log.slice(slice);
        }
        for ((one, other, metric, cause, early), id) in windows.into_iter().zip(1..) {
            let (one, other) = (one.among(&slices), other.among(&slices));
            let end = one.max(other);
            let start = if early == 0 { one.min(other) } else { 0 };
            let value = (end - start).saturating_add(early);
            let sample = Sample::new(metric, value, cause, end);
            let victim = identity(1000, 2);
            let (outlier, culprits) = log.report(id, &sample, &victim, None).expect("always");
            let culprits: Vec<Culprit> = culprits.collect();

            let (expected, missing) = blamed(&slices, start, end, value);
            prop_assert_eq!(&culprits, &expected);
            prop_assert_eq!(outlier, Outlier {
                id,
                sample,
                task: victim,
                culprits: u32::try_from(expected.len()).expect("32 at most"),
                missing,
                longest: None,
            });
            prop_assert_eq!(outlier.sample.start(), start);
            prop_assert_eq!(read(&log, id), Some((outlier, culprits)));
        }
    }
}
