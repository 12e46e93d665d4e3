// SPDX-License-Identifier: GPL-2.0

//! Bindings to `include/schedhist_bindings.h`, made by bindgen when the module is built.
//!
//! Types that the `kernel` crate has bindings for are taken from there.

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

include!(concat!(
    env!("SCHEDHIST_GENERATED"),
    "/bindings_generated.rs"
));
