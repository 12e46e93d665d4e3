// SPDX-License-Identifier: GPL-2.0

//! Long waits, and what other CPUs did meanwhile.

use super::Reader;
use crate::engine::idle::WaitSums;

/// The long waits of all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongWaits {
    /// Waits of this many nanoseconds or more are long; 0 if none are, any more.
    pub limit: u64,
    /// Whether it was that at the begin, too. An earlier one's waits are counted as well.
    pub is_one_limit: bool,
    pub sums: WaitSums,
}

impl LongWaits {
    /// Adds those of a CPU, of which `record` is the rest of the record. Returns `None` if it is
    /// not valid.
    pub(super) fn add(&mut self, mut record: Reader<'_>) -> Option<()> {
        let (_cpu, _) = (record.u32()?, record.u32()?);
        self.limit = record.u64()?;
        self.sums.add(&record.wait_sums()?);
        Some(())
    }

    /// Returns those since an earlier snapshot.
    #[must_use]
    pub fn since(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before {
            self.is_one_limit = self.limit == before.limit;
            self.sums.subtract(&before.sums);
        }
        self
    }
}

impl Reader<'_> {
    /// Reads the sums with which a record of long waits ends.
    pub(super) fn wait_sums(&mut self) -> Option<WaitSums> {
        let mut sums = WaitSums::default();
        for sum in &mut sums.0 {
            *sum = self.u64()?;
        }
        Some(sums)
    }
}
