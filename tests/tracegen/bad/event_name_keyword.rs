// SPDX-License-Identifier: GPL-2.0

//! An event called like a keyword of C.

trace_events! {
    system sample;

    /// An event.
    event switch {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
