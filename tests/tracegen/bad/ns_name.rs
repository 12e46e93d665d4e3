// SPDX-License-Identifier: GPL-2.0

//! Nanoseconds that are not called so.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// How long.
        duration: Ns,
    } => "duration={duration}";
}
