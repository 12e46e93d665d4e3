// SPDX-License-Identifier: GPL-2.0

//! A class that no event has.

trace_events! {
    system sample;

    /// A class.
    class shared {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
