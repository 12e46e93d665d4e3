// SPDX-License-Identifier: GPL-2.0

//! A string that never ends.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid={pid};
}
