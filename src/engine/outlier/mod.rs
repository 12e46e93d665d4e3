// SPDX-License-Identifier: GPL-2.0

//! Outliers: samples above a threshold, with the tasks that had the CPU meanwhile.

pub mod history;
pub mod last;
pub mod log;
pub mod rate;

pub use history::{History, Slice};
pub use last::{Last, KEPT};
pub use log::{next_after, Culprit, Limit, Log, Outlier, Thresholds, CULPRITS};
pub use rate::Rate;
