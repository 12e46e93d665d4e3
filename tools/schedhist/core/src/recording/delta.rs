// SPDX-License-Identifier: GPL-2.0

//! Encodes a snapshot as its differences from the one before.
//!
//! Numbers are LEB128: seven bits to a byte, the lowest first. Lists end with a 0, and the CPUs,
//! metrics and buckets in them are given by the distance from the one before, which is at least 1.

use std::rc::Rc;

use crate::{
    merge,
    raw::{Cpu, Histogram, Reader, Snapshot},
    varint::write as number,
    window::grown,
};

const NEW_MIN: u64 = 1;
const NEW_WORST: u64 = 2;

/// Encodes `new`. Returns `None` if it is not a later snapshot of the same load of the module: then
/// it must be stored as a whole.
pub fn encode(old: &Snapshot, new: &Snapshot) -> Option<Vec<u8>> {
    let same = old.scheme == new.scheme && old.names == new.names;
    if !same || old.cpus.len() != new.cpus.len() {
        return None;
    }
    let mut out = Vec::new();
    number(&mut out, u128::from(new.time.checked_sub(old.time)?));
    number(&mut out, u128::from(new.enabled));
    number(&mut out, u128::from(new.metrics_on));
    let mut last = 0;
    for (place, (old, new)) in (1_u128..).zip(old.cpus.iter().zip(&new.cpus)) {
        if old.number != new.number {
            return None;
        }
        if old != new {
            number(&mut out, place - last);
            encode_cpu(&mut out, old, new)?;
            last = place;
        }
    }
    out.push(0);
    Some(out)
}

fn encode_cpu(out: &mut Vec<u8>, old: &Cpu, new: &Cpu) -> Option<()> {
    if old.counters.len() != new.counters.len() {
        return None;
    }
    for (old, new) in old.counters.iter().zip(&new.counters) {
        number(out, u128::from(new.checked_sub(*old)?));
    }
    if old.lost_histogram(new) {
        return None;
    }
    let mut last = 0;
    for histogram in &new.histograms {
        let empty = Histogram::new(histogram.metric);
        let before = old.histogram(histogram.metric);
        if before != Some(histogram) {
            let metric = u128::from(histogram.metric) + 1;
            number(out, metric - last);
            encode_histogram(out, before.unwrap_or(&empty), histogram)?;
            last = metric;
        }
    }
    out.push(0);
    Some(())
}

fn encode_histogram(out: &mut Vec<u8>, old: &Histogram, new: &Histogram) -> Option<()> {
    let (min, worst) = (
        new.min != old.min,
        new.worst.filter(|_| new.worst != old.worst),
    );
    if new.worst.is_none() && old.worst.is_some() {
        return None;
    }
    let flags = if min { NEW_MIN } else { 0 } | if worst.is_some() { NEW_WORST } else { 0 };
    number(out, u128::from(flags));
    number(out, new.sum.checked_sub(old.sum)?);
    if min {
        out.extend(new.min.to_le_bytes());
    }
    if let Some(worst) = worst {
        out.extend(worst.value.to_le_bytes());
        out.extend(worst.time.to_le_bytes());
        out.extend(worst.task.pid.to_le_bytes());
        out.extend(worst.task.prio.to_le_bytes());
        out.extend(worst.task.comm);
    }
    let mut last = 0;
    for (index, more) in grown(&old.buckets, &new.buckets)? {
        let place = u128::from(index) + 1;
        number(out, place - last);
        number(out, u128::from(more));
        last = place;
    }
    out.push(0);
    Some(())
}

/// Decodes a snapshot, given the one before. Returns `None` if `data` is not valid.
pub fn decode(old: &Snapshot, data: &[u8]) -> Option<Snapshot> {
    let mut input = Reader(data);
    let mut new = Snapshot {
        time: old.time.checked_add(input.leb64()?)?,
        enabled: input.leb64()? != 0,
        metrics_on: u32::try_from(input.leb64()?).ok()?,
        scheme: old.scheme,
        names: Rc::clone(&old.names),
        cpus: old.cpus.clone(),
        waits: Vec::new(),
        tasks: Vec::new(),
        offline: None,
        long_waits: None,
    };
    for cpu in &mut new.cpus {
        cpu.slice = None;
    }
    let buckets = new.scheme.buckets() as u64;
    let mut place = 0_u64;
    while let Some(step) = input.step()? {
        place = place.checked_add(step)?;
        let cpu = new.cpus.get_mut(usize::try_from(place - 1).ok()?)?;
        for counter in &mut cpu.counters {
            *counter = counter.checked_add(input.leb64()?)?;
        }
        let mut metric = 0_u64;
        while let Some(step) = input.step()? {
            metric = metric.checked_add(step)?;
            if metric > u64::from(u32::BITS) {
                return None;
            }
            decode_histogram(&mut input, cpu.histogram_mut((metric - 1) as u32), buckets)?;
        }
    }
    input.0.is_empty().then_some(new)
}

fn decode_histogram(input: &mut Reader<'_>, histogram: &mut Histogram, buckets: u64) -> Option<()> {
    let flags = input.leb64()?;
    histogram.sum = histogram.sum.checked_add(input.leb128()?)?;
    if flags & NEW_MIN != 0 {
        histogram.min = input.u64()?;
    }
    if flags & NEW_WORST != 0 {
        histogram.worst = Some(input.worst()?);
    }
    let mut place = 0_u64;
    let mut grown = Vec::new();
    while let Some(step) = input.step()? {
        place = place.checked_add(step)?;
        if place > buckets {
            return None;
        }
        grown.push(((place - 1) as u32, input.leb64()?));
    }
    histogram.buckets = merge::buckets(&histogram.buckets, &grown, u64::checked_add)?;
    Some(())
}

impl Reader<'_> {
    /// Reads a number of up to 128 bits.
    fn leb128(&mut self) -> Option<u128> {
        let mut value: u128 = 0;
        for shift in (0..u128::BITS).step_by(7) {
            let byte = self.bytes(1)?[0];
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn leb64(&mut self) -> Option<u64> {
        u64::try_from(self.leb128()?).ok()
    }

    /// Reads a distance: `Some(None)` at the end of a list.
    pub(super) fn step(&mut self) -> Option<Option<u64>> {
        Some(Some(self.leb64()?).filter(|step| *step != 0))
    }
}
