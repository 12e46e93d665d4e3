// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of cgroups: `cgroup_mkdir` and `cgroup_attach_task`.
//!
//! C header: [`include/trace/events/cgroup.h`](srctree/include/trace/events/cgroup.h)

use kernel::ffi::c_char;

use super::{
    bindings,
    cgroup::Cgroup,
    task::{
        visit_threads,
        Task, //
    },
    tracepoint::declare_probe, //
};

pub(crate) trait CgroupMkdir: Send + Sync + 'static {
    /// Called for each new cgroup of the default hierarchy, before any task can be in it. A look at
    /// its path finds it already.
    ///
    /// Interrupts are off, except on `PREEMPT_RT`: the implementation must not sleep, but for a
    /// `spinlock_t` there.
    fn cgroup_mkdir(&self, cgroup: &Cgroup<'_>);
}

declare_probe! {
    /// The probe that calls `T` for every new cgroup.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe CgroupMkdirProbe<T: CgroupMkdir>, c"cgroup_mkdir", schedhist_cgroup_mkdir_probe;
    fn(receiver, cgroup: *mut bindings::cgroup, _path: *const c_char) {
        // SAFETY: `cgroup_mkdir()` has the cgroup from `cgroup_create()`. It activates the cgroup's
        // node after this, so that nobody else uses or removes the cgroup yet.
        if let Some(cgroup) = unsafe { Cgroup::from_raw(cgroup) } {
            receiver.cgroup_mkdir(&cgroup);
        }
    }
}

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

declare_probe! {
    /// The probe that calls `T` for every task that moves to another cgroup.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe CgroupAttachTaskProbe<T: CgroupAttachTask>,
    c"cgroup_attach_task", schedhist_cgroup_attach_task_probe;
    fn(
        receiver,
        _cgroup: *mut bindings::cgroup,
        _path: *const c_char,
        task: *mut bindings::task_struct,
        is_process: bool,
    ) {
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
}
