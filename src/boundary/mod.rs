// SPDX-License-Identifier: GPL-2.0

//! The kernel boundary.
//!
//! All `unsafe` and all use of C bindings live here, and in the trace event emitters that are
//! generated from `events.rs`. What a kernel version changes is met here too. What other modules
//! could use as it is stands in [`abstractions`].

pub(crate) mod abstractions;
pub(crate) mod bindings;
pub(crate) mod cpu_memory;
pub(crate) mod log;
pub(crate) mod outlier_key;
pub(crate) mod params;
pub(crate) mod task_table;
pub(crate) mod tracing;
