// SPDX-License-Identifier: GPL-2.0

//! A spinlock that is taken with interrupts off, wherever it is taken.
//!
//! 7.2 has no `SpinLockIrq`.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use core::{
    cell::UnsafeCell,
    ops::{
        Deref,
        DerefMut, //
    },
};

use kernel::{
    ffi::c_ulong,
    prelude::*,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

use super::bindings;

/// A `spinlock_t` and the data that it protects.
///
/// As any `spinlock_t`, it sleeps on `PREEMPT_RT`, and then leaves interrupts on.
///
/// # Invariants
///
/// `lock` is initialised, and does not move.
#[pin_data]
pub(crate) struct IrqLock<T> {
    #[pin]
    lock: Opaque<bindings::spinlock_t>,
    data: UnsafeCell<T>,
}

// SAFETY: A spinlock can be sent to another thread, and so can the data if `T` is `Send`.
unsafe impl<T: Send> Send for IrqLock<T> {}

// SAFETY: The lock lets one thread at a time use the data, which is therefore sent between threads
// and not shared by them.
unsafe impl<T: Send> Sync for IrqLock<T> {}

impl<T> IrqLock<T> {
    /// Creates an unlocked lock.
    pub(crate) fn new(data: T) -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: Initialised here, and pinned.
            lock <- Opaque::ffi_init(|slot| {
                // SAFETY: The slot is valid for writing.
                unsafe { bindings::schedhist_spin_lock_init(slot) };
            }),
            data: UnsafeCell::new(data),
        })
    }

    /// Takes the lock, which must not be held already. Not in a hard interrupt. On `PREEMPT_RT`
    /// this sleeps: interrupts and preemption must be on, and no raw spinlock held.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: Initialised by the type's invariant.
        let flags = unsafe { bindings::schedhist_spin_lock_irqsave(self.lock.get()) };
        // INVARIANT: The lock was just taken, with these flags.
        Guard {
            lock: self,
            flags,
            _this_thread: NotThreadSafe,
        }
    }
}

/// Gives access to the data of a lock, and releases the lock when it is dropped.
///
/// # Invariants
///
/// This thread holds the lock, and `flags` is what taking it returned.
pub(crate) struct Guard<'a, T> {
    lock: &'a IrqLock<T>,
    flags: c_ulong,
    _this_thread: NotThreadSafe,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: This thread holds the lock by the type's invariant, so nothing else uses the
        // data.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As for `deref()`; the guard is borrowed mutably, so no other reference to the
        // data is in use.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: The lock is held, with these flags, by the type's invariant.
        unsafe { bindings::schedhist_spin_unlock_irqrestore(self.lock.lock.get(), self.flags) };
    }
}
