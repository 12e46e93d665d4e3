// SPDX-License-Identifier: GPL-2.0

//! The same in a line with tabs.

trace_events! {
    system sample;

    /// An event.
    event sample {
	/// The task.
	pid:	Thread,
    } => "pid={pid}";
}
