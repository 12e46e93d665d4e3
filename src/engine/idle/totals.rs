// SPDX-License-Identifier: GPL-2.0

//! Sums of the long waits that have ended on a CPU.

use crate::engine::{
    idle::LongWait,
    named::named,
    Cell,
    SeqCount, //
};

named! {
    /// What is added up of long waits. With these names, `waited = own_idle + llc_idle +
    /// remote_idle + unknown + busy`: see [`LongWait`].
    #[repr(usize)]
    pub enum WaitPart {
        /// How long they took, in nanoseconds.
        Waited => "waited", "Time that tasks waited, in long waits.";
        /// The task's own CPU was idle: waking up.
        OwnIdle => "own_idle",
            "Time in long waits while the CPU that was to run the task was idle, waking up.";
        /// Another CPU of the same last-level cache was idle.
        LlcIdle => "llc_idle",
            "Time in long waits while another CPU of the same last-level cache was idle.";
        /// Only CPUs beyond were idle.
        RemoteIdle => "remote_idle",
            "Time in long waits while only CPUs of other last-level caches were idle.";
        /// Not known.
        Unknown => "unknown", "Time in long waits of which it is not known whether a CPU was idle.";
        /// All CPUs that the tasks might have used were busy.
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
        let parts = [
            wait.waited,
            wait.own_idle,
            wait.llc_idle,
            wait.remote_idle,
            wait.unknown,
            wait.busy(),
        ];
        self.seqcount.write(|| {
            self.waits.add(1);
            for (cell, part) in self.parts.iter().zip(parts) {
                cell.add(part);
            }
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
