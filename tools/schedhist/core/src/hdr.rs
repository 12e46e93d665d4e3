// SPDX-License-Identifier: GPL-2.0

//! The forms of HdrHistogram: its log of intervals, which its plotters and libraries read.
//!
//! A line of the log has a histogram in HdrHistogram's compressed encoding of version 2, in base64.
//! Stored blocks are valid there: lines do not depend on the version of a compressor.

use std::io::Write;

use base64::{engine::general_purpose::STANDARD, Engine};
use flate2::{write::ZlibEncoder, Compression};

use crate::{distribution::Distribution, varint::zigzag};

/// The cookies of the encoding, with counts as numbers of variable length.
const ENCODED: u32 = 0x1c84_9313;
const COMPRESSED: u32 = 0x1c84_9314;

/// Significant decimal digits: finer than any precision of the module.
const DIGITS: u32 = 3;

/// The binary logarithm of the sub-buckets in half of a bucket, at three digits.
const HALF_BITS: u32 = 10;

/// Returns the place of a value among the counts, in units of one nanosecond.
fn place(value: u64) -> usize {
    let filled = value | ((2 << HALF_BITS) - 1);
    let bucket = u64::BITS - filled.leading_zeros() - (HALF_BITS + 1);
    let sub_bucket = value >> bucket;
    // At most 54 buckets of 1024.
    ((u64::from(bucket) << HALF_BITS) + sub_bucket) as usize
}

/// Appends a number of variable length, with the sign in the lowest bit.
fn number(out: &mut Vec<u8>, number: i64) {
    let mut rest = zigzag(number);
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        out.push((rest as u8 & 0x7f) | 0x80);
        rest >>= 7;
    }
    // The ninth byte has eight bits.
    out.push(rest as u8);
}

/// Returns a histogram in the encoding, not compressed. Each sample counts as the upper bound of
/// its bucket, or as the maximum if that is less, as for a quantile.
fn encoded(distribution: &Distribution) -> Vec<u8> {
    let max = distribution.max.value().unwrap_or(u64::MAX);
    let mut counts: Vec<(usize, u64)> = Vec::new();
    let mut highest = 2;
    for (bounds, count) in distribution.buckets() {
        let value = if max >= bounds.lower {
            bounds.upper.min(max)
        } else {
            bounds.upper
        };
        // The last bucket is open.
        let value = if value == u64::MAX {
            bounds.lower
        } else {
            value
        };
        highest = highest.max(value);
        match counts.last_mut() {
            Some((last, sum)) if *last == place(value) => *sum = sum.saturating_add(count),
            _ => counts.push((place(value), count)),
        }
    }
    let mut body = Vec::new();
    let mut next = 0;
    for (place, count) in counts {
        // The negative number of counts that are 0.
        if place > next {
            number(&mut body, -((place - next) as i64));
        }
        number(&mut body, i64::try_from(count).unwrap_or(i64::MAX));
        next = place + 1;
    }
    let mut out = ENCODED.to_be_bytes().to_vec();
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(0_u32.to_be_bytes());
    out.extend(DIGITS.to_be_bytes());
    out.extend(1_u64.to_be_bytes());
    out.extend(highest.to_be_bytes());
    out.extend(1.0_f64.to_be_bytes());
    out.extend(body);
    out
}

/// Returns the head of a log that begins at this time since 1970.
pub fn log_head(unix_ns: u64) -> String {
    format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {0}.{1:03} (seconds since epoch)]\n\
         #[BaseTime: {0}.{1:03} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"\n",
        unix_ns / 1_000_000_000,
        unix_ns / 1_000_000 % 1_000
    )
}

/// Returns the line of an interval, by its begin since that of the log and its length. Values are
/// in nanoseconds, the maximum of the line in milliseconds, as is usual.
pub fn log_line(begin_ns: u64, length_ns: u64, distribution: &Distribution) -> String {
    let mut body = ZlibEncoder::new(Vec::new(), Compression::none());
    // Writing to a Vec does not fail.
    let _ = body.write_all(&encoded(distribution));
    let body = body.finish().unwrap_or_default();
    let mut bytes = COMPRESSED.to_be_bytes().to_vec();
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    let max = distribution.max.value().filter(|max| *max != u64::MAX);
    format!(
        "{:.3},{:.3},{:.3},{}\n",
        begin_ns as f64 / 1e9,
        length_ns as f64 / 1e9,
        max.unwrap_or_default() as f64 / 1e6,
        STANDARD.encode(&bytes)
    )
}

/// Returns the percentiles in the form that HdrHistogram's plotters read, in microseconds.
pub fn percentiles(all: &Distribution) -> String {
    let count = all.count();
    let us = |ns: u64| ns as f64 / 1e3;
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let (mut below, mut variance) = (0_u64, 0.0);
    let mean = all.sum as f64 / count.max(1) as f64 / 1e3;
    let max = all.max.value();
    for (bounds, n) in all.buckets() {
        below = below.saturating_add(n);
        let upper = bounds.upper.min(max.unwrap_or(u64::MAX));
        let share = below as f64 / count as f64;
        let middle = us(bounds.lower + (upper - bounds.lower.min(upper)) / 2);
        variance += (middle - mean).powi(2) * n as f64 / count as f64;
        let inverse = match below == count {
            true => String::new(),
            false => format!("{:.2}", 1.0 / (1.0 - share)),
        };
        let upper = us(upper);
        out += &format!("{upper:>12.3} {share:>2.12} {below:>10} {inverse:>14}\n");
    }
    let (deviation, max) = (variance.sqrt(), us(max.unwrap_or_default()));
    let (octaves, rows) = (40, 1 << all.scheme.precision().bits());
    out + &format!(
        "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]\n\
         #[Max     = {max:>12.3}, Total count    = {count:>12}]\n\
         #[Buckets = {octaves:>12}, SubBuckets     = {rows:>12}]\n"
    )
}
