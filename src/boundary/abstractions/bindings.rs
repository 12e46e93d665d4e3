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
