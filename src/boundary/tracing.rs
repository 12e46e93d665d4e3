// SPDX-License-Identifier: GPL-2.0

//! Control of the trace buffer of the kernel's top-level trace instance, and of the key of our own
//! trace events.
//!
//! C headers: [`include/linux/trace_printk.h`](srctree/include/linux/trace_printk.h),
//! [`include/linux/jump_label.h`](srctree/include/linux/jump_label.h)

use crate::boundary::{
    abstractions::context,
    bindings, //
};

/// Stops tracing: the buffer stays as it is until a user writes 1 to `tracing_on`. Any context.
pub(crate) fn off() {
    // SAFETY: Callable in any context.
    unsafe { bindings::tracing_off() };
}

/// Swaps the buffer with the snapshot buffer. If no snapshot buffer was allocated, the kernel stops
/// tracing instead and writes a message about it into the buffer.
///
/// Callable with interrupts off and the run queue's lock held, as the kernel's own snapshot
/// triggers on scheduler events are. In an NMI the kernel takes no snapshot, and writes a message
/// into the buffer instead.
pub(crate) fn snapshot() {
    // SAFETY: Callable in any context, with any lock held.
    unsafe { bindings::tracing_snapshot() };
}

/// Adds outliers to the listeners of the trace events, or removes them; no effect if it is so
/// already. Sleeps.
///
/// The trace events share a static key. It is on while at least one of them is enabled, and makes
/// the probe look at each sample. So trace events and outliers together cost a switch one patched
/// branch.
pub(crate) fn observe_outliers(on: bool) {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::schedhist_observe_outliers(on) };
}
