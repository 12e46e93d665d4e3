// SPDX-License-Identifier: GPL-2.0

//! Parses text: the files `status` and `outliers`, and the histograms of runs in recordings.

use std::{cmp::Reverse, collections::BTreeMap, io};

use crate::{
    chains::{self, Chain},
    distribution::{Distribution, Max},
    engine::histogram::bucket::{Precision, Scheme},
    gather::Gather,
    raw::{decode_error, DecodeError},
};

/// Returns an error without its number, which the standard library appends.
pub fn of_error(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|n| format!(" (os error {n})"));
    let without = number.and_then(|number| text.strip_suffix(&number));
    without.unwrap_or(&text).to_owned()
}

/// The greatest length of the name of a task, in bytes.
pub const LONGEST_COMM: usize = 15;

/// Returns text in which each byte is a character of its own, so that none is lost, and lengths are
/// those in bytes. Names of tasks may have any bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Returns a part of what [`of_bytes`] has returned as text to be shown: bytes that are no UTF-8 as
/// `\xNN`.
pub fn readable(text: &str) -> String {
    let bytes = text.chars().map(|c| u8::try_from(c).unwrap_or(b'?'));
    let bytes: Vec<_> = bytes.collect();
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// The keys and values of a line, or of several lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(BTreeMap<String, String>);

impl Pairs {
    /// Parses `key value` pairs, separated by single spaces. The value of the key `last` is the
    /// rest of the line.
    pub fn of_line(line: &str, last: &str) -> Option<Self> {
        let mut pairs = BTreeMap::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (key, after) = rest.split_once(' ').unwrap_or((rest, ""));
            let (value, after) = if key == last {
                (after, "")
            } else {
                after.split_once(' ').unwrap_or((after, ""))
            };
            if key.is_empty() || (value.is_empty() && key != last) {
                return None;
            }
            pairs.insert(key.to_owned(), value.to_owned());
            rest = after;
        }
        Some(Self(pairs))
    }

    /// Parses lines `key value`, such as those of the file `status`.
    pub fn of_lines(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(' '));
        Self(
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .gather(),
        )
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the value of a key as a number; `None` for `-`, too.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextHistogram {
    /// The lines `key value` before the buckets.
    pub pairs: Pairs,
    /// The samples.
    pub distribution: Distribution,
}

/// Parses a histogram: lines `key value`, and its buckets.
///
/// # Errors
///
/// Fails if it has an unknown precision or a bucket that does not belong to it.
pub fn histogram(block: &str) -> Result<TextHistogram, DecodeError> {
    let is_bucket = |line: &&str| line.starts_with("bucket ");
    let head: Vec<_> = block.lines().filter(|line| !is_bucket(line)).collect();
    let pairs = Pairs::of_lines(&head.join("\n"));
    let precision = pairs.number("precision").and_then(Precision::new);
    let Some(scheme) = precision.map(Scheme::new) else {
        return decode_error("a histogram without a known precision");
    };
    let mut distribution = Distribution::new(scheme);
    distribution.sum = pairs.number("sum").unwrap_or_default();
    for line in block.lines().filter(is_bucket) {
        bucket(&mut distribution, line)
            .ok_or_else(|| DecodeError(format!("cannot parse {line:?} at this precision")))?;
    }
    if distribution.count() != 0 {
        let bound = pairs.number("max_at_most").map_or(Max::None, Max::AtMost);
        distribution.max = pairs.number("max").map_or(bound, Max::Exact);
    }
    Ok(TextHistogram {
        pairs,
        distribution,
    })
}

fn bucket(distribution: &mut Distribution, line: &str) -> Option<()> {
    let mut words = line.split(' ').skip(1);
    let (lower, upper, count) = (words.next()?, words.next()?, words.next()?);
    let lower = lower.parse().ok()?;
    let index = distribution.scheme.index(lower);
    let bounds = distribution.scheme.bounds(index);
    let is_same = if bounds.is_overflow() {
        upper == "inf"
    } else {
        upper.parse() == Ok(bounds.upper)
    };
    if bounds.lower != lower || !is_same || words.next().is_some() {
        return None;
    }
    distribution.add(u32::try_from(index).ok()?, count.parse().ok()?)
}

/// A task that had the CPU during an outlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// How long it had the CPU, in nanoseconds.
    pub ran_ns: u64,
    /// In how many slices.
    pub slices: u64,
    /// Its thread id; 0 for idle.
    pub pid: i32,
    pub comm: String,
    /// Its group; 0 for none.
    pub group: u32,
}

/// The CPU that was idle for most of a long wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleCpu {
    pub cpu: u32,
    /// How long it was idle meanwhile, in nanoseconds.
    pub ns: u64,
    /// How far it is from the CPU that took the sample.
    pub distance: String,
}

/// A sample above the threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlier {
    pub id: u64,
    pub metric: String,
    /// The CPU that took the sample.
    pub cpu: u32,
    /// The sample, in nanoseconds.
    pub duration_ns: u64,
    /// When it began and ended, in nanoseconds of the CPU's clock.
    pub start_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// Why the task had waited or slept.
    pub cause: Option<String>,
    /// The part of it for which no culprit is named, in nanoseconds.
    pub missing_ns: u64,
    pub pid: i32,
    pub comm: String,
    /// The number of its group; 0 for none.
    pub group: u32,
    /// Present if long waits were looked at.
    pub idle: Option<IdleCpu>,
    /// Who had the CPU meanwhile.
    pub culprits: Vec<Culprit>,
    /// Who could have ended it earlier, if that was asked for and is kept.
    pub chain: Option<Chain>,
}

impl Outlier {
    /// Returns who had the CPU meanwhile, the longest time first.
    pub fn longest_culprits(&self) -> Vec<&Culprit> {
        let mut all: Vec<_> = self.culprits.iter().collect();
        all.sort_by_cached_key(|culprit| Reverse(culprit.ran_ns));
        all
    }

    /// Returns the numbers of its group, and of those of its culprits and of its chain.
    pub fn groups(&self) -> impl Iterator<Item = u32> + '_ {
        let culprits = self.culprits.iter().map(|culprit| culprit.group);
        let hops = self
            .chain
            .iter()
            .flat_map(|chain| chain.hops.iter().map(|hop| hop.group));
        culprits.chain(hops).chain([self.group])
    }
}

/// Parses the outliers in the text of the file `outliers`, which that of `chains` may follow.
pub fn outliers(text: &str) -> Vec<Outlier> {
    let mut all = OutlierParser::default().feed(text);
    chains::attach(&mut all, text);
    all
}

/// Splits a text behind its last line that is complete.
pub fn whole_lines(text: &str) -> (&str, &str) {
    text.split_at(text.rfind('\n').map_or(0, |end| end + 1))
}

/// Parses outliers as they come: text in pieces of any size.
#[derive(Debug, Default)]
pub struct OutlierParser {
    partial: String,
    /// An outlier, and how many of its culprits are still to come.
    open: Option<(Outlier, usize)>,
}

impl OutlierParser {
    /// Takes the next piece of text. Returns the outliers that are complete now. Ignores what it
    /// cannot parse.
    pub fn feed(&mut self, text: &str) -> Vec<Outlier> {
        let mut done = Vec::new();
        let all = std::mem::take(&mut self.partial) + text;
        let (whole, rest) = whole_lines(&all);
        for line in whole.lines() {
            self.line(line, &mut done);
        }
        rest.clone_into(&mut self.partial);
        done
    }

    fn line(&mut self, line: &str, done: &mut Vec<Outlier>) {
        if let Some(rest) = line.strip_prefix("outlier ") {
            done.extend(self.open.take().map(|(outlier, _)| outlier));
            self.open = outlier(rest);
        } else if let Some(rest) = line.strip_prefix("  culprit ") {
            if let (Some((outlier, left)), Some(culprit)) = (&mut self.open, culprit(rest)) {
                outlier.culprits.push(culprit);
                *left = left.saturating_sub(1);
            }
        }
        if let Some((outlier, _)) = self.open.take_if(|(_, left)| *left == 0) {
            done.push(outlier);
        }
    }
}

fn outlier(rest: &str) -> Option<(Outlier, usize)> {
    let pairs = Pairs::of_line(rest, "comm")?;
    let culprits = pairs.number("culprits")?;
    let idle = || {
        Some(IdleCpu {
            cpu: pairs.number("idle_cpu")?,
            ns: pairs.number("idle_ns")?,
            distance: pairs.get("distance")?.to_owned(),
        })
    };
    let outlier = Outlier {
        id: pairs.number("id")?,
        metric: pairs.get("metric")?.to_owned(),
        cpu: pairs.number("cpu")?,
        duration_ns: pairs.number("duration_ns")?,
        start_ns: pairs.number("start_ns"),
        end_ns: pairs.number("end_ns"),
        cause: pairs.get("cause").map(str::to_owned),
        missing_ns: pairs.number("missing_ns")?,
        pid: pairs.number("pid")?,
        comm: pairs.get("comm")?.to_owned(),
        // Not there in what early versions of the module wrote.
        group: pairs.number("group").unwrap_or(0),
        idle: idle(),
        culprits: Vec::new(),
        chain: None,
    };
    Some((outlier, culprits))
}

fn culprit(rest: &str) -> Option<Culprit> {
    let pairs = Pairs::of_line(rest, "comm")?;
    Some(Culprit {
        ran_ns: pairs.number("ran_ns")?,
        slices: pairs.number("slices")?,
        pid: pairs.number("pid")?,
        comm: pairs.get("comm")?.to_owned(),
        group: pairs.number("group").unwrap_or(0),
    })
}
