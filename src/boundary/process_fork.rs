// SPDX-License-Identifier: GPL-2.0

//! The `sched_process_fork` tracepoint.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use kernel::{
    c_str,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

use super::{
    bindings,
    task::Task,
    tracepoint::Registration, //
};

/// What can be probed with.
pub(crate) trait ProcessFork: Send + Sync + 'static {
    /// Is told of every new task before it first runs; not of the kernel's I/O workers, which
    /// `create_io_thread()` makes.
    ///
    /// Runs in the context of the parent, with interrupts on, preemptible. Must not sleep.
    fn process_fork(&self, child: Task<'_>);
}

/// The probe itself: C calls it, and it calls `T`.
///
/// # Safety
///
/// Must be called by the `sched_process_fork` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: ProcessFork>(
    data: *mut c_void,
    _parent: *mut bindings::task_struct,
    child: *mut bindings::task_struct,
) {
    // SAFETY: `data` is what `register` passed: an `Arc<T>` that is kept while we can be called.
    let tracker = unsafe { &*data.cast::<T>() };
    // SAFETY: `kernel_clone()` wakes the child only after this, so that it cannot exit before.
    tracker.process_fork(unsafe { Task::from_raw(child) });
}

/// Tells `tracker` of every new task, until the guard is dropped.
///
/// Fails with `ENOENT` when the kernel has no such tracepoint, and with `ENOMEM`. Sleeps.
pub(crate) fn register<T: ProcessFork>(tracker: Arc<T>) -> Result<Registration<T>> {
    // The type comes from C, where it is checked against the tracepoint's prototype.
    let probe: bindings::schedhist_sched_process_fork_probe = Some(probe::<T>);
    let probe = probe.map_or(core::ptr::null_mut(), |probe| probe as *mut c_void);
    // SAFETY: The prototype is right, as said above, and `probe` expects a pointer to a `T`. It is
    // a function that may be called there by the contract of `ProcessFork`.
    unsafe { Registration::new(c_str!("sched_process_fork"), probe, tracker) }
}
