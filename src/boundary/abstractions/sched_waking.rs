// SPDX-License-Identifier: GPL-2.0

//! The `sched_waking` tracepoint.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use core::marker::PhantomData;

use kernel::{
    c_str,
    ffi::c_void,
    str::CStr,
    types::NotThreadSafe, //
};

use crate::boundary::{
    abstractions::{
        context,
        task::Task,
        tracepoint::Probe, //
    },
    bindings,
    task_table::NoPreemption, //
};

/// A wakeup that is just happening on this CPU. It exists only within the probe.
pub(crate) struct Waking<'a> {
    /// The task that is being woken.
    pub(crate) task: Task<'a>,
    _this_cpu: PhantomData<NotThreadSafe>,
}

// SAFETY: It exists only within the probe, and `try_to_wake_up()` has preemption off around that.
unsafe impl NoPreemption for Waking<'_> {}

/// Receives `sched_waking`. `V` selects one of its compiled variants.
pub(crate) trait SchedWaking<V>: Send + Sync + 'static {
    /// Is told of every task that is being woken, by the waker, before it is put on a run queue; not
    /// of new ones.
    ///
    /// Interrupts are off and the task's `pi_lock` is held, unless a task wakes itself: then only
    /// preemption is off, and an interrupt on this CPU may run the probe in between, for another task
    /// or for the same one. So what it writes must not belong to the CPU, as its records do, unless
    /// it is a single store.
    fn sched_waking(&self, waking: Waking<'_>);
}

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `sched_waking` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: SchedWaking<V>, V>(
    data: *mut c_void,
    task: *mut bindings::task_struct,
) {
    // SAFETY: `data` is what `register` passed: an `Arc<T>` that is kept while we can be called.
    let recorder = unsafe { &*data.cast::<T>() };
    // SAFETY: The waker sees to it that the task exists as long as it wakes it.
    let task = unsafe { Task::from_raw(task) };
    context::assert_preemption_disabled();
    context::assert_irqs_disabled_unless(|| context::is_current(task));
    recorder.sched_waking(Waking {
        task,
        _this_cpu: PhantomData,
    });
}

/// The probe that calls `T` at every wakeup.
pub(crate) struct SchedWakingProbe<T, V>(PhantomData<fn() -> (T, V)>);

// SAFETY: `glue.c` checks the type against `sched_waking`, and `probe` expects a pointer to a `T`.
// It may be called there by the contract of `SchedWaking`.
unsafe impl<T: SchedWaking<V>, V> Probe for SchedWakingProbe<T, V> {
    type Data = T;
    type Function = bindings::schedhist_sched_waking_probe;

    const TRACEPOINT: &'static CStr = c_str!("sched_waking");
    const FUNCTION: Self::Function = Some(probe::<T, V>);
}
