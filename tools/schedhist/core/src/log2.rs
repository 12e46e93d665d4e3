// SPDX-License-Identifier: GPL-2.0

//! The table of powers of two that BCC's tools print.
//!
//! Scripts parse this table, so it is the same to the last space as what `print_log2_hist()` of
//! BCC's `table.py` prints. Its buckets are powers of two of microseconds or milliseconds, which
//! are no bounds of ours: each of our buckets goes to where its middle falls.

use std::fmt::{self, Write};

use crate::distribution::Distribution;

const SLOTS: usize = 65;

const STARS: u64 = 40;

/// The counts of a table: slot 1 has the values 0 and 1, slot N those of N binary digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log2 {
    slots: [u64; SLOTS],
}

impl Log2 {
    /// Sorts the samples of a distribution into slots, in units of `unit` nanoseconds.
    pub fn new(distribution: &Distribution, unit: u64) -> Self {
        let mut slots = [0; SLOTS];
        for (bounds, count) in distribution.buckets() {
            let middle = if bounds.is_overflow() {
                bounds.lower
            } else {
                bounds.lower + (bounds.upper - bounds.lower) / 2
            };
            let value = (middle / unit.max(1)).max(1);
            let slot = &mut slots[(u64::BITS - value.leading_zeros()) as usize];
            *slot = count.saturating_add(*slot);
        }
        Self { slots }
    }

    pub fn write(&self, out: &mut impl Write, label: &str) -> fmt::Result {
        let Some(last) = self.slots.iter().rposition(|count| *count != 0) else {
            return Ok(());
        };
        let most = self.slots.iter().copied().max().unwrap_or_default();
        let is_wide = last > 32;
        let (width, stars) = if is_wide {
            (20, STARS / 2)
        } else {
            (10, STARS)
        };
        let (indent, name) = if is_wide { (15, 29) } else { (5, 19) };
        writeln!(out, "{:indent$}{label:<name$} : count     distribution", "")?;
        for (slot, count) in self.slots.iter().enumerate().take(last + 1).skip(1) {
            let low = if slot == 1 { 0 } else { 1_u64 << (slot - 1) };
            let high = (u128::from(1_u64) << slot) - 1;
            let filled = u128::from(stars) * u128::from(*count) / u128::from(most.max(1));
            // At most 40.
            let bar = "*".repeat(filled as usize);
            let stars = stars as usize;
            writeln!(
                out,
                "{low:>width$} -> {high:<width$} : {count:<8} |{bar:<stars$}|"
            )?;
        }
        Ok(())
    }
}
