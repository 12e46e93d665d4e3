// SPDX-License-Identifier: GPL-2.0

//! Module parameters: what the `module!` macro does not know, and where kernels differ.

use core::borrow::Borrow;

use kernel::{
    prelude::*,
    str::CStr, //
};

use super::bindings;

/// Returns the parameter `metrics`, which cannot change after the module was loaded.
pub(crate) fn metrics() -> &'static [u8] {
    // SAFETY: A static of ours that `module_param_string()` keeps NUL-terminated, and that is
    // written only before the module's initialisation.
    unsafe { CStr::from_char_ptr((&raw const bindings::schedhist_metrics).cast()) }.to_bytes()
}

/// Copies the value of a parameter, which `ModuleParamAccess::value()` returns by reference in 7.2,
/// and by value from 7.3 on.
pub(crate) fn copied<T: Copy>(value: impl Borrow<T>) -> T {
    *value.borrow()
}
