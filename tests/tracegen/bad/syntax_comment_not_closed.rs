// SPDX-License-Identifier: GPL-2.0

//! A comment that never ends.

trace_events! {
    system sample;

    /* /* An event. */
    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
