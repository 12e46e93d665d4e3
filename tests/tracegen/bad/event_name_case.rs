// SPDX-License-Identifier: GPL-2.0

//! An event that is not in lower case.

trace_events! {
    system sample;

    /// An event.
    event OnCpu {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
