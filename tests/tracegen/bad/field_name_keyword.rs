// SPDX-License-Identifier: GPL-2.0

//! A field called like a keyword of Rust.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// The type.
        type: u8,
    } => "type={type}";
}
