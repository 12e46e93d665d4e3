// SPDX-License-Identifier: GPL-2.0

//! A counter that one CPU writes and any CPU reads.

use crate::engine::atomic::{
    AtomicU64,
    Ordering::{
        Acquire,
        Relaxed,
        Release, //
    },
};

/// A 64-bit cell with one writer at a time and any number of readers.
///
/// An update is a plain load and a plain store: the writer is the CPU that owns the cell, with
/// interrupts off, so nothing can come between the two. A reader sees the value from before or
/// after an update, never a torn one. Accesses to two cells are not ordered.
///
/// This is a `core` atomic and not the kernel's `Atomic<u64>`: loads and stores of the latter call
/// C helper functions, and on the hot path these must be single instructions. Relaxed loads and
/// stores of a `core` atomic are what `READ_ONCE()` and `WRITE_ONCE()` are in C.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Creates a cell that holds `value`.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Reads the cell. Any CPU may call this.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Writes the cell. Only its writer may call this.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Reads the cell. Its reader then sees all that happened before the [`Cell::publish`] that
    /// wrote the value. On x86 this is the same instruction as [`Cell::get`].
    #[inline(always)]
    pub fn acquire(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Writes the cell, for [`Cell::acquire`]. Only its writer may call this.
    #[inline(always)]
    pub fn publish(&self, value: u64) {
        self.0.store(value, Release);
    }

    /// Adds to the cell, for [`Cell::acquire`] or a reader with a fence: who sees it sees what was
    /// written before. Only its writer may call this.
    #[inline(always)]
    pub fn publish_more(&self, value: u64) {
        self.publish(self.get().wrapping_add(value));
    }

    /// Replaces `old` by `new`, and returns whether the cell held `old`. Any CPU may call this, but
    /// an update by the writer that is in progress may undo it.
    pub fn replace(&self, old: u64, new: u64) -> bool {
        let result = self.0.compare_exchange(old, new, Relaxed, Relaxed);
        result.is_ok()
    }

    /// Writes the cell, and returns what it held. Any CPU may call this.
    pub fn swap(&self, value: u64) -> u64 {
        self.0.swap(value, Relaxed)
    }

    /// Adds `n` to the cell, wrapping. Only its writer may call this.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }
}
