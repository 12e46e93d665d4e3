// SPDX-License-Identifier: GPL-2.0

//! A view of a `task_struct` from within a probe.
//!
//! C header: [`include/linux/sched.h`](srctree/include/linux/sched.h)

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::bindings;

/// The length of [`Task::comm`], with its final NUL.
pub(crate) const COMM_LEN: usize = bindings::TASK_COMM_LEN as usize;

/// A task that is known to exist for `'a`.
///
/// Unlike `kernel::task::Task` it does not hold a reference: a probe must not take one for every
/// event.
///
/// # Invariants
///
/// `task` points to a `task_struct` that is valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    task: NonNull<bindings::task_struct>,
    _lifetime: PhantomData<&'a bindings::task_struct>,
}

impl<'a> Task<'a> {
    /// Creates a view of the task at `task`.
    ///
    /// # Safety
    ///
    /// `task` must point to a `task_struct` that stays valid for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(task: *mut bindings::task_struct) -> Self {
        Self {
            // SAFETY: A pointer to a valid `task_struct` is not null.
            // INVARIANT: The `task_struct` is valid for `'a` by the safety requirement.
            task: unsafe { NonNull::new_unchecked(task) },
            _lifetime: PhantomData,
        }
    }

    /// Returns the thread id in the initial PID namespace; 0 for the idle task of any CPU.
    #[inline(always)]
    pub(crate) fn pid(self) -> i32 {
        // SAFETY: Valid by the type's invariant. Volatile, as `exec()` by a thread that is not the
        // leader of its group gives it the leader's id.
        unsafe { (&raw const (*self.task.as_ptr()).pid).read_volatile() }
    }

    /// Returns whether this is the idle task of a CPU.
    #[inline(always)]
    pub(crate) fn is_idle(self) -> bool {
        self.pid() == 0
    }

    /// Returns the number of the CPU that the task runs on, or ran on last.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may migrate the task.
        unsafe { (&raw const (*self.task.as_ptr()).thread_info.cpu).read_volatile() }
    }

    /// Returns the time at which the task was put on its current run queue, in nanoseconds of that
    /// CPU's clock: `sched_info.last_queued`. Returns 0 if the task is on no run queue, and for a
    /// task that was preempted with its sleep state set. Callable in any context: another CPU may
    /// be changing the value.
    ///
    /// The kernel stamps every enqueue itself, under the run queue's lock. At the `sched_switch`
    /// tracepoint the task that gets the CPU still has its stamp: `sched_info_switch()` runs after
    /// the tracepoint.
    #[inline(always)]
    pub(crate) fn last_queued(self) -> u64 {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it.
        unsafe { (&raw const (*self.task.as_ptr()).sched_info.last_queued).read_volatile() }
    }

    /// Returns a number that no other task has during this task's life: its address.
    #[inline(always)]
    pub(crate) fn id(self) -> u64 {
        self.task.as_ptr() as u64
    }

    /// Returns whether the task is exiting. It may have given up its PID then.
    #[inline(always)]
    pub(crate) fn is_exiting(self) -> bool {
        // SAFETY: Valid by the type's invariant. Volatile, as other flags may change meanwhile.
        let flags = unsafe { (&raw const (*self.task.as_ptr()).flags).read_volatile() };
        flags & bindings::PF_EXITING != 0
    }

    /// Returns the sum of the task's completed waits for a CPU, in nanoseconds:
    /// `sched_info.run_delay`. The parts of the current wait that migrations cut off count, too.
    #[inline(always)]
    pub(crate) fn run_delay(self) -> u64 {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it. It does
        // not change for the two tasks of a switch within the `sched_switch` probe, as the run
        // queue's lock is held there.
        unsafe { (&raw const (*self.task.as_ptr()).sched_info.run_delay).read_volatile() }
    }

    /// Returns whether the task ever had a CPU: `sched_info.pcount` is not 0.
    #[inline(always)]
    pub(crate) fn has_run(self) -> bool {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it.
        unsafe { (&raw const (*self.task.as_ptr()).sched_info.pcount).read_volatile() != 0 }
    }

    /// Returns the effective priority: 0 to 99 for real time, 100 to 139 for nice -20 to 19.
    #[inline(always)]
    pub(crate) fn prio(self) -> i32 {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it.
        unsafe { (&raw const (*self.task.as_ptr()).prio).read_volatile() }
    }

    /// Returns a copy of the name, which ends in a NUL. The copy may be torn if the task is being
    /// renamed meanwhile, as in any of the kernel's own events.
    #[inline(always)]
    pub(crate) fn comm(self) -> [u8; COMM_LEN] {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it. The last
        // byte always is a NUL: see `__set_task_comm()`.
        unsafe { (&raw const (*self.task.as_ptr()).comm).read_volatile() }
    }
}
