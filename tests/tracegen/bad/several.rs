// SPDX-License-Identifier: GPL-2.0

//! All that is wrong is reported, in order.

trace_events! {
    system sample;

    event if {
        /// The task.
        pid: Thread,
        prio: i32,
    } => "{comm}";
}
