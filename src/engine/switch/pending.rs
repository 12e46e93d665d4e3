// SPDX-License-Identifier: GPL-2.0

//! Samples of the task that gets the CPU, from the switch until the task runs.

use crate::engine::{
    identity::IdentityCells,
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
        }
        cells.set(sample);
        self.number.set(number.wrapping_add(1));
        true
    }

    /// Removes all samples, and calls `each` with each of them and the task, in their order.
    pub fn take(&self, mut each: impl FnMut(&Sample, &Identity)) {
        let number = self.number.get();
        if number == 0 {
            return;
        }
        self.number.set(0);
        let task = self.task.get();
        for cells in self.samples.iter().take(number as usize) {
            if let Some(sample) = cells.get() {
                each(&sample, &task);
            }
        }
    }
}
