// SPDX-License-Identifier: GPL-2.0

//! Braces that do not match.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "} pid={pid} {";
}
