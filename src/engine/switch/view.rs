// SPDX-License-Identifier: GPL-2.0

//! The engine's views of a context switch and of a wakeup, as the tracepoints pass them.
//!
//! The probes implement these traits on the kernel's own structures, and the tests on those of a
//! model. Each method reads one value, and the engine calls it only if that value is needed.

use crate::engine::{
    idle::Distance,
    switch::{
        PrevState,
        TaskState, //
    },
};

/// A task, as it leaves a CPU, gets one, or is woken.
pub trait Task: Copy {
    /// Returns the thread id in the initial PID namespace; 0 for the idle task.
    fn pid(self) -> i32;

    /// Returns a number that no other living task has, such as the address. Not 0, and a multiple
    /// of 64. The lower 48 bits are enough to tell living tasks apart.
    fn id(self) -> u64;

    /// Returns whether the task is exiting, and may have given up its PID already.
    fn is_exiting(self) -> bool;

    /// Returns whether the task ever had a CPU: `sched_info.pcount` is not 0.
    fn has_run(self) -> bool;

    /// Returns the sum of the task's waits that the kernel has accounted, in nanoseconds:
    /// `sched_info.run_delay`. The wait since [`Task::last_queued`] is not in it yet.
    fn run_delay(self) -> u64;

    /// Returns when the kernel put the task on the run queue that it is on, in nanoseconds of that
    /// CPU's clock: `sched_info.last_queued`. 0 if it is on none, and for a task that was preempted
    /// with its sleep state set.
    fn last_queued(self) -> u64;

    /// Returns whether the task, which is being woken, is on a run queue already, so that the
    /// kernel may not stamp it at the wakeup. May be true for a task that has not left its CPU yet.
    #[inline(always)]
    fn is_queued(self) -> bool {
        self.last_queued() != 0
    }

    /// Returns whether the task, which leaves its CPU runnable, is off the run queue until its
    /// quota returns. Called only for such a task.
    fn is_throttled(self) -> bool;
}

/// A context switch: the `sched_switch` tracepoint.
pub trait Switch {
    /// The view of a task.
    type Task: Task;

    /// Reads the CPU's clock, in nanoseconds. Called once for each switch.
    fn now(&self) -> u64;

    /// Returns the task that leaves the CPU.
    fn prev(&self) -> Self::Task;

    /// Returns the state in which that task leaves the CPU.
    fn prev_state(&self) -> PrevState;

    /// Returns the task that gets the CPU.
    fn next(&self) -> Self::Task;

    /// Returns how far the CPU `cpu` is from this one. Called for a task that has migrated.
    fn distance(&self, cpu: u32) -> Distance;

    /// Returns the state that is kept for the task `pid`, which must not be the idle task;
    /// [`TaskState::untracked`] if there is none.
    fn state(&self, pid: i32) -> &TaskState;
}

/// A wakeup: the `sched_waking` tracepoint.
pub trait Wakeup {
    /// The view of a task.
    type Task: Task;

    /// Whether the kernel may have added a part of the task's sleep to [`Task::run_delay`], though
    /// the task is on no run queue.
    const COUNTS_SLEEPS: bool;

    /// Reads the waker's clock, in nanoseconds.
    fn now(&self) -> u64;

    /// Returns the task that is being woken.
    fn task(&self) -> Self::Task;

    /// Returns the state that is kept for the task `pid`, as in [`Switch::state`].
    fn state(&self, pid: i32) -> &TaskState;
}
