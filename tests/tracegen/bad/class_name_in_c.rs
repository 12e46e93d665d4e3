// SPDX-License-Identifier: GPL-2.0

//! A class and an event that are one in C.

trace_events! {
    system sample;

    /// A class.
    class task {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// An event.
    event begin: task;

    /// An event.
    event sample_task {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
