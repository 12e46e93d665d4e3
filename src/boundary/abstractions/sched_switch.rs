// SPDX-License-Identifier: GPL-2.0

//! The `sched_switch` tracepoint.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use core::marker::PhantomData;

use kernel::{
    c_str,
    ffi::{
        c_uint,
        c_void, //
    },
    str::CStr,
    types::NotThreadSafe, //
};

use crate::boundary::{
    abstractions::{
        context,
        per_cpu::ThisCpu,
        task::Task,
        tracepoint::Probe, //
    },
    bindings,
    task_table::NoPreemption, //
};

/// A context switch that is just happening on this CPU.
///
/// It exists only within the probe. `__schedule()` holds the run queue's lock there and has
/// interrupts off: no printing, no allocation, no wakeup, no lock.
pub(crate) struct Switch<'a> {
    /// Whether the task was preempted, in the sense of `SM_PREEMPT`.
    pub(crate) preempt: bool,
    /// The task that leaves the CPU.
    pub(crate) prev: Task<'a>,
    /// The task that gets it.
    pub(crate) next: Task<'a>,
    /// The state of `prev`, as `__schedule()` read it.
    pub(crate) prev_state: u32,
    _this_cpu: PhantomData<NotThreadSafe>,
}

impl Switch<'_> {
    /// # Safety
    ///
    /// Must be called within the probe, with its arguments.
    #[inline(always)]
    unsafe fn new(
        preempt: bool,
        prev: *mut bindings::task_struct,
        next: *mut bindings::task_struct,
        prev_state: c_uint,
    ) -> Self {
        let switch = Self {
            preempt,
            // SAFETY: `prev` is running here, and so exists until `__schedule()` has switched away.
            prev: unsafe { Task::from_raw(prev) },
            // SAFETY: `next` is about to run here, and so exists as long.
            next: unsafe { Task::from_raw(next) },
            prev_state,
            _this_cpu: PhantomData,
        };
        // So nobody else writes what belongs to this CPU.
        context::assert_irqs_disabled();
        context::assert_this_cpu(|| switch.cpu());
        switch
    }
}

// SAFETY: The task that leaves is still `current`, and so its CPU is this one; and it exists only
// within the probe, with interrupts off.
unsafe impl ThisCpu for Switch<'_> {
    #[inline(always)]
    fn cpu(&self) -> u32 {
        self.prev.cpu()
    }
}

// SAFETY: It exists only within the probe, with interrupts off.
unsafe impl NoPreemption for Switch<'_> {}

/// Receives `sched_switch`. `V` selects one of its compiled variants.
pub(crate) trait SchedSwitch<V>: Send + Sync + 'static {
    /// Says whether [`SchedSwitch::sched_switch_watched`] is to be called, which is rare, instead of
    /// [`SchedSwitch::sched_switch`].
    fn is_watched() -> bool;

    /// Is told of every context switch, on the CPU on which it happens.
    ///
    /// Interrupts are off and the run queue's lock is held: see [`Switch`].
    fn sched_switch(&self, switch: &Switch<'_>);

    /// The same while somebody wants to know more of each switch.
    fn sched_switch_watched(&self, switch: &Switch<'_>);
}

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `sched_switch` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: SchedSwitch<V>, V>(
    data: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    prev_state: c_uint,
) {
    if T::is_watched() {
        // With the arguments where they are, so that this costs the other case nothing.
        //
        // SAFETY: As our caller has it.
        return unsafe { watched_probe::<T, V>(data, preempt, prev, next, prev_state) };
    }
    // SAFETY: `data` is what `register` passed: an `Arc<T>` that is kept while we can be called.
    let recorder = unsafe { &*data.cast::<T>() };
    // SAFETY: As our caller has it.
    recorder.sched_switch(&unsafe { Switch::new(preempt, prev, next, prev_state) });
}

/// The same, out of the way.
///
/// # Safety
///
/// As for [`probe`].
#[cold]
#[inline(never)]
unsafe extern "C" fn watched_probe<T: SchedSwitch<V>, V>(
    data: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    prev_state: c_uint,
) {
    // SAFETY: As in `probe`.
    let recorder = unsafe { &*data.cast::<T>() };
    // SAFETY: As our caller has it.
    recorder.sched_switch_watched(&unsafe { Switch::new(preempt, prev, next, prev_state) });
}

/// The probe that calls `T` at every context switch of every CPU.
pub(crate) struct SchedSwitchProbe<T, V>(PhantomData<fn() -> (T, V)>);

// SAFETY: `glue.c` checks the type against `sched_switch`, and `probe` expects a pointer to a `T`.
// It may run with interrupts off and the run queue's lock held, by the contract of `SchedSwitch`.
unsafe impl<T: SchedSwitch<V>, V> Probe for SchedSwitchProbe<T, V> {
    type Data = T;
    type Function = bindings::schedhist_sched_switch_probe;

    const TRACEPOINT: &'static CStr = c_str!("sched_switch");
    const FUNCTION: Self::Function = Some(probe::<T, V>);
}
