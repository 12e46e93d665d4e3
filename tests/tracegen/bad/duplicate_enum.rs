// SPDX-License-Identifier: GPL-2.0

//! Two enums with one name.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
        /// One.
        One = 1 => "one",
    }

    /// A kind.
    enum Kind {
        /// One.
        One = 1 => "one",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
