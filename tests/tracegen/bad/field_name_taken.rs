// SPDX-License-Identifier: GPL-2.0

//! Fields with names that tracing uses.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        common_pid: Pid,
        /// Hits.
        hitcount: u64,
        /// A place.
        entry: u64,
    } => "{common_pid} {hitcount} {entry}";
}
