// SPDX-License-Identifier: GPL-2.0

//! A doc comment for nothing.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// Nothing follows.
}
