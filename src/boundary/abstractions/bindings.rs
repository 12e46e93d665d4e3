// SPDX-License-Identifier: GPL-2.0

//! Bindings to the C headers of the module, `glue.h` among them. bindgen generates them when the
//! module is built: see `Makefile.bindings`.
//!
//! If the `kernel` crate has bindings for a type, they are used instead.

#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    improper_ctypes,
    non_camel_case_types,
    non_upper_case_globals,
    rustdoc::all,
    unreachable_pub,
    reason = "generated code"
)]

pub(crate) use kernel::bindings::*;
use kernel::ffi;

include!(concat!(env!("MODULE_GENERATED"), "/bindings_generated.rs"));

// Where the kernel has these as static inlines, glue.c has functions that call them.
#[cfg(not(CONFIG_HOTPLUG_CPU))]
pub(crate) use schedhist_cpus_read_lock as cpus_read_lock;
#[cfg(not(CONFIG_HOTPLUG_CPU))]
pub(crate) use schedhist_cpus_read_unlock as cpus_read_unlock;
#[cfg(not(CONFIG_HAVE_UNSTABLE_SCHED_CLOCK))]
pub(crate) use schedhist_local_clock as local_clock;

/// The older name of `system_dfl_wq`.
#[cfg(not(HAVE_SYSTEM_DFL_WQ))]
pub(crate) use system_unbound_wq as system_dfl_wq;

/// The older name of `timer_init_key()`.
#[cfg(not(HAVE_TIMER_INIT_KEY))]
pub(crate) use init_timer_key as timer_init_key;
