// SPDX-License-Identifier: GPL-2.0

//! The CPUs that a task may use, and what they share.
//!
//! C headers: [`include/linux/topology.h`](srctree/include/linux/topology.h),
//! [`include/linux/sched/isolation.h`](srctree/include/linux/sched/isolation.h)

use core::{
    ptr::with_exposed_provenance_mut,
    sync::atomic::AtomicU64, //
};

use kernel::ffi::{
    c_int,
    c_ulong, //
};

use super::{
    bindings,
    per_cpu::is_possible,
    rcu::RcuReader,
    task::Task, //
};

/// Returns the next CPU after `cpu`, or the first, that `task` may use: by its affinity, active,
/// and not isolated from load balancing.
pub(crate) fn next_allowed(task: Task<'_>, cpu: Option<u32>, _: &impl RcuReader) -> Option<u32> {
    let cpu = cpu.map_or(-1, |cpu| cpu as c_int);
    // SAFETY: The task exists, by the type's invariant, and its mask is a part of it or static; its
    // bits may change meanwhile. RCU protects the mask of the domain.
    let next = unsafe { bindings::schedhist_next_allowed(task.as_ptr(), cpu) };
    u32::try_from(next).ok()
}

/// Returns whether two CPUs that are online share a last-level cache, which is of one NUMA node; on
/// arm64, if no other CPU online is known to share that of either, whether they are of one node and
/// package.
pub(crate) fn share_llc(one: u32, two: u32) -> bool {
    is_possible(one)
        && is_possible(two)
        // SAFETY: Both are possible.
        && unsafe { bindings::schedhist_shares_llc(one as c_int, two as c_int) }
}

/// Returns whether two CPUs that are online are threads of one core.
pub(crate) fn are_of_one_core(one: u32, two: u32) -> bool {
    is_possible(one)
        && is_possible(two)
        // SAFETY: Both are possible.
        && unsafe { bindings::schedhist_is_sibling(one as c_int, two as c_int) }
}

/// Returns the word that the module keeps for the CPU `cpu`, if that is a possible CPU. It is 0
/// when the module is loaded.
///
/// A per-CPU variable of the module takes no register of a probe, unlike a table that the data of
/// the probe leads to.
#[inline(always)]
pub(crate) fn topology_of(cpu: u32) -> Option<&'static AtomicU64> {
    let possible = &raw const bindings::__cpu_possible_mask;
    // SAFETY: The kernel's mask does not change after boot.
    let word = unsafe { &(*possible).bits }.get((cpu / c_ulong::BITS) as usize)?;
    if (word >> (cpu % c_ulong::BITS)) & 1 == 0 {
        return None;
    }
    // SAFETY: There is an offset for each possible CPU, which does not change after boot.
    let offset = unsafe {
        let offsets = (&raw const bindings::__per_cpu_offset).cast::<c_ulong>();
        offsets.add(cpu as usize).read()
    };
    // The variable of a CPU is outside of the static that names it. So its pointer must not have
    // the provenance of the static; `per_cpu_ptr()` hides that from the compiler by `RELOC_HIDE()`.
    // It is memory of C, which counts as exposed.
    let address = (&raw mut bindings::schedhist_topology).expose_provenance();
    let word = with_exposed_provenance_mut(address.wrapping_add(offset));
    // SAFETY: This is the variable of a possible CPU, at the address that `per_cpu_ptr()` returns.
    // It exists and is aligned until the module is unloaded, and is only accessed here.
    Some(unsafe { AtomicU64::from_ptr(word) })
}

/// Returns the NUMA node of a CPU; 0 if there is no such CPU.
pub(crate) fn node_of(cpu: u32) -> u32 {
    if !is_possible(cpu) {
        return 0;
    }
    // SAFETY: It is possible.
    u32::try_from(unsafe { bindings::schedhist_node_of(cpu as c_int) }).unwrap_or(0)
}
