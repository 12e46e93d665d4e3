// SPDX-License-Identifier: GPL-2.0

//! Durations, counts and shares as text, and back.

use std::cmp::Reverse;

use crate::{distribution::Max, engine::format::Nanoseconds};

/// The unit in which durations are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Three significant digits and the unit that fits.
    #[default]
    Fitting,
    /// Nanoseconds, exactly.
    Nanoseconds,
    /// Microseconds, with three decimals.
    Microseconds,
    /// Milliseconds, with three decimals, or below a millisecond exactly.
    Milliseconds,
}

impl Unit {
    /// Returns the text of a duration in nanoseconds; `-` for none.
    pub fn text(self, nanoseconds: Option<u64>) -> String {
        let Some(ns) = nanoseconds else {
            return "-".to_owned();
        };
        match self {
            Self::Fitting => {
                let mut text = String::new();
                // Writing to a String does not fail.
                let _ = Nanoseconds(Some(ns)).write_column(&mut text);
                text.trim_start().to_owned()
            }
            Self::Nanoseconds => ns.to_string(),
            Self::Microseconds => format!("{}.{:03}", ns / 1_000, ns % 1_000),
            // Rows of a histogram must differ.
            Self::Milliseconds if (1..1_000_000).contains(&ns) => format!("0.{ns:06}"),
            Self::Milliseconds => {
                let us = ns / 1_000 + u64::from(ns % 1_000 >= 500);
                format!("{}.{:03}", us / 1_000, us % 1_000)
            }
        }
    }

    /// Returns the text of a maximum: `<` precedes an upper bound.
    pub fn max(self, max: Max) -> String {
        match max {
            Max::AtMost(u64::MAX) => "inf".to_owned(),
            Max::AtMost(bound) => format!("<{}", self.text(Some(bound))),
            Max::Exact(_) | Max::None => self.text(max.value()),
        }
    }

    /// Returns the text of a quantile: `inf` if it lies in the last, open bucket.
    pub fn quantile(self, upper: Option<u64>) -> String {
        match upper {
            Some(u64::MAX) => "inf".to_owned(),
            upper => self.text(upper),
        }
    }

    /// Returns the name of the unit; empty if it differs from duration to duration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fitting => "",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
        }
    }
}

/// Returns a sum of nanoseconds as one that fits into 64 bits: at most `u64::MAX`.
pub fn clamp(nanoseconds: u128) -> u64 {
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// Returns how many tasks waited on average, by Little's law: the time that they waited, over the
/// time that passed, both in nanoseconds. Returns `None` if no time passed, or it is not known.
pub fn tasks_on_average(waited: u128, span: Option<u64>) -> Option<f64> {
    let span = span.filter(|span| *span != 0)?;
    Some(waited as f64 / span as f64)
}

/// Returns the text of a number of tasks on average, with at least three digits; `-` for none.
pub fn tasks(average: Option<f64>) -> String {
    average.map_or("-".to_owned(), |tasks| match tasks < 9.995 {
        true => format!("{tasks:.2}"),
        false => format!("{tasks:.1}"),
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
    order.sort_by_cached_key(|i| Reverse(scaled[*i] % sum));
    let left = 1000 - shares.iter().sum::<u32>();
    for i in order.into_iter().take(left as usize) {
        shares[i] += 1;
    }
    shares
}

/// Returns a share in tenths of a percent as text, without the sign.
pub fn tenths(share: u32) -> String {
    format!("{}.{}", share / 10, share % 10)
}

/// Returns how many percent of the whole a part is, rounded down.
pub fn percent(part: u64, whole: u64) -> u64 {
    clamp(u128::from(part) * 100 / u128::from(whole.max(1)))
}

/// Returns a count with at most eight characters: large ones in thousands, millions and so on.
pub fn count(count: u64) -> String {
    let mut value = count;
    for suffix in ["", "k", "M", "G", "T", "P"] {
        if value < 10_000_000 {
            return format!("{value}{suffix}");
        }
        value /= 1_000;
    }
    format!("{value}E")
}

/// The units of time, in nanoseconds.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
    ("d", 86_400e9),
];

/// The longest time that is accepted: a year, in nanoseconds.
const YEAR: f64 = 365.0 * 86_400e9;

/// Parses a time: a number and a unit, or without one, in units of `bare`; if that is empty, the
/// unit must be there. By hand, as `humantime`
/// knows neither that nor decimals.
pub fn nanoseconds(text: &str, bare: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = if unit.is_empty() { bare } else { unit };
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let ns = number.parse::<f64>().ok()? * factor;
    (0.0..=YEAR).contains(&ns).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds() {
        for (ns, text) in [
            (0, "0.000"),
            (256, "0.000256"),
            (16_384, "0.016384"),
            (999_999, "0.999999"),
            (1_000_000, "1.000"),
            (1_234_567, "1.235"),
        ] {
            assert_eq!(Unit::Milliseconds.text(Some(ns)), text);
        }
    }
}
