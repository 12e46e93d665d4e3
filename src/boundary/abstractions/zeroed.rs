// SPDX-License-Identifier: GPL-2.0

//! Boxes of zeroed memory near a CPU.
//!
//! C headers: [`include/linux/slab.h`](srctree/include/linux/slab.h),
//! [`include/linux/topology.h`](srctree/include/linux/topology.h)

use core::{
    alloc::Layout,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    ffi::c_int,
    prelude::*, //
};

use super::{
    bindings,
    per_cpu::is_possible, //
};

/// Creates a `T` of zero bytes on the NUMA node of the possible CPU `cpu`. Sleeps; fails with
/// `ENOMEM`.
pub(crate) fn zeroed<T: Zeroable>(cpu: u32) -> Result<KVBox<T>> {
    let memory = allocate(Layout::new::<T>(), Some(cpu))?;
    // SAFETY: The memory is as from `KVmalloc`, and has the layout of a `T`, for which zero bytes
    // are valid. The box becomes its only owner.
    Ok(unsafe { KVBox::from_raw(memory.cast().as_ptr()) })
}

/// Creates `len` values of type `T`, likewise.
pub(crate) fn zeroed_slice<T: Zeroable>(cpu: u32, len: usize) -> Result<KVBox<[T]>> {
    let layout = Layout::array::<T>(len).map_err(|_| ENOMEM)?;
    let memory = allocate(layout, Some(cpu))?;
    let values = ptr::slice_from_raw_parts_mut(memory.cast().as_ptr(), len);
    // SAFETY: As in `zeroed()`, for a slice of so many.
    Ok(unsafe { KVBox::from_raw(values) })
}

/// Allocates zeroed memory as `KVmalloc` does, on the NUMA node of the possible CPU `cpu`, if any.
/// If it is no larger than a page, `Kmalloc` can free it, too. Sleeps; fails with `ENOMEM` rather
/// than have the OOM killer make room, and with `EINVAL` for another CPU or an alignment above 64.
pub(crate) fn allocate(layout: Layout, cpu: Option<u32>) -> Result<NonNull<u8>> {
    // `kvmalloc()` aligns like this all sizes that are multiples of it.
    if layout.align() > 64 || layout.size() % layout.align() != 0 {
        return Err(EINVAL);
    }
    if cpu.is_some_and(|cpu| !is_possible(cpu)) {
        return Err(EINVAL);
    }
    let cpu = cpu.map_or(-1, |cpu| cpu as c_int);
    // SAFETY: Process context, with the number of a possible CPU or none.
    let memory = unsafe { bindings::schedhist_alloc(layout.size(), cpu) };
    NonNull::new(memory.cast()).ok_or(ENOMEM)
}
