// SPDX-License-Identifier: GPL-2.0

//! The engine: what schedhist computes, with no kernel in it.
//!
//! Safe, `no_std`, free of allocation and of floating point. The module compiles it against the
//! kernel's `core`, and `tests/engine` compiles the same files as an ordinary crate, so that the
//! code that the tests, loom and the fuzzers see is the code that ships.
//!
//! | file | its job |
//! | --- | --- |
//! | `atomic` | where the atomics come from |
//! | [`cell`] | a counter that one CPU writes and any CPU reads |
//! | [`bucket`] | which bucket a value falls into, and the bounds of a bucket |
//! | [`metric`] | the metrics and counters: names, meaning |
//! | [`control`] | what is written to the files that can be written |
//! | [`cpu`] | what one CPU records, switch by switch |
//! | [`identity`] | who a task is, as far as it is shown |
//! | [`sample`] | a single sample, for those who want to see each |
//! | [`slice`] | how a stay on a CPU ended |
//! | [`history`] | the last stays on a CPU: who had it, and when |
//! | [`outlier`] | samples above a threshold, with who had the CPU meanwhile |
//! | [`rate`] | how often something may happen: a token bucket |
//! | [`settings`] | what of a CPU's settings is known when the probe is compiled |
//! | [`totals`] | what a histogram holds besides its buckets |
//! | [`task`] | what is kept about a task between two stays on a CPU |
//! | [`snapshot`] | a copy of histograms to read from, merged over CPUs; quantiles |
//! | [`text`] | the text formats of the files |
//! | [`openmetrics`] | the same numbers as OpenMetrics text |
//! | [`raw`] | the binary snapshot |

mod atomic;
pub mod bucket;
pub mod cell;
pub mod control;
pub mod cpu;
pub mod history;
pub mod identity;
pub mod metric;
pub mod openmetrics;
pub mod outlier;
pub mod rate;
pub mod raw;
pub mod sample;
pub mod settings;
pub mod slice;
pub mod snapshot;
pub mod task;
pub mod text;
pub mod totals;
