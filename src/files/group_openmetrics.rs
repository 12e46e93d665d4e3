// SPDX-License-Identifier: GPL-2.0

//! `group_openmetrics`.

use kernel::{
    prelude::*,
    str::CString, //
};

use super::{
    groups::Name,
    View, //
};
use crate::{
    boundary::abstractions::debugfs::Text,
    engine::{
        format::{
            group_openmetrics::{
                self as format,
                All,
                LabelValue, //
            },
            openmetrics,
        },
        group::{
            records::GroupMetric,
            totals::GroupTotals,
            verdict::Group, //
        },
    },
    groups::HeldGroups,
    monitor::Monitor,
    reading::Reading, //
};

/// The groups, for a monitoring system.
pub(super) struct OpenMetrics;

impl View for OpenMetrics {
    fn size_hint(&self, monitor: &Monitor, last_len: usize) -> usize {
        match last_len {
            0 if monitor.read().groups.is_some() => 1 << 20,
            len => format::HEAD_LEN + len + len / 4,
        }
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let held = reading.groups.as_ref().map(|groups| groups.hold());
        let (mut groups, all) = match &held {
            Some(groups) => collect(groups)?,
            None => (KVVec::new(), All::default()),
        };
        format::head(out, Name(reading), &all)?;
        if let Some(all) = &held {
            let shown = groups.iter().map(|shown| (shown.label(), &shown.totals));
            format::counters(out, shown)?;
            for metric in GroupMetric::ALL {
                format::histogram_head(out, metric)?;
                for shown in &mut groups {
                    let histogram = all.histogram(shown.group, metric)?;
                    let count = shown.totals.samples(metric);
                    let missing = count.saturating_sub(histogram.count());
                    shown.missing = shown.missing.wrapping_add(missing);
                    format::histogram_samples(out, metric, shown.label(), count, &histogram)?;
                }
            }
            let missing = groups.iter().map(|shown| (shown.label(), shown.missing));
            format::not_in_histogram(out, missing)?;
        }
        Ok(openmetrics::end(out)?)
    }
}

/// A group that is shown.
struct Shown {
    group: Group,
    label: CString,
    totals: GroupTotals,
    /// The number of samples that are in no histogram.
    missing: u64,
}

impl Shown {
    /// Returns the value of the label `group`.
    fn label(&self) -> &str {
        // Cannot fail: what is not printable ASCII is escaped.
        core::str::from_utf8(self.label.to_bytes()).unwrap_or_default()
    }
}

fn label(name: &[u8], repeated: Option<Group>) -> Result<CString> {
    let value = LabelValue { name, repeated };
    CString::try_from_fmt(fmt!("{}", format_args!("{value}")))
}

/// Returns the groups that have samples, as many as there is room for in the text, and what is said
/// of all groups together. Fails with `ENOMEM`.
fn collect(groups: &HeldGroups<'_>) -> Result<(KVVec<Shown>, All)> {
    let mut shown = KVVec::new();
    let head = groups.head();
    let mut all = All {
        groups: 0,
        left_out: 0,
        limit: head.limit,
        refused: head.refused,
        memory: head.memory,
    };
    let mut room = format::MAX_LEN;
    groups.for_each(|group, name| {
        all.groups += 1;
        let totals = groups.totals(group);
        let has_samples = |metric: &GroupMetric| totals.samples(*metric) != 0;
        if group != Group::OTHER && !GroupMetric::ALL.iter().any(has_samples) {
            return Ok(());
        }
        let mut label = label(name, None)?;
        let is_same = |earlier: &Shown| earlier.label.to_bytes() == label.to_bytes();
        // So that a thread of this name keeps its label once groups are gone.
        let is_reserved = name == b"gone" && group != groups.gone();
        if is_reserved || shown.iter().any(is_same) {
            label = self::label(name, Some(group))?;
        }
        let len = label.to_bytes().len();
        match room.checked_sub(format::group_len(len)) {
            Some(left) if len <= format::MAX_LABEL => room = left,
            _ => {
                all.left_out += 1;
                return Ok(());
            }
        }
        let new = Shown {
            group,
            label,
            totals,
            missing: 0,
        };
        Ok(shown.push(new, GFP_KERNEL)?)
    })?;
    Ok((shown, all))
}
