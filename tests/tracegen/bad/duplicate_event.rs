// SPDX-License-Identifier: GPL-2.0

//! Two events with one name.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
