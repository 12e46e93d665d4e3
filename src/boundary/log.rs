// SPDX-License-Identifier: GPL-2.0

//! The kernel log: one form for all that is refused.

use core::fmt;

use kernel::prelude::*;

use crate::engine::format::text::Quoted;

/// Says in the log that `value` was not taken for what has this `name`, and `why`; returns the error for
/// whoever wrote it.
pub(crate) fn refused(name: impl fmt::Display, value: &[u8], why: fmt::Arguments<'_>) -> Error {
    // As arguments, as the kernel's own macros print but few types.
    pr_warn!("{}: {why}\n", format_args!("{name}: {}", Quoted(value)));
    EINVAL
}
