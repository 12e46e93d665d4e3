// SPDX-License-Identifier: GPL-2.0

//! Recordings: what is read from them, and the pages and traces that are made of it.

pub mod html;
pub mod merged;
pub mod perfetto;
pub mod runs;
