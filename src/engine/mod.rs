// SPDX-License-Identifier: GPL-2.0

//! The engine: what schedhist computes, with no kernel in it.
//!
//! Safe, `no_std`, free of allocation and of floating point. The module compiles it against the
//! kernel's `core`, and `tests/engine` compiles the same files as an ordinary crate, so that the
//! code that the tests, loom and the fuzzers see is the code that ships.
//!
//! | folder or file | its job |
//! | --- | --- |
//! | [`switch`] | what one CPU records, switch by switch, and what is kept about a task meanwhile |
//! | [`histogram`] | buckets, sums, extremes; copies to read from, quantiles |
//! | [`outlier`] | samples above a threshold, and who had the CPU meanwhile |
//! | [`format`] | text, OpenMetrics and binary formats of the files; what is written to them |
//! | [`metric`] | the metrics and counters: names, meaning |
//! | `named` | enums by a table of names, which the event generator reads, too |
//! | [`identity`] | who a task is, as far as it is shown |
//! | [`cell`] | a counter that one CPU writes and any CPU reads |
//! | [`seqcount`] | several cells that are read as one CPU left them |
//! | `div` | division of 128-bit numbers |
//! | `atomic` | where the atomics come from |

mod atomic;
pub mod cell;
mod div;
pub mod format;
pub mod histogram;
pub mod identity;
pub mod metric;
mod named;
pub mod outlier;
pub mod seqcount;
pub mod switch;
