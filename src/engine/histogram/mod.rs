// SPDX-License-Identifier: GPL-2.0

//! Histograms: buckets, totals such as sums and extremes, and snapshots for readers.

pub mod bucket;
pub mod snapshot;
pub mod totals;
