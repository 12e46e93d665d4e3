// SPDX-License-Identifier: GPL-2.0

//! The layout of a CPU's records.

use core::mem::offset_of;

use crate::engine::{
    cell::Cell,
    histogram::{
        bucket::Scheme,
        totals::Totals, //
    },
    metric::Counter, //
};

/// The records of a CPU besides its buckets.
///
/// The fields that every switch needs come first, on two cache lines. The totals follow, of which a
/// switch needs at most the first three lines, and then the counters that are rarely needed. The
/// header takes whole lines, so the buckets after it begin on one, too.
///
/// # Invariants
///
/// `stride` is `scheme.buckets()`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    /// The number of the CPU.
    pub(super) number: u32,
    pub(in crate::engine) scheme: Scheme,
    /// The number of buckets of each metric.
    pub(in crate::engine) stride: usize,
    /// The time at which the running task got the CPU, in nanoseconds of the CPU's clock; 0 if not
    /// seen.
    pub(super) since: Cell,
    /// The time at which measuring began.
    pub(super) began: Cell,
    /// The metrics that are on: a [`MetricSet`].
    pub(in crate::engine) on: Cell,
    /// The first counters.
    counters: [Cell; FIRST_COUNTERS],
    pub(super) totals: Totals,
    /// The other counters.
    other_counters: [Cell; Counter::COUNT - FIRST_COUNTERS],
}

/// The number of counters that share cache lines with what every switch needs.
const FIRST_COUNTERS: usize = 11;

// Another counter before `totals` would make a switch need a third line there.
const _: () = assert!(cfg!(loom) || offset_of!(Header, totals) == 2 * 64);

impl Header {
    /// Creates the header of the CPU `number`, which has recorded nothing yet.
    pub const fn new(number: u32, scheme: Scheme) -> Self {
        // INVARIANT: `stride` is set to `scheme.buckets()`.
        Self {
            number,
            scheme,
            stride: scheme.buckets(),
            since: Cell::new(0),
            began: Cell::new(0),
            on: Cell::new(0),
            counters: [const { Cell::new(0) }; FIRST_COUNTERS],
            totals: Totals::new(),
            other_counters: [const { Cell::new(0) }; Counter::COUNT - FIRST_COUNTERS],
        }
    }

    /// Returns the cell of `counter`.
    #[inline(always)]
    pub(super) fn counter(&self, counter: Counter) -> &Cell {
        match (counter as usize).checked_sub(FIRST_COUNTERS) {
            None => &self.counters[counter as usize],
            Some(other) => &self.other_counters[other],
        }
    }
}
