// SPDX-License-Identifier: GPL-2.0

//! The engine of schedhist, compiled for the host from the files that the module compiles.

#![no_std]

#[cfg(any(test, loom))]
extern crate std;

#[path = "../../../src/engine/mod.rs"]
pub mod engine;

#[cfg(loom)]
pub mod modelled;

pub mod testing;
