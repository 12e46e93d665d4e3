// SPDX-License-Identifier: GPL-2.0

//! Two classes with one name.

trace_events! {
    system sample;

    /// A class.
    class shared {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// A class.
    class shared {
        /// The task.
        pid: Pid,
    } => "pid={pid}";

    /// An event.
    event sample: shared;
}
