// SPDX-License-Identifier: GPL-2.0

//! Values of two enums that are one in C.

trace_events! {
    system sample;

    /// A kind.
    enum Of {
        /// One.
        TaskOne = 1 => "one",
    }

    /// A kind.
    enum OfTask {
        /// One.
        One = 1 => "one",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
