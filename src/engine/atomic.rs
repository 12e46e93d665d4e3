// SPDX-License-Identifier: GPL-2.0

//! The atomics that the engine uses for data shared between CPUs: those of `core`.
//!
//! Under `cfg(loom)`, which only `tests/engine` sets, a model of memory replaces them. It shows a
//! reader every value that the language allows the reader to see. All of the engine takes its
//! atomics from here.

pub(super) use core::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(super) use core::{
    hint::spin_loop,
    sync::atomic::{
        fence,
        AtomicU64, //
    },
};

#[cfg(loom)]
pub(super) use crate::modelled::{
    fence,
    spin_loop,
    AtomicU64, //
};
