// SPDX-License-Identifier: GPL-2.0

//! When something happened in a recording, by the module's clock: the wall clock may step.

use super::file::TimedSnapshot;

/// Places the snapshots of a recording, one after the other, in nanoseconds since the first one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Course {
    /// The times of the last snapshot: the module's, the wall clock's, and since the first one.
    last: Option<(u64, u64, u64)>,
}

impl Course {
    /// Places the next snapshot.
    pub fn place(&mut self, taken: &TimedSnapshot) -> u64 {
        let (time, unix) = (taken.snapshot.time, taken.unix_ns);
        let at = self.last.map_or(0, |(before, unix_before, at)| {
            // The machine was started anew: only the wall clock has gone on.
            let passed = time
                .checked_sub(before)
                .unwrap_or_else(|| unix.saturating_sub(unix_before));
            at.saturating_add(passed)
        });
        self.last = Some((time, unix, at));
        at
    }

    /// Returns where a time of the module's clock is that is near the last snapshot, or else where
    /// that is.
    pub fn of(&self, time: Option<u64>) -> u64 {
        self.last.map_or(0, |(last, _, at)| {
            let time = time.unwrap_or(last);
            let later = at.saturating_add(time.saturating_sub(last));
            later.saturating_sub(last.saturating_sub(time))
        })
    }
}
