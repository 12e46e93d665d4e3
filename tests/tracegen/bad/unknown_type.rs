// SPDX-License-Identifier: GPL-2.0

//! A type that does not exist.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
        /// How long.
        duration: Duration,
    } => "pid={pid} duration={duration}";
}
