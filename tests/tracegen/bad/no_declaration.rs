// SPDX-License-Identifier: GPL-2.0

//! There is no declaration.

/// Nothing.
fn nothing() {}
