// SPDX-License-Identifier: GPL-2.0

//! The printed form is missing.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The task.
        pid: Pid,
    }
}
