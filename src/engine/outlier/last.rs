// SPDX-License-Identifier: GPL-2.0

//! What is kept of the last outliers of a CPU.

use crate::engine::{
    Cell,
    SeqCount, //
};

/// The number of outliers kept for each CPU. Small under loom, where every access counts.
pub const KEPT: usize = if cfg!(loom) { 2 } else { 16 };

#[derive(Debug, Default)]
struct Entry<T> {
    /// Guards the cells below.
    seqcount: SeqCount,
    id: Cell,
    cells: T,
}

/// The cells of the last [`KEPT`] outliers of a CPU. All zero bytes are none.
///
/// Only that CPU writes it, with interrupts off; any CPU reads it.
#[derive(Debug, Default)]
pub struct Last<T> {
    count: Cell,
    entries: [Entry<T>; KEPT],
}

impl<T> Last<T> {
    /// Returns how many outliers were ever kept here.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Keeps the outlier `id`, which is not 0, in place of the oldest. Returns its cells, and what
    /// `write` returns, which writes them.
    pub fn keep<R>(&self, id: u64, write: impl FnOnce(&T) -> R) -> Option<(&T, R)> {
        let count = self.count.get();
        let entry = self.entries.get(count as usize % KEPT)?;
        let written = entry.seqcount.write(|| {
            entry.id.set(id);
            write(&entry.cells)
        });
        self.count.set(count.wrapping_add(1));
        Some((&entry.cells, written))
    }

    /// Returns the numbers of the kept outliers, in no order. An outlier that is still being
    /// written is not kept yet.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let entries = self.entries.iter();
        entries
            .filter_map(|entry| entry.seqcount.try_read(|| entry.id.get()))
            .filter(|id| *id != 0)
    }

    /// Returns what `copy` makes of the cells of the outlier `id`; `None` if it is not kept yet, or
    /// no longer.
    ///
    /// One try is enough: if the entry is being written, the outlier that was there is no longer
    /// kept, and the new one is not kept yet.
    pub fn read<R>(&self, id: u64, copy: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        let is_it = |entry: &&Entry<T>| id != 0 && entry.id.get() == id;
        let entry = self.entries.iter().find(is_it)?;
        let copied = entry
            .seqcount
            .try_read(|| (entry.id.get() == id).then(|| copy(&entry.cells)));
        copied??
    }
}
