// SPDX-License-Identifier: GPL-2.0

//! Assertions about the context in which code runs.
//!
//! Each function `assert_*` asserts one property if the kernel has `CONFIG_RUST_DEBUG_ASSERTIONS`,
//! and compiles to nothing otherwise. A failed assertion is a Rust panic, which ends in a `BUG()`.
//! [`might_sleep`] reports a failure as the kernel's own `might_sleep()` does.
//!
//! C headers: [`include/linux/preempt.h`](srctree/include/linux/preempt.h),
//! [`include/linux/irqflags.h`](srctree/include/linux/irqflags.h)

use kernel::cpu::CpuId;

use super::{
    bindings,
    per_cpu,
    task::Task,
    with_current, //
};

/// Asserts that interrupts are off on this CPU: only an NMI can come in between.
#[inline(always)]
pub(crate) fn assert_irqs_disabled() {
    assert_irqs_disabled_unless(|| false);
}

/// Asserts that preemption is off, by any means. Interrupts may still be on.
#[inline(always)]
pub(crate) fn assert_preemption_disabled() {
    if cfg!(debug_assertions) {
        // SAFETY: Callable in any context.
        let is_on = unsafe { bindings::schedhist_preemptible() };
        assert!(!is_on, "preemption is on");
    }
}

/// Asserts that interrupts are off, unless `is_exempt` returns true.
#[inline(always)]
pub(crate) fn assert_irqs_disabled_unless(is_exempt: impl FnOnce() -> bool) {
    if cfg!(debug_assertions) {
        // SAFETY: Callable in any context.
        let is_off = unsafe { bindings::schedhist_irqs_disabled() };
        assert!(is_off || is_exempt(), "interrupts are on");
    }
}

/// Asserts that interrupts and preemption are on, in a probe of a task's life. Code may then
/// allocate memory even on `PREEMPT_RT`. Asserts nothing where the kernel calls all probes with
/// preemption off.
#[inline(always)]
pub(crate) fn assert_preemptible() {
    // Without the preemption count the kernel cannot tell.
    if cfg!(all(
        debug_assertions,
        CONFIG_PREEMPT_COUNT,
        HAVE_PREEMPTIBLE_PROBES
    )) {
        // SAFETY: Callable in any context.
        let is_on = unsafe { bindings::schedhist_preemptible() };
        assert!(is_on, "preemption is off");
    }
}

/// Asserts that this CPU's number is the one that `cpu` returns. The caller must not be able to
/// migrate.
#[inline(always)]
pub(crate) fn assert_this_cpu(cpu: impl FnOnce() -> u32) {
    if cfg!(debug_assertions) {
        let (here, cpu) = (CpuId::current().as_u32(), cpu());
        assert!(here == cpu, "on CPU {here}, not on CPU {cpu}");
    }
}

/// Asserts that `cpu` is offline, and so runs nothing. CPU hotplug must not be able to change that
/// meanwhile.
#[inline(always)]
pub(crate) fn assert_offline(cpu: u32) {
    if cfg!(debug_assertions) {
        assert!(!per_cpu::is_online(cpu), "CPU {cpu} is online");
    }
}

/// Asserts that the caller may sleep. A kernel with `CONFIG_DEBUG_ATOMIC_SLEEP` reports callers
/// that may not.
#[track_caller]
#[inline(always)]
pub(crate) fn might_sleep() {
    if cfg!(debug_assertions) {
        kernel::task::might_sleep();
    }
}

/// Lets another task run that is to have the CPU. The caller must be able to sleep.
pub(crate) fn cond_resched() {
    might_sleep();
    // SAFETY: The caller can sleep.
    unsafe { bindings::schedhist_cond_resched() };
}

pub(crate) fn is_current(task: Task<'_>) -> bool {
    with_current(|current| current.id() == task.id())
}
