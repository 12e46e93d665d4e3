// SPDX-License-Identifier: GPL-2.0

//! A value printed as nothing.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
        /// One.
        One = 1 => "",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
