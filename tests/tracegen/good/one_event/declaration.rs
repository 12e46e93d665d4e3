// SPDX-License-Identifier: GPL-2.0

//! One event with an enum.

trace_events! {
    system schedhist;

    /// How a task's stay on a CPU ended.
    enum SliceEnd {
        /// It stayed runnable: it was preempted, or it yielded.
        Preempted = 0 => "preempted",
        /// It blocked in interruptible sleep (S).
        Interruptible = 1 => "interruptible",
        /// It blocked in uninterruptible sleep (D), or in an idle wait (I).
        Uninterruptible = 2 => "uninterruptible",
        /// It stopped, was traced, or parked.
        Stopped = 3 => "stopped",
        /// It exited.
        Dead = 4 => "dead",
    }

    /// One stay of a task on a CPU, from switch-in to switch-out.
    ///
    /// Emitted at the task's switch-out, with interrupts off and the run-queue lock held.
    event oncpu {
        /// The task's thread id, in the initial PID namespace.
        pid: Pid,
        /// The thread's name.
        comm: Comm,
        /// The task's kernel priority, as `sched_switch` prints it.
        prio: i32,
        /// The CPU the task was on.
        cpu: Cpu,
        /// Length of the stay, in nanoseconds.
        duration_ns: Ns,
        /// How the stay ended.
        end: SliceEnd,
    } => "comm={comm} pid={pid} prio={prio} cpu={cpu} duration_ns={duration_ns} end={end}";
}
