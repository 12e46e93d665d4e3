// SPDX-License-Identifier: GPL-2.0

//! The values of options, and how they are parsed.

use std::{
    fmt::Display,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use clap::{
    builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser},
    error, Arg, Command,
};
use schedhist_core::{
    distribution::Quantile,
    engine::metric::ShownMetric,
    exposition::{negotiate, text::Dialect},
    raw::{Names, Snapshot},
    units::{nanoseconds, Unit},
};

use crate::{
    cli::StyleArgs,
    error::{Error, Result},
};

/// How figures are printed.
#[derive(Clone, Debug)]
pub struct Style {
    pub unit: Unit,
    pub quantiles: Vec<Quantile>,
    /// Whether the user chose them.
    pub are_quantiles_chosen: bool,
    pub form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    Json,
    /// Values with a separator between them.
    Csv(String),
}

impl Style {
    /// Takes the style from `-n`, `-u`, `-m`, `-q`, `-j` and `-x`.
    pub fn new(args: &StyleArgs) -> Self {
        Self {
            unit: match args {
                _ if args.nanoseconds => Unit::Nanoseconds,
                _ if args.microseconds => Unit::Microseconds,
                _ if args.milliseconds => Unit::Milliseconds,
                _ => Unit::Fitting,
            },
            are_quantiles_chosen: !args.quantiles.is_empty(),
            quantiles: match args.quantiles.is_empty() {
                true => Quantile::DEFAULT.to_vec(),
                false => args.quantiles.clone(),
            },
            form: match &args.separator {
                _ if args.json => Form::Json,
                Some(separator) => Form::Csv(separator.clone()),
                None => Form::Text,
            },
        }
    }
}

/// A parsed value, or else what is accepted.
pub type Parsed<T> = std::result::Result<T, String>;

/// Returns a parser that calls `parse`. An empty value is refused: it is most likely that of a
/// shell variable that is not set.
pub fn parsed<T: Clone + Send + Sync + 'static>(
    parse: fn(&str) -> Parsed<T>,
) -> impl TypedValueParser<Value = T> {
    NonEmptyStringValueParser::new().try_map(move |text| parse(&text))
}

/// Returns a parser of numbers from `least` on.
pub fn number<T>(least: T) -> impl TypedValueParser<Value = T>
where
    T: Copy + Display + FromStr + PartialOrd + Send + Sync + 'static,
{
    NonEmptyStringValueParser::new().try_map(move |text| {
        let number = text.parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| format!("a number, {least} or more"))
    })
}

/// A parser of names that shells complete. There may be others: the module or a recording may be of
/// another version.
#[derive(Clone)]
pub struct Known(fn() -> Vec<&'static str>);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> std::result::Result<String, error::Error> {
        NonEmptyStringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0().into_iter().map(PossibleValue::new)))
    }
}

/// Returns a parser of names, some of which are `names`.
pub fn known(names: fn() -> Vec<&'static str>) -> Known {
    Known(names)
}

/// Returns a parser of the names of metrics.
pub fn metric() -> Known {
    known(|| ShownMetric::ALL.map(|shown| shown.name).to_vec())
}

/// Returns a parser of the forms for Prometheus.
pub fn form() -> impl TypedValueParser<Value = negotiate::Form> {
    PossibleValuesParser::new(["prometheus", "openmetrics", "protobuf"]).map(|name| {
        match name.as_str() {
            "openmetrics" => negotiate::Form::Text(Dialect::OpenMetrics),
            "protobuf" => negotiate::Form::Protobuf,
            _ => negotiate::Form::Text(Dialect::Prometheus),
        }
    })
}

/// Where to listen: addresses, to be tried in this order.
#[derive(Clone)]
pub struct Listen(pub Vec<SocketAddr>);

/// Parses a value of `--listen`. `:PORT` is that port of all addresses of the machine; where there
/// is no IPv6, only those of IPv4. The only name is `localhost`: a static program cannot look up
/// others where glibc is not the one that it was built with.
pub fn listen(text: &str) -> Parsed<Listen> {
    let parsed = match text.rsplit_once(':') {
        Some((name @ ("" | "localhost"), port)) => port.parse().ok().map(|port| {
            let both: [IpAddr; 2] = match name {
                "" => [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
                _ => [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()],
            };
            both.map(|ip| SocketAddr::new(ip, port)).to_vec()
        }),
        _ => text.parse().ok().map(|address| vec![address]),
    };
    parsed
        .map(Listen)
        .ok_or_else(|| "ADDRESS:PORT, localhost:PORT or :PORT".to_owned())
}

/// Parses a separator. A quotation mark would end values, and not separate them.
pub fn separator(text: &str) -> Parsed<String> {
    match text.contains(['"', '\n', '\r']) {
        true => Err("a text without quotation marks and ends of lines".to_owned()),
        false => Ok(text.to_owned()),
    }
}

pub fn quantile(text: &str) -> Parsed<Quantile> {
    Quantile::parse(text).ok_or_else(|| "a number above 0, up to 100".to_owned())
}

/// Parses the number of rows to a power of two.
pub fn sub_buckets(text: &str) -> Parsed<u64> {
    let rows = text.parse().ok();
    let rows = rows.filter(|rows: &u64| rows.is_power_of_two() && *rows <= 128);
    rows.ok_or_else(|| "a power of two, from 1 to 128".to_owned())
}

/// Parses a time of at least `least`.
fn time(text: &str, bare: &str, least: &str) -> Parsed<Duration> {
    let ns = nanoseconds(text, bare).filter(|ns| Some(*ns) >= nanoseconds(least, bare));
    ns.map(|ns| Duration::from_nanos(ns.round() as u64))
        .ok_or_else(|| {
            format!("a number, of {bare} or with ns, us, ms, s, m, h or d; from {least} to 365d")
        })
}

pub fn seconds(text: &str) -> Parsed<Duration> {
    time(text, "s", "1ms")
}

pub fn milliseconds(text: &str) -> Parsed<Duration> {
    time(text, "ms", "1ms")
}

/// Checks a PID, or the name of processes.
pub fn pid_or_name(text: &str) -> Parsed<String> {
    match text.parse::<i64>() {
        Ok(pid) if (1..=i32::MAX.into()).contains(&pid) => Ok(text.to_owned()),
        Err(_) if !text.is_empty() && !text.starts_with('-') => Ok(text.to_owned()),
        _ => Err("a PID, 1 or more, or a name".into()),
    }
}

/// Parses the time between two snapshots of a recording, in milliseconds.
pub fn between_snapshots(text: &str) -> Parsed<Duration> {
    time(text, "ms", "10ms")
}

/// Parses a threshold in microseconds.
pub fn threshold(text: &str) -> Parsed<Duration> {
    time(text, "us", "1ns")
}

/// Parses the shortest wait to print, in microseconds.
pub fn least_wait(text: &str) -> Parsed<Duration> {
    time(text, "us", "0us")
}

/// Returns a threshold as the user most likely gave it, in microseconds.
pub fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// The positional arguments `[METRIC...] [INTERVAL] [COUNT]`.
#[derive(Clone, Debug, Default)]
pub struct Positionals {
    pub metrics: Vec<String>,
    /// The interval; `None`: since the load.
    pub interval: Option<Duration>,
    /// The number of intervals; `None`: until SIGINT.
    pub count: Option<u64>,
}

impl Positionals {
    /// Sorts the arguments: numbers come last.
    pub fn new(words: &[String]) -> Result<Self> {
        let mut all = Self::default();
        for word in words {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            let wrong = |why| Error::usage(format!("'{word}': {why}"));
            match (is_number, &all.interval, &all.count) {
                (false, None, _) => all.metrics.push(word.clone()),
                (true, None, _) => all.interval = Some(seconds(word).map_err(wrong)?),
                (true, Some(_), None) => {
                    let count = word.parse().ok().filter(|count| *count > 0);
                    let count = count.ok_or_else(|| wrong("a count is 1 or more".to_owned()));
                    all.count = Some(count?);
                }
                _ => return Err(Error::usage(format!("unexpected argument '{word}'"))),
            }
        }
        Ok(all)
    }
}

pub fn check_metrics(names: &Names, metrics: &[String]) -> Result {
    for metric in metrics {
        if names.metric(metric).is_none() {
            let known: Vec<_> = names
                .metrics
                .iter()
                .map(|metric| metric.name.as_str())
                .collect();
            return Err(Error::usage(format!(
                "there is no metric '{metric}': there are {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub struct CpuList {
    /// As the user gave it.
    pub text: String,
    pub numbers: Vec<u32>,
}

impl CpuList {
    /// Parses a list such as `0-3,8`.
    pub fn parse(text: &str) -> Parsed<Self> {
        let wrong = || "a list of CPUs, such as 0-3,8".to_owned();
        let mut numbers = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: u32 = first.parse().map_err(|_| wrong())?;
            let last: u32 = last.parse().map_err(|_| wrong())?;
            if first > last || last > 65_535 {
                return Err(wrong());
            }
            numbers.extend(first..=last);
        }
        Ok(Self {
            text: text.to_owned(),
            numbers,
        })
    }

    /// Returns an error if a CPU of the list is not there.
    pub fn check(&self, snapshot: &Snapshot) -> Result {
        let is_there = |cpu: &u32| snapshot.cpus.iter().any(|there| there.number == *cpu);
        match self.numbers.iter().find(|cpu| !is_there(cpu)) {
            Some(cpu) => Err(Error::usage(format!("there is no CPU {cpu}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_units() {
        for (text, ns) in [
            ("1", 1_000_000_000),
            ("0.25", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("10ms", 10_000_000),
            ("1000us", 1_000_000),
            ("1000000ns", 1_000_000),
            ("2m", 120_000_000_000),
            ("2h", 7_200_000_000_000),
            ("365d", 31_536_000_000_000_000),
        ] {
            assert_eq!(seconds(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in [
            "", "s", "0", "x", "-1", "1 s", "1S", "1min", "0.9ms", "366d", "inf", "nan", "1e3",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(milliseconds("5"), Ok(Duration::from_millis(5)));
        assert_eq!(milliseconds("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(threshold("5"), Ok(Duration::from_micros(5)));
        assert!(threshold("0").is_err() && between_snapshots("9").is_err());
        assert_eq!(least_wait("0"), Ok(Duration::ZERO));
        assert_eq!(us(Duration::from_nanos(500)).to_string(), "0.5");
        assert_eq!(us(Duration::from_millis(10)).to_string(), "10000");
    }

    #[test]
    fn the_command_line_is_sound() {
        <crate::cli::Cli as clap::CommandFactory>::command().debug_assert();
    }

    /// Each verb that takes options has examples, which it takes.
    #[test]
    fn the_examples_are_sound() {
        let program = <crate::cli::Cli as clap::CommandFactory>::command();
        for verb in program.get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let examples: Vec<_> = help
                .lines()
                .filter_map(|line| line.strip_prefix("  schedhist "))
                .collect();
            let name = verb.get_name();
            let has_none = matches!(name, "doctor" | "man");
            assert_eq!(examples.is_empty(), has_none, "{name}");
            for example in examples {
                let (words, _) = example.split_once("  # ").expect("a comment");
                let words = ["schedhist"].into_iter().chain(words.split_whitespace());
                let parsed = <crate::cli::Cli as clap::Parser>::try_parse_from(words);
                assert!(parsed.is_ok(), "{example}");
            }
        }
    }
}
