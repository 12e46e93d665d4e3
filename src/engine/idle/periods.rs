// SPDX-License-Identifier: GPL-2.0

//! The last idle periods of a CPU.

use crate::engine::{
    atomic::{
        fence,
        Ordering::{
            Acquire,
            Release, //
        },
    },
    Cell, //
};

/// The number of periods that are kept, a power of two, of which one may be being overwritten.
/// Small under loom, where every access counts.
pub const KEPT: usize = if cfg!(loom) { 2 } else { 64 };

/// The last idle periods of a CPU; times in nanoseconds of its clock.
///
/// Only that CPU writes it, at switches to and from its idle task, with interrupts off; any CPU
/// reads it. A reader copies nothing: it takes each period, and then checks that the period was not
/// being overwritten.
///
/// All zero bytes are a record that knows nothing.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct IdlePeriods {
    /// The start of the period in progress; 0 if there is none.
    since: Cell,
    /// The number of periods ever recorded.
    count: Cell,
    /// The time from which on all periods are recorded; 0 if none are.
    known: Cell,
    /// The end of the last period that has ended.
    last_end: Cell,
    /// The start and the end of each period.
    entries: [[Cell; 2]; KEPT],
}

impl Default for IdlePeriods {
    /// Nothing is known.
    fn default() -> Self {
        Self {
            since: Cell::new(0),
            count: Cell::new(0),
            known: Cell::new(0),
            last_end: Cell::new(0),
            // Too many for a derived default.
            entries: [const { [Cell::new(0), Cell::new(0)] }; KEPT],
        }
    }
}

impl IdlePeriods {
    /// Forgets all periods. Must not run at the same time as a switch on the CPU.
    pub fn forget(&self) {
        self.known.set(0);
        // Who sees that no period is in progress any more sees that nothing is known.
        fence(Release);
        self.since.set(0);
    }

    /// Begins to know the periods: `is_idle` is whether the CPU is in its idle task at `now`. To be
    /// called on the CPU, with interrupts off, when its switches are being recorded already.
    pub fn start(&self, now: u64, is_idle: bool) {
        if is_idle && self.since.get() == 0 {
            self.since.set(now);
        }
        self.know_from(now);
    }

    fn know_from(&self, now: u64) {
        if self.known.get() == 0 {
            // What follows is seen by who sees this.
            self.known.publish(now);
        }
    }

    /// Records that the CPU gets its idle task.
    #[inline(always)]
    pub fn begin(&self, now: u64) {
        self.since.set(now);
    }

    /// Records that the CPU leaves its idle task.
    #[inline(always)]
    pub fn end(&self, now: u64) {
        let since = self.since.get();
        if since == 0 {
            return self.first_end(now);
        }
        let count = self.count.get();
        let [from, until] = &self.entries[count as usize % KEPT];
        from.set(since);
        until.set(now);
        fence(Release);
        self.count.set(count.wrapping_add(1));
        self.last_end.set(now);
        // Who sees the end of the period in progress, or the next one in the place of an old one,
        // sees these two.
        fence(Release);
        self.since.set(0);
    }

    /// The CPU has just come online, as a rule.
    #[cold]
    #[inline(never)]
    fn first_end(&self, now: u64) {
        self.know_from(now);
    }

    /// Returns whether the CPU is known to have been busy from `start` to `end`, which must be in
    /// the past. False if it is not known. Touches one line of cache.
    pub fn was_busy(&self, start: u64, end: u64) -> bool {
        let Some((known, since, _)) = self.state() else {
            return false;
        };
        known <= start && (since == 0 || since >= end) && self.last_end.get() <= start
    }

    /// Returns the time from which on periods are known, the start of the one in progress, and the
    /// count; `None` if nothing is known. Later loads see what had happened when that period began,
    /// or the last one ended.
    #[inline(always)]
    fn state(&self) -> Option<(u64, u64, u64)> {
        let known = self.known.acquire();
        let since = self.since.get();
        fence(Acquire);
        let count = self.count.get();
        fence(Acquire);
        // Nothing was forgotten meanwhile: all three are of the same record.
        (known != 0 && self.known.get() == known).then_some((known, since, count))
    }

    /// Calls `visit` with the periods from `start` to `end`, newest first and clipped, until it
    /// returns false. Returns the time from which on `visit` has got all of them: `start` at best.
    ///
    /// `end` must be in the past by the CPU's own clock, for which a period in progress lasts on.
    #[inline(always)]
    pub fn walk_back(&self, start: u64, end: u64, mut visit: impl FnMut(u64, u64) -> bool) -> u64 {
        let Some((known, since, mut number)) = self.state().filter(|(known, ..)| *known < end)
        else {
            return end;
        };
        let start = start.max(known);
        let mut known_from = end;
        if since != 0 && since < end && !self.has_ended(since, number) {
            if !visit(since.max(start), end) {
                return end;
            }
            if since <= start {
                return start;
            }
            known_from = since;
        }
        while number > 0 {
            number = number.wrapping_sub(1);
            let [from, until] = &self.entries[number as usize % KEPT];
            let (from, until) = (from.get(), until.get());
            fence(Acquire);
            if self.count.get().wrapping_sub(number) >= KEPT as u64 {
                return known_from;
            }
            if until <= start {
                return start;
            }
            if from < end {
                if from < until && !visit(from.max(start), until.min(end)) {
                    return until.min(end);
                }
                known_from = from;
            }
            if from <= start {
                return start;
            }
        }
        start
    }

    /// Returns whether the period since `since` is among the first `count` ones by now.
    #[inline(always)]
    fn has_ended(&self, since: u64, count: u64) -> bool {
        // A later period may be in its place already, with a later start.
        let [from, _] = &self.entries[count.wrapping_sub(1) as usize % KEPT];
        count != 0 && from.get() >= since
    }
}
