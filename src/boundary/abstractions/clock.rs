// SPDX-License-Identifier: GPL-2.0

//! The scheduler's clock.
//!
//! C header: [`include/linux/sched/clock.h`](srctree/include/linux/sched/clock.h)

use super::bindings;

/// Reads the clock of the running CPU, in nanoseconds since a moment near boot.
///
/// Callable in any context. The clock of one CPU does not go backwards unless the hardware is
/// faulty. The clocks of two CPUs may differ by up to a tick if the time stamp counter is unstable.
#[inline(always)]
pub(crate) fn local_clock() -> u64 {
    // SAFETY: Callable in any context, without arguments.
    unsafe { bindings::local_clock() }
}
