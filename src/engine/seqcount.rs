// SPDX-License-Identifier: GPL-2.0

//! A sequence counter: lets readers copy several cells as one write left them.
//!
//! It is the kernel's `seqcount_t` for the engine's cells. The count is odd while the cells are
//! being written. A reader copies the cells between two loads of the count, and has a good copy if
//! both gave the same even number.
//!
//! The fences make that sound. A reader that sees any cell of a later write sees, through the
//! writer's first release fence and its own second acquire fence, the odd count of that write or a
//! later count when it loads the count again. A reader that starts with an even count sees, through
//! the writer's second release fence and its own first acquire fence, all cells of the write that
//! ended with it. `tests/engine/tests/loom.rs` checks this in a model of the language's memory.
//!
//! The writer never waits. It has interrupts off, so it ends within nanoseconds, unless a
//! hypervisor stops its virtual CPU meanwhile. A reader that meets a write must not report that
//! there is no value. It has two choices:
//!
//! - [`SeqCount::read`] retries until it has a copy, as the kernel's `read_seqbegin()` does. It is
//!   for cells that always hold a value. A stopped virtual CPU delays the reader, just as it delays
//!   a CPU that waits for a spinlock or an IPI. [`spin_loop`] is `cpu_relax()`, by which a
//!   hypervisor notices the wait. A reader in process context can be preempted while it waits.
//! - [`SeqCount::try_read`] returns `None` when it meets the writer. It is for a place whose
//!   contents are replaced as a whole: `None` then means that the old contents are gone and the new
//!   contents are not there yet.

use crate::engine::{
    atomic::{
        fence, spin_loop,
        Ordering::{
            Acquire,
            Release, //
        },
    },
    Cell, //
};

/// A sequence counter, for cells that one CPU writes and any CPU reads.
#[derive(Debug, Default)]
pub struct SeqCount(Cell);

impl SeqCount {
    /// Calls `write`, which writes the cells.
    ///
    /// Only the writer of the cells may call this, with interrupts off, or while nobody can read
    /// them: a reader would spin for as long as the writer is preempted.
    #[inline(always)]
    pub fn write<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.add(1);
        fence(Release);
        let written = write();
        fence(Release);
        self.0.add(1);
        written
    }

    /// Returns a result of `copy` for which all cells were as the same write left them. Waits while
    /// the cells are being written.
    ///
    /// If a call of `copy` meets the writer, it may see cells of two writes. Its result is then
    /// dropped, and `copy` is called again.
    pub fn read<T>(&self, mut copy: impl FnMut() -> T) -> T {
        loop {
            match self.try_read(&mut copy) {
                Some(copied) => return copied,
                None => spin_loop(),
            }
        }
    }

    /// Returns the result of `copy`, for which all cells were as the same write left them; `None`
    /// if the cells were being written meanwhile.
    pub fn try_read<T>(&self, copy: impl FnOnce() -> T) -> Option<T> {
        let count = self.0.get();
        if count % 2 != 0 {
            return None;
        }
        fence(Acquire);
        let copied = copy();
        fence(Acquire);
        (count == self.0.get()).then_some(copied)
    }
}
