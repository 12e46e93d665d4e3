// SPDX-License-Identifier: GPL-2.0

//! The `task_newtask` tracepoint.
//!
//! C header: [`include/trace/events/task.h`](srctree/include/trace/events/task.h)

use core::marker::PhantomData;

use kernel::{
    c_str,
    ffi::c_void,
    str::CStr, //
};

use super::{
    bindings,
    context,
    task::Task,
    tracepoint::Probe, //
};

/// Receives `task_newtask`.
pub(crate) trait TaskNewtask: Send + Sync + 'static {
    /// Called for every new task, before it first runs and after a walk over all tasks can find it.
    ///
    /// New tasks are the forked ones and the kernel's I/O and vhost workers, which
    /// `sched_process_fork` does not report. Not called for idle tasks.
    ///
    /// Runs in the context of the parent. The implementation may allocate with `GFP_NOWAIT`, even
    /// on `PREEMPT_RT`, as preemption is on: since 7.0 tracepoints are called under SRCU. It must
    /// not sleep otherwise.
    fn task_newtask(&self, task: Task<'_>);
}

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `task_newtask` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: TaskNewtask>(
    data: *mut c_void,
    task: *mut bindings::task_struct,
    _clone_flags: u64,
) {
    // SAFETY: `register()` passed `data`: the address of a `T` in an `Arc`, which is kept while the
    // probe can be called.
    let receiver = unsafe { &*data.cast::<T>() };
    // SAFETY: The task exists: it has not been woken yet, and `copy_process()` returns it only
    // after this.
    let task = unsafe { Task::from_raw(task) };
    context::assert_preemptible();
    if !task.is_idle() {
        receiver.task_newtask(task);
    }
}

/// The probe that calls `T` for every new task.
pub(crate) struct TaskNewtaskProbe<T>(PhantomData<fn() -> T>);

// SAFETY: `glue.c` checks the type against `task_newtask`, and `probe` expects a pointer to a `T`.
// `probe` may be called there by the contract of `TaskNewtask`.
unsafe impl<T: TaskNewtask> Probe for TaskNewtaskProbe<T> {
    type Data = T;
    type Function = bindings::schedhist_task_newtask_probe;

    const TRACEPOINT: &'static CStr = c_str!("task_newtask");
    const FUNCTION: Self::Function = Some(probe::<T>);
}
