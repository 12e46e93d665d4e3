// SPDX-License-Identifier: GPL-2.0

//! The `hrtimer_expire_entry` and `hrtimer_expire_exit` tracepoints.
//!
//! C header: [`include/trace/events/timer.h`](srctree/include/trace/events/timer.h)

use kernel::types::NotThreadSafe;

use super::{
    bindings,
    per_cpu::ThisCpu,
    softirq::{
        interruption,
        Interruption, //
    },
    tracepoint::declare_probe, //
};

/// A hard interrupt of this CPU that runs the function of a timer. A value exists only within the
/// probe.
pub(crate) struct HardTimer(NotThreadSafe);

// SAFETY: A `HardTimer` exists only within a probe in a hard interrupt, which stays on its CPU.
unsafe impl ThisCpu for HardTimer {}

impl HardTimer {
    /// Returns `None` in a softirq: timers expire there, too.
    fn new() -> Option<Self> {
        (interruption() == Interruption::Hard).then_some(Self(NotThreadSafe))
    }
}

/// Receives `hrtimer_expire_entry` and `hrtimer_expire_exit`.
pub(crate) trait HrtimerExpire: Send + Sync + 'static {
    /// Called before the function of a timer runs, which it does with interrupts off.
    fn hrtimer_expire_entry(&self, timer: &HardTimer);

    /// Called when it has run.
    fn hrtimer_expire_exit(&self, timer: &HardTimer);
}

declare_probe! {
    /// The probe that calls `T` before the function of a timer runs.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe HrtimerExpireEntryProbe<T: HrtimerExpire>,
    c"hrtimer_expire_entry", schedhist_hrtimer_expire_entry_probe;
    fn(
        receiver,
        _timer: *mut bindings::hrtimer,
        #[cfg(HAVE_HRTIMER_NOW)] _now: bindings::ktime_t,
        #[cfg(not(HAVE_HRTIMER_NOW))] _now: *mut bindings::ktime_t,
    ) {
        if let Some(timer) = HardTimer::new() {
            receiver.hrtimer_expire_entry(&timer);
        }
    }
}

declare_probe! {
    /// The probe that calls `T` when the function of a timer has run.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe HrtimerExpireExitProbe<T: HrtimerExpire>,
    c"hrtimer_expire_exit", schedhist_hrtimer_expire_exit_probe;
    fn(receiver, _timer: *mut bindings::hrtimer) {
        if let Some(timer) = HardTimer::new() {
            receiver.hrtimer_expire_exit(&timer);
        }
    }
}
