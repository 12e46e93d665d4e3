// SPDX-License-Identifier: GPL-2.0

//! A value for each possible CPU.
//!
//! This does not use the kernel's per-CPU allocator, which allocates 32 KiB at most: a CPU's
//! histograms take more. Boxes have no such limit, and each can be on the NUMA node of its CPU. A
//! table of boxes by CPU number costs one load instead of an addition to `%gs`.
//!
//! C header: [`include/linux/cpumask.h`](srctree/include/linux/cpumask.h)

use core::{
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    cpumask::Cpumask,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

use super::smp::this_cpu;

/// Proof that the running code stays on this CPU.
///
/// # Safety
///
/// While a value exists, the code that has it must not leave its CPU.
pub(crate) unsafe trait ThisCpu {
    /// Returns the number of this CPU.
    #[inline(always)]
    fn cpu(&self) -> u32 {
        this_cpu()
    }
}

/// A `T` for each possible CPU, online or not, so that CPU hotplug changes nothing.
///
/// The values are side by side in one piece of memory: a `T` that a CPU writes should be a box. A
/// probe that has the address of that memory finds the `T` of its CPU without a load.
///
/// # Invariants
///
/// There is a place for each number below `nr_cpu_ids()`. That of a possible CPU is not `None`.
pub(crate) struct PerCpu<T> {
    /// Indexed by CPU number; `None` if there is no possible CPU of this number.
    places: KVVec<Option<T>>,
}

impl<T> PerCpu<T> {
    /// Creates a `T` for each possible CPU, by a call of `create` with the CPU's number. Process
    /// context.
    pub(crate) fn new(mut create: impl FnMut(u32) -> Result<T>) -> Result<Self> {
        let mut places = KVVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL)?;
        for cpu in 0..nr_cpu_ids() {
            let place = match is_possible(cpu) {
                true => Some(create(cpu)?),
                false => None,
            };
            places.push(place, GFP_KERNEL)?;
        }
        // INVARIANT: The loop pushed one place for each number, and a value for each possible CPU.
        Ok(Self { places })
    }

    /// Returns the value of CPU `cpu`, if that is a possible CPU.
    #[inline(always)]
    pub(crate) fn get(&self, cpu: u32) -> Option<&T> {
        self.places.get(cpu as usize)?.as_ref()
    }

    /// Iterates over the values, each with the number of its CPU, in the order of these numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        let places = (0..).zip(self.places.iter());
        places.filter_map(|(cpu, place)| Some((cpu, place.as_ref()?)))
    }

    /// Iterates over the values as [`PerCpu::numbered`] does.
    pub(crate) fn numbered_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> + '_ {
        let places = (0..).zip(self.places.iter_mut());
        places.filter_map(|(cpu, place)| Some((cpu, place.as_mut()?)))
    }

    #[inline(always)]
    pub(crate) fn this(&self, here: &impl ThisCpu) -> &T {
        // SAFETY: This is the address of `self`, which exists as long as the result.
        unsafe { Self::this_at(self.address(), here) }
    }

    /// Returns the address of the values, for [`PerCpu::this_at`].
    pub(crate) fn address(&self) -> *mut c_void {
        self.places.as_ptr().cast_mut().cast()
    }

    /// Returns the value of this CPU, of those at `address`.
    ///
    /// # Safety
    ///
    /// `address` must be what [`PerCpu::address`] returned for values of `T` that exist for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn this_at<'a>(address: *mut c_void, here: &impl ThisCpu) -> &'a T {
        // SAFETY: By the safety requirement these are the places of a `PerCpu`. A running CPU is a
        // possible one: its number is below `nr_cpu_ids()`. So by the type's invariant there is a
        // place for it, which is not `None`.
        unsafe {
            let place = &*address.cast::<Option<T>>().add(here.cpu() as usize);
            place.as_ref().unwrap_unchecked()
        }
    }
}

impl<T: ?Sized> PerCpu<KVBox<T>> {
    /// Returns a reference to the value of CPU `cpu` of `all` alone, if that is a possible CPU.
    pub(crate) fn of(all: &Arc<Self>, cpu: u32) -> Option<CpuRef<T>> {
        // INVARIANT: The value is one of `all`.
        Some(CpuRef {
            value: NonNull::from(&**all.get(cpu)?),
            all: all.clone(),
        })
    }

    /// Iterates over the values in the boxes, in the order of the CPUs' numbers.
    pub(crate) fn unboxed(&self) -> impl Iterator<Item = &T> + '_ {
        self.places.iter().filter_map(Option::as_deref)
    }
}

/// A reference to the boxed value of one CPU, which takes no look-up.
///
/// # Invariants
///
/// `value` points to a value of `all`.
pub(crate) struct CpuRef<T: ?Sized> {
    value: NonNull<T>,
    all: Arc<PerCpu<KVBox<T>>>,
}

impl<T: ?Sized> CpuRef<T> {
    /// Returns the values of all CPUs.
    pub(crate) fn all(&self) -> &PerCpu<KVBox<T>> {
        &self.all
    }
}

// SAFETY: This is an `Arc` with the address of memory that the `Arc` keeps allocated. An
// `Arc<PerCpu<KVBox<T>>>` can be sent to another thread if `T` is `Send` and `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Send for CpuRef<T> {}

// SAFETY: A shared reference gives access to a shared reference to a `T` only, which is `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for CpuRef<T> {}

impl<T: ?Sized> Deref for CpuRef<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: By the type's invariant the value exists as long as `self`: a `PerCpu` neither
        // moves nor replaces its values.
        unsafe { self.value.as_ref() }
    }
}

pub(super) fn is_possible(cpu: u32) -> bool {
    // SAFETY: `__cpu_possible_mask` is a static of the kernel, and does not change after boot.
    let possible = unsafe { Cpumask::from_raw(&raw const bindings::__cpu_possible_mask) };
    CpuId::from_u32(cpu).is_some_and(|cpu| possible.test(cpu))
}

/// Returns whether `cpu` is the number of an online CPU. The answer may be outdated at once unless
/// the caller excludes CPU hotplug.
pub(crate) fn is_online(cpu: u32) -> bool {
    // SAFETY: `__cpu_online_mask` is a static of the kernel, whose bits change one at a time.
    let online = unsafe { Cpumask::from_raw(&raw const bindings::__cpu_online_mask) };
    CpuId::from_u32(cpu).is_some_and(|cpu| online.test(cpu))
}
