// SPDX-License-Identifier: GPL-2.0

//! Module parameters. C defines them, as the `module!` macro has none that are text or that sysfs shows.
//! None of them can change after the module was loaded.

use kernel::{
    prelude::*,
    str::CStr, //
};

use crate::boundary::bindings;
use crate::engine::histogram::bucket::Precision;

// A literal in C.
const _: () = assert!(Precision::DEFAULT == bindings::SCHEDHIST_PRECISION_DEFAULT);

/// Returns the parameter `precision`.
pub(crate) fn precision() -> u32 {
    // SAFETY: A static of ours that is written only before the module's initialisation.
    unsafe { bindings::schedhist_precision }
}

/// Returns the parameter `metrics`.
pub(crate) fn metrics() -> &'static [u8] {
    // SAFETY: A static of ours that `module_param_string()` keeps NUL-terminated, and that is
    // written only before the module's initialisation.
    unsafe { CStr::from_char_ptr((&raw const bindings::schedhist_metrics).cast()) }.to_bytes()
}
