// SPDX-License-Identifier: GPL-2.0

//! The file of `schedhist record`: `docs/tool.md` describes it.
//!
//! A recording is a header and chunks that are only ever appended. Each chunk has a checksum, so a
//! file that ends in the middle of one, because the machine died, is readable up to there. The
//! first snapshot is whole, and later ones hold only what has changed.

pub mod delta;
pub mod file;
