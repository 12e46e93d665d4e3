// SPDX-License-Identifier: GPL-2.0

//! Histograms: buckets, what is kept beside them, and copies to read from.

pub mod bucket;
pub mod snapshot;
pub mod totals;
