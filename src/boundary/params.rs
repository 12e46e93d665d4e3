// SPDX-License-Identifier: GPL-2.0

//! Module parameters.
//!
//! C defines them, as parameters of the `module!` macro cannot be text and do not appear in sysfs.
//! No parameter can change after the module was loaded.

use kernel::{
    prelude::*,
    str::CStr, //
};

use crate::{
    boundary::bindings,
    engine::histogram::Precision, //
};

// The C header has it as a literal.
const _: () = assert!(Precision::DEFAULT == bindings::SCHEDHIST_PRECISION_DEFAULT);

pub(crate) fn precision() -> u32 {
    // SAFETY: A static of `module.c` that is written only before the module's initialisation.
    unsafe { bindings::schedhist_precision }
}

pub(crate) fn chain() -> u64 {
    // SAFETY: As in `precision()`.
    u64::from(unsafe { bindings::schedhist_chain })
}

pub(crate) fn metrics() -> &'static [u8] {
    // SAFETY: A static of `module.c` that `module_param_string()` keeps NUL-terminated. It is
    // written only before the module's initialisation.
    unsafe { CStr::from_char_ptr((&raw const bindings::schedhist_metrics).cast()) }.to_bytes()
}

/// The size of the text of `group_by`, in bytes: a path, and what may stand beside it.
pub(crate) const GROUP_BY_SIZE: usize = bindings::SCHEDHIST_GROUP_BY_SIZE as usize;

pub(crate) fn group_by() -> &'static [u8] {
    // SAFETY: As in `metrics()`.
    unsafe { CStr::from_char_ptr((&raw const bindings::schedhist_group_by).cast()) }.to_bytes()
}

pub(crate) fn group_rules() -> &'static [u8] {
    // SAFETY: As in `metrics()`.
    unsafe { CStr::from_char_ptr((&raw const bindings::schedhist_group_rules).cast()) }.to_bytes()
}
