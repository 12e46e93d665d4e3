// SPDX-License-Identifier: GPL-2.0

//! The contents of the files: the text and binary formats, and the parsing of input.

pub mod groups;
pub mod input;
pub mod openmetrics;
pub mod raw;
pub mod text;
pub mod values;

pub use groups::Head;
pub use input::{number, split_word, Actions, OrNone, Slices};
pub use text::Scope;
pub use values::{up_to_nul, Escaped, Nanoseconds, Quoted};
