// SPDX-License-Identifier: GPL-2.0

//! How outliers are shown.

use core::fmt;

use crate::{
    boundary::abstractions::debugfs::Text,
    engine::{
        format::text,
        outlier::log::{
            Culprit,
            CULPRITS,
            KEPT, //
        },
    },
    outliers::{
        named, //
        Outliers,
    },
};

/// The length of a text of all outliers that are kept, as a guess, in bytes.
pub(super) fn size_hint(outliers: &Outliers) -> usize {
    let kept: u64 = outliers
        .logs()
        .map(|(_, log)| log.reported().min(KEPT as u64))
        .sum();
    1024 + kept as usize * 512
}

/// Shows all outliers that are kept, in the order of their numbers.
pub(super) fn show_all(outliers: &Outliers, out: &mut Text<'_>) -> fmt::Result {
    text::outliers_head(out)?;
    let mut culprits = [Culprit::default(); CULPRITS];
    let mut seen = 0;
    // The newest take the places of the oldest meanwhile: no further than what is there now.
    let last = outliers.last();
    while let Some((id, cpu, log)) = outliers.first_after(seen).filter(|(id, ..)| *id <= last) {
        if let Some(outlier) = log.read(id, &mut culprits) {
            text::outlier(out, cpu, &outlier, named(&outlier, &culprits))?;
        }
        seen = id;
    }
    Ok(())
}
