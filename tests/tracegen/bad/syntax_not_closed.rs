// SPDX-License-Identifier: GPL-2.0

//! The file ends too early.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
