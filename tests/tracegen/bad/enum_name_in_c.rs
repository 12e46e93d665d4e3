// SPDX-License-Identifier: GPL-2.0

//! An enum called like a struct in C.

trace_events! {
    system sample;

    /// A kind.
    enum TraceAnyKey {
        /// One.
        One = 1 => "one",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
