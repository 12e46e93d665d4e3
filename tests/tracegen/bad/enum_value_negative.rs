// SPDX-License-Identifier: GPL-2.0

//! A value below zero.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
        /// Less.
        Less = -1 => "less",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
