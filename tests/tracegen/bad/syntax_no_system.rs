// SPDX-License-Identifier: GPL-2.0

//! No system.

trace_events! {
    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
