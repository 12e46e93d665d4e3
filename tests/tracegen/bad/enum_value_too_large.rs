// SPDX-License-Identifier: GPL-2.0

//! A value that does not fit into a byte.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
        /// Much.
        Much = 256 => "much",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
