// SPDX-License-Identifier: GPL-2.0

//! A value that looks like a number.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
        /// One.
        One = 1u8 => "one",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
