// SPDX-License-Identifier: GPL-2.0

//! A counter that one CPU writes and any CPU reads.

use crate::engine::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};

/// A 64-bit cell with one writer at a time and any number of readers.
///
/// Changing it is a plain load and a plain store: the writer is the CPU that the cell belongs to,
/// with interrupts off, so that nothing can come between the two. A reader sees the value of
/// before or after, never half of one, and no order between two cells.
///
/// This is a `core` atomic and not the kernel's `Atomic<u64>`, because the latter's loads and
/// stores are calls of C helper functions, and these are single instructions on the hot path.
/// Relaxed loads and stores of a `core` atomic are what `READ_ONCE()` and `WRITE_ONCE()` are in C.
#[derive(Debug)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Creates a cell that holds `value`.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Reads the cell; any CPU may.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Writes the cell; only its writer may.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds `n` to the cell, wrapping; only its writer may.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }
}
