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
    prelude::*,
    str::CStr,
    sync::LockClassKey,
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

/// Creates an [`IrqLock`] of data, with a name and a lockdep class of its own.
macro_rules! new_irq_lock {
    ($data:expr, $name:expr) => {
        IrqLock::new($data, $name, kernel::static_lock_class!())
    };
}

pub(crate) use new_irq_lock;

impl<T> IrqLock<T> {
    /// Creates an unlocked lock of this class: see [`new_irq_lock`].
    pub(crate) fn new(
        data: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: Initialised here, and pinned.
            lock <- Opaque::ffi_init(|slot| {
                // SAFETY: The slot is valid for writing, and the name and the key are static.
                unsafe { bindings::__spin_lock_init(slot, name.as_char_ptr(), class.as_ptr()) };
            }),
            data: UnsafeCell::new(data),
        })
    }

    /// Takes the lock, which must not be held already. Not in a hard interrupt. On `PREEMPT_RT`
    /// this sleeps: interrupts and preemption must be on, and no raw spinlock held.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: Initialised by the type's invariant.
        let flags = unsafe { bindings::schedhist_spin_lock(self.lock.get()) };
        // INVARIANT: The lock was just taken, and returned these flags.
        Guard {
            lock: self,
            flags,
            _this_thread: NotThreadSafe,
        }
    }
}

/// Gives access to the data of a lock, and releases the lock when it is dropped. Of several guards
/// the newest should be dropped first: otherwise interrupts come on early.
///
/// # Invariants
///
/// This thread holds the lock. `flags` is what taking it returned.
pub(crate) struct Guard<'a, T> {
    lock: &'a IrqLock<T>,
    flags: usize,
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
        // SAFETY: This thread holds the lock by the type's invariant. It has not left its CPU since
        // it took the lock, as preemption is off or, on `PREEMPT_RT`, migration is.
        unsafe { bindings::schedhist_spin_unlock(self.lock.lock.get(), self.flags) };
    }
}
