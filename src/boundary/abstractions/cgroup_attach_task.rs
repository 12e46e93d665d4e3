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
        visit_threads,
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

    /// Called after the process of `task` has moved, if it has more than [`THREADS`] threads:
    /// [`CgroupAttachTask::cgroup_attach_task`] was called for so many of them only. The context is
    /// the same.
    fn cgroup_attach_rest(&self, task: Task<'_>);
}

/// The number of threads of a process for which [`CgroupAttachTask`] is called one by one.
///
/// A process moves as a whole, and may have any number of threads. The kernel itself is not quick
/// either, but does far less for each.
const THREADS: usize = 32;

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
        let mut left = THREADS;
        visit_threads(task, |thread| {
            let is_left = left != 0;
            match is_left {
                true => receiver.cgroup_attach_task(thread),
                false => receiver.cgroup_attach_rest(task),
            }
            left = left.saturating_sub(1);
            is_left
        });
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
