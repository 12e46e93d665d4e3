// SPDX-License-Identifier: GPL-2.0

//! Nanoseconds of another type.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// How long.
        duration_ns: u64,
        /// By how much it was too late.
        late_ns: i32,
    } => "duration_ns={duration_ns} late_ns={late_ns}";
}
