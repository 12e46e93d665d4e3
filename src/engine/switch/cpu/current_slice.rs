// SPDX-License-Identifier: GPL-2.0

//! The slice in progress on a CPU, as any CPU reads it.
//!
//! When it began, and whether it is of the idle task, is one value. A law tells a reader that it
//! has met a switch, and must read again: `since - oncpu - idle` does not change. Slices follow one
//! another, so the time up to the last switch is the sum of the slices that have ended, and what
//! was not seen. It takes both metrics. Both sums are published, so that a reader never sees the
//! later slice of the one without the earlier slice of the other, which might add up, too: this
//! costs nothing on x86.
//!
//! A slice of the idle task is known as such only when that of the task before has been added. So a
//! reader never takes a long slice of the one for one of the other.

use super::Cpu;
use crate::engine::{
    atomic::{
        fence,
        spin_loop,
        Ordering::Acquire, //
    },
    Cell,
    Metric,
    MetricSet, //
};

/// The number of attempts to read between two switches. The CPU is between two for most of the
/// time, unless a hypervisor stops it within one: then these take about a second.
const ATTEMPTS: u32 = 1 << 24;

/// The occupant of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// The idle task.
    Idle,
    /// A task.
    Task,
    /// Not known: no switch was seen since measuring began, or since the CPU came online.
    Unseen,
}

/// The slice in progress on a CPU, with what had ended by then.
///
/// While [`Metric::Oncpu`] and [`Metric::Idle`] are on, `now = oncpu + idle + in_progress +
/// unseen`, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentSlice {
    /// The time at which this was read, in nanoseconds.
    pub now: u64,
    /// The time at which the slice began; if that was not seen, the time at which measuring did.
    pub since: u64,
    /// The occupant of the CPU.
    pub occupancy: Occupancy,
    /// The sum of the slices of tasks that have ended.
    pub oncpu: u128,
    /// The sum of the slices of the idle task that have ended.
    pub idle: u128,
    /// The time on the clock that is in no slice, not even the one in progress.
    pub unseen: u64,
}

impl CurrentSlice {
    /// Returns how long the slice has taken so far; 0 if its start was not seen.
    pub fn in_progress(&self) -> u64 {
        match self.occupancy {
            Occupancy::Unseen => 0,
            _ => self.now.saturating_sub(self.since),
        }
    }
}

/// Set in the time at which a slice of the idle task began. No clock gets there.
pub(super) const OF_IDLE: u64 = 1 << 63;

/// The part that a switch changes. None of it goes back, unless the clock does: what is equal twice
/// was so in between.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// With [`OF_IDLE`].
    since: u64,
    oncpu: u128,
    idle: u128,
}

impl Seen {
    /// Returns the time up to the last switch that is in no slice.
    fn unseen(&self) -> u64 {
        (self.since & !OF_IDLE)
            .wrapping_sub(self.oncpu as u64)
            .wrapping_sub(self.idle as u64)
    }
}

impl<B: AsRef<[Cell]> + ?Sized> Cpu<B> {
    /// Begins the slices that are seen, as a slice ends whose start was not.
    pub(super) fn begin_slices(&self) {
        self.header.unseen.set(self.seen().unseen());
    }

    /// Returns the time at which the slice in progress began; 0 if that was not seen.
    pub fn since(&self) -> u64 {
        self.header.since.get() & !OF_IDLE
    }

    /// Returns the time at which measuring began.
    pub fn began(&self) -> u64 {
        self.header.began.get()
    }

    /// Reads the slice in progress. `clock` reads the time. Returns `None` if each attempt meets a
    /// switch.
    ///
    /// Any CPU may call this. The CPU must be online, and measuring on.
    pub fn current_slice(&self, clock: impl Fn() -> u64) -> Option<CurrentSlice> {
        for _ in 0..ATTEMPTS {
            let slice = self.try_slice(&clock);
            if slice.is_some() {
                return slice;
            }
            spin_loop();
        }
        None
    }

    fn try_slice(&self, clock: impl Fn() -> u64) -> Option<CurrentSlice> {
        let before = self.seen();
        fence(Acquire);
        let now = clock();
        let unseen = self.header.unseen.get();
        fence(Acquire);
        let seen = self.seen();
        if seen != before {
            return None;
        }
        let Seen { since, oncpu, idle } = seen;
        if since == 0 {
            return Some(CurrentSlice {
                now,
                since: self.header.began.get(),
                occupancy: Occupancy::Unseen,
                oncpu,
                idle,
                unseen: Seen { since: now, ..seen }.unseen(),
            });
        }
        if self.adds_up() && seen.unseen() != unseen {
            return None;
        }
        let is_idle = since & OF_IDLE != 0;
        let since = since & !OF_IDLE;
        Some(CurrentSlice {
            // The clocks of two CPUs may differ slightly.
            now: now.max(since),
            since,
            occupancy: match is_idle {
                true => Occupancy::Idle,
                false => Occupancy::Task,
            },
            oncpu,
            idle,
            unseen,
        })
    }

    /// Returns whether all slices are recorded.
    fn adds_up(&self) -> bool {
        let on = MetricSet::from_bits(self.header.on.get() as u32);
        on.contains(Metric::Oncpu) && on.contains(Metric::Idle)
    }

    fn seen(&self) -> Seen {
        Seen {
            since: self.header.since.get(),
            oncpu: self.sum(Metric::Oncpu),
            idle: self.sum(Metric::Idle),
        }
    }
}
