// SPDX-License-Identifier: GPL-2.0

//! What the command `schedhist` computes.
//!
//! This crate takes bytes and returns values and text: it opens no file, and knows no terminal. The
//! arithmetic of buckets comes from the module's own engine, which is compiled from its sources in
//! `src/engine`, so that the command and the module cannot disagree.
//!
//! What a person or a viewer looks at has crates of its own, which are compiled for size:
//! `schedhist-page`, HTML pages and flame graphs, and `schedhist-perfetto`.
//!
//! | module | its job |
//! | --- | --- |
//! | [`raw`] | decodes a binary snapshot, the file `raw`, with its groups |
//! | [`window`] | the activity since the load, or between two snapshots |
//! | [`distribution`] | a histogram added up over CPUs; quantiles |
//! | [`laws`] | checks the sums that must hold |
//! | [`log2`] | the power-of-two table of BCC's tools |
//! | [`units`] | durations as text |
//! | [`text`] | parses text: outliers, histograms of runs, `key value` |
//! | [`groups`] | what groups of tasks did between two snapshots |
//! | [`recording`] | the file of `schedhist record` |
//! | [`stacks`] | parses what ftrace prints of outliers and their stacks |
//! | [`compare`] | the permutation test of `schedhist diff` |
//! | [`culprits`] | outliers, added up by who had the CPU meanwhile |
//! | [`hdr`] | writes HdrHistogram's log |
//! | [`limits`] | limits with names, and whether samples keep them |
//! | [`merge`] | windows of several machines, added up |
//! | [`timeline`] | the course of a recording, in a bounded number of columns |
//! | [`path`] | the critical path of a command |
//! | [`exposition`] | metrics for Prometheus: OpenMetrics, its older text, native histograms |

#![forbid(unsafe_code)]

#[path = "../../../../src/engine/mod.rs"]
pub mod engine;

pub mod chains;
pub mod compare;
pub mod culprits;
pub mod distribution;
pub mod exposition;
pub mod gather;
pub mod groups;
pub mod hdr;
pub mod laws;
pub mod limits;
pub mod log2;
pub mod merge;
pub mod path;
pub mod raw;
pub mod recording;
pub mod stacks;
pub mod text;
pub mod timeline;
pub mod units;
mod varint;
pub mod window;
