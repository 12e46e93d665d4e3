// SPDX-License-Identifier: GPL-2.0

//! `outliers` and `outlier_pipe`.

use core::fmt;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::View;
use crate::{
    boundary::abstractions::{
        DeferredWaitQueue,
        Line,
        Stream,
        Text, //
    },
    engine::{
        format::text,
        outlier::{
            Culprit,
            Outlier,
            CULPRITS,
            KEPT, //
        },
    },
    monitor::Monitor,
    outliers::Outliers,
    reading::Reading, //
};

/// All kept outliers, in the order of their numbers.
pub(super) struct KeptOutliers;

impl View for KeptOutliers {
    fn size_hint(&self, monitor: &Monitor, _last_len: usize) -> usize {
        let logs = monitor.outliers().logs();
        let kept: u64 = logs.map(|(_, log)| log.reported().min(KEPT as u64)).sum();
        1024 + kept as usize * 512
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        text::outliers_head(out)?;
        let outliers = &reading.outliers;
        outliers.for_each(|cpu, outlier, culprits| {
            show_one(out, cpu, outlier, culprits)?;
            Ok(())
        })
    }
}

/// Outliers as they happen.
pub(super) struct Pipe(pub(super) Arc<Outliers>);

impl Stream for Pipe {
    fn wait_queue(&self) -> &DeferredWaitQueue {
        self.0.wait_queue()
    }

    fn latest(&self) -> u64 {
        self.0.last()
    }

    fn next_after(&self, seen: u64) -> Option<u64> {
        self.0.next_after(seen)
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn longest(&self) -> usize {
        text::OUTLIER_MAX
    }

    fn head(&self, out: &mut Line<'_>) -> fmt::Result {
        text::outliers_head(out)
    }

    fn show(&self, number: u64, out: &mut Line<'_>) -> fmt::Result {
        let mut culprits = [Culprit::default(); CULPRITS];
        match self.0.read(number, &mut culprits) {
            Some((cpu, outlier)) => show_one(out, cpu, &outlier, &culprits),
            None => Ok(()),
        }
    }
}

/// Writes an outlier with its culprits, which are the first of `culprits`.
fn show_one(
    out: &mut impl fmt::Write,
    cpu: u32,
    outlier: &Outlier,
    culprits: &[Culprit],
) -> fmt::Result {
    let culprits = culprits.get(..outlier.culprits as usize).unwrap_or(&[]);
    text::outlier(out, cpu, outlier, culprits)
}
