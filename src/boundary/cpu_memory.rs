// SPDX-License-Identifier: GPL-2.0

//! Allocation of a CPU's records, in one piece of memory on the CPU's NUMA node.
//!
//! The header and the buckets share an allocation because the allocator rounds each up to a power
//! of two. With the default settings the header fits into the rest of the 64 KiB that the buckets
//! take anyway.
//!
//! C header: [`include/linux/topology.h`](srctree/include/linux/topology.h)

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

use crate::boundary::{
    bindings,
    group_memory::Slot, //
};
use crate::engine::{
    cell::Cell,
    histogram::bucket::{
        Precision,
        Scheme, //
    },
    metric::MetricSet,
    outlier::log::Log,
    switch::cpu::{
        Cpu,
        Header, //
    },
};

// With the default settings the records take at most 64 KiB, including the allocator's rounding.
const _: () = {
    let Some(precision) = Precision::new(Precision::DEFAULT) else {
        panic!("the default is no precision");
    };
    let Some(layout) = layout(Scheme::new(precision), MetricSet::DEFAULT) else {
        panic!("no layout");
    };
    assert!(layout.size().next_power_of_two() <= 64 * 1024);
};

/// Returns the layout of the records of a CPU on which `metrics` can be on. Returns `None` if the
/// size exceeds the limit of a [`Layout`].
const fn layout(scheme: Scheme, metrics: MetricSet) -> Option<Layout> {
    let Ok(cells) = Layout::array::<Cell>(Cpu::<[Cell]>::cells(scheme, metrics)) else {
        return None;
    };
    // `repr(C)` has the same layout.
    let Ok((layout, _)) = Layout::new::<Header>().extend(cells) else {
        return None;
    };
    Some(layout.pad_to_align())
}

/// Creates empty records of the CPU `number`, with room for `metrics`. Sleeps; fails with `ENOMEM`.
pub(crate) fn new_cpu(
    number: u32,
    scheme: Scheme,
    metrics: MetricSet,
) -> Result<KVBox<Cpu<[Cell]>>> {
    let cells = Cpu::<[Cell]>::cells(scheme, metrics);
    let layout = layout(scheme, metrics).ok_or(ENOMEM)?;
    let memory: NonNull<u8> = allocate(layout, number)?;
    // SAFETY: The memory was just allocated and has no other user. By `layout` it begins with a
    // header, so that it is large enough and aligned.
    unsafe { memory.cast::<Header>().write(Header::new(number, scheme)) };
    // The cast keeps the length, as that of the slice at the end of `Cpu`.
    let records =
        ptr::slice_from_raw_parts_mut(memory.as_ptr().cast::<Cell>(), cells) as *mut Cpu<[Cell]>;
    // INVARIANT: There are as many cells as `Cpu::cells` returned.
    //
    // SAFETY: The memory is as from `KVmalloc`, and the box becomes its only owner. Its size and
    // alignment are those of a `Cpu<[Cell]>` of `cells` cells: `layout` is the layout that
    // `repr(C)` gives it. The header was just written. The cells after it are integers, which are
    // 0.
    Ok(unsafe { KVBox::from_raw(records) })
}

/// Creates an empty log of the outliers of the CPU `number`. Sleeps; fails with `ENOMEM`.
pub(crate) fn new_log(number: u32) -> Result<KVBox<Log>> {
    let layout = Layout::new::<Log>();
    let memory = allocate(layout, number)?;
    // A `Log` is too large to be created on the stack.
    //
    // SAFETY: The memory is as from `KVmalloc`, has the layout of a `Log`, and the box becomes its
    // only owner. A `Log` consists of integers only. They are all 0, as in `Log::new()`.
    Ok(unsafe { KVBox::from_raw(memory.cast::<Log>().as_ptr()) })
}

/// Creates empty slots for `groups` groups on the CPU `number`. Sleeps; fails with `ENOMEM`.
pub(super) fn new_group_slots(number: u32, groups: usize) -> Result<KVBox<[Slot]>> {
    let layout = Layout::array::<Slot>(groups).map_err(|_| ENOMEM)?;
    let memory = allocate(layout, number)?;
    let slots = ptr::slice_from_raw_parts_mut(memory.cast::<Slot>().as_ptr(), groups);
    // SAFETY: The memory is as from `KVmalloc`, has the layout of the slice, and the box becomes
    // its only owner. A slot consists of integers and a pointer that may be null, and 0 is what
    // `GroupRecords::new()` has.
    Ok(unsafe { KVBox::from_raw(slots) })
}

/// Creates `cells` cells of 0 for the CPU `number`. Sleeps; fails with `ENOMEM`.
pub(crate) fn new_cells(number: u32, cells: usize) -> Result<KVBox<[Cell]>> {
    let layout = Layout::array::<Cell>(cells).map_err(|_| ENOMEM)?;
    let memory = allocate(layout, number)?;
    let records = ptr::slice_from_raw_parts_mut(memory.cast::<Cell>().as_ptr(), cells);
    // SAFETY: The memory is as from `KVmalloc`, has the layout of the slice, and the box becomes
    // its only owner. A cell is an integer.
    Ok(unsafe { KVBox::from_raw(records) })
}

/// Allocates zeroed memory as `KVmalloc` does, on the NUMA node of the CPU `number`. Sleeps; fails
/// with `ENOMEM` rather than have the OOM killer make room.
fn allocate(layout: Layout, number: u32) -> Result<NonNull<u8>> {
    // `kvmalloc()` aligns like this all sizes that are multiples of it.
    if layout.align() > 64 || layout.size() % layout.align() != 0 {
        return Err(EINVAL);
    }
    // SAFETY: Process context, with the number of a possible CPU.
    let memory = unsafe { bindings::schedhist_alloc(layout.size(), number as c_int) };
    NonNull::new(memory.cast()).ok_or(ENOMEM)
}
