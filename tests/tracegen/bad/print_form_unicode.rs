// SPDX-License-Identifier: GPL-2.0

//! A printed form that is not ASCII.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    } => "pid→{pid}";
}
