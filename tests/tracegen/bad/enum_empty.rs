// SPDX-License-Identifier: GPL-2.0

//! An enum without values.

trace_events! {
    system sample;

    /// A kind.
    enum Kind {
    }

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";
}
