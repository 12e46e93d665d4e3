// SPDX-License-Identifier: GPL-2.0

//! Histograms: buckets, totals such as sums and extremes, and snapshots for readers.

pub mod bucket;
pub mod snapshot;
pub mod totals;

pub use bucket::{Bounds, Precision, Scheme, VALUE_BITS};
pub use snapshot::{extremes_since_load, Baseline, Quantile, Snapshot};
pub use totals::{Extremes, Worst};
