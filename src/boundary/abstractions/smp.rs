// SPDX-License-Identifier: GPL-2.0

//! Running something on another CPU.
//!
//! C headers: [`include/linux/smp.h`](srctree/include/linux/smp.h),
//! [`include/linux/cpu.h`](srctree/include/linux/cpu.h)

use kernel::ffi::{
    c_int,
    c_void, //
};

use crate::boundary::{
    abstractions::context,
    bindings, //
};

/// Runs `f` on `cpu` with interrupts off, and returns when it is done. Where `cpu` is offline `f`
/// runs here, and the CPU stays offline meanwhile.
///
/// Either way nothing else happens on `cpu` while `f` runs. `f` must not sleep. This sleeps.
pub(crate) fn run_on<F: FnOnce() + Send>(cpu: u32, f: F) {
    /// # Safety
    ///
    /// `slot` must point to an `Option<F>` that nobody else has.
    unsafe extern "C" fn call<F: FnOnce()>(slot: *mut c_void) {
        // SAFETY: This is the slot below, which its owner does not touch meanwhile.
        let slot = unsafe { &mut *slot.cast::<Option<F>>() };
        if let Some(f) = slot.take() {
            context::assert_irqs_disabled();
            f();
        }
    }

    context::might_sleep();
    let mut slot = Some(f);
    // SAFETY: Process context; undone below.
    unsafe { bindings::cpus_read_lock() };
    // This fails only where the CPU is offline: then `f` is still there.
    //
    // SAFETY: `call` expects the slot, and the slot outlives the call, which is waited for.
    unsafe {
        bindings::schedhist_call_on_cpu(
            cpu as c_int,
            Some(call::<F>),
            (&raw mut slot).cast::<c_void>(),
        );
    }
    if let Some(f) = slot.take() {
        context::assert_offline(cpu);
        f();
    }
    // SAFETY: Taken above.
    unsafe { bindings::cpus_read_unlock() };
}
