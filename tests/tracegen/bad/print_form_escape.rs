// SPDX-License-Identifier: GPL-2.0

//! A backslash in a printed form.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}\n";
}
