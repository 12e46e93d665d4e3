// SPDX-License-Identifier: GPL-2.0

//! The CPUs that a task may use, and what they share.
//!
//! C headers: [`include/linux/topology.h`](srctree/include/linux/topology.h),
//! [`include/linux/sched/isolation.h`](srctree/include/linux/sched/isolation.h)

use kernel::ffi::c_int;

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

/// Returns whether two CPUs share a last-level cache; on arm64, where firmware names no other CPU
/// that shares that of `one`, whether they are of one package. It may be wrong before a CPU has
/// been online for the first time.
pub(crate) fn share_llc(one: u32, two: u32) -> bool {
    is_possible(one)
        && is_possible(two)
        // SAFETY: Both are possible.
        && unsafe { bindings::schedhist_shares_llc(one as c_int, two as c_int) }
}

/// Returns whether two CPUs are threads of one core.
pub(crate) fn are_of_one_core(one: u32, two: u32) -> bool {
    is_possible(one)
        && is_possible(two)
        // SAFETY: Both are possible.
        && unsafe { bindings::schedhist_is_sibling(one as c_int, two as c_int) }
}

/// Returns whether two CPUs are on one NUMA node.
pub(crate) fn are_on_one_node(one: u32, two: u32) -> bool {
    is_possible(one)
        && is_possible(two)
        // SAFETY: Both are possible.
        && unsafe { bindings::schedhist_is_near(one as c_int, two as c_int) }
}
