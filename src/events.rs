// SPDX-License-Identifier: GPL-2.0

//! The trace events of schedhist, declared once.
//!
//! At build time `scripts/tracegen` reads the declaration in this file and writes the `TRACE_EVENT`
//! header, the C glue that defines the tracepoints, and the Rust functions that emit the events.
//! Each event gets two functions here:
//!
//! - `trace_<event>(…)` emits it. While nobody listens that costs one patched branch, beyond what it
//!   takes to work out the arguments.
//! - `trace_<event>_enabled()` asks whether anybody listens, for where the arguments are costly.
//!
//! `any_enabled()` asks, with a single patched branch, whether anybody listens to any of them.
//!
//! # Declarations
//!
//! - `system` names the folder below `events/` in tracefs.
//! - `enum` declares a set of named values: Rust enum, C enum, and the text that is printed.
//! - `event` declares an event: its fields, then how a record is printed, each field once or more.
//! - `class` declares the fields and the print of several events; `event name: class;` is one of
//!   them.
//!
//! Everything is documented with `///`, and the text goes into the generated Rust and C.
//!
//! A field's type is one of `i8` to `i64`, `u8` to `u64`, `bool`, `Ns` (a duration or a time in
//! nanoseconds, `u64`; the field's name ends in `_ns`), `Pid` (a `pid_t`), `Cpu` (the number of a
//! CPU), `Comm` (a task's name, `char[TASK_COMM_LEN]`), or an enum of this file, which is stored in
//! one byte. The order of the fields is that of the arguments. In the record they are sorted by
//! alignment, so that there are no holes.

/// Declares trace events.
///
/// What the compiler sees in its place is generated from the declaration.
macro_rules! trace_events {
    ($($declaration:tt)*) => {
        include!(concat!(env!("SCHEDHIST_GENERATED"), "/events_generated.rs"));
    };
}

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
