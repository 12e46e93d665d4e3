// SPDX-License-Identifier: GPL-2.0

//! When CPUs stood idle, and for how much of a task's wait another CPU did.
//!
//! Each CPU keeps a record of its last idle periods ([`IdlePeriods`]). When a long wait ends,
//! [`split()`] splits it by the records of the CPUs that the task may use ([`LongWait`]); each CPU
//! adds up its own ([`LongWaits`]).

pub mod gaps;
pub mod periods;
pub mod split;
pub mod totals;

use core::mem::size_of;

pub use crate::engine::distance::Distance;
pub use gaps::Gaps;
pub use periods::IdlePeriods;
pub use split::{Candidates, LongWait, Longest, Wait};
pub(in crate::engine) use split::{LongWaitCells, LongestCells};
pub use totals::{LongWaits, WaitCause, WaitPart, WaitSums};

/// What a CPU keeps for long waits. Zero bytes are an empty one.
///
/// Only the CPU writes it, with interrupts off; others read `periods` and `sums`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CpuIdle {
    /// When the CPU stood idle.
    pub periods: IdlePeriods,
    /// The long waits that have ended on it.
    pub sums: LongWaits,
    /// Its memory for [`split()`].
    pub gaps: Gaps,
}

// The allocator rounds up to a power of two.
const _: () = assert!(cfg!(loom) || size_of::<CpuIdle>() <= 2048);
