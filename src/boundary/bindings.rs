// SPDX-License-Identifier: GPL-2.0

//! Bindings to `glue.h`, which bindgen generates when the module is built.
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

include!(concat!(
    env!("SCHEDHIST_GENERATED"),
    "/bindings_generated.rs"
));
