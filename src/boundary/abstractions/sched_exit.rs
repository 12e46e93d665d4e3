// SPDX-License-Identifier: GPL-2.0

//! The `sched_exit_tp` tracepoint.
//!
//! `__schedule()` hits it last, in the context of the task that has the CPU then; for a task that
//! runs for the first time `schedule_tail()` does. So each hit of `sched_switch` is followed by one
//! of this tracepoint on the same CPU, in the task that got the CPU, with no other switch between.
//!
//! A kernel before 6.16 has no such tracepoint. There a switch asks for a call, by
//! [`ask_for_exit`], which comes in an interrupt in the task that has got the CPU: `irq_work` runs
//! as soon as `finish_task_switch()` has switched interrupts on, with preemption still off.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

#[cfg(not(HAVE_SCHED_EXIT_TP))]
use kernel::{
    error::to_result,
    ffi::c_void, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    types::NotThreadSafe, //
};

#[cfg(not(HAVE_SCHED_EXIT_TP))]
use super::bindings;

#[cfg(HAVE_SCHED_EXIT_TP)]
use super::tracepoint::{
    declare_probe,
    Probe,
    Registration, //
};
use super::{
    context,
    per_cpu::ThisCpu,
    rcu::{
        synchronize_rcu,
        RcuReader, //
    },
};

/// The end of a call of the scheduler on this CPU.
///
/// A value exists only within the probe. Preemption is off there, and interrupts are on if the
/// kernel has the tracepoint: the probe must not sleep, and an interrupt may come in between.
pub(crate) struct ScheduleExit(NotThreadSafe);

// SAFETY: A `ScheduleExit` exists only within the probe, which cannot migrate, as preemption is
// off.
unsafe impl ThisCpu for ScheduleExit {}

// SAFETY: Preemption is off in the probe.
unsafe impl RcuReader for ScheduleExit {}

/// Receives `sched_exit_tp` after each switch, or after each that has asked for it.
pub(crate) trait SchedExit: Send + Sync + 'static {
    /// Called in the context of the task that has got the CPU, before it does anything else and
    /// before another switch can happen on this CPU.
    ///
    /// Preemption is off: see [`ScheduleExit`].
    fn sched_exit(&self, exit: &ScheduleExit);
}

/// Calls a `T` after switches until it is dropped. Dropping it sleeps.
#[cfg(HAVE_SCHED_EXIT_TP)]
pub(crate) type SwitchCallback<T> = Registration<T>;

/// Begins to call `data` after each switch. Errors as for [`Probe::register`]. Sleeps.
#[cfg(HAVE_SCHED_EXIT_TP)]
pub(crate) fn call_after_switches<T: SchedExit>(data: Arc<T>) -> Result<SwitchCallback<T>> {
    SchedExitProbe::register(data)
}

/// Whether a call comes before the next switch on the CPU, whatever the hardware does.
pub(crate) const EXIT_IS_CERTAIN: bool = cfg!(HAVE_SCHED_EXIT_TP);

/// Asks for a call after the switch that is in progress on this CPU, from within the probe of
/// `sched_switch`. Without a [`SwitchCallback`] this has no effect.
#[inline(always)]
pub(crate) fn ask_for_exit() {
    // SAFETY: Callable in any context, at any time.
    #[cfg(not(HAVE_SCHED_EXIT_TP))]
    unsafe {
        bindings::schedhist_ask_for_exit();
    }
}

/// Calls a `T` after switches that ask for it, until it is dropped.
///
/// # Invariants
///
/// `schedhist_start_exits()` has been called with the data, and `schedhist_stop_exits()` has not.
#[cfg(not(HAVE_SCHED_EXIT_TP))]
pub(crate) struct SwitchCallback<T: SchedExit> {
    /// Kept until no CPU calls it any more.
    _data: Arc<T>,
}

/// Begins to call `data` after switches that ask for it. Fails with `EBUSY` if another one is
/// called already.
#[cfg(not(HAVE_SCHED_EXIT_TP))]
pub(crate) fn call_after_switches<T: SchedExit>(data: Arc<T>) -> Result<SwitchCallback<T>> {
    /// # Safety
    ///
    /// Must be called with the address of a `T`, in an interrupt.
    unsafe extern "C" fn call<T: SchedExit>(data: *mut c_void, _is_switch: bool) {
        // SAFETY: `data` is kept until no CPU calls this any more.
        let receiver = unsafe { &*data.cast::<T>() };
        receiver.sched_exit(&ScheduleExit(NotThreadSafe));
    }

    let argument = core::ptr::from_ref(&*data).cast_mut().cast();
    // SAFETY: The function fits its argument, which is kept until the calls have been stopped.
    to_result(unsafe { bindings::schedhist_start_exits(Some(call::<T>), argument) })?;
    // INVARIANT: Just started.
    Ok(SwitchCallback { _data: data })
}

#[cfg(not(HAVE_SCHED_EXIT_TP))]
impl<T: SchedExit> Drop for SwitchCallback<T> {
    fn drop(&mut self) {
        context::might_sleep();
        // SAFETY: By the type's invariant the calls have been started. Process context.
        unsafe { bindings::schedhist_stop_exits() };
    }
}

#[cfg(HAVE_SCHED_EXIT_TP)]
declare_probe! {
    /// The probe that calls `T` after every context switch, in the task that got the CPU.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedExitProbe<T: SchedExit>, c"sched_exit_tp", schedhist_sched_exit_probe;
    fn(receiver, is_switch: bool) {
        if !is_switch {
            return;
        }
        context::assert_preemption_disabled();
        receiver.sched_exit(&ScheduleExit(NotThreadSafe));
    }
}

/// Receives `sched_exit_tp` after each call of the scheduler that was no switch.
#[cfg(HAVE_SCHED_EXIT_TP)]
pub(crate) trait SchedStay: Send + Sync + 'static {
    /// Called in the context of the task that keeps the CPU, with preemption off: see
    /// [`ScheduleExit`].
    fn sched_stay(&self, exit: &ScheduleExit);
}

#[cfg(HAVE_SCHED_EXIT_TP)]
declare_probe! {
    /// The probe that calls `T` when a call of the scheduler has left a CPU to its task.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedStayProbe<T: SchedStay>, c"sched_exit_tp", schedhist_sched_exit_probe;
    fn(receiver, is_switch: bool) {
        if is_switch {
            return;
        }
        context::assert_preemption_disabled();
        receiver.sched_stay(&ScheduleExit(NotThreadSafe));
    }
}

/// Waits until every switch that is in progress on any CPU has come to `sched_exit_tp`, and its
/// probes have returned. Sleeps.
///
/// Preemption is off from the one tracepoint to the other, which is what RCU waits for; and until
/// the interrupt has come.
pub(crate) fn wait_for_exits() {
    synchronize_rcu();
}
