// SPDX-License-Identifier: GPL-2.0

//! The layout of a CPU's records.

use core::mem::offset_of;

use super::resched::Requests;
use crate::engine::{
    histogram::{
        totals::Totals,
        Scheme, //
    },
    switch::PrevState,
    Cell,
    Counter, //
};

/// The records of a CPU besides its buckets.
///
/// The data of a plain switch comes first, on two cache lines: all that it writes besides the
/// buckets is on the first one, and the second one has the extremes with which it compares. The
/// third line is for preemptions and for the idle task. The settings and the counters that are
/// rarely needed come next, and what other CPUs write comes last. The header takes whole lines, so
/// the buckets after it begin on one, too.
///
/// # Invariants
///
/// `stride` is `scheme.buckets()`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    pub(super) number: u32,
    pub(in crate::engine) scheme: Scheme,
    /// The time at which the running task got the CPU, in nanoseconds of the CPU's clock, with
    /// `OF_IDLE` if that is the idle task; 0 if not seen.
    pub(super) since: Cell,
    switches: Cell,
    voluntary: Cell,
    /// The totals, with two counters beside those of preemptions and of the idle task.
    pub(super) totals: Totals,
    /// The time at which measuring began.
    pub(super) began: Cell,
    /// The time on the CPU's clock that is in no slice. Set whenever a slice begins whose
    /// predecessor's start was not seen.
    pub(super) unseen: Cell,
    /// The metrics that are on: a [`MetricSet`](crate::engine::metric::MetricSet).
    pub(in crate::engine) on: Cell,
    /// The number of buckets of each metric.
    pub(in crate::engine) stride: usize,
    /// By [`Counter`]. Those that are kept above are not used.
    other_counters: [Cell; Counter::COUNT],
    pub(super) requests: Requests,
}

impl Header {
    /// Creates the header of the CPU `number`, which has recorded nothing yet.
    pub fn new(number: u32, scheme: Scheme) -> Self {
        const { assert!(cfg!(loom) || offset_of!(Self, totals) == Totals::BEFORE) };
        // INVARIANT: `stride` is set to `scheme.buckets()`.
        Self {
            number,
            scheme,
            since: Cell::new(0),
            switches: Cell::new(0),
            voluntary: Cell::new(0),
            totals: Totals::new(),
            began: Cell::new(0),
            unseen: Cell::new(0),
            on: Cell::new(0),
            stride: scheme.buckets(),
            other_counters: Default::default(),
            requests: Requests::default(),
        }
    }

    #[inline(always)]
    pub(super) fn counter(&self, counter: Counter) -> &Cell {
        match counter {
            Counter::Switches => &self.switches,
            Counter::Voluntary => &self.voluntary,
            Counter::Involuntary => &self.totals.beside[0],
            Counter::ToIdle => &self.totals.beside[1],
            _ => &self.other_counters[counter as usize],
        }
    }

    /// Counts the absence of a task that had left the CPU in `state`, which has no histogram of
    /// sleeps.
    #[cold]
    #[inline(never)]
    pub(super) fn count_absence(&self, state: PrevState) {
        self.counter(state.cause().counter()).add(1);
    }
}
