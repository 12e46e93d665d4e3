// SPDX-License-Identifier: GPL-2.0

//! The scheduler's clock.
//!
//! C header: [`include/linux/sched/clock.h`](srctree/include/linux/sched/clock.h)

use crate::boundary::bindings;

/// Reads the clock of the running CPU, in nanoseconds since some time near the boot.
///
/// Callable in any context. It does not go backwards on one CPU, save where the hardware lies; two
/// CPUs may differ by up to a tick where the time stamp counter is not stable.
#[inline(always)]
pub(crate) fn local_clock() -> u64 {
    // SAFETY: Callable in any context, and takes nothing.
    unsafe { bindings::local_clock() }
}
