// SPDX-License-Identifier: GPL-2.0

//! Adds up windows of several machines. Histograms of the same precision add up exactly, so the
//! quantiles of the sum are those of all samples together, to a bucket.

use crate::window::{Samples, Time, Window, WindowCpu};

/// Adds the samples and counters of `other`: those of CPUs of the same number together. The length
/// becomes the sum of both.
///
/// # Errors
///
/// Returns what differs, if buckets or names do; then `sum` has not changed.
pub fn add(sum: &mut Window, other: &Window) -> Result<(), &'static str> {
    if sum.scheme != other.scheme {
        return Err("the precision");
    }
    if sum.names != other.names {
        return Err("the names of the metrics");
    }
    sum.span = match (sum.span, other.span) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        _ => None,
    };
    sum.end = sum.end.max(other.end);
    sum.metrics_on &= other.metrics_on;
    sum.on_at_end &= other.on_at_end;
    sum.was_on |= other.was_on;
    sum.switched |= other.switched;
    sum.waits_in_progress.extend(&other.waits_in_progress);
    if let Some(more) = &other.long_waits {
        match &mut sum.long_waits {
            None => sum.long_waits = Some(*more),
            Some(all) => {
                // By several limits, the sums are of waits above each one's own.
                all.is_one_limit &= more.is_one_limit && all.limit == more.limit;
                all.limit = all.limit.max(more.limit);
                all.sums.add(&more.sums);
            }
        }
    }
    for cpu in &other.cpus {
        match sum.cpus.binary_search_by_key(&cpu.number, |cpu| cpu.number) {
            Ok(place) => add_cpu(&mut sum.cpus[place], cpu),
            Err(place) => sum.cpus.insert(place, cpu.clone()),
        }
    }
    Ok(())
}

fn add_cpu(sum: &mut WindowCpu, other: &WindowCpu) {
    for (counter, more) in sum.counters.iter_mut().zip(&other.counters) {
        *counter = counter.saturating_add(*more);
    }
    for part in &other.samples {
        match sum
            .samples
            .iter_mut()
            .find(|mine| mine.metric == part.metric)
        {
            Some(mine) => add_samples(mine, part),
            None => sum.samples.push(part.clone()),
        }
    }
    sum.time = sum.time.zip(other.time).map(|(a, b)| Time {
        span: a.span.saturating_add(b.span),
        oncpu: a.oncpu.saturating_add(b.oncpu),
        idle: a.idle.saturating_add(b.idle),
        unseen: a.unseen.saturating_add(b.unseen),
        unseen_oncpu: a.unseen_oncpu.saturating_add(b.unseen_oncpu),
    });
    // Of the end of one of them.
    (sum.slice, sum.unaccounted) = (None, None);
}

fn add_samples(sum: &mut Samples, other: &Samples) {
    sum.sum = sum.sum.saturating_add(other.sum);
    sum.min = [sum.min, other.min].into_iter().flatten().min();
    (sum.max, sum.worst) = sum.max.and_worst(sum.worst, other.max, other.worst);
    let saturating = |a: u64, b| Some(a.saturating_add(b));
    sum.buckets = buckets(&sum.buckets, &other.buckets, saturating).unwrap_or_default();
}

/// Adds up two lists of buckets, both by ascending index; `None` if `add` returns that.
pub(crate) fn buckets(
    all: &[(u32, u64)],
    more: &[(u32, u64)],
    add: impl Fn(u64, u64) -> Option<u64>,
) -> Option<Vec<(u32, u64)>> {
    let mut merged = Vec::with_capacity(all.len().max(more.len()));
    let mut all = all.iter().copied().peekable();
    for &(index, count) in more {
        while let Some(before) = all.next_if(|(first, _)| *first < index) {
            merged.push(before);
        }
        let before = all.next_if(|(first, _)| *first == index);
        merged.push((index, add(before.map_or(0, |(_, n)| n), count)?));
    }
    merged.extend(all);
    Some(merged)
}
