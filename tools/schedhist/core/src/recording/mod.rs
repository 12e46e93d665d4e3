// SPDX-License-Identifier: GPL-2.0

//! The file of `schedhist record`: `docs/tool.md` describes it.
//!
//! A recording is a header and chunks that are only ever appended. Each chunk has a checksum, so a
//! reader notices damage, and finds the next chunk behind it. One snapshot a minute is whole, and
//! the others hold only what has changed. By hand, as no crate's format is appended to, checked and
//! resumed behind damage like this.

pub mod course;
pub mod delta;
mod early;
pub mod file;
pub mod progress;
