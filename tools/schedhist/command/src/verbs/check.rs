// SPDX-License-Identifier: GPL-2.0

//! `check`: whether the limits in a file are kept, and those limits as a rule for Prometheus.

use std::{env, fmt::Write, fs, io::IsTerminal, path::Path};

use schedhist_core::{
    distribution::{Distribution, Max, Quantile},
    engine::group::records::GroupMetric,
    groups::Between,
    raw::Groups,
    units::Unit,
};

use crate::{
    cli::Check,
    error::{verdict, At, Error, Result},
    options::nanoseconds,
    output::print,
    source::{Interval, Source},
    sys::Waiter,
    table::Cell,
};

/// Nothing is said of a quantile with fewer samples beyond it.
const LEAST_BEYOND: u64 = 10;

/// A limit, such as `runq.p99 of web.service < 5ms`.
#[derive(Clone, Debug, PartialEq)]
struct Limit {
    text: String,
    metric: String,
    /// `None` is the maximum.
    quantile: Option<Quantile>,
    group: Option<String>,
    /// In nanoseconds.
    below: u64,
}

const FORM: &str = "METRIC.pQUANTILE or METRIC.max, of GROUP if you like, < TIME, \
     as in 'runq.p99 of web.service < 5ms'";

impl Limit {
    fn parse(text: &str) -> Option<Self> {
        let (what, below) = text.split_once('<')?;
        let (what, group) = match what.trim().split_once(" of ") {
            Some((what, group)) => (what, Some(group.trim().to_owned())),
            None => (what.trim(), None),
        };
        let (metric, figure) = what.trim().split_once('.')?;
        let quantile = match figure {
            "max" => None,
            quantile => Some(Quantile::parse(quantile.strip_prefix('p')?)?),
        };
        let below = below.trim();
        // A bare number could be any unit.
        let has_unit = below.ends_with(|c: char| c.is_ascii_alphabetic());
        Some(Self {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            metric: Some(metric).filter(|it| !it.is_empty())?.to_owned(),
            quantile,
            group: group.filter(|it| !it.is_empty()),
            below: nanoseconds(below, "s").filter(|_| has_unit)?.round() as u64,
        })
    }

    /// Returns the figure that is limited, and whether the limit is kept; why not, if that cannot
    /// be told. A figure is an upper bound: it is above the limit only if its bucket is.
    fn judge(&self, samples: &Distribution) -> std::result::Result<(u64, bool), String> {
        let value = match self.quantile {
            None => samples.max.value(),
            Some(share) if samples.beyond(share) < LEAST_BEYOND => {
                return Err(format!("too few samples: {}", samples.count()));
            }
            Some(share) => samples.quantile_upper(share),
        };
        let Some(value) = value else {
            return Err("no samples".to_owned());
        };
        let is_exact = self.quantile.is_none() && matches!(samples.max, Max::Exact(_));
        let scheme = samples.scheme;
        let least = match is_exact {
            true => value,
            false => scheme.bounds(scheme.index(value)).lower,
        };
        match (value < self.below, least >= self.below) {
            (true, _) => Ok((value, true)),
            (_, true) => Ok((value, false)),
            _ => Err(format!(
                "it is from {} to {}",
                Unit::Fitting.text(Some(least)),
                Unit::Fitting.text(Some(value))
            )),
        }
    }

    /// Returns an expression that is true while the limit is broken.
    fn expression(&self) -> String {
        let (metric, share) = (&self.metric, self.quantile);
        let share = share.map_or(1.0, |it| {
            it.to_string()[1..].parse().unwrap_or(100.0) / 100.0
        });
        let below = self.below as f64 / 1e9;
        let series = match &self.group {
            None => format!("schedhist_{metric}_seconds_bucket"),
            Some(group) => {
                let mut pattern = String::new();
                for c in group.chars() {
                    match c {
                        '\\' => pattern += "\\\\\\\\",
                        '"' => pattern += "\\\"",
                        c if ".+*?()|[]{}^$".contains(c) => pattern += &format!("\\\\{c}"),
                        c => pattern.push(c),
                    }
                }
                format!("schedhist_group_{metric}_seconds_bucket{{group=~\"(.*/)?{pattern}\"}}")
            }
        };
        format!("histogram_quantile({share}, sum by (le) (rate({series}[5m]))) >= {below}")
    }
}

/// Parses the limits of a file, one to a line; `#` begins a comment.
fn limits(path: &Path) -> Result<Vec<Limit>> {
    let text = fs::read_to_string(path).at(path)?;
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let limit = Limit::parse(line).ok_or_else(|| {
                let why = format!("{}, line {number}: '{line}' is not {FORM}", path.display());
                Error::usage(why)
            });
            all.push(limit?);
        }
    }
    match all.is_empty() {
        true => Err(Error::usage(format!("{}: no limits", path.display()))),
        false => Ok(all),
    }
}

/// Returns the rules for Prometheus.
fn rules(limits: &[Limit]) -> String {
    let mut out = "groups:\n- name: schedhist\n  rules:\n".to_owned();
    for limit in limits {
        // A string of JSON is one of YAML.
        let quoted = |text: &str| Cell::from(text).line().trim_end().to_owned();
        let _ = write!(
            out,
            "  - alert: SchedhistLimit\n    expr: {}\n    for: 5m\n    labels:\n      limit: {}\n    \
             annotations:\n      summary: {}\n",
            quoted(&limit.expression()),
            quoted(&limit.text),
            quoted(&format!("not kept on {{{{ $labels.instance }}}}: {}", limit.text)),
        );
    }
    // The instance is what tells machines apart.
    out.replace("sum by (le)", "sum by (instance, le)")
}

/// Returns the samples that a limit is of.
fn samples(
    limit: &Limit,
    interval: &Interval,
    groups: Option<&(Option<Groups>, Groups)>,
) -> std::result::Result<Distribution, String> {
    let window = &interval.window;
    let Some(name) = &limit.group else {
        let metric = window.names.metric(&limit.metric);
        let metric = metric.ok_or_else(|| format!("there is no metric {}", limit.metric))?;
        return Ok(window.distribution(metric, |_| true));
    };
    let metric = match &*limit.metric {
        "oncpu" => GroupMetric::Oncpu,
        "runq" => GroupMetric::Runq,
        "offcpu" => GroupMetric::Offcpu,
        other => return Err(format!("groups have no {other}")),
    };
    let (old, new) = groups.ok_or("tasks are not grouped: schedhist ctl group_by cgroup")?;
    let between = Between::new(old.as_ref(), new);
    // As systemctl does, by the last part of the path.
    let is_it = |whole: &str| whole == name || whole.rsplit('/').next() == Some(name);
    let mut found = new.groups.iter().filter(|group| is_it(&group.name));
    let first = found.next().ok_or("there is no such group")?;
    let mut all = between.samples(first, &[metric]);
    for group in found {
        all.merge(&between.samples(group, &[metric]));
    }
    Ok(all)
}

/// Returns the status: 1 if a limit is not kept, else 2 if one cannot be told.
pub fn check(args: &Check, source: &Source) -> Result<u8> {
    let limits = limits(&args.file)?;
    if args.prometheus {
        return print(&rules(&limits)).map(|()| 0);
    }
    let first = source.read()?;
    let (interval, groups) = match args.interval {
        None => (first.since_load(), first.groups()?.map(|new| (None, new))),
        Some(interval) => {
            let waiter = Waiter::new()?;
            waiter.is_over_before(Some(std::time::Instant::now() + interval));
            let second = source.read()?;
            let groups = second.groups()?.map(|new| Ok((first.groups()?, new)));
            (second.since(&first), groups.transpose()?)
        }
    };
    let is_coloured = std::io::stdout().is_terminal()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (mut out, mut status) = (String::new(), 0);
    for note in &interval.notes {
        let _ = writeln!(out, "note: {note}");
    }
    for limit in &limits {
        let found = samples(limit, &interval, groups.as_ref());
        let found = found.and_then(|samples| limit.judge(&samples));
        let (word, colour, about, worse) = match found {
            Ok((value, true)) => ("kept", 32, Unit::Fitting.text(Some(value)), 0),
            Ok((value, false)) => ("BROKEN", 31, Unit::Fitting.text(Some(value)), 1),
            Err(why) => ("unknown", 33, why, 2),
        };
        // A limit that is broken is worse than one that cannot be told.
        status = match (status, worse) {
            (1, _) | (_, 1) => 1,
            (a, b) => a.max(b),
        };
        let word = format!("{word:<8}");
        let word = match is_coloured {
            true => format!("\x1b[{colour}m{word}\x1b[0m"),
            false => word,
        };
        let _ = writeln!(out, "{word}{}: {about}", limit.text);
    }
    Ok(verdict(status, print(&out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_people_write_them() {
        let limit = Limit::parse("runq.p99  of web.service < 5ms").unwrap();
        assert_eq!(limit.text, "runq.p99 of web.service < 5ms");
        assert_eq!(
            (limit.below, limit.group.as_deref()),
            (5_000_000, Some("web.service"))
        );
        assert_eq!(
            limit.expression(),
            "histogram_quantile(0.99, sum by (le) (rate(schedhist_group_runq_seconds_bucket\
             {group=~\"(.*/)?web\\\\.service\"}[5m]))) >= 0.005"
        );
        let limit = Limit::parse("offcpu.max<1s").unwrap();
        assert_eq!((limit.quantile, limit.below), (None, 1_000_000_000));
        for wrong in [
            "runq",
            "runq.p99",
            "runq.p99 < 5",
            "runq.p0 < 5ms",
            "runq.99 < 5ms",
            ".p9 < 5ms",
            "runq.p99 > 5ms",
            "runq.p99 < 5ms of web",
            "runq.mean < 5ms",
        ] {
            assert_eq!(Limit::parse(wrong), None, "{wrong}");
        }
    }
}
