// SPDX-License-Identifier: GPL-2.0

//! A doc comment for no value.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
        /// One.
        One = 1 => "one",
        /// Nothing follows.
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
