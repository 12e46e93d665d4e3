// SPDX-License-Identifier: GPL-2.0

//! The `sched_process_exit` tracepoint.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use core::marker::PhantomData;

use kernel::{
    c_str,
    ffi::c_void,
    str::CStr, //
};

use super::{
    bindings,
    context,
    task::ProcessId,
    tracepoint::Probe, //
};

/// Receives `sched_process_exit`.
pub(crate) trait SchedProcessExit: Send + Sync + 'static {
    /// Called when the last thread of a process exits. The process forks no other one any more.
    ///
    /// Runs in the context of the thread, with preemption on. The implementation must not sleep,
    /// but for a `spinlock_t` on `PREEMPT_RT`.
    fn sched_process_exit(&self, process: ProcessId);
}

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `sched_process_exit` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: SchedProcessExit>(
    data: *mut c_void,
    task: *mut bindings::task_struct,
    is_last: bool,
) {
    if !is_last {
        return;
    }
    // SAFETY: `register()` passed `data`: the address of a `T` in an `Arc`, which is kept while the
    // probe can be called.
    let receiver = unsafe { &*data.cast::<T>() };
    // SAFETY: The task is the current one, and on its way to `exit_notify()`.
    let process = unsafe { ProcessId::of_exiting(task) };
    context::assert_preemptible();
    receiver.sched_process_exit(process);
}

/// The probe that calls `T` for every process that ends.
pub(crate) struct SchedProcessExitProbe<T>(PhantomData<fn() -> T>);

// SAFETY: `glue.c` checks the type against `sched_process_exit`, and `probe` expects a pointer to a
// `T`. `probe` may be called there by the contract of `SchedProcessExit`.
unsafe impl<T: SchedProcessExit> Probe for SchedProcessExitProbe<T> {
    type Data = T;
    type Function = bindings::schedhist_sched_process_exit_probe;

    const TRACEPOINT: &'static CStr = c_str!("sched_process_exit");
    const FUNCTION: Self::Function = Some(probe::<T>);
}
