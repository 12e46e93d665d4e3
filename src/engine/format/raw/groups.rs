// SPDX-License-Identifier: GPL-2.0

//! The records of groups.

use core::ops::Deref;

use super::{
    all_buckets,
    layout::*,
    record,
    Sink, //
};
use crate::engine::{
    format::Head,
    group::{
        CulpritKind,
        Group,
        GroupCounter,
        GroupMetric,
        GroupReading,
        GroupTotals, //
    },
    histogram::Scheme,
    switch::Waits, //
};

/// Writes how tasks are grouped, since the time `since`. `rule` is the text of the rule, and
/// `scheme` that of the histograms. [`group`] follows for each group.
pub fn grouping(out: &mut impl Sink, since: u64, rule: &[u8], head: &Head, scheme: Scheme) {
    let len = GROUPING_LEN + rule.len().next_multiple_of(8);
    record::<GROUPING_LEN>(out, types::GROUPING, len, |fields| {
        fields.u64(since);
        fields.u64(head.refused);
        fields.u64(head.gone);
        fields.u32(head.limit);
        fields.u32(scheme.precision().bits());
        fields.u32(scheme.buckets() as u32);
        fields.u32(rule.len() as u32);
    });
    text(out, rule);
    record::<GROUPING_MORE_LEN>(out, types::GROUPING_MORE, GROUPING_MORE_LEN, |fields| {
        fields.u64(head.memory as u64);
        fields.u64(head.no_memory);
        fields.u64(head.unfollowed);
        fields.u64(head.late);
    });
}

/// Writes a group with its histograms, whose scheme is that of the [`grouping`].
pub fn group<B: Deref<Target = [u64]>>(out: &mut impl Sink, one: &GroupReading<'_, B>) {
    let &GroupReading { group, name, .. } = one;
    let (totals, number) = (&one.totals, group.number());
    let len = GROUP_LEN + name.len().next_multiple_of(8);
    record::<GROUP_LEN>(out, types::GROUP, len, |fields| {
        fields.u32(number);
        fields.u32(one.members.tasks);
        fields.u32(u32::from(one.members.is_live));
        fields.u32(name.len() as u32);
        for (metric, histogram) in GroupMetric::ALL.into_iter().zip(&one.histograms) {
            let sum = one.sum(metric);
            fields.u64(totals.samples(metric));
            fields.u64(sum as u64);
            fields.u64((sum >> 64) as u64);
            fields.u64(histogram.max().unwrap_or(0));
        }
        for counter in GroupCounter::ALL {
            fields.u64(totals.counter(counter));
        }
        for of in [GroupTotals::ended_by, GroupTotals::preempted_by] {
            for culprit in CulpritKind::ALL {
                let (count, nanoseconds) = of(totals, culprit);
                fields.u64(count);
                fields.u64(nanoseconds as u64);
            }
        }
    });
    text(out, name);
    group_in_progress(
        out,
        types::GROUP_SLICES,
        group,
        one.slices.count,
        one.slices.in_progress,
    );
    placement(out, number, totals);
    for (metric, histogram) in (0..).zip(&one.histograms) {
        all_buckets(
            out,
            (types::GROUP_BUCKETS, number, metric),
            histogram.counts(),
            |count| *count,
        );
    }
    for (other, count, nanoseconds) in totals.neighbours() {
        record::<NEIGHBOUR_LEN>(out, types::NEIGHBOUR, NEIGHBOUR_LEN, |fields| {
            fields.u32(number);
            fields.u32(other.number());
            fields.u64(count);
            fields.u64(nanoseconds as u64);
        });
    }
}

/// Writes the migrations and the long waits of a group, if there were any.
fn placement(out: &mut impl Sink, number: u32, totals: &GroupTotals) {
    let migrations = totals.migrations();
    if migrations.iter().any(|count| *count != 0) {
        record::<GROUP_MIGRATIONS_LEN>(
            out,
            types::GROUP_MIGRATIONS,
            GROUP_MIGRATIONS_LEN,
            |fields| {
                fields.u32(number);
                fields.u32(0);
                migrations.into_iter().for_each(|count| fields.u64(count));
            },
        );
    }
    let waits = totals.long_waits();
    if waits.waits() != 0 {
        record::<GROUP_LONG_WAITS_LEN>(
            out,
            types::GROUP_LONG_WAITS,
            GROUP_LONG_WAITS_LEN,
            |fields| {
                fields.u32(number);
                fields.u32(0);
                fields.wait_sums(waits);
            },
        );
    }
}

/// Writes text that ends a record, with its padding.
fn text(out: &mut impl Sink, text: &[u8]) {
    out.write(text);
    let padding = text.len().next_multiple_of(8) - text.len();
    out.write([0; 8].get(..padding).unwrap_or_default());
}

/// Writes what is in progress of a group, if anything is: its waits, and the slices whose beginning
/// was not seen.
pub fn in_progress(out: &mut impl Sink, group: Group, waits: &Waits, unseen: &Waits) {
    for (kind, of) in [(types::GROUP_WAITING, waits), (types::GROUP_UNSEEN, unseen)] {
        group_in_progress(out, kind, group, of.count, of.sum as u64);
    }
}

fn group_in_progress(out: &mut impl Sink, kind: u32, group: Group, count: u64, nanoseconds: u64) {
    if count == 0 {
        return;
    }
    record::<GROUP_IN_PROGRESS_LEN>(out, kind, GROUP_IN_PROGRESS_LEN, |fields| {
        fields.u32(group.number());
        fields.u32(0);
        fields.u64(count);
        fields.u64(nanoseconds);
    });
}
