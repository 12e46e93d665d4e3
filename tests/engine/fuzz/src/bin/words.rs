// SPDX-License-Identifier: GPL-2.0

//! The input of the controls.

#![no_main]

#[path = "../../../tests/words/mod.rs"]
mod words;

schedhist_fuzz::fuzz!(words::check);
