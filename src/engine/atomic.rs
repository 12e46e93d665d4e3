// SPDX-License-Identifier: GPL-2.0

//! The atomics that the engine shares between CPUs: those of `core`.
//!
//! Under `cfg(loom)`, which only `tests/engine` sets, those of a model of memory, which shows a reader
//! all that the language allows it to see. All of the engine's takes them from here.

pub(super) use core::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(super) use core::{
    hint::spin_loop,
    sync::atomic::{
        fence, //
        AtomicU64,
    },
};

#[cfg(loom)]
pub(super) use crate::modelled::{
    fence,
    spin_loop, //
    AtomicU64,
};
