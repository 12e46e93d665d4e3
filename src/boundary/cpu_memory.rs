// SPDX-License-Identifier: GPL-2.0

//! Allocation of a CPU's records, in one piece of memory on the CPU's NUMA node.
//!
//! The header and the buckets share an allocation because the allocator rounds each up to a power
//! of two. With the default settings the header fits into the rest of the 64 KiB that the buckets
//! take anyway.

use core::{
    alloc::Layout,
    ptr, //
};

use kernel::prelude::*;

use crate::{
    boundary::abstractions::allocate,
    engine::{
        chain::{
            LastChains,
            SliceCells, //
        },
        histogram::{
            Precision,
            Scheme, //
        },
        idle::CpuIdle,
        outlier::Log,
        switch::{
            Cpu,
            Header, //
        },
        Cell,
        MetricSet, //
    },
};

// SAFETY: A cell is an integer.
unsafe impl Zeroable for Cell {}

// SAFETY: A log consists of integers. They are all 0, as in `Log::default()`.
unsafe impl Zeroable for Log {}

// SAFETY: It consists of integers. They are all 0, as in `SliceCells::default()`.
unsafe impl Zeroable for SliceCells {}

// SAFETY: It consists of integers. They are all 0, as in `LastChains::default()`.
unsafe impl Zeroable for LastChains {}

// SAFETY: It consists of integers. They are all 0, as in `CpuIdle::default()`.
unsafe impl Zeroable for CpuIdle {}

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
    let memory = allocate(layout, Some(number))?;
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
