// SPDX-License-Identifier: GPL-2.0

//! Two fields with one name.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
        /// Again.
        pid: u32,
    } => "pid={pid}";
}
