// SPDX-License-Identifier: GPL-2.0

//! A rate limiter.

use crate::engine::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};

/// The number of attempts to take a turn while other CPUs take theirs. To fail in all of them, a
/// CPU would have to compete with more CPUs than any machine has.
const TRIES: usize = if cfg!(loom) { 4 } else { 1000 };

/// A token bucket that limits a rate over all CPUs.
///
/// Each turn that is taken moves the time at which the bucket is full again by one interval into
/// the future (the generic cell rate algorithm). One number is therefore the whole state, and the
/// bucket refills without updates as time goes by. All CPUs share the state, so it has a cache line
/// of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct Rate {
    /// The time at which the bucket is full, in nanoseconds.
    full: AtomicU64,
    /// The rate in the upper half and the interval in the lower, so that both are read together; 0
    /// for no limit.
    pace: AtomicU64,
}

impl Rate {
    /// The greatest rate: one turn per nanosecond.
    pub const MAX: u64 = 1_000_000_000;

    /// Allows `per_second` turns per second, in bursts of at most as many; 0 allows any number.
    pub const fn new(per_second: u64) -> Self {
        Self {
            full: AtomicU64::new(0),
            pace: AtomicU64::new(Self::pace(per_second)),
        }
    }

    /// Packs the rate and its interval, which is rounded up so that the rate is never exceeded.
    const fn pace(per_second: u64) -> u64 {
        let per_second = if per_second > Self::MAX {
            Self::MAX
        } else {
            per_second
        };
        match per_second {
            0 => 0,
            _ => (per_second << 32) | Self::MAX.div_ceil(per_second),
        }
    }

    /// Allows `per_second` turns per second from now on, as in [`Rate::new`], with a full bucket.
    pub fn set(&self, per_second: u64) {
        self.pace.store(Self::pace(per_second), Relaxed);
        self.full.store(0, Relaxed);
    }

    /// Returns the number of turns allowed per second; 0 for any number.
    pub fn get(&self) -> u64 {
        self.pace.load(Relaxed) >> 32
    }

    /// Takes a turn at `now`, in nanoseconds; returns whether a turn was left.
    ///
    /// The clocks of CPUs may differ: a CPU gets fewer turns while its clock is behind. Never
    /// waits: see [`TRIES`].
    pub fn take(&self, now: u64) -> bool {
        let pace = self.pace.load(Relaxed);
        if pace == 0 {
            return true;
        }
        let (rate, interval) = (pace >> 32, pace & u64::from(u32::MAX));
        // A turn is left if the bucket is full within this time from now.
        let most = rate.wrapping_sub(1).wrapping_mul(interval);
        let mut full = self.full.load(Relaxed);
        for _ in 0..TRIES {
            // A CPU that read its clock earlier may get here later.
            let from = full.max(now);
            if from.wrapping_sub(now) > most {
                return false;
            }
            let next = from.saturating_add(interval);
            match self.full.compare_exchange(full, next, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(found) => full = found,
            }
        }
        false
    }
}
