// SPDX-License-Identifier: GPL-2.0

//! An event called like a question about another.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// An event.
    event sample_enabled {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
