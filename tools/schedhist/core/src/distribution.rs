// SPDX-License-Identifier: GPL-2.0

//! A histogram, added up over CPUs and metrics, and its quantiles.

use std::fmt;

use crate::engine::histogram::{
    bucket::{Bounds, Scheme},
    totals::Worst,
};

/// Nothing is said of a quantile with fewer samples beyond it.
pub const MIN_BEYOND: u64 = 10;

/// The reason why samples cannot be added up.
pub const OTHER_PRECISION: &str = "the module was loaded with another precision meanwhile";

/// A quantile: a share of the samples, as an exact decimal fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// The share, in units of 10^-9; greater than 0 and at most [`Quantile::WHOLE`].
    share: u64,
}

impl Quantile {
    /// The share of all samples.
    const WHOLE: u64 = 1_000_000_000;

    /// The quantiles that are shown by default.
    pub const DEFAULT: [Self; 5] = [
        Self::per_100k(50_000),
        Self::per_100k(90_000),
        Self::per_100k(99_000),
        Self::per_100k(99_900),
        Self::per_100k(99_990),
    ];

    const fn per_100k(share: u64) -> Self {
        Self {
            share: share * (Self::WHOLE / 100_000),
        }
    }

    /// Parses a percentage, such as `99.9`, or `p99.9`: greater than 0, at most 100, with at most
    /// seven decimals.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('p').unwrap_or(text);
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 3 || decimals.len() > 7 {
            return None;
        }
        if !digits(whole) || !digits(decimals) || text.ends_with('.') {
            return None;
        }
        let share = format!("{whole}{decimals:0<7}").parse().ok()?;
        (share > 0 && share <= Self::WHOLE).then_some(Self { share })
    }

    /// Returns how many of `count` samples do not exceed the quantile: at least 1, unless `count`
    /// is 0.
    pub fn rank(self, count: u64) -> u64 {
        let rank = (u128::from(count) * u128::from(self.share)).div_ceil(u128::from(Self::WHOLE));
        // At most `count`.
        rank as u64
    }
}

impl fmt::Display for Quantile {
    /// Writes the name, as in `p99.9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, decimals) = (self.share / 10_000_000, self.share % 10_000_000);
        let decimals = format!("{decimals:07}");
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        write!(f, "p{whole}{point}{decimals}")
    }
}

/// What is known of the greatest sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Max {
    #[default]
    None,
    /// The greatest sample, in nanoseconds.
    Exact(u64),
    /// An upper bound of the greatest sample, in nanoseconds; `u64::MAX` if there is no bound.
    AtMost(u64),
}

impl Max {
    /// Returns the maximum, or its bound.
    pub fn value(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Exact(value) | Self::AtMost(value) => Some(value),
        }
    }

    /// Returns whether this is the greatest sample itself.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// Returns the maximum of two sets of samples together.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, max) | (max, Self::None) => max,
            (Self::Exact(a), Self::Exact(b)) => Self::Exact(a.max(b)),
            (Self::AtMost(a), Self::AtMost(b)) => Self::AtMost(a.max(b)),
            (Self::Exact(exact), Self::AtMost(bound))
            | (Self::AtMost(bound), Self::Exact(exact)) => {
                if exact >= bound {
                    Self::Exact(exact)
                } else {
                    Self::AtMost(bound)
                }
            }
        }
    }

    /// Returns the maximum of two sets of samples together, and what is known of that sample, if
    /// the maximum is the sample itself.
    pub fn and_worst<W>(
        self,
        of_it: Option<W>,
        other: Self,
        of_other: Option<W>,
    ) -> (Self, Option<W>) {
        let max = self.and(other);
        let worst = if max == self { of_it } else { of_other };
        (max, worst.filter(|_| max.is_exact()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    pub scheme: Scheme,
    /// The counts of all buckets: as many as the scheme has.
    counts: Vec<u64>,
    /// The sum of all samples, in nanoseconds.
    pub sum: u128,
    /// The least sample, in nanoseconds, if it is known.
    pub min: Option<u64>,
    pub max: Max,
    /// The CPU and the task of the greatest sample, if `max` is exact.
    pub worst: Option<(u32, Worst)>,
}

impl Distribution {
    pub fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            counts: vec![0; scheme.buckets()],
            sum: 0,
            min: None,
            max: Max::None,
            worst: None,
        }
    }

    /// Adds `count` samples to the bucket `index`. Returns `None` if there is no such bucket.
    pub fn add(&mut self, index: u32, count: u64) -> Option<()> {
        let bucket = self.counts.get_mut(index as usize)?;
        *bucket = bucket.saturating_add(count);
        Some(())
    }

    /// Adds the samples of `other`, which must have the same scheme.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.extend_max(other.max, other.worst);
    }

    /// Adds up samples, if there are any. Fails if they have several schemes.
    pub fn sum(mut all: impl Iterator<Item = Self>) -> Result<Option<Self>, &'static str> {
        let Some(mut sum) = all.next() else {
            return Ok(None);
        };
        for samples in all {
            if samples.scheme != sum.scheme {
                return Err(OTHER_PRECISION);
            }
            sum.merge(&samples);
        }
        Ok(Some(sum))
    }

    /// Takes the maximum of further samples into account, with the CPU and the task of that sample.
    pub fn extend_max(&mut self, max: Max, worst: Option<(u32, Worst)>) {
        (self.max, self.worst) = self.max.and_worst(self.worst, max, worst);
    }

    /// Subtracts the counts and the sum of `earlier`, a histogram of the same source. The maximum
    /// becomes a bound. Returns `None` if a count would become negative.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let pairs = self.counts.iter().zip(&earlier.counts);
        let counts = pairs
            .map(|(new, old)| new.checked_sub(*old))
            .collect::<Option<_>>()?;
        let mut since = Self {
            scheme: self.scheme,
            counts,
            sum: self.sum.checked_sub(earlier.sum)?,
            min: None,
            max: Max::None,
            worst: None,
        };
        // A maximum that has grown is that of a later sample.
        let has_grown = self.max.is_exact() && self.max.value() > earlier.max.value();
        let is_later = has_grown || (self.worst.is_some() && self.worst != earlier.worst);
        let highest = since.buckets().last();
        if let Some((bounds, _)) = highest {
            since.max = max_between(bounds, self.max.value(), is_later);
        }
        since.worst = self.worst.filter(|_| since.max.is_exact());
        Some(since)
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Returns the mean, rounded down, in nanoseconds.
    pub fn mean(&self) -> Option<u64> {
        let mean = self.sum.checked_div(u128::from(self.count()))?;
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns the buckets that are not empty, in ascending order, each with its count.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = (Bounds, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        let filled = all.filter(|(_, count)| **count != 0);
        filled.map(|(index, count)| (self.scheme.bounds(index), *count))
    }

    /// Returns the bucket that holds a quantile; `None` if there is no sample.
    pub fn quantile(&self, quantile: Quantile) -> Option<Bounds> {
        let rank = quantile.rank(self.count());
        let mut below: u64 = 0;
        let mut reached = self.buckets().filter(|(_, count)| {
            below = below.saturating_add(*count);
            below >= rank
        });
        reached.next().map(|(bounds, _)| bounds)
    }

    /// Returns the upper bound of a quantile's bucket, or the maximum if that is less.
    pub fn quantile_upper(&self, quantile: Quantile) -> Option<u64> {
        Some(upper(self.quantile(quantile)?, self.max.value()))
    }

    /// Returns how many samples lie in buckets above the one that holds a quantile, or in the same.
    pub fn beyond(&self, quantile: Quantile) -> u64 {
        self.count() - quantile.rank(self.count())
    }

    /// Returns whether enough samples lie beyond a quantile for it to say anything.
    pub fn supports(&self, quantile: Quantile) -> bool {
        self.beyond(quantile) >= MIN_BEYOND
    }
}

/// Returns the greatest sample of an interval, by the bounds of the highest bucket that has grown,
/// and the greatest sample up to the end, which `is_later` if it was another one at the beginning.
///
/// A later one is of the interval, provided that its bucket has grown: the reader of the earlier
/// snapshot may have counted it in its bucket already.
pub(crate) fn max_between(highest: Bounds, max: Option<u64>, is_later: bool) -> Max {
    match max {
        Some(max) if is_later && (highest.lower..=highest.upper).contains(&max) => Max::Exact(max),
        // One that is below was seen in its bucket before the sample itself.
        max => Max::AtMost(upper(highest, max)),
    }
}

fn upper(bounds: Bounds, max: Option<u64>) -> u64 {
    match max {
        Some(max) if max >= bounds.lower => bounds.upper.min(max),
        _ => bounds.upper,
    }
}

/// Returns the p99 of some lists of buckets together, as [`Distribution::quantile_upper`] does,
/// without memory for all buckets. In a list is the index and the count of each bucket that is not
/// empty, by ascending index.
pub fn p99(scheme: Scheme, mut lists: Vec<&[(u32, u64)]>, max: Option<u64>) -> Option<u64> {
    let counts = lists.iter().copied().flatten().map(|(_, count)| *count);
    let count = counts.fold(0, u64::saturating_add);
    let beyond = count - Quantile::parse("99")?.rank(count);
    // From the top, until more than those beyond it are passed.
    let mut passed: u64 = 0;
    loop {
        let ends = lists.iter().filter_map(|list| list.last());
        let highest = ends.map(|(index, _)| *index).max()?;
        for list in &mut lists {
            if let Some(((_, count), rest)) = list.split_last().filter(|((i, _), _)| *i == highest)
            {
                passed = passed.saturating_add(*count);
                *list = rest;
            }
        }
        if passed > beyond {
            return Some(upper(scheme.bounds(highest as usize), max));
        }
    }
}
