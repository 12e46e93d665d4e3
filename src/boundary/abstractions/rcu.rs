// SPDX-License-Identifier: GPL-2.0

//! Proof that what RCU protects stays valid, and waiting until it need not any more.
//!
//! `kernel::sync::rcu::Guard` is one such proof. A probe that runs with preemption off needs no
//! guard, and its arguments are a proof as well.

use kernel::sync::rcu;

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
