// SPDX-License-Identifier: GPL-2.0

//! An event without fields.

trace_events! {
    system sample;

    /// An event.
    event sample {
    } => "nothing";
}
