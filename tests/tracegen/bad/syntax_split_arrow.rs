// SPDX-License-Identifier: GPL-2.0

//! An arrow in two parts.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } = > "pid={pid}";
}
