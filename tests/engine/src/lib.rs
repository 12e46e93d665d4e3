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
        switch::{
            cpu::{
                Cpu,
                Next,
                Prev, //
            },
            sample::Observer,
            settings::{
                Dynamic,
                Fixed, //
            },
            switch_out::{
                PrevState,
                SwitchOut, //
            },
        },
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
            1 => cpu.switch_with::<Fixed<1>>(now, prev, next, observer),
            2 => cpu.switch_with::<Fixed<2>>(now, prev, next, observer),
            3 => cpu.switch_with::<Fixed<3>>(now, prev, next, observer),
            4 => cpu.switch_with::<Fixed<4>>(now, prev, next, observer),
            5 => cpu.switch_with::<Fixed<5>>(now, prev, next, observer),
            6 => cpu.switch_with::<Fixed<6>>(now, prev, next, observer),
            7 => cpu.switch_with::<Fixed<7>>(now, prev, next, observer),
            _ => cpu.switch_with::<Dynamic>(now, prev, next, observer),
        }
    }

    /// How a task may have left a CPU whose stay ended so.
    pub const fn prev_state_of(end: SwitchOut) -> PrevState {
        PrevState::new(
            false,
            match end {
                SwitchOut::Preempted => 0,
                SwitchOut::Interruptible => 1,
                SwitchOut::Uninterruptible => 2,
                SwitchOut::Stopped => 4,
                SwitchOut::Dead => 0x80,
            },
        )
    }
}
