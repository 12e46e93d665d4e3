// SPDX-License-Identifier: GPL-2.0

//! The trace events of schedhist, declared once.
//!
//! At build time `scripts/tracegen` reads the declaration in this file and writes the `TRACE_EVENT`
//! header, the C file that defines the tracepoints, and the Rust functions that emit the events.
//! Each event gets two functions here:
//!
//! - `trace_<event>(…)` emits the event. While the event is disabled, a call costs one patched
//!   branch and the evaluation of its arguments.
//! - `trace_<event>_enabled()` returns whether the event is enabled, for callers whose arguments
//!   are costly.
//!
//! `any_enabled()` returns, at the cost of one patched branch, whether any of the events is
//! enabled, or an outlier threshold is set.
//!
//! The module learns about listeners before an event can be emitted: see
//! `boundary::trace_listeners`.
//!
//! # Declarations
//!
//! - `system` names the folder below `events/` in tracefs. With `: hooked` the module defines the C
//!   functions `<system>_trace_listen()`, `<system>_trace_unlisten()` and `<system>_trace_used()`,
//!   which the generated header describes.
//! - `event` declares an event: its fields, then the format in which a record is printed. The
//!   format has each field at least once, and may consist of several adjacent string literals.
//! - `class` declares the fields and the format of several events. `event name: class;` declares
//!   one of these events.
//!
//! To add an event, declare it below and emit it where its values are known: those of samples in
//! `src/delivery.rs`, which has a table of their metrics. The tests take the
//! names of all events from `tests/harness/names.py`.
//!
//! Each declaration has a `///` comment, which is copied into the generated Rust code.
//!
//! A field's type is `i32`, `i64`, `u32`, `u64`, `bool`, `Ns` (a duration or a time in nanoseconds,
//! `u64`; the field's name ends in `_ns`), `Pid` (a `pid_t`), `Cpu` (the number of a CPU), `Comm`
//! (a task's name, `char[TASK_COMM_LEN]`), or an enum that the engine declares with the macro
//! `named!`, in a file that `Kbuild` lists. A record stores the number of an enum's variant in one
//! byte, and prints the variant's name. perf takes a field whose type is followed by `as weight` as
//! the weight of the event: the period of its sample, and what it adds to a count. A field whose
//! type is followed by `= field - field` is computed from two earlier ones, and is no argument; nor
//! is one with `= this`, the CPU that writes the record.
//!
//! The arguments have the order of the fields. There are at most twelve, as many as a BPF program
//! on a raw tracepoint gets; `long_wait`, `outlier` and `hop` have twelve. A record has its fields
//! sorted by alignment, so that it has no holes.

use crate::engine::{
    chain::{
        Context,
        End, //
    },
    idle::Distance,
    switch::Cause,
    Metric, //
};

/// Declares trace events.
///
/// Expands to the Rust code that tracegen generated from the declaration.
macro_rules! trace_events {
    ($($declaration:tt)*) => {
        include!(concat!(env!("MODULE_GENERATED"), "/events_generated.rs"));
    };
}

trace_events! {
    system schedhist: hooked;

    /// A sample of a task, as it goes into a histogram.
    ///
    /// Emitted while the metric is on, in the context of the task: `oncpu`, `resched` and
    /// `resched_lazy` at the switch, with interrupts off and the run-queue lock held; the others
    /// after it, when the task has the CPU, with preemption off.
    class sample {
        /// The task's thread id, in the initial PID namespace.
        pid: Pid,
        /// The thread's name.
        comm: Comm,
        /// The task's kernel priority, as `sched_switch` prints it.
        prio: i32,
        /// The CPU on which the sample was taken.
        cpu: Cpu,
        /// The sample, in nanoseconds.
        duration_ns: Ns as weight,
        /// How it came about, or how it ended: see the event.
        cause: Cause,
        /// The task's group, by its number in the file `groups`; 0 for the group `other`, and while
        /// tasks are not grouped.
        group: u32,
    } => "comm={comm} pid={pid} prio={prio} cpu={cpu} duration_ns={duration_ns} cause={cause} "
        "group={group}";

    /// A task's slice on a CPU, when it ends; the cause is how it ended.
    event oncpu: sample;

    /// A task's wait for a CPU, when it gets it; the cause is what made it wait: a preemption, a
    /// wakeup, or that it was forked.
    event runq: sample;

    /// The absence of a task that had blocked, from its last CPU to this one; the cause is how it
    /// had left.
    event offcpu: sample;

    /// A task's interruptible or uninterruptible sleep, from when it left its last CPU until it was
    /// woken, when it runs again; the cause is which of the two it was.
    event blocked: sample;

    /// The time from a task's `sched_waking` event until it runs; the cause is how the task had
    /// left its last CPU.
    event wakeup: sample;

    /// The absence of a task whose quota was spent, from its last CPU to this one; the cause is
    /// `throttled`.
    event throttled: sample;

    /// The time from when a task was requested to leave its CPU until it does; the cause is how it
    /// left.
    event resched: sample;

    /// The same for the lazy request.
    event resched_lazy: sample;

    /// A CPU's slice in its idle task, when it ends; with the task that ended it.
    ///
    /// Emitted at the switch, in the context of the idle task.
    event idle {
        /// The CPU.
        cpu: Cpu,
        /// Length of the slice, in nanoseconds.
        duration_ns: Ns as weight,
        /// The thread id of the task that runs next.
        next_pid: Pid,
        /// That thread's name.
        next_comm: Comm,
        /// That task's kernel priority.
        next_prio: i32,
    } => "cpu={cpu} duration_ns={duration_ns} "
        "next_comm={next_comm} next_pid={next_pid} next_prio={next_prio}";

    /// A task's wait for a CPU that was long, and what CPUs that it might have used did meanwhile.
    ///
    /// Emitted after the event `runq` of the wait, in the same context, while `long_wait_ns` is
    /// set. All times but `duration_ns` are lower bounds: each may be longer by up to `unknown_ns`,
    /// and `idle_ns` by what is not known of that CPU's idle periods.
    event long_wait {
        /// The task's thread id, in the initial PID namespace.
        pid: Pid,
        /// The thread's name.
        comm: Comm,
        /// The task's kernel priority.
        prio: i32,
        /// The CPU that it got.
        cpu: Cpu = this,
        /// How long it waited, in nanoseconds.
        duration_ns: Ns as weight,
        /// For how much of that its own CPU was idle: waking up.
        own_idle_ns: Ns,
        /// For how much of the rest another CPU was idle.
        idle_elsewhere_ns: Ns,
        /// For how much of the rest this is not known.
        unknown_ns: Ns,
        /// The CPU that was idle longest, of those looked at; -1 if none was but the one that
        /// was waking up.
        idle_cpu: i32,
        /// How long that was idle during the wait.
        idle_ns: Ns,
        /// How far that is from the CPU that the task got, by what they share.
        distance: Distance,
        /// As in the event `runq`.
        cause: Cause,
        /// As in the event `runq`.
        group: u32,
    } => "comm={comm} pid={pid} prio={prio} cpu={cpu} duration_ns={duration_ns} "
        "own_idle_ns={own_idle_ns} idle_elsewhere_ns={idle_elsewhere_ns} unknown_ns={unknown_ns} "
        "idle_cpu={idle_cpu} idle_ns={idle_ns} distance={distance} cause={cause} group={group}";

    /// A sample above the threshold of its metric.
    ///
    /// Emitted after the sample's own event, in the same context, and followed by an event
    /// `culprit` for each task that had the CPU meanwhile.
    event outlier {
        /// Its number, which its culprits have as well.
        id: u64,
        /// The metric.
        metric: Metric,
        /// The task's thread id; 0 for the idle task.
        pid: Pid,
        /// The thread's name.
        comm: Comm,
        /// The task's kernel priority.
        prio: i32,
        /// The CPU on which the sample was taken.
        cpu: Cpu,
        /// As in the sample's own event.
        cause: Cause,
        /// When it ended, in nanoseconds of that CPU's clock.
        end_ns: Ns,
        /// The sample, in nanoseconds.
        duration_ns: Ns as weight,
        /// When it began.
        start_ns: Ns = end_ns - duration_ns,
        /// How many events `culprit` follow.
        culprits: u32,
        /// For how much of the time no culprit is named: the CPU's record of its last slices does
        /// not reach back far enough, there were too many tasks, or it was offline meanwhile.
        missing_ns: Ns,
        /// As in the sample's own event; 0 for the idle task.
        group: u32,
    } => "id={id} metric={metric} comm={comm} pid={pid} prio={prio} cpu={cpu} cause={cause} "
        "duration_ns={duration_ns} start_ns={start_ns} end_ns={end_ns} culprits={culprits} "
        "missing_ns={missing_ns} group={group}";

    /// A task that had the CPU during an outlier; oldest first.
    event culprit {
        /// The number of the outlier.
        id: u64,
        /// The task's thread id; 0 for the idle task.
        pid: Pid,
        /// The thread's name.
        comm: Comm,
        /// The task's kernel priority.
        prio: i32,
        /// The CPU.
        cpu: Cpu,
        /// How long the task had the CPU during the outlier, in nanoseconds.
        ran_ns: Ns,
        /// In how many slices.
        slices: u32,
        /// The task's group in the first of these slices; 0 for the idle task, too.
        group: u32,
    } => "id={id} comm={comm} pid={pid} prio={prio} cpu={cpu} ran_ns={ran_ns} slices={slices} "
        "group={group}";

    /// The chain of an outlier: who could have ended it earlier.
    ///
    /// Emitted after the outlier and its culprits, in the same context, while chains are kept, and
    /// followed by an event `hop` for each task in it. Their times, `blocked_ns` and `missing_ns`
    /// add up to `duration_ns`.
    event chain {
        /// The number of the outlier.
        id: u64,
        /// As in the event `outlier`, like all that follow up to its duration.
        metric: Metric,
        /// The task's thread id.
        pid: Pid,
        /// The thread's name.
        comm: Comm,
        /// The CPU.
        cpu: Cpu,
        /// The task's group.
        group: u32,
        /// The sample, in nanoseconds.
        duration_ns: Ns as weight,
        /// Where the chain ends.
        end: End,
        /// For how long the last task had been blocked when something else than a task woke it.
        blocked_ns: Ns,
        /// For how much of the time it is not known who did what.
        missing_ns: Ns,
        /// How many events `hop` follow.
        hops: u32,
    } => "id={id} metric={metric} comm={comm} pid={pid} cpu={cpu} group={group} "
        "duration_ns={duration_ns} end={end} blocked_ns={blocked_ns} missing_ns={missing_ns} "
        "hops={hops}";

    /// A task in a chain, from that of the outlier back in time, each woken by the next one.
    event hop {
        /// The number of the outlier.
        id: u64,
        /// 0 for the task of the outlier, 1 for the one that woke it, and so on.
        number: u32,
        /// The task's thread id.
        pid: Pid,
        /// The thread's name when it got the CPU.
        comm: Comm,
        /// The CPU on which it woke the one before; for the first, the CPU of the outlier.
        cpu: Cpu,
        /// Its group then.
        group: u32,
        /// How it woke the one before; `unknown` for the first.
        via: Context,
        /// The time for which the one before depended on it: the sum of those that follow.
        duration_ns: Ns as weight,
        /// For how much of that it had a CPU.
        ran_ns: Ns,
        /// For how much it waited for one after its own wakeup.
        waited_ns: Ns,
        /// For how much it waited for one after it was preempted.
        preempted_ns: Ns,
        /// For how much its quota was spent.
        throttled_ns: Ns,
    } => "id={id} number={number} comm={comm} pid={pid} cpu={cpu} group={group} via={via} "
        "duration_ns={duration_ns} ran_ns={ran_ns} waited_ns={waited_ns} "
        "preempted_ns={preempted_ns} throttled_ns={throttled_ns}";
}
