// SPDX-License-Identifier: GPL-2.0

//! A system without events.

trace_events! {
    system sample;
}
