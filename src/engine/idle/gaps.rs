// SPDX-License-Identifier: GPL-2.0

//! What is left of an interval, after others were taken out of it.

use crate::engine::Cell;

/// The maximum number of gaps.
pub const MAX: usize = 48;

/// Disjoint parts of an interval, latest first.
///
/// Cells, so that a CPU can keep this in its own memory, and not on the stack of a switch. Only
/// that CPU uses it, with interrupts off.
///
/// # Invariants
///
/// The first `len` entries, [`MAX`] at most, are in use. None of them is empty, and each ends
/// before the previous one begins.
#[derive(Debug)]
pub struct Gaps {
    len: Cell,
    /// The start and the end of each.
    entries: [[Cell; 2]; MAX],
}

impl Default for Gaps {
    /// There are none.
    fn default() -> Self {
        Self {
            len: Cell::new(0),
            // Too many for a derived default.
            entries: [const { [Cell::new(0), Cell::new(0)] }; MAX],
        }
    }
}

impl Gaps {
    /// Begins with one gap.
    pub fn begin(&self, start: u64, end: u64) {
        self.len.set(u64::from(start < end));
        self.set(0, start, end);
    }

    /// Returns how many gaps there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len.get() as usize
    }

    /// Returns whether nothing is left.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    fn get(&self, index: usize) -> Option<(u64, u64)> {
        let [start, end] = self.entries.get(..self.len())?.get(index)?;
        Some((start.get(), end.get()))
    }

    #[inline(always)]
    fn set(&self, index: usize, start: u64, end: u64) {
        if let Some([first, last]) = self.entries.get(index) {
            first.set(start);
            last.set(end);
        }
    }

    /// Takes `start` to `end` out. Returns how much of that was left so far, or `None` if there is
    /// no room for one more gap: nothing is taken out then.
    ///
    /// The search begins at `cursor`, which must be 0 or what an earlier call left there whose
    /// interval was not earlier.
    pub fn take(&self, cursor: &mut usize, start: u64, end: u64) -> Option<u64> {
        let mut taken: u64 = 0;
        while let Some((first, last)) = self.get(*cursor) {
            if first >= end {
                *cursor = cursor.wrapping_add(1);
                continue;
            }
            if last <= start {
                break;
            }
            let (low, high) = (first.max(start), last.min(end));
            match (first < low, high < last) {
                (true, true) => {
                    self.open(*cursor)?;
                    self.set(*cursor, high, last);
                    *cursor = cursor.wrapping_add(1);
                    self.set(*cursor, first, low);
                }
                (true, false) => self.set(*cursor, first, low),
                (false, true) => {
                    self.set(*cursor, high, last);
                    *cursor = cursor.wrapping_add(1);
                }
                (false, false) => self.close(*cursor),
            }
            taken = taken.wrapping_add(high.wrapping_sub(low));
        }
        Some(taken)
    }

    /// Makes room for a gap before the one at `index`.
    fn open(&self, index: usize) -> Option<()> {
        let len = self.len();
        if len >= MAX {
            return None;
        }
        self.len.set((len as u64).wrapping_add(1));
        let mut to = len;
        while to > index {
            let (start, end) = self.get(to.wrapping_sub(1))?;
            self.set(to, start, end);
            to = to.wrapping_sub(1);
        }
        Some(())
    }

    /// Removes the gap at `index`.
    fn close(&self, index: usize) {
        for to in index..self.len() {
            if let Some((start, end)) = self.get(to.wrapping_add(1)) {
                self.set(to, start, end);
            }
        }
        self.len.set(self.len.get().saturating_sub(1));
    }

    /// Returns how much is left before `time`.
    pub fn before(&self, time: u64) -> u64 {
        let gaps = (0..self.len()).filter_map(|index| self.get(index));
        let left = gaps.map(|(start, end)| end.min(time).saturating_sub(start));
        left.fold(0, u64::wrapping_add)
    }
}
