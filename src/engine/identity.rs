// SPDX-License-Identifier: GPL-2.0

//! The identity of a task: its PID, priority, name and group.

use crate::engine::{
    group::Group,
    Cell, //
};

/// The identity of a task, as the files and trace events show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The thread id in the initial PID namespace; 0 for the idle task.
    pub pid: i32,
    /// The kernel's priority, from -1 to 139.
    pub prio: i32,
    /// The name, padded with NULs.
    pub comm: [u8; 16],
    /// The group; [`Group::OTHER`] if tasks are not grouped, for the idle task, and wherever
    /// nothing shows the group.
    pub group: Group,
}

/// Storage for an identity that one CPU writes and any CPU reads. A read may be torn.
#[derive(Debug, Default)]
pub(super) struct IdentityCells {
    /// From the highest bit on: the PID, the group, and the priority in [`PRIO_BITS`].
    numbers: Cell,
    comm: CommCells,
}

/// Storage for a name, likewise.
#[derive(Debug, Default)]
pub(super) struct CommCells([Cell; 2]);

impl CommCells {
    #[inline(always)]
    pub(super) fn set(&self, comm: &[u8; 16]) {
        let comm = u128::from_le_bytes(*comm);
        self.0[0].set(comm as u64);
        self.0[1].set((comm >> 64) as u64);
    }

    pub(super) fn get(&self) -> [u8; 16] {
        let (low, high) = (self.0[0].get(), self.0[1].get());
        ((u128::from(high) << 64) | u128::from(low)).to_le_bytes()
    }
}

/// The number of bits in which a priority is stored. More than the kernel's priorities need.
const PRIO_BITS: u32 = 12;

const _: () = assert!(Group::MAX <= 1 << (u32::BITS - PRIO_BITS));

impl IdentityCells {
    #[inline(always)]
    pub(super) fn set(&self, task: &Identity) {
        let prio = task.prio as u32 & ((1 << PRIO_BITS) - 1);
        let low = (task.group.number() << PRIO_BITS) | prio;
        self.numbers
            .set((u64::from(task.pid as u32) << 32) | u64::from(low));
        self.comm.set(&task.comm);
    }

    /// Returns only the thread id.
    pub(super) fn pid(&self) -> i32 {
        (self.numbers.get() >> 32) as i32
    }

    pub(super) fn get(&self) -> Identity {
        let numbers = self.numbers.get();
        Identity {
            pid: (numbers >> 32) as i32,
            // Shifted up first, so that the sign comes back.
            prio: ((numbers as u32) << (u32::BITS - PRIO_BITS)) as i32 >> (u32::BITS - PRIO_BITS),
            comm: self.comm.get(),
            // Cannot fail: there are as many groups as these bits have values.
            group: Group::new(numbers as u32 >> PRIO_BITS).unwrap_or(Group::OTHER),
        }
    }
}
