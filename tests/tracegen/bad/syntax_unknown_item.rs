// SPDX-License-Identifier: GPL-2.0

//! An item that does not exist.

trace_events! {
    system sample;

    /// A struct.
    struct sample;
}
