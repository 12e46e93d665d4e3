// SPDX-License-Identifier: GPL-2.0

//! A field that is not printed.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
        /// Its priority.
        prio: i32,
    } => "pid={pid}";
}
