// SPDX-License-Identifier: GPL-2.0

//! Options that several verbs share, as values.

use std::time::Duration;

use clap::ArgMatches;
use schedhist_core::{distribution::Quantile, raw::Names, units::Unit};

use crate::failure::{Failure, Result};

/// How figures are printed.
#[derive(Clone, Debug)]
pub struct Style {
    /// The unit of durations.
    pub unit: Unit,
    /// The quantiles.
    pub quantiles: Vec<Quantile>,
    /// Whether the user chose them.
    pub are_quantiles_chosen: bool,
    /// The form.
    pub form: Form,
}

/// The form of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// JSON Lines.
    Json,
    /// Values with a separator between them.
    Csv(String),
}

impl Style {
    /// Reads `-n`, `-u`, `-m`, `-q`, `-j` and `-x`.
    pub fn new(args: &ArgMatches) -> Result<Self> {
        let unit = match () {
            () if args.get_flag("nanoseconds") => Unit::Nanoseconds,
            () if args.get_flag("microseconds") => Unit::Microseconds,
            () if args.get_flag("milliseconds") => Unit::Milliseconds,
            () => Unit::Fitting,
        };
        let quantiles = match args.get_one::<String>("quantiles") {
            None => Quantile::DEFAULT.to_vec(),
            Some(list) => list.split(',').map(quantile).collect::<Result<_>>()?,
        };
        let form = match args.get_one::<String>("separator") {
            _ if args.get_flag("json") => Form::Json,
            // A quotation mark would end values, and not separate them.
            Some(wrong) if wrong.is_empty() || wrong.contains(['"', '\n', '\r']) => {
                return Err(Failure::Usage(format!("-x {wrong:?} is no separator")));
            }
            Some(separator) => Form::Csv(separator.clone()),
            None => Form::Text,
        };
        Ok(Self {
            unit,
            are_quantiles_chosen: args.contains_id("quantiles"),
            quantiles,
            form,
        })
    }
}

/// Parses a percentage.
pub fn quantile(text: &str) -> Result<Quantile> {
    Quantile::parse(text).ok_or_else(|| {
        Failure::Usage(format!(
            "'{text}' is no percentile: a number above 0, up to 100"
        ))
    })
}

/// Parses seconds, with decimals if need be: from a millisecond to a year.
pub fn seconds(text: &str) -> Result<Duration> {
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|s| (0.001..=31_536_000.0).contains(s));
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| Failure::Usage(format!("'{text}' is no interval: seconds, from 0.001 on")))
}

/// Parses a duration such as `30s`, `10m`, `2h`, or seconds.
pub fn duration(text: &str) -> Result<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.as_bytes()[text.len() - 1]),
        None => (text, b's'),
    };
    let factor = match unit {
        b'm' => 60,
        b'h' => 3600,
        _ => 1,
    };
    Ok(seconds(number)? * factor)
}

/// The positional arguments `[METRIC...] [interval] [count]`.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The names of metrics.
    pub metrics: Vec<String>,
    /// The interval; `None`: since the load.
    pub interval: Option<Duration>,
    /// The number of intervals; `None`: until SIGINT.
    pub count: Option<u64>,
}

impl Wanted {
    /// Sorts the arguments: numbers come last.
    pub fn new<'a>(words: impl Iterator<Item = &'a String>) -> Result<Self> {
        let mut wanted = Self::default();
        for word in words {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            match (is_number, &wanted.interval, &wanted.count) {
                (false, None, _) => wanted.metrics.push(word.clone()),
                (true, None, _) => wanted.interval = Some(seconds(word)?),
                (true, Some(_), None) => wanted.count = Some(count(word)?),
                _ => return Err(Failure::Usage(format!("unexpected argument '{word}'"))),
            }
        }
        Ok(wanted)
    }
}

/// Parses a positive number.
pub fn count(text: &str) -> Result<u64> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Failure::Usage(format!("'{text}' is no count: 1 or more")))
}

/// Checks the names of metrics.
pub fn check_metrics(names: &Names, metrics: &[String]) -> Result {
    for metric in metrics {
        if names.series(metric).is_none() {
            let known: Vec<_> = names.series.iter().map(|s| s.name.as_str()).collect();
            return Err(Failure::Usage(format!(
                "there is no metric '{metric}': there are {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// Parses a list of CPUs such as `0-3,8`.
pub fn cpu_list(text: &str) -> Result<Vec<u32>> {
    let wrong = || Failure::Usage(format!("'{text}' is no list of CPUs, such as 0-3,8"));
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.parse().map_err(|_| wrong())?;
        let last: u32 = last.parse().map_err(|_| wrong())?;
        if first > last || last > 65_535 {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}
