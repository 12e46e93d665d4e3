// SPDX-License-Identifier: GPL-2.0

//! The engine's atomics in loom's memory model.
//!
//! Loom's own atomics cannot be created in a constant expression, as the engine creates its cells.
//! So each is created at its first use. That must be by the thread that made the engine's object,
//! before it shares the object: [`settle`]. Otherwise loom reports a "Causality violation".

use core::{cell::Cell, fmt::Debug, sync::atomic::Ordering};
use std::{format, sync::OnceLock, thread_local};

pub use loom::hint::spin_loop;

thread_local! {
    static FENCED: Cell<bool> = const { Cell::new(true) };
}

/// `core::sync::atomic::fence()`; does nothing in [`without_fences`].
pub fn fence(order: Ordering) {
    if FENCED.get() {
        loom::sync::atomic::fence(order);
    }
}

/// Runs `test` with fences that do nothing, to show that it then fails. All threads of a loom model
/// run in one thread of the machine.
pub fn without_fences(test: impl FnOnce()) {
    FENCED.set(false);
    test();
    FENCED.set(true);
}

/// Creates all atomics in `object`, by printing it, which reads them all.
pub fn settle(object: &impl Debug) {
    assert!(!format!("{object:?}").is_empty());
}

/// `core::sync::atomic::AtomicU64`, as far as the engine needs it.
#[derive(Default)]
pub struct AtomicU64 {
    initial: u64,
    modelled: OnceLock<loom::sync::atomic::AtomicU64>,
}

impl AtomicU64 {
    /// Creates an atomic that holds `initial`.
    pub const fn new(initial: u64) -> Self {
        Self {
            initial,
            modelled: OnceLock::new(),
        }
    }

    fn modelled(&self) -> &loom::sync::atomic::AtomicU64 {
        self.modelled
            .get_or_init(|| loom::sync::atomic::AtomicU64::new(self.initial))
    }

    /// Loads the value.
    pub fn load(&self, order: Ordering) -> u64 {
        self.modelled().load(order)
    }

    /// Stores `value`.
    pub fn store(&self, value: u64, order: Ordering) {
        self.modelled().store(value, order);
    }

    /// Adds `n`, and returns the previous value.
    pub fn fetch_add(&self, n: u64, order: Ordering) -> u64 {
        self.modelled().fetch_add(n, order)
    }

    /// Stores `value`, and returns the previous value.
    pub fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.modelled().swap(value, order)
    }

    /// Replaces `current` by `new`, if the value is `current`.
    pub fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.modelled()
            .compare_exchange(current, new, success, failure)
    }

    /// Replaces the value by the result of `update`, unless that is `None`.
    pub fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.modelled().fetch_update(set, fetch, update)
    }
}

impl Debug for AtomicU64 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.load(Ordering::Relaxed).fmt(f)
    }
}
