// SPDX-License-Identifier: GPL-2.0

//! The `cgroup_attach_task` tracepoint.
//!
//! C header: [`include/trace/events/cgroup.h`](srctree/include/trace/events/cgroup.h)

use core::marker::PhantomData;

use kernel::{
    c_str,
    ffi::{
        c_char,
        c_void, //
    },
    str::CStr, //
};

use super::{
    bindings,
    task::{
        for_each_thread,
        Task, //
    },
    tracepoint::Probe, //
};

/// Receives `cgroup_attach_task`.
pub(crate) trait CgroupAttachTask: Send + Sync + 'static {
    /// Called after `task` has moved to another cgroup of any hierarchy.
    ///
    /// Interrupts are off, except on `PREEMPT_RT`: the implementation must not sleep, but for a
    /// `spinlock_t` there.
    fn cgroup_attach_task(&self, task: Task<'_>);
}

/// The probe itself: C calls it, and it calls `T`, for each task that moved.
///
/// # Safety
///
/// Must be called by the `cgroup_attach_task` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: CgroupAttachTask>(
    data: *mut c_void,
    _cgroup: *mut bindings::cgroup,
    _path: *const c_char,
    task: *mut bindings::task_struct,
    is_process: bool,
) {
    // SAFETY: `register()` passed `data`: the address of a `T` in an `Arc`, which is kept while the
    // probe can be called.
    let receiver = unsafe { &*data.cast::<T>() };
    // SAFETY: The task exists, as the mover has a reference.
    let task = unsafe { Task::from_raw(task) };
    if is_process {
        // The event names only the leader, which may be a zombie that stays where it is.
        for_each_thread(task, |thread| receiver.cgroup_attach_task(thread));
    } else {
        receiver.cgroup_attach_task(task);
    }
}

/// The probe that calls `T` for every task that moves to another cgroup.
pub(crate) struct CgroupAttachTaskProbe<T>(PhantomData<fn() -> T>);

// SAFETY: `glue.c` checks the type against `cgroup_attach_task`, and `probe` expects a pointer to a
// `T`. `probe` may be called there by the contract of `CgroupAttachTask`.
unsafe impl<T: CgroupAttachTask> Probe for CgroupAttachTaskProbe<T> {
    type Data = T;
    type Function = bindings::schedhist_cgroup_attach_task_probe;

    const TRACEPOINT: &'static CStr = c_str!("cgroup_attach_task");
    const FUNCTION: Self::Function = Some(probe::<T>);
}
