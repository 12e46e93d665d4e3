// SPDX-License-Identifier: GPL-2.0

//! Samples of the task that gets the CPU, from the switch until the task runs.

use crate::engine::{
    identity::IdentityCells,
    idle::{
        LongWait,
        LongWaitCells, //
    },
    switch::{
        sample::SampleCells,
        Sample, //
    },
    Cell,
    Identity, //
};

/// The most samples that a switch has of the task that gets the CPU: its absence, the time since
/// its waker's stamp, its wait and its sleep.
pub const MAX: usize = 4;

/// The samples that a switch leaves for the task that gets the CPU, and that task's identity at the
/// switch.
///
/// Only the CPU itself uses them: at the switch, and in the task, before it can be preempted.
#[derive(Debug, Default)]
pub struct Pending {
    number: Cell,
    task: IdentityCells,
    samples: [SampleCells; MAX],
    /// Of the wait among them, if that was long.
    long_wait: LongWaitCells,
}

impl Pending {
    /// Returns whether there is no sample.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.number.get() == 0
    }

    /// Drops all samples.
    pub fn clear(&self) {
        self.number.set(0);
    }

    /// Adds a sample. The first one since [`Pending::clear`] or [`Pending::take`] names the task.
    /// Returns whether there was room.
    #[inline(never)]
    pub fn push(&self, sample: &Sample, task: impl FnOnce() -> Identity) -> bool {
        let number = self.number.get();
        let Some(cells) = self.samples.get(number as usize) else {
            return false;
        };
        if number == 0 {
            self.task.set(&task());
            self.long_wait.set(None);
        }
        cells.set(sample);
        self.number.set(number.wrapping_add(1));
        true
    }

    /// Adds what CPUs did during the wait that was added last.
    pub fn set_long_wait(&self, wait: &LongWait) {
        self.long_wait.set(Some(wait));
    }

    /// Removes all samples, and calls `each` with each of them and the task, in their order, and
    /// with what CPUs did if it is a long wait.
    pub fn take(&self, mut each: impl FnMut(&Sample, &Identity, Option<&LongWait>)) {
        let number = self.number.get();
        if number == 0 {
            return;
        }
        self.number.set(0);
        let task = self.task.get();
        let wait = self.long_wait.get();
        for cells in self.samples.iter().take(number as usize) {
            if let Some(sample) = cells.get() {
                let wait = wait.as_ref().filter(|_| sample.metric.is_wait());
                each(&sample, &task, wait);
            }
        }
    }
}
