// SPDX-License-Identifier: GPL-2.0

//! A doc comment that would end a C comment.

trace_events! {
    system sample;

    /// An event, */ or not.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
