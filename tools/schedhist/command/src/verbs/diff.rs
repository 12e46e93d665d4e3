// SPDX-License-Identifier: GPL-2.0

//! `diff`: compares repeated runs, and says "different" only where that can be known.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use schedhist_core::{
    compare::{self, Line, LEVEL, MIN_RUNS},
    distribution::{Quantile, MIN_BEYOND},
    engine::idle::WaitSums,
    gather::Gather,
    units::Unit,
    window,
};

use crate::{
    cli::Diff,
    error::{verdict, Error, Result},
    options::{Parsed, Style},
    output::{note, print},
    recordings::runs::{self, Run, Side, COMMAND, MACHINE},
    render,
    table::{Cell, Column, Table},
};

/// What both sides are called.
pub const SIDES: [&str; 2] = ["A", "B"];

const TOO_FEW: &str = "too few samples";

/// A condition that makes `diff` fail.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    metric: String,
    quantile: Quantile,
    /// By how many percent B may be above A.
    percent: f64,
}

impl Rule {
    /// Parses a rule such as `runq:p99:+20%`.
    pub fn parse(text: &str) -> Parsed<Self> {
        let parts: Vec<_> = text.split(':').collect();
        let rule = match parts[..] {
            [metric, quantile, percent] => Some((metric, quantile, percent)),
            _ => None,
        };
        let rule = rule.and_then(|(metric, quantile, percent)| {
            let percent: f64 = percent.strip_prefix('+')?.strip_suffix('%')?.parse().ok()?;
            Some(Self {
                text: text.to_owned(),
                metric: metric.to_owned(),
                quantile: Quantile::parse(quantile)?,
                percent: Some(percent).filter(|p| p.is_finite() && *p >= 0.0)?,
            })
        });
        rule.ok_or_else(|| "a rule such as runq:p99:+20%".to_owned())
    }
}

/// A row of the comparison.
struct Row {
    metric: String,
    quantile: Quantile,
    /// The medians of both; `None` if there are too few samples beyond the quantile.
    values: Option<(u64, u64)>,
    verdict: &'static str,
    p: Option<f64>,
}

impl Row {
    /// Returns by how many percent the second value is above the first.
    fn change(&self) -> Option<f64> {
        let (a, b) = self.values?;
        Some((b as f64 - a as f64) * 100.0 / (a as f64).max(1.0))
    }

    /// Returns the first value, or the second one.
    fn value(&self, side: usize) -> Option<u64> {
        self.values.map(|(a, b)| [a, b][side])
    }
}

pub fn refuse(why: String) -> Error {
    Error::new(why).of_trouble()
}

pub fn diff(args: &Diff) -> Result<u8> {
    let style = Style::new(&args.style);
    let comparison = Comparison::new(&args.metrics, &args.fail_above, &style);
    let of = |path: &Path| {
        runs::of_path(path, &comparison.metrics, &args.when).map_err(Error::of_trouble)
    };
    comparison.compare(&of(&args.a)?, &of(&args.b)?, None, &style)
}

/// What is compared, and by which rules.
pub struct Comparison<'a> {
    pub metrics: Vec<String>,
    quantiles: Vec<Quantile>,
    rules: &'a [Rule],
}

impl<'a> Comparison<'a> {
    /// Adds what the rules need.
    pub fn new(metrics: &[String], rules: &'a [Rule], style: &Style) -> Self {
        let (mut metrics, mut quantiles) = (metrics.to_vec(), style.quantiles.clone());
        for rule in rules {
            if !metrics.contains(&rule.metric) {
                metrics.push(rule.metric.clone());
            }
            if !quantiles.contains(&rule.quantile) {
                quantiles.push(rule.quantile);
            }
        }
        if metrics.is_empty() {
            metrics.push("runq".to_owned());
        }
        Self {
            metrics,
            quantiles,
            rules,
        }
    }

    /// Prints the comparison; `names` are those of A and B, if known. Returns the status.
    pub fn compare(
        &self,
        a: &Side,
        b: &Side,
        names: Option<&[String; 2]>,
        style: &Style,
    ) -> Result<u8> {
        comparable(a, b)?;
        let all: Vec<_> = a.runs.iter().chain(&b.runs).collect();
        let (scope, whose) = scope_of(&all, &self.metrics)?;
        let rows = rows(&a.runs, &b.runs, scope, &self.metrics, &self.quantiles)?;
        let printed = print(&show(a, b, whose, &rows, names, style));
        Ok(verdict(
            judge(self.rules, &rows),
            printed.map_err(Error::of_trouble),
        ))
    }
}

/// Returns what all runs have samples of, and what to call it. Refuses those of a command beside
/// those of what `run` was attached to.
fn scope_of(all: &[&Run], metrics: &[String]) -> Result<(&'static str, &'static str)> {
    let has = |run: &&Run| metrics.iter().all(|m| run.histogram(COMMAND, m).is_some());
    if !all.iter().all(has) {
        return Ok((MACHINE, MACHINE));
    }
    let whose: BTreeSet<_> = all.iter().map(|run| run.whose()).gather();
    match whose.first().filter(|_| whose.len() == 1) {
        Some(whose) => Ok((COMMAND, whose)),
        None => {
            let whose: Vec<_> = whose.into_iter().collect();
            let whose = whose.join(" and of a ");
            let why = format!("these cannot be compared: the runs are of a {whose}");
            Err(refuse(why))
        }
    }
}

/// Refuses what cannot be compared.
fn comparable(a: &Side, b: &Side) -> Result {
    let all = a.runs.iter().chain(&b.runs);
    for (key, what) in [
        ("precision", "precision"),
        ("cpus", "number of CPUs"),
        ("cpu_list", "list of CPUs"),
        ("metrics_on", "set of metrics that are on"),
        ("module", "version of the module"),
    ] {
        let mut values: Vec<_> = all.clone().filter_map(|run| run.pairs.get(key)).collect();
        values.sort_unstable();
        values.dedup();
        if values.len() > 1 {
            let values = values.join(" and ");
            let why = format!("these cannot be compared: the {what} is {values}");
            return Err(refuse(why));
        }
    }
    Ok(())
}

fn rows(
    a: &[Run],
    b: &[Run],
    scope: &str,
    metrics: &[String],
    quantiles: &[Quantile],
) -> Result<Vec<Row>> {
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for metric in metrics {
        let of = |run: &Run| run.histogram(scope, metric).cloned();
        let (Some(of_a), Some(of_b)) = (
            a.iter().map(of).collect::<Option<Vec<_>>>(),
            b.iter().map(of).collect::<Option<Vec<_>>>(),
        ) else {
            let why = format!("there is no metric '{metric}' in all runs");
            return Err(refuse(why));
        };
        for quantile in quantiles {
            if of_a.iter().chain(&of_b).any(|d| !d.supports(*quantile)) {
                rows.push(Row {
                    metric: metric.clone(),
                    quantile: *quantile,
                    values: None,
                    verdict: TOO_FEW,
                    p: None,
                });
                continue;
            }
            let values = |all: &[schedhist_core::distribution::Distribution]| {
                all.iter()
                    .filter_map(|d| d.quantile_upper(*quantile))
                    .collect::<Vec<_>>()
            };
            let line = Line {
                a: values(&of_a),
                b: values(&of_b),
            };
            let (Some(median_a), Some(median_b)) =
                (compare::median(&line.a), compare::median(&line.b))
            else {
                continue;
            };
            let scheme = of_a[0].scheme;
            let bounds = scheme.bounds(scheme.index(median_a.max(median_b)));
            let width = bounds.upper.saturating_sub(bounds.lower).saturating_add(1);
            let is_same = median_a.abs_diff(median_b) < width;
            rows.push(Row {
                metric: metric.clone(),
                quantile: *quantile,
                values: Some((median_a, median_b)),
                verdict: if is_same {
                    "same bucket"
                } else {
                    "cannot tell"
                },
                p: None,
            });
            lines.push(line);
        }
    }
    let tested = rows.iter_mut().filter(|row| row.values.is_some());
    for (row, p) in tested.zip(compare::p_values(&lines).unwrap_or_default()) {
        row.p = Some(p);
        if p <= LEVEL && row.verdict != "same bucket" {
            row.verdict = "different";
        }
    }
    Ok(rows)
}

/// Returns what readers of the comparison should know.
fn notes(a: &Side, b: &Side) -> Vec<String> {
    let mut notes = Vec::new();
    if a.runs.len() < MIN_RUNS || b.runs.len() < MIN_RUNS {
        notes.push(format!(
            "no test: it needs {MIN_RUNS} runs of each, better 6: -r 6"
        ));
    } else if !is_interleaved(&a.runs, &b.runs) {
        let text = "all runs of one side came before those of the other: what else changed in \
            between looks like a difference; interleave them with run --append";
        notes.push(text.to_owned());
    }
    for (name, side) in SIDES.into_iter().zip([a, b]) {
        let of_runs = side.runs.iter().flat_map(Run::notes);
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for note in side.marks.iter().cloned().chain(of_runs) {
            *seen.entry(note).or_default() += 1;
        }
        notes.extend(seen.into_iter().map(|(note, times)| match times {
            1 => format!("{name}: {note}"),
            times => format!("{name}, {times} times: {note}"),
        }));
    }
    notes
}

fn show(
    a: &Side,
    b: &Side,
    scope: &str,
    rows: &[Row],
    names: Option<&[String; 2]>,
    style: &Style,
) -> String {
    let unit = style.unit;
    // Three significant digits are short; all digits of a second in microseconds are not.
    let name = if unit == Unit::Fitting { 23 } else { 6 };
    let change = |change| Cell::Text(format!("{change:.1}%"));
    let side = |side: usize| names.map_or(Cell::Absent, |names| Cell::from(&names[side]));
    let columns = vec![
        Column::json("a", move |_| side(0)),
        Column::json("b", move |_| side(1)),
        Column::new("scope", |_| Cell::from(scope)),
        Column::new("metric", |row: &&Row| Cell::from(&row.metric)).left("metric", name),
        Column::new("quantile", |row: &&Row| {
            Cell::Text(row.quantile.to_string())
        })
        .left("quantile", 8),
        Column::new("a_ns", |row: &&Row| Cell::time(row.value(0))).right("A", 8),
        Column::new("b_ns", |row: &&Row| Cell::time(row.value(1))).right("B", 8),
        Column::text(|row: &&Row| row.change().map_or(Cell::Unknown, change)).right("change", 8),
        Column::new("p", |row: &&Row| {
            row.p.map_or(Cell::Unknown, Cell::Probability)
        })
        .right("p", 7),
        Column::new("verdict", |row: &&Row| Cell::from(row.verdict))
            .left("verdict", 0)
            .gap(2),
    ];
    let is_minor = |row: &&Row| row.values.is_none();
    let few = rows.iter().filter(&is_minor);
    let few: Vec<_> = few
        .map(|row| format!("{} {}", row.metric, row.quantile))
        .collect();
    let few = few.join(", ");
    let mut table = Table::new("schedhist.diff.v1", columns, rows.iter().collect());
    let legend = SIDES.into_iter().zip(names.into_iter().flatten());
    table
        .title
        .extend(legend.map(|(side, name)| format!("{side}: {name}")));
    table.title.push(format!(
        "schedhist: {} run{} of A and {} of B, medians of the {scope}{}",
        a.runs.len(),
        if a.runs.len() == 1 { "" } else { "s" },
        b.runs.len(),
        render::in_unit(unit)
    ));
    table.is_minor = Box::new(is_minor);
    if !few.is_empty() {
        let note = format!("note: fewer than {MIN_BEYOND} samples beyond {few}");
        table.after.push(note);
    }
    for (name, side) in SIDES.into_iter().zip([a, b]) {
        let mut waits = WaitSums::default();
        let runs = side.runs.iter();
        runs.for_each(|run| run.add_long_waits(&mut waits));
        let why = window::why(&waits).map(|why| format!("{name}: {why}"));
        table.after.extend(why);
    }
    table.notes = notes(a, b);
    table.render(style, &mut false)
}

/// Returns whether the runs of A and B took turns at least once, by the times at which they began.
fn is_interleaved(a: &[Run], b: &[Run]) -> bool {
    let begun = |runs: &[Run]| {
        runs.iter()
            .filter_map(|run| run.pairs.number::<u64>("begun_unix_ns"))
            .collect::<Vec<_>>()
    };
    let (a, b) = (begun(a), begun(b));
    let before = |a: &[u64], b: &[u64]| a.iter().max() < b.iter().min();
    !before(&a, &b) && !before(&b, &a)
}

/// Returns the status of all rules together: 1 if one is broken, which is that the difference is
/// above the limit, and no chance; else 2 if one cannot be told.
fn judge(rules: &[Rule], rows: &[Row]) -> u8 {
    let mut found = [false; 2];
    for rule in rules {
        let row = rows
            .iter()
            .find(|r| r.metric == rule.metric && r.quantile == rule.quantile);
        let (status, why) = match row.map(|row| (row.p, row.change(), row)) {
            None | Some((_, None, _)) => (2, TOO_FEW.to_owned()),
            Some((None, ..)) => (2, "cannot tell with so few runs".to_owned()),
            Some((_, Some(change), row)) if row.verdict == "different" && change > rule.percent => {
                (1, format!("it is {change:+.1}%"))
            }
            Some(_) => continue,
        };
        note(format!("{}: {why}", rule.text));
        found[status - 1] = true;
    }
    match found {
        [true, _] => 1,
        [_, true] => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use schedhist_core::{
        distribution::Distribution,
        engine::histogram::bucket::{Precision, Scheme},
        text::Pairs,
    };

    use super::*;

    #[test]
    fn scopes() {
        let run = |pairs: &str, scope: &str| {
            let none = Distribution::new(Scheme::new(Precision::new(5).unwrap()));
            Run {
                pairs: Pairs::of_lines(pairs),
                histograms: vec![(scope.to_owned(), "runq".to_owned(), none)],
            }
        };
        let of = |runs: &[Run]| {
            let runs: Vec<_> = runs.iter().collect();
            let found = scope_of(&runs, &["runq".to_owned()]);
            found.map_err(|why| why.to_string())
        };
        let command = run("", COMMAND);
        let cgroup = run("whose cgroup\n", COMMAND);
        let machine = run("", MACHINE);
        assert_eq!(
            of(&[command.clone(), command.clone()]),
            Ok((COMMAND, COMMAND))
        );
        assert_eq!(
            of(&[cgroup.clone(), cgroup.clone()]),
            Ok((COMMAND, "cgroup"))
        );
        assert_eq!(of(&[cgroup.clone(), machine]), Ok((MACHINE, MACHINE)));
        let why = of(&[command, cgroup]).unwrap_err();
        assert!(
            why.ends_with("the runs are of a cgroup and of a command"),
            "{why}"
        );
    }
}
