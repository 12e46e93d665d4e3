// SPDX-License-Identifier: GPL-2.0

//! The `sched_switch` tracepoint.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use core::marker::PhantomData;

use kernel::{
    ffi::{
        c_uint,
        c_void, //
    },
    str::CStr,
    types::NotThreadSafe, //
};

use super::{
    bindings,
    context,
    per_cpu::{
        PerCpu,
        ThisCpu, //
    },
    rcu::RcuReader,
    task::Task,
    tracepoint::Probe, //
};

/// A context switch that is in progress on this CPU.
///
/// A value exists only within the probe. `__schedule()` holds the run queue's lock there and has
/// interrupts off: the probe must not print, allocate or wake a task, nor take a lock that may be
/// held where a task is woken.
pub(crate) struct Switch<'a> {
    /// Whether the task was preempted, in the sense of `SM_PREEMPT`.
    pub(crate) preempt: bool,
    /// The task that leaves the CPU.
    pub(crate) prev: Task<'a>,
    /// The task that gets the CPU.
    pub(crate) next: Task<'a>,
    /// The state of `prev`, as `__schedule()` read it.
    pub(crate) prev_state: u32,
    _this_cpu: NotThreadSafe,
}

impl Switch<'_> {
    /// # Safety
    ///
    /// Must be called within the probe, with the arguments of the tracepoint. The result must not
    /// outlive the call of the probe.
    #[inline(always)]
    unsafe fn new(
        preempt: bool,
        prev: *mut bindings::task_struct,
        next: *mut bindings::task_struct,
        prev_state: c_uint,
    ) -> Self {
        let switch = Self {
            preempt,
            // SAFETY: `prev` is running here, and so exists until `__schedule()` has switched away
            // from it, which is after the probe.
            prev: unsafe { Task::from_raw(prev) },
            // SAFETY: `next` is about to run here, and so exists until the probe returns.
            next: unsafe { Task::from_raw(next) },
            prev_state,
            _this_cpu: NotThreadSafe,
        };
        // Per-CPU data has no other writer meanwhile.
        context::assert_irqs_disabled();
        context::assert_this_cpu(|| switch.prev.cpu());
        switch
    }
}

// SAFETY: A `Switch` exists only within the probe, which cannot migrate, as interrupts are off.
unsafe impl ThisCpu for Switch<'_> {}

// SAFETY: A `Switch` exists only within the probe, in which interrupts are off.
unsafe impl RcuReader for Switch<'_> {}

/// Proof of a [`Switch`], which takes no memory.
#[derive(Clone, Copy)]
pub(crate) struct WithinSwitch<'a>(PhantomData<(&'a (), NotThreadSafe)>);

impl<'a> Switch<'a> {
    #[inline(always)]
    pub(crate) fn proof(&'a self) -> WithinSwitch<'a> {
        WithinSwitch(PhantomData)
    }
}

// SAFETY: A proof does not outlive its `Switch`.
unsafe impl RcuReader for WithinSwitch<'_> {}

// SAFETY: As above; it does not leave the CPU either.
unsafe impl ThisCpu for WithinSwitch<'_> {}

/// Receives `sched_switch`. `V` selects one of its compiled variants.
pub(crate) trait SchedSwitch<V>: Send + Sync + 'static {
    /// Returns whether the probe calls [`SchedSwitch::sched_switch_traced`] instead of
    /// [`SchedSwitch::sched_switch`]. Should rarely be true. Never is by default.
    fn is_traced() -> bool {
        false
    }

    /// Called at every context switch, on the CPU on which it happens.
    ///
    /// Interrupts are off and the run queue's lock is held: see [`Switch`].
    fn sched_switch(&self, switch: &Switch<'_>);

    /// Called in place of [`SchedSwitch::sched_switch`] while [`SchedSwitch::is_traced`] returns
    /// true, in the same context.
    fn sched_switch_traced(&self, switch: &Switch<'_>) {
        self.sched_switch(switch);
    }
}

/// The probe that calls at every context switch the `T` of the CPU on which it happens. It takes a
/// cache line less than to find what belongs to the CPU by way of a `T` that all CPUs share.
pub(crate) struct SchedSwitchProbe<T, V>(PhantomData<fn() -> (T, V)>);

impl<T: SchedSwitch<V>, V> SchedSwitchProbe<T, V> {
    /// The probe itself.
    ///
    /// # Safety
    ///
    /// Must be called by the tracepoint, with what [`PerCpu::address`] returned for values of `T`
    /// that exist until this returns as `data`.
    unsafe extern "C" fn probe(
        data: *mut c_void,
        preempt: bool,
        prev: *mut bindings::task_struct,
        next: *mut bindings::task_struct,
        prev_state: c_uint,
    ) {
        if T::is_traced() {
            // Pass the arguments through unchanged: the common path then spills nothing.
            //
            // SAFETY: These are the arguments of the tracepoint, by the safety requirement.
            return unsafe { Self::traced_probe(data, preempt, prev, next, prev_state) };
        }
        // SAFETY: This is the probe, and these are the arguments of the tracepoint.
        let switch = unsafe { Switch::new(preempt, prev, next, prev_state) };
        // SAFETY: `register()` passed `data`: the address of the values in an `Arc`, which is kept
        // while the probe can be called.
        unsafe { PerCpu::<T>::this_at(data, &switch) }.sched_switch(&switch);
    }

    /// The rest of the probe for a traced switch, out of line.
    ///
    /// # Safety
    ///
    /// Must be called by the probe, with the arguments that the tracepoint passed to it.
    #[cold]
    #[inline(never)]
    unsafe extern "C" fn traced_probe(
        data: *mut c_void,
        preempt: bool,
        prev: *mut bindings::task_struct,
        next: *mut bindings::task_struct,
        prev_state: c_uint,
    ) {
        // SAFETY: This is part of the probe, and these are the arguments of the tracepoint.
        let switch = unsafe { Switch::new(preempt, prev, next, prev_state) };
        // SAFETY: As in `probe()`.
        unsafe { PerCpu::<T>::this_at(data, &switch) }.sched_switch_traced(&switch);
    }
}

// SAFETY: `glue.c` checks the type against the tracepoint, and `probe()` expects what `argument()`
// returns. It may run with interrupts off and the run queue's lock held, by the contract of
// `SchedSwitch`.
unsafe impl<T: SchedSwitch<V>, V> Probe for SchedSwitchProbe<T, V> {
    type Data = PerCpu<T>;
    type Function = bindings::schedhist_sched_switch_probe;

    const TRACEPOINT: &'static CStr = c"sched_switch";
    const FUNCTION: Self::Function = Some(Self::probe);

    fn argument(data: &PerCpu<T>) -> *mut c_void {
        data.address()
    }
}
