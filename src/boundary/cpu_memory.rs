// SPDX-License-Identifier: GPL-2.0

//! The records of a CPU, each in one piece of memory that is near to the CPU.
//!
//! One piece, because the allocator rounds each up to a power of two: at defaults the header fits
//! into what is left of the 64 KiB that the buckets take anyway.
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
    alloc::{
        allocator::KVmalloc,
        flags::__GFP_ZERO, //
        Allocator,
        NumaNode,
    },
    ffi::c_int,
    prelude::*, //
};

use crate::boundary::bindings;
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

// At defaults they take 64 KiB at most, as the allocator rounds them.
const _: () = {
    let Some(precision) = Precision::new(Precision::DEFAULT) else {
        panic!("the default is no precision");
    };
    let Some(layout) = layout(Scheme::new(precision), MetricSet::DEFAULT) else {
        panic!("no layout");
    };
    assert!(layout.size().next_power_of_two() <= 64 * 1024);
};

/// Returns the layout of the records of a CPU on which `metrics` can be on; `None`
/// when that is more than there can be.
const fn layout(scheme: Scheme, metrics: MetricSet) -> Option<Layout> {
    let Ok(cells) = Layout::array::<Cell>(Cpu::<[Cell]>::cells(scheme, metrics)) else {
        return None;
    };
    // As `repr(C)` has it.
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
    let memory: NonNull<u8> =
        KVmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, node_of(number))?.cast();
    // SAFETY: The memory is ours alone, large enough and aligned: by `layout` the header is what it
    // begins with.
    unsafe { memory.cast::<Header>().write(Header::new(number, scheme)) };
    // The length of a slice becomes that of the slice at the end.
    let records =
        ptr::slice_from_raw_parts_mut(memory.as_ptr().cast::<Cell>(), cells) as *mut Cpu<[Cell]>;
    // INVARIANT: There are as many cells as `Cpu::cells` says.
    //
    // SAFETY: From `KVmalloc`, which passes it to us, with the size and the alignment of a
    // `Cpu<[Cell]>` of so many cells: `layout` is the layout that `repr(C)` gives it. The header was
    // just written, and the cells after it, which are integers, are 0.
    Ok(unsafe { KVBox::from_raw(records) })
}

/// Creates an empty log of the outliers of the CPU `number`. Sleeps; fails with `ENOMEM`.
pub(crate) fn new_log(number: u32) -> Result<KVBox<Log>> {
    let layout = Layout::new::<Log>();
    let memory = KVmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, node_of(number))?;
    // SAFETY: From `KVmalloc`, which passes it to us, with the layout of a `Log`. It is made of
    // integers alone, which are 0: as `Log::new` has it. Too large to be made on the stack.
    Ok(unsafe { KVBox::from_raw(memory.cast::<Log>().as_ptr()) })
}

/// Returns the NUMA node that `cpu`, which must be possible, is part of, if that is known.
fn node_of(cpu: u32) -> NumaNode {
    // SAFETY: Callable in any context, with the number of a possible CPU.
    let node = unsafe { bindings::schedhist_cpu_to_node(cpu as c_int) };
    NumaNode::new(node).unwrap_or(NumaNode::NO_NODE)
}
