// SPDX-License-Identifier: GPL-2.0

//! What can be done with the trace buffer of the kernel's top-level trace instance.
//!
//! C header: [`include/linux/trace_printk.h`](srctree/include/linux/trace_printk.h)

use kernel::bindings;

/// Stops tracing: the buffer stays as it is, until somebody writes 1 to `tracing_on`. Any context.
pub(crate) fn off() {
    // SAFETY: Callable in any context.
    unsafe { bindings::tracing_off() };
}

/// Exchanges the buffer with the snapshot's. Where none was allocated, the kernel stops tracing
/// instead and says so in the buffer.
///
/// Callable with interrupts off and the run queue's lock held, as the kernel's own snapshot triggers
/// on scheduler events show; not in an NMI.
pub(crate) fn snapshot() {
    // SAFETY: As said above.
    unsafe { bindings::tracing_snapshot() };
}
