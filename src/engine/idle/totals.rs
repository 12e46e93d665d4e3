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

/// The number and the sums of long waits, in nanoseconds modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSums {
    /// How many there were.
    pub waits: u64,
    /// Their parts, by [`WaitPart`].
    pub parts: [u64; WaitPart::COUNT],
}

impl WaitSums {
    /// Adds those of another CPU.
    pub fn add(&mut self, other: &Self) {
        self.waits = self.waits.wrapping_add(other.waits);
        for (sum, part) in self.parts.iter_mut().zip(other.parts) {
            *sum = sum.wrapping_add(part);
        }
    }

    /// Subtracts earlier ones.
    pub fn subtract(&mut self, before: &Self) {
        self.waits = self.waits.wrapping_sub(before.waits);
        for (sum, part) in self.parts.iter_mut().zip(before.parts) {
            *sum = sum.wrapping_sub(part);
        }
    }

    /// Returns the sum of a part.
    pub fn part(&self, part: WaitPart) -> u64 {
        self.parts[part as usize]
    }
}

/// The sums of the long waits that have ended on a CPU. Only that CPU writes it, with interrupts
/// off; any CPU reads it.
#[derive(Debug, Default)]
pub struct LongWaits {
    seqcount: SeqCount,
    waits: Cell,
    parts: [Cell; WaitPart::COUNT],
}

impl LongWaits {
    /// Adds a wait.
    pub fn add(&self, wait: &LongWait) {
        self.add_all(&WaitSums {
            waits: 1,
            parts: wait.parts,
        });
    }

    /// Adds waits.
    pub fn add_all(&self, sums: &WaitSums) {
        self.seqcount.write(|| {
            self.waits.add(sums.waits);
            for (cell, part) in self.parts.iter().zip(sums.parts) {
                cell.add(part);
            }
        });
    }

    /// Forgets all waits.
    pub fn clear(&self) {
        self.seqcount.write(|| {
            self.waits.set(0);
            self.parts.iter().for_each(|cell| cell.set(0));
        });
    }

    /// Returns the sums, all of the same moment.
    pub fn read(&self) -> WaitSums {
        self.seqcount.read(|| WaitSums {
            waits: self.waits.get(),
            parts: core::array::from_fn(|part| self.parts[part].get()),
        })
    }
}
