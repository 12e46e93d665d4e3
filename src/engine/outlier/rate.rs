// SPDX-License-Identifier: GPL-2.0

//! How often something may happen.

use crate::engine::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};

/// How often a CPU tries to take its turn while others take theirs. Whoever loses all of these waits in
/// a line of CPUs that is longer than any machine.
const TRIES: usize = if cfg!(loom) { 4 } else { 1000 };

/// A rate that is not exceeded, over all CPUs: a token bucket.
///
/// Each turn that is taken moves the time at which the bucket is full again by one interval into the
/// future (the generic cell rate algorithm): so one number is all of the state, and it recovers by
/// itself as time goes by. It has a cache line of its own, as all CPUs share it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Rate {
    /// When the bucket is full, in nanoseconds.
    full: AtomicU64,
    /// The rate in the upper half, the interval in the lower, so that they fit together; 0 for no limit.
    pace: AtomicU64,
}

impl Rate {
    /// The greatest rate: one in each nanosecond.
    pub const MAX: u64 = 1_000_000_000;

    /// Allows so many turns per second, in bursts of at most so many; any number for 0.
    pub const fn new(per_second: u64) -> Self {
        Self {
            full: AtomicU64::new(0),
            pace: AtomicU64::new(Self::pace(per_second)),
        }
    }

    /// The interval is rounded up, so that the rate is never exceeded.
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

    /// Allows so many from now on, as in [`Rate::new`], with a full bucket.
    pub fn set(&self, per_second: u64) {
        self.pace.store(Self::pace(per_second), Relaxed);
        self.full.store(0, Relaxed);
    }

    /// Returns how many are allowed per second; 0 for any number.
    pub fn get(&self) -> u64 {
        self.pace.load(Relaxed) >> 32
    }

    /// Takes a turn at `now`, in nanoseconds; returns whether there was one left.
    ///
    /// The clocks of CPUs may differ: a CPU whose clock is behind takes fewer turns for as long. Never
    /// waits: see [`TRIES`].
    pub fn take(&self, now: u64) -> bool {
        let pace = self.pace.load(Relaxed);
        if pace == 0 {
            return true;
        }
        let (rate, interval) = (pace >> 32, pace & u64::from(u32::MAX));
        // How far in the future the bucket may be full while a turn is left.
        let most = rate.wrapping_sub(1).wrapping_mul(interval);
        let mut full = self.full.load(Relaxed);
        for _ in 0..TRIES {
            // Of two CPUs the one that reads the clock first may get here last.
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
