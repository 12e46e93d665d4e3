// SPDX-License-Identifier: GPL-2.0

//! The `task_rename` tracepoint.
//!
//! C header: [`include/trace/events/task.h`](srctree/include/trace/events/task.h)

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
        Task,
        COMM_LEN, //
    },
    tracepoint::Probe, //
};

/// Receives `task_rename`.
pub(crate) trait TaskRename: Send + Sync + 'static {
    /// Called before a task gets the name `comm`, which is cut to the length that a name can have.
    ///
    /// Runs in the context of the task, of another thread of its process, or of a kernel thread
    /// that creates it; `execveat()` may hold the RCU read lock. The implementation must not sleep,
    /// but for a `spinlock_t` on `PREEMPT_RT`.
    fn task_rename(&self, task: Task<'_>, comm: [u8; COMM_LEN]);
}

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `task_rename` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: TaskRename>(
    data: *mut c_void,
    task: *mut bindings::task_struct,
    comm: *const c_char,
) {
    // SAFETY: `register()` passed `data`: the address of a `T` in an `Arc`, which is kept while the
    // probe can be called.
    let receiver = unsafe { &*data.cast::<T>() };
    // SAFETY: The task that is renamed exists meanwhile.
    let task = unsafe { Task::from_raw(task) };
    let mut name = [0; COMM_LEN];
    // The last byte stays a NUL.
    for (i, byte) in name.iter_mut().take(COMM_LEN - 1).enumerate() {
        // SAFETY: `__set_task_comm()` passes a string that ends in a NUL, and none of its bytes
        // before this one was one. Volatile, as the name of a file may change meanwhile.
        *byte = unsafe { comm.add(i).cast::<u8>().read_volatile() };
        if *byte == 0 {
            break;
        }
    }
    receiver.task_rename(task, name);
}

/// The probe that calls `T` for every task that is renamed.
pub(crate) struct TaskRenameProbe<T>(PhantomData<fn() -> T>);

// SAFETY: `glue.c` checks the type against `task_rename`, and `probe` expects a pointer to a `T`.
// `probe` may be called there by the contract of `TaskRename`.
unsafe impl<T: TaskRename> Probe for TaskRenameProbe<T> {
    type Data = T;
    type Function = bindings::schedhist_task_rename_probe;

    const TRACEPOINT: &'static CStr = c_str!("task_rename");
    const FUNCTION: Self::Function = Some(probe::<T>);
}
