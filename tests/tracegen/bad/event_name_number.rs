// SPDX-License-Identifier: GPL-2.0

//! An event that begins with a digit.

trace_events! {
    system sample;

    /// An event.
    event 2nd {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
