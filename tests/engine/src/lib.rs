// SPDX-License-Identifier: GPL-2.0

//! The engine of schedhist, compiled for the host from the files that the module compiles.

#![no_std]

#[cfg(any(test, loom))]
extern crate std;

#[path = "../../../src/engine/mod.rs"]
pub mod engine;

#[cfg(loom)]
pub mod modelled;

/// What only tests need.
pub mod testing {
    use crate::engine::slice::{LeavingState, SliceEnd};

    /// How a task may have left a CPU whose stay ended so.
    pub const fn leaving_state(end: SliceEnd) -> LeavingState {
        LeavingState::new(
            false,
            match end {
                SliceEnd::Preempted => 0,
                SliceEnd::Interruptible => 1,
                SliceEnd::Uninterruptible => 2,
                SliceEnd::Stopped => 4,
                SliceEnd::Dead => 0x80,
            },
        )
    }
}
