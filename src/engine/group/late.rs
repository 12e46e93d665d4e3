// SPDX-License-Identifier: GPL-2.0

//! Processes that are to be decided later.

/// The number of processes that are remembered.
const MAX_PIDS: usize = 16;

/// Processes whose tasks are to be decided later, by PID.
#[derive(Clone, Copy, Debug, Default)]
pub struct Late {
    pids: [i32; MAX_PIDS],
    len: usize,
    /// Whether there were more than [`MAX_PIDS`].
    is_all: bool,
}

impl Late {
    /// Adds the process `pid`, unless it is there already.
    pub fn add(&mut self, pid: i32) {
        if self.pids().any(|known| known == pid) {
            return;
        }
        match self.pids.get_mut(self.len) {
            Some(place) => {
                *place = pid;
                self.len += 1;
            }
            None => self.is_all = true,
        }
    }

    /// Returns whether all tasks are to be decided, as some process is not among [`Late::pids`].
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// Iterates over the processes.
    pub fn pids(&self) -> impl Iterator<Item = i32> + '_ {
        self.pids.iter().take(self.len).copied()
    }
}
