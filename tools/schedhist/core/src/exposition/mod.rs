// SPDX-License-Identifier: GPL-2.0

//! Metrics for monitoring systems: families of samples, and the three forms in which they are sent.
//!
//! | form | content type |
//! | --- | --- |
//! | [`text`], OpenMetrics 1.0 | `application/openmetrics-text` |
//! | [`text`], Prometheus 0.0.4 | `text/plain` |
//! | [`protobuf`], with native histograms | `application/vnd.google.protobuf` |
//!
//! [`families`] makes the families. The machine, its CPUs and its groups have families of their
//! own, so that a sum over a family counts nothing twice.

pub mod families;
pub mod negotiate;
mod place;
pub mod protobuf;
pub mod text;

use crate::{distribution::Distribution, engine::histogram::bucket::VALUE_BITS};

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that rises and falls.
    Gauge,
    /// A value that only rises, until the module is loaded anew.
    Counter,
    /// A histogram of durations.
    Histogram,
}

/// The value of a sample.
#[derive(Clone, Debug)]
pub enum Value {
    /// A plain number.
    Number(u64),
    /// A duration in nanoseconds, which is sent in seconds.
    Seconds(u128),
    /// A histogram of durations.
    Histogram(Box<Distribution>),
}

/// A sample, or the samples of a histogram.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Names and values of labels. The values are not escaped yet.
    pub labels: Vec<(&'static str, String)>,
    pub value: Value,
}

/// The samples that have a name in common.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name, without the suffix `_total` of a counter.
    pub name: String,
    /// What it is, in a sentence.
    pub help: String,
    pub kind: Kind,
    /// Its unit, which is the end of its name; empty if it has none.
    pub unit: &'static str,
    pub samples: Vec<Sample>,
}

/// All that is sent at a scrape.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    pub families: Vec<Family>,
    /// When the counts of the machine began, in nanoseconds since 1970, if that is known.
    pub created: Option<u64>,
}

impl Exposition {
    /// Returns when the counts of a family began: those of groups, some time after the load.
    fn created_of(&self, family: &Family) -> Option<u64> {
        let is_since_load = family.kind != Kind::Gauge && !is_of_groups(&family.name);
        self.created.filter(|_| is_since_load)
    }
}

/// Returns whether a family is one of groups, by its name.
fn is_of_groups(name: &str) -> bool {
    name.strip_prefix("schedhist_")
        .unwrap_or(name)
        .starts_with("group_")
}

/// The first classic bucket holds the samples below `2^FIRST_BITS` ns, as in `openmetrics`.
const FIRST_BITS: u32 = 8;

/// The number of time series of a histogram in the text forms: its buckets, `_count` and `_sum`.
pub const SERIES_OF_HISTOGRAM: usize = (VALUE_BITS - FIRST_BITS + 1) as usize + 3;

/// Returns the upper bound in nanoseconds and the number of samples up to it, for each power of
/// two. The samples above the last one are only in the whole.
fn classic(distribution: &Distribution) -> Vec<(u64, u64)> {
    let mut buckets = distribution.buckets().peekable();
    let mut below: u64 = 0;
    let bounds = (FIRST_BITS..=VALUE_BITS).map(|bits| (1_u64 << bits) - 1);
    let up_to = bounds.map(|upper| {
        while let Some((_, count)) = buckets.next_if(|(bounds, _)| bounds.upper <= upper) {
            below = below.saturating_add(count);
        }
        (upper, below)
    });
    up_to.collect()
}
