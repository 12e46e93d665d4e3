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

/// The number and the sums of long waits, in nanoseconds modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSums {
    /// How many there were.
    pub waits: u64,
    /// Their parts, by [`WaitPart`].
    pub parts: [u64; WaitPart::COUNT],
    /// How many had each cause, and how long these took, by [`WaitCause`].
    pub causes: [[u64; 2]; WaitCause::COUNT],
}

impl WaitSums {
    /// Adds those of another CPU.
    pub fn add(&mut self, other: &Self) {
        self.waits = self.waits.wrapping_add(other.waits);
        for (sum, part) in self.parts.iter_mut().zip(other.parts) {
            *sum = sum.wrapping_add(part);
        }
        let causes = self.causes.iter_mut().flatten();
        for (sum, part) in causes.zip(other.causes.as_flattened()) {
            *sum = sum.wrapping_add(*part);
        }
    }

    /// Subtracts earlier ones.
    pub fn subtract(&mut self, before: &Self) {
        self.waits = self.waits.wrapping_sub(before.waits);
        for (sum, part) in self.parts.iter_mut().zip(before.parts) {
            *sum = sum.wrapping_sub(part);
        }
        let causes = self.causes.iter_mut().flatten();
        for (sum, part) in causes.zip(before.causes.as_flattened()) {
            *sum = sum.wrapping_sub(*part);
        }
    }

    /// Returns the sum of a part.
    pub fn part(&self, part: WaitPart) -> u64 {
        self.parts[part as usize]
    }

    /// Returns how many waits had a cause, and how long these took.
    pub fn cause(&self, cause: WaitCause) -> (u64, u64) {
        self.causes[cause as usize].into()
    }
}

/// The sums of the long waits that have ended on a CPU. Only that CPU writes it, with interrupts
/// off; any CPU reads it. Those of a group that no task is in are folded by another CPU: see
/// [`GroupPlacement::absorb`](crate::engine::group::GroupPlacement::absorb).
#[derive(Debug, Default)]
pub struct LongWaits {
    seqcount: SeqCount,
    waits: Cell,
    parts: [Cell; WaitPart::COUNT],
    causes: [[Cell; 2]; WaitCause::COUNT],
}

impl LongWaits {
    /// Adds a wait.
    pub fn add(&self, wait: &LongWait) {
        let mut sums = WaitSums {
            waits: 1,
            parts: wait.parts,
            causes: Default::default(),
        };
        sums.causes[wait.why as usize] = [1, wait.part(WaitPart::Waited)];
        self.add_all(&sums);
    }

    /// Adds waits.
    pub fn add_all(&self, sums: &WaitSums) {
        self.seqcount.write(|| {
            self.waits.add(sums.waits);
            for (cell, part) in self.parts.iter().zip(sums.parts) {
                cell.add(part);
            }
            let causes = self.causes.as_flattened().iter();
            for (cell, part) in causes.zip(sums.causes.as_flattened()) {
                cell.add(*part);
            }
        });
    }

    /// Forgets all waits.
    pub fn clear(&self) {
        self.seqcount.write(|| {
            self.waits.set(0);
            let cells = self.parts.iter().chain(self.causes.as_flattened());
            cells.for_each(|cell| cell.set(0));
        });
    }

    /// Returns the sums, all of the same moment.
    pub fn read(&self) -> WaitSums {
        self.seqcount.read(|| WaitSums {
            waits: self.waits.get(),
            parts: self.parts.each_ref().map(Cell::get),
            causes: self
                .causes
                .each_ref()
                .map(|[waits, time]| [waits.get(), time.get()]),
        })
    }
}
