// SPDX-License-Identifier: GPL-2.0

//! Two values with one name, number and text.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
        /// One.
        One = 1 => "one",
        /// Again.
        One = 1 => "one",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
