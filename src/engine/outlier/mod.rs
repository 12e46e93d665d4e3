// SPDX-License-Identifier: GPL-2.0

//! Outliers: samples above a threshold, with the tasks that had the CPU meanwhile.

pub mod history;
pub mod last;
pub mod limit;
pub mod log;
pub mod rate;
pub mod thresholds;

pub use history::{History, Slice};
pub use last::{Last, KEPT};
pub use limit::{next_after, Limit};
pub use log::{Culprit, Log, Outlier, CULPRITS};
pub use rate::Rate;
pub use thresholds::Thresholds;
