// SPDX-License-Identifier: GPL-2.0

//! The kernel boundary: the abstractions that this module needs and Rust for Linux lacks.
//!
//! All `unsafe` and all use of C bindings live here, and in the trace event emitters that are
//! generated from `events.rs`. What a kernel version changes is met here too.

pub(crate) mod bell;
pub(crate) mod bindings;
pub(crate) mod clock;
pub(crate) mod context;
pub(crate) mod debugfs;
pub(crate) mod hotplug;
pub(crate) mod log;
pub(crate) mod params;
pub(crate) mod per_cpu;
pub(crate) mod records;
pub(crate) mod sched_switch;
pub(crate) mod sched_waking;
pub(crate) mod smp;
pub(crate) mod soon;
pub(crate) mod task;
pub(crate) mod task_newtask;
pub(crate) mod task_table;
pub(crate) mod tracepoint;
pub(crate) mod tracing;
pub(crate) mod watching;
pub(crate) mod work;
