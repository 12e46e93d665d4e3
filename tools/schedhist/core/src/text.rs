// SPDX-License-Identifier: GPL-2.0

//! Parses text: the files `status` and `outliers`, and the histograms of runs in recordings.

use std::{collections::BTreeMap, io};

use crate::{
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

/// Parses histograms in text: blocks that each begin with a line `#`.
///
/// # Errors
///
/// Fails if a block has an unknown precision or a bucket that does not belong to it.
pub fn histograms(text: &str) -> Result<Vec<TextHistogram>, DecodeError> {
    let mut all = Vec::new();
    let mut block = String::new();
    for line in text.lines() {
        if line.starts_with('#') && !block.is_empty() {
            all.push(parse_histogram(&block)?);
            block.clear();
        }
        block.push_str(line);
        block.push('\n');
    }
    if !block.is_empty() {
        all.push(parse_histogram(&block)?);
    }
    Ok(all)
}

fn parse_histogram(block: &str) -> Result<TextHistogram, DecodeError> {
    let is_bucket = |line: &&str| line.starts_with("bucket ");
    let head: Vec<_> = block.lines().filter(|line| !is_bucket(line)).collect();
    let pairs = Pairs::of_lines(&head.join("\n"));
    let precision = pairs.number("precision").and_then(Precision::new);
    let Some(scheme) = precision.map(Scheme::new) else {
        return decode_error("a histogram without a known precision");
    };
    let mut distribution = Distribution::new(scheme);
    distribution.sum = pairs.number("sum").unwrap_or_default();
    distribution.min = pairs.number("min");
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

/// A task in a chain; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub pid: i32,
    pub comm: String,
    /// How it woke the task of the hop before: `task`, `softirq` or `fork`; `-` for the first.
    pub via: String,
    /// How many slices it had.
    pub slices: u64,
    pub ran_ns: u64,
    /// After its wakeup, for a CPU.
    pub waited_ns: u64,
    pub preempted_ns: u64,
    pub throttled_ns: u64,
}

impl Hop {
    fn parse(line: &str) -> Option<Self> {
        let pairs = Pairs::of_line(line, "comm")?;
        Some(Self {
            pid: pairs.number("pid")?,
            comm: pairs.get("comm")?.to_owned(),
            via: pairs.get("via")?.to_owned(),
            slices: pairs.number("slices")?,
            ran_ns: pairs.number("ran_ns")?,
            waited_ns: pairs.number("waited_ns")?,
            preempted_ns: pairs.number("preempted_ns")?,
            throttled_ns: pairs.number("throttled_ns")?,
        })
    }

    /// What the task did, and for how long.
    pub fn parts(&self) -> [(&'static str, u64); 4] {
        [
            ("ran", self.ran_ns),
            ("waited", self.waited_ns),
            ("preempted", self.preempted_ns),
            ("throttled", self.throttled_ns),
        ]
    }

    /// Returns the sum of its times.
    pub fn sum_ns(&self) -> u64 {
        self.parts().iter().map(|(_, ns)| ns).sum()
    }
}

/// Who could have woken the task of an outlier earlier; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The number of the outlier.
    pub id: u64,
    /// Where it ends, as the file `chains` has it.
    pub end: String,
    /// For how long the last task was blocked.
    pub blocked_ns: u64,
    /// For how long it is not known who did what.
    pub missing_ns: u64,
    /// From the task of the outlier back in time.
    pub hops: Vec<Hop>,
}

impl Chain {
    /// Finds the chain of the outlier `id` in the text of the file `chains`.
    pub fn find(text: &str, id: u64) -> Option<Self> {
        let mut lines = text.lines();
        let pairs = lines.by_ref().find_map(|line| {
            let pairs = Pairs::of_line(line.strip_prefix("chain ")?, "")?;
            (pairs.number("id") == Some(id)).then_some(pairs)
        })?;
        let hops = lines.map_while(|line| line.strip_prefix("  hop "));
        Some(Self {
            id,
            end: pairs.get("end")?.to_owned(),
            blocked_ns: pairs.number("blocked_ns")?,
            missing_ns: pairs.number("missing_ns")?,
            hops: hops.map(Hop::parse).collect::<Option<_>>()?,
        })
    }
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
    /// The part of it for which no culprit is named, in nanoseconds.
    pub missing_ns: u64,
    pub pid: i32,
    pub comm: String,
    /// The number of its group; 0 for none.
    pub group: u32,
    pub pairs: Pairs,
    /// Who had the CPU meanwhile.
    pub culprits: Vec<Culprit>,
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
    let outlier = Outlier {
        id: pairs.number("id")?,
        metric: pairs.get("metric")?.to_owned(),
        cpu: pairs.number("cpu")?,
        duration_ns: pairs.number("duration_ns")?,
        missing_ns: pairs.number("missing_ns")?,
        pid: pairs.number("pid")?,
        comm: pairs.get("comm")?.to_owned(),
        // Not there in what early versions of the module wrote.
        group: pairs.number("group").unwrap_or(0),
        pairs,
        culprits: Vec::new(),
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

/// Splits the whole into shares in tenths of a percent that add up to 1000 exactly: the largest
/// remainders are rounded up. Returns zeros if all values are 0.
pub fn shares(values: &[u64]) -> Vec<u32> {
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    if sum == 0 {
        return vec![0; values.len()];
    }
    let scaled: Vec<_> = values
        .iter()
        .map(|value| u128::from(*value) * 1000)
        .collect();
    // At most 1000 each.
    let mut shares: Vec<_> = scaled.iter().map(|value| (value / sum) as u32).collect();
    let mut order: Vec<_> = (0..values.len()).collect();
    order.sort_by_cached_key(|i| std::cmp::Reverse(scaled[*i] % sum));
    let left = 1000 - shares.iter().sum::<u32>();
    for i in order.into_iter().take(left as usize) {
        shares[i] += 1;
    }
    shares
}
