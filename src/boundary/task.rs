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
/// Unlike `kernel::task::Task` it stands for no reference count: a probe must not take one for
/// every event.
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
            // SAFETY: A pointer to something valid is not null.
            // INVARIANT: By the safety requirement.
            task: unsafe { NonNull::new_unchecked(task) },
            _lifetime: PhantomData,
        }
    }

    /// Returns the thread id in the initial PID namespace; 0 for the idle task of any CPU.
    #[inline(always)]
    pub(crate) fn pid(self) -> i32 {
        // SAFETY: Valid by the type's invariant. The field does not change while the task lives.
        unsafe { (&raw const (*self.task.as_ptr()).pid).read() }
    }

    /// Says whether this is the idle task of a CPU.
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

    /// Returns the effective priority: 0 to 99 for real time, 100 to 139 for nice -20 to 19.
    #[inline(always)]
    pub(crate) fn prio(self) -> i32 {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it.
        unsafe { (&raw const (*self.task.as_ptr()).prio).read_volatile() }
    }

    /// Returns a copy of the name, which ends in a NUL. It may be torn when the task is just being
    /// renamed, as in any of the kernel's own events.
    #[inline(always)]
    pub(crate) fn comm(self) -> [u8; COMM_LEN] {
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it. The last
        // byte stays NUL whatever happens: see `__set_task_comm()`.
        unsafe { (&raw const (*self.task.as_ptr()).comm).read_volatile() }
    }
}
