// SPDX-License-Identifier: GPL-2.0

//! Something for each possible CPU.
//!
//! Not the kernel's per-CPU allocator, which gives out 32 KiB at most, and a CPU's histograms take
//! more. Boxes have no such limit, and each may lie where its CPU is near. A table of them by CPU
//! number costs one load instead of an addition to `%gs`.
//!
//! C header: [`include/linux/cpumask.h`](srctree/include/linux/cpumask.h)

use kernel::{
    bindings,
    cpu::{
        nr_cpu_ids, //
        CpuId,
    },
    cpumask::Cpumask,
    prelude::*,
    sync::Arc, //
};

/// Shows that what runs here stays on this CPU.
///
/// # Safety
///
/// While a value exists, what has it must run on the CPU whose number [`ThisCpu::cpu`] returns.
pub(crate) unsafe trait ThisCpu {
    /// Returns the number of this CPU.
    fn cpu(&self) -> u32;
}

/// A `T` for each possible CPU, online or not, so that CPU hotplug changes nothing.
///
/// # Invariants
///
/// There is a slot for each number below `nr_cpu_ids()`; that of a possible CPU is not `None`.
pub(crate) struct PerCpu<T: ?Sized> {
    /// By CPU number; `None` for the numbers of CPUs that are not possible.
    slots: KVVec<Option<KVBox<T>>>,
}

impl<T: ?Sized> PerCpu<T> {
    /// Creates one `T` for each possible CPU, of whose number `create` is told. Process context.
    pub(crate) fn new(mut create: impl FnMut(u32) -> Result<KVBox<T>>) -> Result<Self> {
        let mut slots = KVVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL)?;
        for cpu in 0..nr_cpu_ids() {
            let slot = if is_possible(cpu) {
                Some(create(cpu)?)
            } else {
                None
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        // INVARIANT: Just so.
        Ok(Self { slots })
    }

    /// Returns what belongs to the CPU number `cpu`, if that is possible.
    #[inline(always)]
    pub(crate) fn get(&self, cpu: u32) -> Option<&T> {
        self.slots.get(cpu as usize)?.as_deref()
    }

    /// Goes through the possible CPUs with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        let slots = (0..).zip(self.slots.iter());
        slots.filter_map(|(cpu, slot)| Some((cpu, slot.as_deref()?)))
    }

    /// Goes through the possible CPUs in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        self.slots.iter().filter_map(|slot| slot.as_deref())
    }
}

/// A reference to a [`PerCpu`] for who needs what belongs to this CPU.
///
/// # Invariants
///
/// `slots` is where those of `all` begin: so that `all` itself need not be read.
pub(crate) struct PerCpuRef<T: ?Sized> {
    slots: *const Option<KVBox<T>>,
    all: Arc<PerCpu<T>>,
}

// SAFETY: It is an `Arc`, with the address of what that owns.
unsafe impl<T: ?Sized + Send + Sync> Send for PerCpuRef<T> {}

// SAFETY: As above.
unsafe impl<T: ?Sized + Send + Sync> Sync for PerCpuRef<T> {}

impl<T: ?Sized> PerCpuRef<T> {
    /// Refers to `all`.
    pub(crate) fn new(all: Arc<PerCpu<T>>) -> Self {
        // INVARIANT: Just so; nobody changes `all` any more.
        Self {
            slots: all.slots.as_ptr(),
            all,
        }
    }

    /// Returns what belongs to this CPU.
    #[inline(always)]
    pub(crate) fn this(&self, here: &impl ThisCpu) -> &T {
        // SAFETY: By the type's invariant. A CPU that runs is possible: its number is below
        // `nr_cpu_ids()`, and so there is a slot, with something in it, by the invariant of `PerCpu`.
        unsafe {
            let slot = &*self.slots.add(here.cpu() as usize);
            slot.as_deref().unwrap_unchecked()
        }
    }

    /// Returns what belongs to the CPU number `cpu`, if that is possible.
    pub(crate) fn get(&self, cpu: u32) -> Option<&T> {
        self.all.get(cpu)
    }
}

/// Says whether `cpu` is the number of a possible CPU.
fn is_possible(cpu: u32) -> bool {
    // SAFETY: `__cpu_possible_mask` is a static of the kernel, and does not change after boot.
    let possible = unsafe { Cpumask::from_raw(&raw const bindings::__cpu_possible_mask) };
    CpuId::from_u32(cpu).is_some_and(|cpu| possible.test(cpu))
}

/// Says whether `cpu` is the number of a CPU that is online. It may just be changing, unless CPU hotplug
/// is kept from that.
pub(super) fn is_online(cpu: u32) -> bool {
    // SAFETY: `__cpu_online_mask` is a static of the kernel, whose bits change one at a time.
    let online = unsafe { Cpumask::from_raw(&raw const bindings::__cpu_online_mask) };
    CpuId::from_u32(cpu).is_some_and(|cpu| online.test(cpu))
}
