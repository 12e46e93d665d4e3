// SPDX-License-Identifier: GPL-2.0

//! The `softirq_raise` and `softirq_entry` tracepoints, and what a CPU does besides its task.
//!
//! C headers: [`include/trace/events/irq.h`](srctree/include/trace/events/irq.h),
//! [`include/linux/preempt.h`](srctree/include/linux/preempt.h)

use kernel::{
    ffi::c_uint,
    types::NotThreadSafe, //
};

use super::{
    bindings,
    context,
    per_cpu::ThisCpu,
    task::with_current,
    tracepoint::declare_probe, //
};

/// What interrupts a CPU's task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    None,
    Softirq,
    /// A hard interrupt, or an NMI.
    Hard,
}

/// Returns what interrupts the task of this CPU, if anything does. Any context.
#[inline(always)]
pub(crate) fn interruption() -> Interruption {
    match interruptions() {
        0 => Interruption::None,
        bindings::SCHEDHIST_IN_SOFTIRQ => Interruption::Softirq,
        _ => Interruption::Hard,
    }
}

/// Returns the bits of `preempt_count()` that are about interrupts: that of this CPU is the task's.
///
/// C header: [`arch/x86/include/asm/preempt.h`](srctree/arch/x86/include/asm/preempt.h)
#[cfg(all(CONFIG_X86, not(CONFIG_UML), not(CONFIG_PREEMPT_RT), HAVE_CPU_NUMBER))]
#[inline(always)]
fn interruptions() -> u32 {
    let count: u32;
    // SAFETY: This is a load of the lower half of a per-CPU variable of the kernel, which exists
    // on each CPU: where `cpu_number` is a variable of its own, so is `__preempt_count`, as both
    // left `struct pcpu_hot` at once. Interrupts change it only until they return.
    unsafe {
        core::arch::asm!(
            "movl %gs:{variable}(%rip), {count:e}",
            variable = sym bindings::__preempt_count,
            count = lateout(reg) count,
            options(att_syntax, readonly, nostack, preserves_flags),
        );
    }
    count & (bindings::SCHEDHIST_IN_HARDIRQ | bindings::SCHEDHIST_IN_SOFTIRQ)
}

/// The same where it is not that easily read. On `PREEMPT_RT`, softirqs are not in the count; in
/// older kernels, which do not have `cpu_number` either, it is elsewhere.
#[cfg(not(all(CONFIG_X86, not(CONFIG_UML), not(CONFIG_PREEMPT_RT), HAVE_CPU_NUMBER)))]
#[inline(always)]
fn interruptions() -> u32 {
    // SAFETY: Callable in any context.
    unsafe { bindings::schedhist_interruptions() }
}

/// Returns whether the current task is a kernel thread that runs softirqs. Any context.
pub(crate) fn is_softirq_thread() -> bool {
    with_current(|task| task.is_softirq_thread())
}

/// A softirq that is raised, or begins to run, on this CPU. A value exists only within the probe.
pub(crate) struct Softirq {
    /// Its kind, such as `NET_RX_SOFTIRQ`.
    pub(crate) kind: u32,
    _this_cpu: NotThreadSafe,
}

// SAFETY: A `Softirq` exists only within a probe. Interrupts are off where softirqs are raised;
// where one runs, preemption is off or, on `PREEMPT_RT`, migration is: the CPU stays the same.
unsafe impl ThisCpu for Softirq {}

impl Softirq {
    fn new(kind: c_uint) -> Self {
        Self {
            kind,
            _this_cpu: NotThreadSafe,
        }
    }

    /// Returns whether it runs the functions of timers.
    pub(crate) fn is_of_timers(&self) -> bool {
        matches!(
            self.kind,
            bindings::SCHEDHIST_TIMER_SOFTIRQ | bindings::SCHEDHIST_HRTIMER_SOFTIRQ
        )
    }

    /// Returns whether it does what others than its raiser asked for, too: the callbacks of RCU.
    pub(crate) fn is_for_all(&self) -> bool {
        self.kind == bindings::SCHEDHIST_RCU_SOFTIRQ
    }
}

/// Receives `softirq_raise` and `softirq_entry`.
pub(crate) trait Softirqs: Send + Sync + 'static {
    /// Called when a softirq is raised, with interrupts off.
    fn softirq_raise(&self, softirq: &Softirq);

    /// Called when a softirq begins to run. An interrupt may come in between and, on
    /// `PREEMPT_RT`, other tasks may have the CPU, with softirqs of their own.
    fn softirq_entry(&self, softirq: &Softirq);
}

declare_probe! {
    /// The probe that calls `T` when a softirq is raised.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SoftirqRaiseProbe<T: Softirqs>, c"softirq_raise", schedhist_softirq_probe;
    fn(receiver, kind: c_uint) {
        context::assert_irqs_disabled();
        receiver.softirq_raise(&Softirq::new(kind));
    }
}

declare_probe! {
    /// The probe that calls `T` when a softirq begins to run.
    // SAFETY: `glue.c` checks the type against the tracepoint.
    unsafe SoftirqEntryProbe<T: Softirqs>, c"softirq_entry", schedhist_softirq_probe;
    fn(receiver, kind: c_uint) {
        receiver.softirq_entry(&Softirq::new(kind));
    }
}
