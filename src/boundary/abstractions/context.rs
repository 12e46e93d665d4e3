// SPDX-License-Identifier: GPL-2.0

//! The contexts that this module's code relies on, asserted.
//!
//! Each function asserts one thing of what runs here, where the kernel has
//! `CONFIG_RUST_DEBUG_ASSERTIONS`, and compiles to nothing where it has not. What is wrong ends in a
//! panic of Rust, and so in a `BUG()`; sleeping where one must not is reported as the kernel does.
//!
//! C headers: [`include/linux/preempt.h`](srctree/include/linux/preempt.h),
//! [`include/linux/irqflags.h`](srctree/include/linux/irqflags.h)

use kernel::cpu::CpuId;

use crate::boundary::{
    abstractions::{
        per_cpu,
        task::Task, //
    },
    bindings, //
};

/// Interrupts are off on this CPU: nothing comes in between but an NMI.
#[inline(always)]
pub(crate) fn assert_irqs_disabled() {
    if cfg!(debug_assertions) {
        assert!(are_irqs_off(), "interrupts are on");
    }
}

/// Preemption is off, by whatever means. An interrupt may still come in between.
#[inline(always)]
pub(crate) fn assert_preemption_disabled() {
    if cfg!(debug_assertions) {
        // SAFETY: Callable in any context.
        let is_on = unsafe { bindings::schedhist_preemptible() };
        assert!(!is_on, "preemption is on");
    }
}

/// Interrupts are off, unless `is_exempt`.
#[inline(always)]
pub(crate) fn assert_irqs_disabled_unless(is_exempt: impl FnOnce() -> bool) {
    if cfg!(debug_assertions) {
        assert!(are_irqs_off() || is_exempt(), "interrupts are on");
    }
}

/// Interrupts and preemption are on, in a task, so that also `PREEMPT_RT` lets it allocate memory.
#[inline(always)]
pub(crate) fn assert_preemptible() {
    // Without the count the kernel does not know.
    if cfg!(debug_assertions) && cfg!(CONFIG_PREEMPT_COUNT) {
        // SAFETY: Callable in any context.
        let is_on = unsafe { bindings::schedhist_preemptible() };
        assert!(is_on, "preemption is off");
    }
}

/// This is the CPU that `cpu` tells. To be asked where nothing can migrate.
#[inline(always)]
pub(crate) fn assert_this_cpu(cpu: impl FnOnce() -> u32) {
    if cfg!(debug_assertions) {
        let (here, cpu) = (CpuId::current().as_u32(), cpu());
        assert!(here == cpu, "on CPU {here}, not on CPU {cpu}");
    }
}

/// `cpu` is offline, and so runs nothing. To be asked where CPU hotplug cannot change that.
#[inline(always)]
pub(crate) fn assert_offline(cpu: u32) {
    if cfg!(debug_assertions) {
        assert!(!per_cpu::is_online(cpu), "CPU {cpu} is online");
    }
}

/// What runs here may sleep. Where it may not, the kernel says so, if it has
/// `CONFIG_DEBUG_ATOMIC_SLEEP`.
#[track_caller]
#[inline(always)]
pub(crate) fn might_sleep() {
    if cfg!(debug_assertions) {
        kernel::task::might_sleep();
    }
}

/// Says whether `task` is the one that runs here.
pub(crate) fn is_current(task: Task<'_>) -> bool {
    // SAFETY: Callable in any context.
    let current = unsafe { bindings::get_current() };
    task.id() == current as u64
}

#[inline(always)]
fn are_irqs_off() -> bool {
    // SAFETY: Callable in any context.
    unsafe { bindings::schedhist_irqs_disabled() }
}
