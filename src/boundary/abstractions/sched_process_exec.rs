// SPDX-License-Identifier: GPL-2.0

//! The `sched_process_exec` tracepoint.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use core::marker::PhantomData;

use kernel::{
    bindings::pid_t,
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

/// Receives `sched_process_exec`.
pub(crate) trait SchedProcessExec: Send + Sync + 'static {
    /// Called after `task` has executed a program. If it was not the leader of its thread group, it
    /// has the leader's PID now.
    ///
    /// Runs in the context of the task, with preemption on. The implementation must not sleep, but
    /// for a `spinlock_t` on `PREEMPT_RT`.
    fn sched_process_exec(&self, task: Task<'_>);
}

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `sched_process_exec` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: SchedProcessExec>(
    data: *mut c_void,
    task: *mut bindings::task_struct,
    _old_pid: pid_t,
    _bprm: *mut bindings::linux_binprm,
) {
    // SAFETY: `register()` passed `data`: the address of a `T` in an `Arc`, which is kept while the
    // probe can be called.
    let receiver = unsafe { &*data.cast::<T>() };
    // SAFETY: The task is the current one.
    let task = unsafe { Task::from_raw(task) };
    context::assert_preemptible();
    receiver.sched_process_exec(task);
}

/// The probe that calls `T` for every program that is executed.
pub(crate) struct SchedProcessExecProbe<T>(PhantomData<fn() -> T>);

// SAFETY: `glue.c` checks the type against `sched_process_exec`, and `probe` expects a pointer to a
// `T`. `probe` may be called there by the contract of `SchedProcessExec`.
unsafe impl<T: SchedProcessExec> Probe for SchedProcessExecProbe<T> {
    type Data = T;
    type Function = bindings::schedhist_sched_process_exec_probe;

    const TRACEPOINT: &'static CStr = c_str!("sched_process_exec");
    const FUNCTION: Self::Function = Some(probe::<T>);
}
