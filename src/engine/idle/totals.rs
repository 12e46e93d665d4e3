// SPDX-License-Identifier: GPL-2.0

//! Sums of the long waits that have ended on a CPU.

use crate::engine::{
    idle::LongWait,
    named::named,
    Cell,
    SeqCount, //
};

named! {
    /// A long wait, and its parts. Each moment of it is in one of them, the first that applies:
    /// `waited = own_idle + llc_idle + remote_idle + unknown + busy`.
    #[repr(usize)]
    pub enum WaitPart {
        /// All of it.
        Waited => "waited", "Time that tasks waited, in long waits.";
        /// The task was in the queue of a CPU that was idle: waking up to run it.
        OwnIdle => "own_idle",
            "Time in long waits while the CPU that was to run the task was idle, waking up.";
        /// Another CPU that it might have used was idle, of the same last-level cache.
        LlcIdle => "llc_idle",
            "Time in long waits while another CPU of the same last-level cache was idle.";
        /// Only CPUs further away were.
        RemoteIdle => "remote_idle",
            "Time in long waits while only CPUs of other last-level caches were idle.";
        /// It is not known whether one was. If this is 0, `own_idle`, `busy` and the sum of the two
        /// between them are exact; else they are lower bounds. `llc_idle` alone is always one.
        Unknown => "unknown", "Time in long waits of which it is not known whether a CPU was idle.";
        /// All CPUs that the task might have used were busy.
        Busy => "busy",
            "Time in long waits while all CPUs that the task might have used were busy.";
    }
}

named! {
    /// Why a task waited. Each long wait is in one of these, the first that applies, with all of
    /// its time: `waits = moved + forked + preempted + woken_idle + woken_busy`.
    #[derive(Default)]
    #[repr(usize)]
    pub enum WaitCause {
        /// It was moved to the queue of another CPU meanwhile. That the wakeup put it on another
        /// one is no move.
        Moved => "moved", "Long waits in which the task was moved from one CPU's queue to another.";
        /// It was just forked.
        Forked => "forked", "Long waits that began with a fork.";
        /// It was preempted, or it yielded.
        Preempted => "preempted", "Long waits that began with a preemption or a yield.";
        /// It was woken onto a CPU that stood idle, and went on to until it ran the task.
        WokenIdle => "woken_idle", "Long waits that began with a wakeup onto an idle CPU.";
        /// It was woken onto a CPU that had something else to run. If it is not known what the CPU
        /// did, this is assumed.
        #[default]
        WokenBusy => "woken_busy", "Long waits that began with a wakeup onto a busy CPU.";
    }
}

/// Where the causes are in [`WaitSums`].
const CAUSES: usize = 1 + WaitPart::COUNT;
const NUMBERS: usize = CAUSES + 2 * WaitCause::COUNT;

/// The number and the sums of long waits, in nanoseconds modulo 2^64: how many there were; their
/// parts, by [`WaitPart`]; and how many had each cause and how long these took, by [`WaitCause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSums(pub [u64; NUMBERS]);

impl WaitSums {
    /// Adds those of another CPU.
    pub fn add(&mut self, other: &Self) {
        for (sum, part) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(part);
        }
    }

    /// Subtracts earlier ones.
    pub fn subtract(&mut self, before: &Self) {
        for (sum, part) in self.0.iter_mut().zip(before.0) {
            *sum = sum.wrapping_sub(part);
        }
    }

    /// Returns how many waits there were.
    pub fn waits(&self) -> u64 {
        self.0[0]
    }

    /// Returns the sum of a part.
    pub fn part(&self, part: WaitPart) -> u64 {
        self.0[1 + part as usize]
    }

    /// Returns how many waits had a cause, and how long these took.
    pub fn cause(&self, cause: WaitCause) -> (u64, u64) {
        let place = CAUSES + 2 * cause as usize;
        (self.0[place], self.0[place + 1])
    }
}

/// The sums of the long waits that have ended on a CPU, as in [`WaitSums`]. Only that CPU writes
/// it, with interrupts off; any CPU reads it. Those of a group that no task is in are folded by
/// another CPU: see [`GroupPlacement::absorb`](crate::engine::group::GroupPlacement::absorb).
#[derive(Debug, Default)]
pub struct LongWaits {
    seqcount: SeqCount,
    sums: [Cell; NUMBERS],
}

impl LongWaits {
    /// Adds a wait.
    pub fn add(&self, wait: &LongWait) {
        let mut sums = WaitSums::default();
        sums.0[0] = 1;
        sums.0[1..CAUSES].copy_from_slice(&wait.parts);
        let place = CAUSES + 2 * wait.why as usize;
        sums.0[place] = 1;
        sums.0[place + 1] = wait.part(WaitPart::Waited);
        self.add_all(&sums);
    }

    /// Adds waits.
    pub fn add_all(&self, sums: &WaitSums) {
        let add = |(cell, sum): (&Cell, u64)| cell.add(sum);
        self.seqcount
            .write(|| self.sums.iter().zip(sums.0).for_each(add));
    }

    /// Forgets all waits.
    pub fn clear(&self) {
        self.seqcount
            .write(|| self.sums.iter().for_each(|cell| cell.set(0)));
    }

    /// Returns the sums, all of the same moment.
    pub fn read(&self) -> WaitSums {
        self.seqcount
            .read(|| WaitSums(self.sums.each_ref().map(Cell::get)))
    }
}
