// SPDX-License-Identifier: GPL-2.0

//! The kernel boundary.
//!
//! This module contains all `unsafe` code and all uses of C bindings, except for the trace event
//! emitters that are generated from `events.rs`. It also finds out what the kernel has. Code that
//! other modules could use as it is lives in [`abstractions`].

pub(crate) mod abstractions;
pub(crate) mod cpu_memory;
pub(crate) mod group_memory;
pub(crate) mod log;
pub(crate) mod params;
pub(crate) mod task_table;
pub(crate) mod trace_listeners;
pub(crate) mod tracing;

pub(crate) use abstractions::bindings;

pub(crate) use group_memory::{GroupMemories, GroupMemory, ThisCpuGroups};
pub(crate) use task_table::{TaskPages, TaskStates, TaskTable};
pub(crate) use trace_listeners::ListenerHook;
