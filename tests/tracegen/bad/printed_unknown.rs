// SPDX-License-Identifier: GPL-2.0

//! A field that does not exist is printed.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid} prio={prio}";
}
