// SPDX-License-Identifier: GPL-2.0

//! The `sched_waking` and `sched_wakeup_new` tracepoints.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use kernel::types::NotThreadSafe;

use super::{
    bindings,
    context,
    per_cpu::ThisCpu,
    rcu::RcuReader,
    task::Task,
    tracepoint::declare_probe, //
};

/// A wakeup that is in progress on this CPU. A value exists only within the probe.
pub(crate) struct Waking<'a> {
    /// The task that is being woken.
    pub(crate) task: Task<'a>,
    _this_cpu: NotThreadSafe,
}

// SAFETY: A `Waking` exists only within a probe, which `try_to_wake_up()` calls with preemption
// off, and `wake_up_new_task()` with interrupts off and the run queue's lock held.
unsafe impl RcuReader for Waking<'_> {}

// SAFETY: As above: with preemption off, the CPU stays the same.
unsafe impl ThisCpu for Waking<'_> {}

/// Receives `sched_waking`. `V` selects one of its compiled variants.
pub(crate) trait SchedWaking<V>: Send + Sync + 'static {
    /// Called for every task that is being woken, in the context of the waker, before the task is
    /// put on a run queue. Not called for new tasks.
    ///
    /// Interrupts are off and the task's `pi_lock` is held, unless a task wakes itself. In that
    /// case only preemption is off, and an interrupt on this CPU may run the probe in between, for
    /// another task or for the same one. So the implementation must not write per-CPU data, except
    /// by a single store.
    fn sched_waking(&self, waking: Waking<'_>);
}

declare_probe! {
    /// The probe that calls `T` at every wakeup.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedWakingProbe<T: SchedWaking<V>, V>, c"sched_waking", schedhist_sched_waking_probe;
    fn(receiver, task: *mut bindings::task_struct) {
        // SAFETY: The waker ensures that the task exists while it is being woken.
        let task = unsafe { Task::from_raw(task) };
        context::assert_preemption_disabled();
        context::assert_irqs_disabled_unless(|| context::is_current(task));
        receiver.sched_waking(Waking {
            task,
            _this_cpu: NotThreadSafe,
        });
    }
}

/// Receives `sched_wakeup_new`.
pub(crate) trait SchedWakeupNew: Send + Sync + 'static {
    /// Called for every new task, when it is put on a run queue for the first time, in the context
    /// of the task that created it.
    ///
    /// Interrupts are off, and the locks of the task and of its run queue are held.
    fn sched_wakeup_new(&self, waking: Waking<'_>);
}

declare_probe! {
    /// The probe that calls `T` at the first wakeup of every task.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedWakeupNewProbe<T: SchedWakeupNew>,
    c"sched_wakeup_new", schedhist_sched_wakeup_new_probe;
    fn(receiver, task: *mut bindings::task_struct) {
        // SAFETY: `wake_up_new_task()` has a reference to the task.
        let task = unsafe { Task::from_raw(task) };
        context::assert_irqs_disabled();
        receiver.sched_wakeup_new(Waking {
            task,
            _this_cpu: NotThreadSafe,
        });
    }
}
