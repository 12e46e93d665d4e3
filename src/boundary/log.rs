// SPDX-License-Identifier: GPL-2.0

//! The message in the kernel log about a value that is refused.

use core::fmt;

use kernel::prelude::*;

use crate::engine::format::Quoted;

/// Logs that `name` does not accept `value`, and `why`. Returns the error for the writer of the
/// value.
pub(crate) fn refused(name: impl fmt::Display, value: &[u8], why: fmt::Arguments<'_>) -> Error {
    // Passed by `format_args!`, as the kernel's own macros can print few types directly.
    pr_warn!("{}: {why}\n", format_args!("{name}: {}", Quoted(value)));
    EINVAL
}
