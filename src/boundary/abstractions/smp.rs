// SPDX-License-Identifier: GPL-2.0

//! The number of this CPU, and running a function on another one.
//!
//! C headers: [`include/linux/smp.h`](srctree/include/linux/smp.h),
//! [`include/linux/cpu.h`](srctree/include/linux/cpu.h)

#[cfg(not(CONFIG_UML))]
use core::arch::asm;
#[cfg(all(CONFIG_X86, not(CONFIG_UML)))]
use core::hint::assert_unchecked;

use kernel::ffi::{
    c_int,
    c_void, //
};

use super::{
    bindings,
    context, //
};

#[cfg(all(CONFIG_X86, not(CONFIG_UML), HAVE_CPU_NUMBER))]
use bindings::cpu_number as CPU_NUMBER_IN;
#[cfg(all(CONFIG_X86, not(CONFIG_UML), HAVE_CPU_NUMBER))]
const CPU_NUMBER_AT: usize = 0;
#[cfg(all(CONFIG_X86, not(CONFIG_UML), not(HAVE_CPU_NUMBER)))]
use bindings::pcpu_hot as CPU_NUMBER_IN;
#[cfg(all(CONFIG_X86, not(CONFIG_UML), not(HAVE_CPU_NUMBER)))]
const CPU_NUMBER_AT: usize =
    core::mem::offset_of!(CPU_NUMBER_IN, __bindgen_anon_1.__bindgen_anon_1.cpu_number);

/// Returns the number of this CPU, as `raw_smp_processor_id()` does. Any context; the number may be
/// outdated at once if the caller can migrate.
///
/// The kernel keeps the number in the cache line of the preemption count, which is in use all the
/// time: `DECLARE_PER_CPU_CACHE_HOT` in
/// [`arch/x86/include/asm/smp.h`](srctree/arch/x86/include/asm/smp.h), or `struct pcpu_hot` in
/// older kernels.
#[cfg(all(CONFIG_X86, not(CONFIG_UML)))]
#[inline(always)]
pub(crate) fn this_cpu() -> u32 {
    let cpu: u64;
    // SAFETY: This is a load of a per-CPU variable of the kernel: `cpu_number`, if the kernel that
    // the module is built for has one, or else the member of `pcpu_hot`, at its offset. It exists
    // on each CPU and is only written while the kernel boots. A load of 32 bits clears the upper
    // half of the register, which the assertion tells the compiler.
    unsafe {
        asm!(
            "movl %gs:{variable}+{offset}(%rip), {cpu:e}",
            variable = sym CPU_NUMBER_IN,
            offset = const CPU_NUMBER_AT,
            cpu = lateout(reg) cpu,
            options(att_syntax, pure, readonly, nostack, preserves_flags),
        );
        assert_unchecked(cpu <= u64::from(u32::MAX));
    }
    cpu as u32
}

/// The same for arm64, where a task knows its CPU, and a register the task:
/// [`arch/arm64/include/asm/current.h`](srctree/arch/arm64/include/asm/current.h).
#[cfg(CONFIG_ARM64)]
#[inline(always)]
pub(crate) fn this_cpu() -> u32 {
    let current: *const bindings::task_struct;
    // SAFETY: This reads a register, in which the kernel has the address of the running task: for
    // that task it is always the same.
    unsafe {
        asm!(
            "mrs {current}, sp_el0",
            current = lateout(reg) current,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: The running task exists. Another CPU writes this only while the task does not run.
    unsafe { (&raw const (*current).thread_info.cpu).read_volatile() }
}

/// The same for User Mode Linux, where no segment register leads to the per-CPU variables.
#[cfg(CONFIG_UML)]
#[inline(always)]
pub(crate) fn this_cpu() -> u32 {
    // SAFETY: Callable in any context.
    unsafe { bindings::raw_smp_processor_id() }
}

/// Calls `f` with the interrupts of this CPU off. Any context.
///
/// As `f` is [`Send`], it can neither drop a guard that was made outside nor let one out: with a
/// [`Guard`](super::irq_lock::Guard), interrupts would come on early, or stay off.
pub(crate) fn with_irqs_off(f: impl FnOnce() + Send) {
    // SAFETY: Callable in any context.
    let flags = unsafe { bindings::schedhist_irq_save() };
    f();
    // SAFETY: These are the flags from before, on the same CPU, as `f` cannot migrate.
    unsafe { bindings::schedhist_irq_restore(flags) };
}

/// Calls `f` while no CPU can come or go. Sleeps.
pub(crate) fn without_hotplug(f: impl FnOnce()) {
    context::might_sleep();
    // SAFETY: Process context. The lock is released below.
    unsafe { bindings::cpus_read_lock() };
    f();
    // SAFETY: The lock was taken above, by this task.
    unsafe { bindings::cpus_read_unlock() };
}

/// Runs `f` on `cpu` with interrupts off, and waits until `f` returns; does nothing if `cpu` is
/// offline. `f` must not sleep. Sleeps itself.
pub(crate) fn run_if_online(cpu: u32, f: impl FnOnce() + Send) {
    run_on(cpu, || {
        if this_cpu() == cpu {
            f();
        }
    });
}

/// Runs `f` on `cpu` with interrupts off, and waits until `f` returns. If `cpu` is offline, `f`
/// runs on this CPU, and `cpu` stays offline meanwhile.
///
/// Either way `cpu` runs nothing else while `f` runs. `f` must not sleep. `run_on()` itself sleeps.
pub(crate) fn run_on<F: FnOnce() + Send>(cpu: u32, f: F) {
    /// # Safety
    ///
    /// `slot` must point to an `Option<F>` to which there is no other reference in use.
    unsafe extern "C" fn call<F: FnOnce()>(slot: *mut c_void) {
        // SAFETY: `run_on()` passes its `slot`, which it does not touch until this call has
        // returned.
        let slot = unsafe { &mut *slot.cast::<Option<F>>() };
        if let Some(f) = slot.take() {
            context::assert_irqs_disabled();
            f();
        }
    }

    without_hotplug(|| {
        let mut slot = Some(f);
        // This fails only if the CPU is offline: then `f` is still in the slot.
        //
        // SAFETY: `call` expects the slot. The slot outlives the call, as this waits until `call`
        // has returned.
        unsafe {
            bindings::schedhist_call_on_cpu(
                cpu as c_int,
                Some(call::<F>),
                (&raw mut slot).cast::<c_void>(),
            );
        }
        if let Some(f) = slot.take() {
            context::assert_offline(cpu);
            with_irqs_off(f);
        }
    });
}
