// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of the life of a task: `task_newtask`, `task_rename`, `sched_process_exec` and
//! `sched_process_exit`.
//!
//! C headers: [`include/trace/events/task.h`](srctree/include/trace/events/task.h),
//! [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use kernel::{
    bindings::pid_t,
    ffi::c_char, //
};

use super::{
    bindings,
    context,
    task::{
        ProcessId,
        Task,
        COMM_LEN, //
    },
    tracepoint::declare_probe, //
};

pub(crate) trait TaskNewtask: Send + Sync + 'static {
    /// Called for every new task, before it first runs and after a walk over all tasks can find it.
    ///
    /// New tasks are the forked ones and the kernel's I/O and vhost workers, which
    /// `sched_process_fork` does not report. Not called for idle tasks.
    ///
    /// Runs in the context of the parent. The implementation may allocate with `GFP_NOWAIT`, also
    /// on `PREEMPT_RT`: there probes run with preemption on, under SRCU, or the build is refused.
    /// It must not sleep otherwise.
    fn task_newtask(&self, task: Task<'_>);
}

declare_probe! {
    /// The probe that calls `T` for every new task.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe TaskNewtaskProbe<T: TaskNewtask>, c"task_newtask", schedhist_task_newtask_probe;
    fn(
        receiver,
        task: *mut bindings::task_struct,
        #[cfg(HAVE_CLONE_FLAGS_U64)] _flags: u64,
        #[cfg(not(HAVE_CLONE_FLAGS_U64))] _flags: kernel::ffi::c_ulong,
    ) {
        // SAFETY: The task exists: it has not been woken yet, and `copy_process()` returns it only
        // after this.
        let task = unsafe { Task::from_raw(task) };
        context::assert_preemptible();
        if !task.is_idle() {
            receiver.task_newtask(task);
        }
    }
}

pub(crate) trait TaskRename: Send + Sync + 'static {
    /// Called before a task gets the name `comm`, which is cut to the length that a name can have.
    ///
    /// Runs in the context of the task, of another thread of its process, or of a kernel thread
    /// that creates it; `execveat()` may hold the RCU read lock. The implementation must not sleep,
    /// but for a `spinlock_t` on `PREEMPT_RT`.
    fn task_rename(&self, task: Task<'_>, comm: [u8; COMM_LEN]);
}

declare_probe! {
    /// The probe that calls `T` for every task that is renamed.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe TaskRenameProbe<T: TaskRename>, c"task_rename", schedhist_task_rename_probe;
    fn(receiver, task: *mut bindings::task_struct, comm: *const c_char) {
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
}

pub(crate) trait SchedProcessExec: Send + Sync + 'static {
    /// Called after `task` has executed a program. If it was not the leader of its thread group, it
    /// has the leader's PID now.
    ///
    /// Runs in the context of the task, with interrupts on. The implementation must not sleep, but
    /// for a `spinlock_t` on `PREEMPT_RT`.
    fn sched_process_exec(&self, task: Task<'_>);
}

declare_probe! {
    /// The probe that calls `T` for every program that is executed.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedProcessExecProbe<T: SchedProcessExec>,
    c"sched_process_exec", schedhist_sched_process_exec_probe;
    fn(
        receiver,
        task: *mut bindings::task_struct,
        _old_pid: pid_t,
        _bprm: *mut bindings::linux_binprm,
    ) {
        // SAFETY: The task is the current one.
        let task = unsafe { Task::from_raw(task) };
        context::assert_preemptible();
        receiver.sched_process_exec(task);
    }
}

pub(crate) trait SchedProcessExit: Send + Sync + 'static {
    /// Called when the last thread of a process exits. The process forks no other one any more.
    ///
    /// Runs in the context of the thread, with interrupts on. The implementation must not sleep,
    /// but for a `spinlock_t` on `PREEMPT_RT`.
    fn sched_process_exit(&self, process: ProcessId);
}

declare_probe! {
    /// The probe that calls `T` for every process that ends.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedProcessExitProbe<T: SchedProcessExit>,
    c"sched_process_exit", schedhist_sched_process_exit_probe;
    fn(
        receiver,
        task: *mut bindings::task_struct,
        #[cfg(HAVE_GROUP_DEAD)] is_last: bool,
    ) {
        // Two threads that exit together may both come after the last one has been counted.
        //
        // SAFETY: The task is the current one.
        #[cfg(not(HAVE_GROUP_DEAD))]
        let is_last = unsafe { bindings::schedhist_is_dead(task) };
        if !is_last {
            return;
        }
        // SAFETY: The task is the current one, and on its way to `exit_notify()`.
        let process = unsafe { ProcessId::of_exiting(task) };
        context::assert_preemptible();
        receiver.sched_process_exit(process);
    }
}
