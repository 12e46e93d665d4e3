// SPDX-License-Identifier: GPL-2.0

//! The `sched_exit_tp` tracepoint.
//!
//! `__schedule()` hits it last, in the context of the task that has the CPU then; for a task that
//! runs for the first time `schedule_tail()` does. So each hit of `sched_switch` is followed by one
//! of this tracepoint on the same CPU, in the task that got the CPU, with no other switch between.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use core::marker::PhantomData;

use kernel::types::NotThreadSafe;

use super::{
    context,
    per_cpu::ThisCpu,
    rcu::synchronize_rcu,
    smp::this_cpu,
    tracepoint::declare_probe, //
};

/// The end of a call of the scheduler on this CPU.
///
/// A value exists only within the probe. Preemption is off there, and interrupts are on: the probe
/// must not sleep, and an interrupt may come in between.
pub(crate) struct ScheduleExit {
    _this_cpu: PhantomData<NotThreadSafe>,
}

// SAFETY: A `ScheduleExit` exists only within the probe, which cannot migrate, as preemption is
// off.
unsafe impl ThisCpu for ScheduleExit {
    #[inline(always)]
    fn cpu(&self) -> u32 {
        this_cpu()
    }
}

/// Receives `sched_exit_tp` after each switch.
pub(crate) trait SchedExit: Send + Sync + 'static {
    /// Called in the context of the task that has got the CPU, before it does anything else and
    /// before another switch can happen on this CPU.
    ///
    /// Preemption is off: see [`ScheduleExit`].
    fn sched_exit(&self, exit: &ScheduleExit);
}

declare_probe! {
    /// The probe that calls `T` after every context switch, in the task that got the CPU.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedExitProbe<T: SchedExit>, c"sched_exit_tp", schedhist_sched_exit_probe;
    fn(receiver, is_switch: bool) {
        if !is_switch {
            return;
        }
        context::assert_preemption_disabled();
        receiver.sched_exit(&ScheduleExit {
            _this_cpu: PhantomData,
        });
    }
}

/// Waits until every switch that is in progress on any CPU has come to `sched_exit_tp`, and its
/// probes have returned. Sleeps.
///
/// Preemption is off from the one tracepoint to the other, which is what RCU waits for.
pub(crate) fn wait_for_exits() {
    synchronize_rcu();
}
