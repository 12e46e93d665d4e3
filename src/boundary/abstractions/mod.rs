// SPDX-License-Identifier: GPL-2.0

//! Abstractions that Rust for Linux lacks.
//!
//! Nothing here depends on the rest of this module: each file could go upstream, but for the prefix
//! `schedhist` of functions in C, of lockdep classes and of a hotplug state.

pub(crate) mod bindings;
pub(crate) mod cgroup;
pub(crate) mod cgroup_events;
pub(crate) mod clock;
pub(crate) mod context;
pub(crate) mod debugfs;
pub(crate) mod hotplug;
pub(crate) mod irq_lock;
pub(crate) mod irq_work;
pub(crate) mod per_cpu;
pub(crate) mod random;
pub(crate) mod rcu;
pub(crate) mod sched_exit;
pub(crate) mod sched_switch;
pub(crate) mod sched_waking;
pub(crate) mod smp;
pub(crate) mod task;
pub(crate) mod task_events;
pub(crate) mod tracepoint;
pub(crate) mod wait;
pub(crate) mod work;
pub(crate) mod zeroed;
