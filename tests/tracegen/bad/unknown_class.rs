// SPDX-License-Identifier: GPL-2.0

//! An event of a class that does not exist.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// Another event.
    event other: shared;
}
