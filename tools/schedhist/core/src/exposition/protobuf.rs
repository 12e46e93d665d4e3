// SPDX-License-Identifier: GPL-2.0

//! Families as delimited protobuf messages of the type `io.prometheus.client.MetricFamily`, with
//! native histograms.
//!
//! The bounds of a native histogram's buckets are powers of `2^(2^-schema)` seconds, which are no
//! bounds of ours. Each of our buckets goes to where its middle falls, so a quantile is off by half
//! the width of our bucket at most, on top of the width of the native one. The classic buckets are
//! sent, too: a server that takes native histograms ignores them unless told otherwise.
//!
//! By hand, as the licence of prost, Apache alone, does not go with GPL-2.0-only.

use super::{classic, Exposition, Family, Kind, Sample, Value};
use crate::{
    distribution::Distribution,
    varint::{self, zigzag},
};

/// The finest schema: `2^8` buckets to a power of two.
pub const FINEST: i32 = 8;
/// The coarsest schema: a bucket for `2^4` powers of two.
pub const COARSEST: i32 = -4;

/// Samples up to this many seconds are in the zero bucket; ours of 0 ns are the only ones.
const ZERO_THRESHOLD: f64 = 1e-10;

/// Returns the messages of all families, each after its length.
pub fn encode(exposition: &Exposition, schema: i32) -> Vec<u8> {
    let mut out = Vec::new();
    for family in &exposition.families {
        let message = encode_family(family, exposition.created_of(family), schema);
        varint(&mut out, message.len() as u64);
        out.extend(message);
    }
    out
}

fn encode_family(family: &Family, created: Option<u64>, schema: i32) -> Vec<u8> {
    let (kind, suffix) = match family.kind {
        Kind::Counter => (0, "_total"),
        Kind::Gauge => (1, ""),
        Kind::Histogram => (4, ""),
    };
    let mut out = Vec::new();
    bytes(&mut out, 1, format!("{}{suffix}", family.name).as_bytes());
    bytes(&mut out, 2, family.help.as_bytes());
    number(&mut out, 3, kind);
    for sample in &family.samples {
        bytes(
            &mut out,
            4,
            &encode_sample(family.kind, sample, created, schema),
        );
    }
    if !family.unit.is_empty() {
        bytes(&mut out, 5, family.unit.as_bytes());
    }
    out
}

fn encode_sample(kind: Kind, sample: &Sample, created: Option<u64>, schema: i32) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in &sample.labels {
        let mut label = Vec::new();
        bytes(&mut label, 1, name.as_bytes());
        bytes(&mut label, 2, value.as_bytes());
        bytes(&mut out, 1, &label);
    }
    let plain = match &sample.value {
        Value::Histogram(distribution) => {
            bytes(&mut out, 7, &histogram(distribution, created, schema));
            return out;
        }
        Value::Number(number) => *number as f64,
        Value::Seconds(ns) => seconds(*ns),
    };
    let mut value = Vec::new();
    double(&mut value, 1, plain);
    if kind == Kind::Counter {
        if let Some(created) = created {
            bytes(&mut value, 3, &timestamp(created));
        }
    }
    bytes(&mut out, if kind == Kind::Counter { 3 } else { 2 }, &value);
    out
}

fn histogram(distribution: &Distribution, created: Option<u64>, schema: i32) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, distribution.count());
    double(&mut out, 2, seconds(distribution.sum));
    let inf = (f64::INFINITY, distribution.count());
    let bounds = classic(distribution).into_iter();
    let bounds = bounds.map(|(upper, below)| (seconds(u128::from(upper)), below));
    for (upper, below) in bounds.chain([inf]) {
        let mut bucket = Vec::new();
        number(&mut bucket, 1, below);
        double(&mut bucket, 2, upper);
        bytes(&mut out, 3, &bucket);
    }
    let (zero, native) = native(distribution, schema);
    number(&mut out, 5, zigzag(i64::from(schema)));
    double(&mut out, 6, ZERO_THRESHOLD);
    number(&mut out, 7, zero);
    // Runs of buckets without a gap, each by its distance from the end of the one before.
    let mut spans: Vec<(i64, u64)> = Vec::new();
    let mut next = None;
    for (index, _) in &native {
        match (next, spans.last_mut()) {
            (Some(next), Some((_, length))) if next == *index => *length += 1,
            (next, _) => spans.push((index - next.unwrap_or(0), 1)),
        }
        next = Some(index + 1);
    }
    if spans.is_empty() {
        // Marks a native histogram without samples.
        spans.push((0, 0));
    }
    for (offset, length) in spans {
        let mut span = Vec::new();
        number(&mut span, 1, zigzag(offset));
        number(&mut span, 2, length);
        bytes(&mut out, 12, &span);
    }
    let mut deltas = Vec::new();
    let mut before = 0_i64;
    for (_, count) in &native {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        varint(&mut deltas, zigzag(count - before));
        before = count;
    }
    if !deltas.is_empty() {
        bytes(&mut out, 13, &deltas);
    }
    if let Some(created) = created {
        bytes(&mut out, 15, &timestamp(created));
    }
    out
}

/// Returns the number of samples in the zero bucket, and the index and the count of each native
/// bucket that is not empty, by ascending index. The bucket `i` ends at `2^(i / 2^schema)` seconds.
fn native(distribution: &Distribution, schema: i32) -> (u64, Vec<(i64, u64)>) {
    let mut zero: u64 = 0;
    let mut native: Vec<(i64, u64)> = Vec::new();
    for (bounds, count) in distribution.buckets() {
        if bounds.upper == 0 {
            zero = zero.saturating_add(count);
            continue;
        }
        // The last bucket is open: its samples are at least as great as its lower bound.
        let upper = if bounds.is_overflow() {
            bounds.lower
        } else {
            bounds.upper
        };
        let middle = (bounds.lower as f64 + upper as f64) / 2.0 / 1e9;
        // Between -30 and 11, times at most 256.
        let index = (middle.log2() * f64::from(schema).exp2()).ceil() as i64;
        match native.last_mut() {
            Some((last, all)) if *last == index => *all = all.saturating_add(count),
            _ => native.push((index, count)),
        }
    }
    (zero, native)
}

fn seconds(ns: u128) -> f64 {
    ns as f64 / 1e9
}

fn timestamp(ns: u64) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, ns / 1_000_000_000);
    number(&mut out, 2, ns % 1_000_000_000);
    out
}

pub fn varint(out: &mut Vec<u8>, value: u64) {
    varint::write(out, u128::from(value));
}

pub fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// Appends a field with bytes: a string, a message, packed numbers.
pub fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, (field << 3) | 2);
    varint(out, value.len() as u64);
    out.extend(value);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    varint(out, (field << 3) | 1);
    out.extend(value.to_le_bytes());
}
