// SPDX-License-Identifier: GPL-2.0

//! What the files contain: the text and binary formats, and the parsing of what is written to them.

pub mod input;
pub mod openmetrics;
pub mod raw;
pub mod text;
