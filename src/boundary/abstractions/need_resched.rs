// SPDX-License-Identifier: GPL-2.0

//! The `sched_set_need_resched_tp` tracepoint, which kernels before 6.17 do not have.
//!
//! C header: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h)

use kernel::{
    ffi::c_int,
    types::NotThreadSafe, //
};

use super::{
    bindings,
    context,
    per_cpu::ThisCpu,
    smp::this_cpu,
    task::Task,
    tracepoint::declare_probe, //
};

/// A request, in progress on this CPU, to reschedule a CPU. A value exists only within the probe.
pub(crate) struct NeedResched<'a> {
    /// The task that is to leave its CPU; the idle task if that is to get one.
    pub(crate) task: Task<'a>,
    /// The CPU to be rescheduled.
    pub(crate) cpu: u32,
    /// Whether the flag is `TIF_NEED_RESCHED_LAZY`.
    pub(crate) is_lazy: bool,
    _this_cpu: NotThreadSafe,
}

// SAFETY: A `NeedResched` exists only within a probe that runs with interrupts off.
unsafe impl ThisCpu for NeedResched<'_> {}

impl NeedResched<'_> {
    /// Returns whether the task has its CPU, and not only may get it next.
    pub(crate) fn is_running(&self) -> bool {
        self.cpu != this_cpu() || context::is_current(self.task)
    }
}

/// Receives `sched_set_need_resched_tp`.
pub(crate) trait SchedSetNeedResched: Send + Sync + 'static {
    /// Called before a flag is set that asks the scheduler to choose a task for a CPU anew, unless
    /// it is set already. Not called for an idle task that polls the flag.
    ///
    /// Interrupts are off. If the CPU is another one, its run queue's lock is held.
    fn sched_set_need_resched(&self, request: &NeedResched<'_>);
}

declare_probe! {
    /// The probe that calls `T` at every request to reschedule a CPU.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SchedSetNeedReschedProbe<T: SchedSetNeedResched>,
    c"sched_set_need_resched_tp", schedhist_need_resched_probe;
    fn(receiver, task: *mut bindings::task_struct, cpu: c_int, flag: c_int) {
        // SAFETY: The task is the current one of a CPU whose run queue's lock is held, or of this
        // CPU, or it is about to be, or it is an idle task.
        let task = unsafe { Task::from_raw(task) };
        context::assert_irqs_disabled();
        receiver.sched_set_need_resched(&NeedResched {
            task,
            cpu: cpu as u32,
            is_lazy: flag != bindings::SCHEDHIST_TIF_NEED_RESCHED as c_int,
            _this_cpu: NotThreadSafe,
        });
    }
}

/// Returns whether a request to reschedule this CPU's task, of this kind, is pending. Any context.
pub(crate) fn is_resched_pending(is_lazy: bool) -> bool {
    // SAFETY: Callable in any context.
    unsafe { bindings::schedhist_is_resched_pending(is_lazy) }
}
