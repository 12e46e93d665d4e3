// SPDX-License-Identifier: GPL-2.0

//! An event called like a class.

trace_events! {
    system sample;

    /// A class.
    class sample {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// An event.
    event sample: sample;
}
