// SPDX-License-Identifier: GPL-2.0

//! Recordings: how they are written and read, and the tables, pages and traces that are made of
//! them.

pub mod html;
pub mod merged;
pub mod part;
pub mod perfetto;
pub mod reader;
pub mod runs;
pub mod tables;
pub mod writer;
