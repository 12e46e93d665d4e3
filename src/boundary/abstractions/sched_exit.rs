// SPDX-License-Identifier: GPL-2.0

//! The `sched_exit_tp` tracepoint.
//!
//! `__schedule()` hits it last, in the context of the task that has the CPU then; for a task that
//! runs for the first time `schedule_tail()` does. So each hit of `sched_switch` is followed by one
//! of this tracepoint on the same CPU, in the task that got the CPU, with no other switch between.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use core::marker::PhantomData;

use kernel::{
    c_str,
    ffi::c_void,
    str::CStr,
    types::NotThreadSafe, //
};

use super::{
    bindings,
    context,
    per_cpu::ThisCpu,
    rcu::synchronize_rcu,
    smp::this_cpu,
    tracepoint::Probe, //
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

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `sched_exit_tp` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: SchedExit>(data: *mut c_void, is_switch: bool) {
    if !is_switch {
        return;
    }
    // SAFETY: `register()` passed `data`: the address of a `T` in an `Arc`, which is kept while the
    // probe can be called.
    let receiver = unsafe { &*data.cast::<T>() };
    context::assert_preemption_disabled();
    receiver.sched_exit(&ScheduleExit {
        _this_cpu: PhantomData,
    });
}

/// The probe that calls `T` after every context switch, in the task that got the CPU.
pub(crate) struct SchedExitProbe<T>(PhantomData<fn() -> T>);

// SAFETY: `glue.c` checks the type against `sched_exit_tp`, and `probe` expects a pointer to a `T`.
// `probe` may be called there by the contract of `SchedExit`.
unsafe impl<T: SchedExit> Probe for SchedExitProbe<T> {
    type Data = T;
    type Function = bindings::schedhist_sched_exit_probe;

    const TRACEPOINT: &'static CStr = c_str!("sched_exit_tp");
    const FUNCTION: Self::Function = Some(probe::<T>);
}

/// Waits until every switch that is in progress on any CPU has come to `sched_exit_tp`, and its
/// probes have returned. Sleeps.
///
/// Preemption is off from the one tracepoint to the other, which is what RCU waits for.
pub(crate) fn wait_for_exits() {
    synchronize_rcu();
}
