// SPDX-License-Identifier: GPL-2.0

//! The engine: everything that schedhist computes, independent of the kernel.
//!
//! The engine is safe Rust, `no_std`, without allocation or floating point. The module compiles it
//! against the kernel's `core`; `tests/engine` compiles the same files as an ordinary crate. So
//! tests, loom and fuzzers run on the code that ships.
//!
//! | folder or file | its job |
//! | --- | --- |
//! | [`switch`] | the records of a CPU, updated at each switch, and the state kept for each task |
//! | [`histogram`] | buckets, sums, extremes; snapshots for readers, quantiles |
//! | [`group`] | the group of each task, and the records of each group on a CPU |
//! | [`chain`] | the last slices of each CPU, and what led to them |
//! | [`idle`] | when CPUs stood idle, and for how much of a wait another one did |
//! | [`outlier`] | samples above a threshold, with the tasks that had the CPU meanwhile |
//! | [`format`] | text, OpenMetrics and binary formats of the files; parsing of input |
//! | [`metric`] | the metrics and counters: names and meaning |
//! | `named` | enums declared from a table of names, which the event generator reads, too |
//! | [`distance`] | how far CPUs are from each other |
//! | [`identity`] | a task's PID, priority and name |
//! | [`cell`] | a counter that one CPU writes and any CPU reads |
//! | [`seqcount`] | a sequence counter, for consistent copies of several cells |
//! | `div` | division of 128-bit numbers |
//! | `atomic` | the atomics, which loom replaces |

mod atomic;
pub mod cell;
pub mod chain;
pub mod distance;
mod div;
pub mod format;
pub mod group;
pub mod histogram;
pub mod identity;
pub mod idle;
pub mod metric;
mod named;
pub mod outlier;
pub mod seqcount;
pub mod switch;

pub use cell::Cell;
pub use identity::Identity;
pub use metric::{Counter, Metric, MetricSet, ShownMetric, Side};
pub use seqcount::SeqCount;
