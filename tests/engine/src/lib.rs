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
    use crate::engine::{
        cell::Cell,
        cpu::{Cpu, Next, Prev},
        sample::Observer,
        settings::{Any, Defaults},
        slice::{LeavingState, SliceEnd},
    };

    /// Records a switch of a CPU that measures the default metrics, as the module does it.
    pub fn switch_as_default<B: AsRef<[Cell]>>(
        cpu: &Cpu<B>,
        now: u64,
        prev: Prev<'_>,
        next: Next<'_>,
        observer: &impl Observer,
    ) {
        match cpu.scheme().precision().bits() {
            1 => cpu.switch_with::<Defaults<1>>(now, prev, next, observer),
            2 => cpu.switch_with::<Defaults<2>>(now, prev, next, observer),
            3 => cpu.switch_with::<Defaults<3>>(now, prev, next, observer),
            4 => cpu.switch_with::<Defaults<4>>(now, prev, next, observer),
            5 => cpu.switch_with::<Defaults<5>>(now, prev, next, observer),
            6 => cpu.switch_with::<Defaults<6>>(now, prev, next, observer),
            7 => cpu.switch_with::<Defaults<7>>(now, prev, next, observer),
            _ => cpu.switch_with::<Any>(now, prev, next, observer),
        }
    }

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
