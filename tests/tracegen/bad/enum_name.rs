// SPDX-License-Identifier: GPL-2.0

//! Names no enum can have.

trace_events! {
    system sample;

    /// A kind.
    enum kind {
        /// One.
        One = 1 => "one",
    }

    /// A kind.
    enum Comm {
        /// One.
        One = 1 => "one",
    }

    /// A kind.
    enum Other {
        /// One.
        one = 1 => "one",
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
