// SPDX-License-Identifier: GPL-2.0

//! Proof that what RCU protects stays valid, and waiting until it need not any more.
//!
//! `kernel::sync::rcu::Guard` is one such proof. A probe that runs with preemption off needs no
//! guard, and its arguments are a proof as well.

use core::{
    marker::PhantomData,
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering::{
            AcqRel,
            Acquire, //
        },
    },
};

use kernel::sync::{
    rcu,
    Arc, //
};

use super::{
    bindings,
    context, //
};

/// Proof that objects that RCU protects stay valid while a value exists.
///
/// # Safety
///
/// A value must exist only in an RCU read-side critical section, or while preemption is off on the
/// CPU that runs the code that has it.
pub(crate) unsafe trait RcuReader {}

// SAFETY: A guard is an RCU read-side critical section.
unsafe impl RcuReader for rcu::Guard {}

/// Waits until all RCU read-side critical sections that are in progress now have ended. Code that
/// runs with interrupts or preemption off is one, too. What runs afterwards sees what they wrote;
/// what begins meanwhile sees what the caller wrote. Sleeps.
pub(crate) fn synchronize_rcu() {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::synchronize_rcu() };
}

/// An `Arc`, or none, that readers may use while RCU protects it.
///
/// # Invariants
///
/// The pointer is null or comes from [`Arc::into_raw`], whose reference it owns.
pub(crate) struct RcuArc<T>(AtomicPtr<T>, PhantomData<Arc<T>>);

// SAFETY: This gives access to what an `Arc<T>` and a shared reference to a `T` do.
unsafe impl<T: Send + Sync> Send for RcuArc<T> {}

// SAFETY: As above; the pointer is atomic.
unsafe impl<T: Send + Sync> Sync for RcuArc<T> {}

impl<T> RcuArc<T> {
    pub(crate) const fn none() -> Self {
        // INVARIANT: Null.
        Self(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }

    pub(crate) fn get<'a>(&'a self, _: &'a impl RcuReader) -> Option<&'a T> {
        let value = self.0.load(Acquire);
        // SAFETY: By the type's invariant this is null or the value of an `Arc`. `replace()` keeps
        // that for a grace period after it took the pointer away, which does not end before `'a`.
        unsafe { value.as_ref() }
    }

    /// Replaces the value, and drops the old one once nobody uses it. Sleeps.
    pub(crate) fn replace(&self, value: Option<Arc<T>>) {
        let value = value.map_or(ptr::null(), Arc::into_raw);
        // INVARIANT: Null, or just made.
        let old = self.0.swap(value.cast_mut(), AcqRel);
        if !old.is_null() {
            synchronize_rcu();
            // SAFETY: By the type's invariant the pointer owned a reference, which is nobody's now:
            // it was taken away.
            drop(unsafe { Arc::from_raw(old) });
        }
    }
}

impl<T> Drop for RcuArc<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: As in `replace()`; there is no reader any more, as there is no reference.
            drop(unsafe { Arc::from_raw(value) });
        }
    }
}
