// SPDX-License-Identifier: GPL-2.0

//! The identity of a task: its PID, priority and name.

use crate::engine::cell::Cell;

/// The identity of a task, as the files and trace events show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The thread id in the initial PID namespace; 0 for the idle task.
    pub pid: i32,
    /// The kernel's priority.
    pub prio: i32,
    /// The name, padded with NULs.
    pub comm: [u8; 16],
}

/// Storage for an identity that one CPU writes and any CPU reads. A read may be torn.
#[derive(Debug)]
pub(super) struct IdentityCells {
    pid_and_prio: Cell,
    comm: [Cell; 2],
}

impl IdentityCells {
    pub(super) const fn new() -> Self {
        Self {
            pid_and_prio: Cell::new(0),
            comm: [const { Cell::new(0) }; 2],
        }
    }

    #[inline(always)]
    pub(super) fn set(&self, task: &Identity) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = task.comm;
        self.pid_and_prio
            .set((u64::from(task.pid as u32) << 32) | u64::from(task.prio as u32));
        self.comm[0].set(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        self.comm[1].set(u64::from_le_bytes([i, j, k, l, m, n, o, p]));
    }

    /// Returns only the thread id.
    pub(super) fn pid(&self) -> i32 {
        (self.pid_and_prio.get() >> 32) as i32
    }

    pub(super) fn get(&self) -> Identity {
        let ids = self.pid_and_prio.get();
        let mut comm = [0; 16];
        comm[..8].copy_from_slice(&self.comm[0].get().to_le_bytes());
        comm[8..].copy_from_slice(&self.comm[1].get().to_le_bytes());
        Identity {
            pid: (ids >> 32) as i32,
            prio: ids as i32,
            comm,
        }
    }
}
