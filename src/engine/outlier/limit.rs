// SPDX-License-Identifier: GPL-2.0

//! The numbers of outliers: how many may be reported, and in which order they are read.

use crate::engine::atomic::{
    AtomicU64,
    Ordering::{
        AcqRel,
        Acquire,
        Relaxed,
        Release, //
    },
};

/// Limits and numbers the outliers that are reported. All CPUs share it, so it has a cache line of
/// its own.
///
/// # Invariants
///
/// `next` is 1 or more, and never goes back.
#[derive(Debug)]
#[repr(align(64))]
pub struct Limit {
    /// The number of the next outlier.
    next: AtomicU64,
    /// The number of outliers that have taken a number and can be read by now.
    done: AtomicU64,
    /// The first number that cannot be taken; `u64::MAX` for no limit.
    end: AtomicU64,
    /// The limit as it was last set.
    limit: AtomicU64,
}

impl Limit {
    /// Allows `limit` outliers; 0 allows any number.
    pub const fn new(limit: u64) -> Self {
        Self {
            next: AtomicU64::new(1),
            done: AtomicU64::new(0),
            end: AtomicU64::new(Self::end_of(1, limit)),
            limit: AtomicU64::new(limit),
        }
    }

    const fn end_of(next: u64, limit: u64) -> u64 {
        match limit {
            0 => u64::MAX,
            _ => next.saturating_add(limit),
        }
    }

    /// Allows `limit` more outliers from now on; 0 allows any number.
    pub fn set(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
        self.end
            .store(Self::end_of(self.next.load(Relaxed), limit), Relaxed);
    }

    /// Returns the limit as it was last set.
    pub fn get(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Returns whether as many outliers as the limit allows have taken a number.
    pub fn is_used_up(&self) -> bool {
        self.next.load(Relaxed) >= self.end.load(Relaxed)
    }

    /// Returns whether the limit is used up and all its outliers can be read by now. A reader that
    /// looks for an outlier after this has returned true finds any that is left.
    pub fn has_ended(&self) -> bool {
        // Read `done` before `next`: `done` is never ahead of it, so if both agree, `next` has not
        // changed since.
        let done = self.done.load(Acquire);
        self.is_used_up() && done == self.last()
    }

    /// Takes a number for an outlier; returns `None` if the limit is used up.
    ///
    /// The caller sees everything that the takers of all earlier numbers did before they took
    /// theirs.
    pub fn take(&self) -> Option<u64> {
        self.next
            .fetch_update(AcqRel, Relaxed, |next| {
                (next < self.end.load(Relaxed)).then(|| next.wrapping_add(1))
            })
            .ok()
    }

    /// Records that an outlier that has taken a number can be read.
    pub fn done(&self) {
        self.done.fetch_add(1, Release);
    }

    /// Returns the number of the last outlier; 0 for none.
    pub fn last(&self) -> u64 {
        self.next.load(Relaxed).wrapping_sub(1)
    }
}

/// Returns the next outlier after the number `seen`, as `first_after` finds it: its number and any
/// further data.
///
/// Returns `None` if there is no such outlier, or while an earlier one may be in flight on another
/// CPU, however long that takes. A reader that goes from one outlier to the next therefore misses
/// none that is kept. `is_any_before` returns whether
/// [`Log::may_report_before`](super::Log::may_report_before) holds for a number in any of the logs.
pub fn next_after<T>(
    seen: u64,
    mut first_after: impl FnMut(u64) -> Option<(u64, T)>,
    mut is_any_before: impl FnMut(u64) -> bool,
) -> Option<(u64, T)> {
    let mut found = first_after(seen)?;
    while found.0.wrapping_sub(1) != seen {
        if is_any_before(found.0) {
            return None;
        }
        // All outliers before this one can be read by now, unless they are no longer kept. If this
        // one is no longer kept either, the search may find a later one, with others before it.
        let again = first_after(seen)?;
        if again.0 <= found.0 {
            return Some(again);
        }
        found = again;
    }
    Some(found)
}
