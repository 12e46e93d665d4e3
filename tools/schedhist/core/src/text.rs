// SPDX-License-Identifier: GPL-2.0

//! Parses the text files: `status`, `groups`, `group_hist/METRIC` and `outliers`.

use std::collections::BTreeMap;

use crate::{
    distribution::{Distribution, Max},
    engine::histogram::bucket::{Precision, Scheme},
    raw::{broken, Broken},
};

/// The greatest length of the name of a task, in bytes.
pub(crate) const LONGEST_COMM: usize = 15;

/// Returns text in which each byte is a character of its own, so that none is lost, and lengths are
/// those in bytes. Names of tasks may have any bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Returns a part of what [`of_bytes`] has returned as text to be shown: bytes that are no UTF-8 as
/// `\xNN`.
pub(crate) fn readable(text: &str) -> String {
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
    fn of_line(line: &str, last: &str) -> Option<Self> {
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
                .collect(),
        )
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the value of a key as a number; `None` for `-`, too.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    /// Returns all pairs, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Another group that had the CPU when waits of a group ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its number.
    pub id: u32,
    /// How many waits ended while it had the CPU, at least.
    pub ended: u64,
    /// Their sum in nanoseconds, at least.
    pub ended_ns: u128,
    /// Its name.
    pub name: String,
}

/// A group of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its counts, sums and quantiles.
    pub pairs: Pairs,
    /// The other groups that kept it waiting.
    pub neighbours: Vec<Neighbour>,
}

/// The contents of the file `groups`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The rule, as written to `group_by`; `none` if tasks are not grouped.
    pub rule: String,
    /// The time of reading, in nanoseconds of the module's clock.
    pub time: Option<u64>,
    /// How many groups there can be.
    pub limit: Option<u32>,
    /// How often a task went to "other" because there were no more groups.
    pub refused: u64,
    /// The groups.
    pub groups: Vec<Group>,
}

impl Groups {
    /// Returns the time since an earlier text, in nanoseconds; `None` if either does not tell.
    pub fn since(&self, earlier: &Self) -> Option<u64> {
        self.time?.checked_sub(earlier.time?)
    }

    /// Returns whether the group `id` is that of all groups that are gone. What a group did before
    /// it was gone is added to it at once, so what it gains is not of the time between two texts.
    pub fn is_gone(&self, id: u32) -> bool {
        self.limit
            .is_some_and(|limit| id.checked_sub(1) == Some(limit))
    }

    /// Returns whether a group of this text is the one that had the same number in an earlier text
    /// of the same rule, by their names there and here. Another group may have got the number.
    pub fn is_same(&self, earlier: &str, name: &str) -> bool {
        let kind = self.rule.split(' ').next().unwrap_or_default();
        if !matches!(kind, "process" | "thread") {
            return earlier == name;
        }
        // The group of a process or thread stays when that is renamed.
        let pid = |name: &str| name.split_once(':').map(|(pid, _)| pid.to_owned());
        pid(earlier).map_or(earlier == name, |earlier| pid(name) == Some(earlier))
    }
}

/// Parses the file `groups`.
///
/// # Errors
///
/// Fails if the first line is another one than expected, or if a line cannot be parsed.
pub fn groups(text: &str) -> Result<Groups, Broken> {
    let mut lines = text.lines();
    if lines.next() != Some("# schedhist groups version 1") {
        return broken("not a list of groups, or one of another version");
    }
    let mut all = Groups::default();
    for line in lines {
        let parsed = match line.split_once(' ') {
            Some(("group_by", rule)) => {
                all.rule = rule.to_owned();
                Some(())
            }
            Some(("time", number)) => {
                all.time = number.parse().ok();
                Some(())
            }
            Some(("limit", number)) => {
                all.limit = number.parse().ok();
                Some(())
            }
            Some(("refused", number)) => {
                all.refused = number.parse().unwrap_or_default();
                Some(())
            }
            Some(("in_progress", rest)) => in_progress(rest, &mut all),
            Some(("group", rest)) => one_group(rest).map(|group| all.groups.push(group)),
            Some(("", _)) => line
                .strip_prefix("  neighbour ")
                .and_then(neighbour)
                .and_then(|(of, neighbour)| {
                    let group = all.groups.iter_mut().rev().find(|group| group.id == of)?;
                    group.neighbours.push(neighbour);
                    Some(())
                }),
            // Other keys, such as those of later versions.
            _ => Some(()),
        };
        if parsed.is_none() {
            return broken(format!("cannot parse {line:?}"));
        }
    }
    Ok(all)
}

fn one_group(rest: &str) -> Option<Group> {
    let pairs = Pairs::of_line(rest, "name")?;
    Some(Group {
        id: pairs.number("id")?,
        name: pairs.get("name")?.to_owned(),
        pairs,
        neighbours: Vec::new(),
    })
}

/// Adds what is in progress of a group to its pairs.
fn in_progress(rest: &str, all: &mut Groups) -> Option<()> {
    let pairs = Pairs::of_line(rest, "")?;
    let id: u32 = pairs.number("id")?;
    // A group that is gone by now has no line.
    if let Some(group) = all.groups.iter_mut().find(|group| group.id == id) {
        group.pairs.0.extend(pairs.0);
    }
    Some(())
}

fn neighbour(rest: &str) -> Option<(u32, Neighbour)> {
    let pairs = Pairs::of_line(rest, "name")?;
    let neighbour = Neighbour {
        id: pairs.number("id")?,
        ended: pairs.number("ended")?,
        ended_ns: pairs.number("ended_ns")?,
        name: pairs.get("name")?.to_owned(),
    };
    Some((pairs.number("of")?, neighbour))
}

/// A histogram in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextHistogram {
    /// The lines `key value` before the buckets.
    pub pairs: Pairs,
    /// The samples.
    pub distribution: Distribution,
}

/// Parses histograms in text: `hist/METRIC`, or the blocks of `group_hist/METRIC`.
///
/// # Errors
///
/// Fails if a block has an unknown precision or a bucket that does not belong to it.
pub fn histograms(text: &str) -> Result<Vec<TextHistogram>, Broken> {
    let mut all = Vec::new();
    let mut block = String::new();
    for line in text.lines() {
        if line.starts_with('#') && !block.is_empty() {
            all.push(one_histogram(&block)?);
            block.clear();
        }
        block.push_str(line);
        block.push('\n');
    }
    if !block.is_empty() {
        all.push(one_histogram(&block)?);
    }
    Ok(all)
}

fn one_histogram(block: &str) -> Result<TextHistogram, Broken> {
    let is_bucket = |line: &&str| line.starts_with("bucket ");
    let head: Vec<_> = block.lines().filter(|line| !is_bucket(line)).collect();
    let pairs = Pairs::of_lines(&head.join("\n"));
    let precision = pairs.number("precision").and_then(Precision::new);
    let Some(scheme) = precision.map(Scheme::new) else {
        return broken("a histogram without a known precision");
    };
    let mut distribution = Distribution::new(scheme);
    distribution.sum = pairs.number("sum").unwrap_or_default();
    distribution.min = pairs.number("min");
    for line in block.lines().filter(is_bucket) {
        bucket(&mut distribution, line)
            .ok_or_else(|| Broken(format!("cannot parse {line:?} at this precision")))?;
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
    /// In how many stays.
    pub slices: u64,
    /// Its thread id; 0 for idle.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// Its group; 0 for none.
    pub group: u32,
}

/// A sample above the threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// Its number.
    pub id: u64,
    /// The metric.
    pub metric: String,
    /// The CPU that took the sample.
    pub cpu: u32,
    /// The sample, in nanoseconds.
    pub duration_ns: u64,
    /// The part of it for which no culprit is named, in nanoseconds.
    pub missing_ns: u64,
    /// The thread id of the task.
    pub pid: i32,
    /// The name of the task.
    pub comm: String,
    /// The number of its group; 0 for none.
    pub group: u32,
    /// All fields.
    pub pairs: Pairs,
    /// Who had the CPU meanwhile.
    pub culprits: Vec<Culprit>,
}

/// Splits a text behind its last line that is complete.
pub(crate) fn whole_lines(text: &str) -> (&str, &str) {
    text.split_at(text.rfind('\n').map_or(0, |end| end + 1))
}

/// Parses outliers as they come: text in pieces of any size.
#[derive(Debug, Default)]
pub struct OutlierParser {
    /// An incomplete line.
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
    order.sort_by_key(|i| std::cmp::Reverse(scaled[*i] % sum));
    let left = 1000 - shares.iter().sum::<u32>();
    for i in order.into_iter().take(left as usize) {
        shares[i] += 1;
    }
    shares
}
