// SPDX-License-Identifier: GPL-2.0

//! Summaries and histograms of an interval, as text, JSON Lines or separated values.

use std::fmt::Write;

use schedhist_core::{
    distribution::Distribution,
    engine::{
        format::Escaped,
        histogram::totals::Worst,
        idle::{WaitCause, WaitPart, WaitSums},
        metric::{self, MetricSet},
    },
    raw::{LongWaits, Metric},
    units::{self, Unit},
    window::{self, Window},
};

use crate::{
    options::{Form, Style},
    output::{note, printable, wrap, WIDTH},
    source::Interval,
    table::{self, Cell, Column, Table},
};

/// Counters that mean that something is missing from the histograms. They are shown if not 0.
const LOSSES: [&str; 3] = ["untracked", "wake_unseen", "clock_backwards"];

/// The CPUs that a histogram is of.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    All,
    /// A list of them, as the user gave it.
    List(&'a str),
    Cpu(u32),
}

impl Scope<'_> {
    fn text(self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::List(list) => list.to_owned(),
            Self::Cpu(cpu) => cpu.to_string(),
        }
    }
}

/// Returns a name up to its NUL, with what is not printable escaped.
pub fn name(comm: &[u8; 16]) -> String {
    let name = comm.split(|byte| *byte == 0).next();
    Escaped(name.unwrap_or_default()).to_string()
}

pub fn comm(worst: &Worst) -> String {
    name(&worst.task.comm)
}

/// Returns the length of an interval's window in words.
pub fn span(interval: &Interval) -> String {
    span_text(interval.window.span)
}

pub fn span_text(ns: Option<u64>) -> String {
    match ns {
        None => "since the module was loaded".to_owned(),
        Some(ns) => format!("in {}", Unit::Fitting.text(Some(ns))),
    }
}

/// Returns the state of the laws in words, and lines about those that do not hold.
pub fn laws(interval: &Interval) -> (String, Vec<String>) {
    let checked = interval.laws();
    // Those of several recordings are among the notes, with their names.
    let violations = checked
        .violations
        .iter()
        .filter(|_| interval.laws.is_none());
    let violations = violations.map(ToString::to_string);
    let text = match (checked.violations.len(), checked.checked) {
        (0, 0) => "laws not checked: metrics are off".to_owned(),
        (0, _) => "laws ok".to_owned(),
        (n, all) => format!("{n} of {all} laws FAIL"),
    };
    (text, violations.collect())
}

/// Returns the counters that mean loss and are not 0, in words.
fn losses(interval: &Interval) -> Option<String> {
    let counters = LOSSES.iter().filter_map(|name| {
        let count = interval.window.counter(name).filter(|count| *count != 0)?;
        Some(format!("{name} {count}"))
    });
    let counters: Vec<_> = counters.collect();
    (!counters.is_empty()).then(|| format!("not in histograms: {}", counters.join(", ")))
}

/// Returns in words for how much of the long waits another CPU was idle, and what began them.
fn long_waits(all: Option<&LongWaits>, unit: Unit) -> Vec<String> {
    // While it is off, there are those of before.
    let all = all.filter(|all| all.limit != 0);
    let Some((all, served)) = all.and_then(|all| Some((all, served(&all.sums, unit)?))) else {
        return Vec::new();
    };
    let which = match all.is_one_limit {
        true => format!("waits of {} or more", unit.text(Some(all.limit))),
        false => "long waits".to_owned(),
    };
    let waits = format!("{} {which} took {served}", all.sums.waits());
    let causes = format!("their causes: {}", window::causes(&all.sums));
    vec![waits, causes]
}

/// Returns how long some long waits took, and in words for how much of that another CPU was idle.
pub fn served(sums: &WaitSums, unit: Unit) -> Option<String> {
    let share = window::served(sums)?;
    let waited = unit.text(Some(sums.part(WaitPart::Waited)));
    Some(format!(
        "{waited}: idle CPUs could have served {share} of it"
    ))
}

/// Returns which of the metrics that are wanted are off, in words: they have no samples, which is
/// not the same as that nothing happened.
pub fn off(window: &Window, is_wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let all = window.names.metrics.iter();
    let off = all.filter(|metric| is_wanted(&metric.name) && !window.is_on(metric));
    let (before, now): (Vec<_>, Vec<_>) = off.partition(|metric| metric.is_in(window.on_at_end));
    let text = |off: &[&Metric], [is, are]: [&str; 2], more: &str| {
        let names: Vec<_> = off.iter().map(|metric| metric.name.as_str()).collect();
        let are = if off.len() == 1 { is } else { are };
        (!off.is_empty()).then(|| format!("{} {are} off{more}", names.join(", ")))
    };
    let remedy = match now.iter().all(|metric| is_default(&metric.name)) {
        true => ": schedhist ctl metrics default",
        false => ": schedhist ctl metrics all",
    };
    let now = text(&now, ["is", "are"], remedy);
    let before = text(&before, ["was", "were"], " at the beginning");
    now.into_iter().chain(before).collect()
}

/// Returns whether a metric is on unless somebody has switched it off.
pub fn is_default(name: &str) -> bool {
    let is_part = |part: &metric::Metric| MetricSet::DEFAULT.contains(*part);
    let mut all = metric::ShownMetric::ALL.iter();
    all.any(|metric| metric.name == name && metric.parts.iter().all(is_part))
}

/// Returns the unit for a headline, if the user chose one.
pub fn in_unit(unit: Unit) -> String {
    match unit.name() {
        "" => String::new(),
        name => format!(", in {name}"),
    }
}

pub fn notes(interval: &Interval) -> Vec<String> {
    let more = interval.in_progress.len().saturating_sub(2);
    let in_progress = interval.in_progress.iter().take(2);
    let in_progress = in_progress.map(|text| format!("in progress: {text}"));
    let more = (more != 0).then(|| format!("{more} more slices and waits are in progress"));
    interval
        .notes
        .iter()
        .cloned()
        .chain(in_progress)
        .chain(more)
        .chain(losses(interval))
        .chain(laws(interval).1)
        .collect()
}

/// Appends notes to the output if it is text. Otherwise programs read it, and the notes go to
/// standard error.
pub fn tell(out: &mut String, notes: &[String], style: &Style) {
    for text in notes.iter().map(|text| printable(text)) {
        match style.form {
            Form::Text => wrap(out, &format!("note: {text}")),
            Form::Json | Form::Csv(_) => note(text),
        }
    }
}

/// A histogram: of which metric, and of which CPUs.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    pub metric: &'a Metric,
    pub scope: Scope<'a>,
    pub samples: Distribution,
    /// How many tasks waited on average.
    waiting: Option<f64>,
}

impl<'a> Row<'a> {
    /// Returns the histogram of the CPUs that `wanted` accepts.
    pub fn new(
        interval: &Interval,
        metric: &'a Metric,
        scope: Scope<'a>,
        wanted: impl Fn(u32) -> bool,
    ) -> Self {
        Self {
            metric,
            scope,
            samples: interval.window.distribution(metric, &wanted),
            waiting: interval.window.waiting(metric, &wanted),
        }
    }

    /// Returns the number of tasks that waited on average in words, if it is known.
    fn waiting(&self) -> Option<String> {
        let waiting = units::tasks(Some(self.waiting?));
        Some(format!("{waiting} tasks waiting on average"))
    }
}

/// Returns a table with a row for each histogram of an interval.
fn table<'a>(interval: &'a Interval, rows: Vec<Row<'a>>, style: &Style) -> Table<'a, Row<'a>> {
    let mut columns = vec![
        Column::new("unix_ns", |_| interval.unix_ns.into()),
        Column::json("time_ns", |_| interval.window.end.into()),
        Column::new("span_ns", |_| Cell::time(interval.window.span)),
        Column::new("metric", |row: &Row<'_>| Cell::from(&row.metric.name)).left("metric", 23),
        Column::new("cpu", |row: &Row<'_>| Cell::Text(row.scope.text())),
        Column::json("on", |row: &Row<'_>| {
            Cell::Flag(interval.window.is_on(row.metric))
        }),
    ];
    columns.extend(table::distribution(
        style,
        table::width(style.unit),
        &style.quantiles,
        |row: &Row<'a>| Some(&row.samples),
    ));
    columns.push(Column::new("tasks_waiting", |row: &Row<'_>| {
        match row.metric.is_of_waits() {
            true => Cell::Tasks(row.waiting),
            false => Cell::Absent,
        }
    }));
    Table::new("schedhist.histogram.v1", columns, rows)
}

/// Returns all metrics of an interval in the form that the user chose.
pub fn summary(interval: &Interval, style: &Style, is_headed: &mut bool) -> String {
    let rows = interval.window.names.metrics.iter();
    let rows = rows.map(|metric| Row::new(interval, metric, Scope::All, |_| true));
    let rows: Vec<_> = rows.collect();
    let mut table = table(interval, rows, style);
    let switches = interval.window.counter("switches").unwrap_or_default();
    table.title.push(format!(
        "schedhist: {} CPUs, {switches} switches {}{}, {}",
        interval.window.cpus.len(),
        span(interval),
        in_unit(style.unit),
        laws(interval).0
    ));
    table.is_minor = Box::new(|row| row.samples.count() == 0 && !interval.window.is_on(row.metric));
    let worst = table.rows.iter().filter_map(|row| {
        let (cpu, worst) = row.samples.worst?;
        let metric = row.metric.name.as_str();
        matches!(metric, "runq" | "oncpu" | "offcpu").then(|| {
            let value = style.unit.text(Some(worst.value));
            let task = format!("{}:{}", comm(&worst), worst.task.pid);
            format!("worst {metric}: {value}, {task} on CPU {cpu}")
        })
    });
    let waiting = table.rows.iter().find(|row| row.metric.name == "runq");
    table.after = waiting
        .and_then(Row::waiting)
        .into_iter()
        .chain(worst)
        .chain(long_waits(interval.window.long_waits.as_ref(), style.unit))
        .collect();
    table.notes = off(&interval.window, &is_default);
    table.notes.extend(notes(interval));
    table.render(style, is_headed) + &counters(interval, &table.notes, style)
}

/// Returns histograms of an interval in the form that the user chose: for people with bars, `bars`
/// of them to a power of two.
pub fn histograms(
    interval: &Interval,
    rows: Vec<Row<'_>>,
    bars: u64,
    style: &Style,
    is_headed: &mut bool,
) -> String {
    if style.form == Form::Text {
        let one = |row: &Row<'_>| histogram(interval, row, bars, style) + "\n";
        return rows.iter().map(one).collect();
    }
    let is_wanted = |name: &str| rows.iter().any(|row| row.metric.name == name);
    let mut notes = notes(interval);
    notes.extend(off(&interval.window, &is_wanted));
    let mut table = table(interval, rows, style);
    table.notes = notes;
    table.render(style, is_headed) + &counters(interval, &table.notes, style)
}

/// Returns a histogram with bars: `bars` rows to a power of two, which must be a power of two
/// itself.
fn histogram(interval: &Interval, row: &Row<'_>, bars: u64, style: &Style) -> String {
    let mut out = String::new();
    let samples = &row.samples;
    let cpu = match row.scope {
        Scope::All => String::new(),
        other => format!(", CPU {}", other.text()),
    };
    let off = match interval.window.is_on(row.metric) {
        true => "",
        false => ", metric is off",
    };
    let (name, count) = (&row.metric.name, samples.count());
    let (span, laws) = (span(interval), laws(interval).0);
    let waiting = row
        .waiting()
        .map_or(String::new(), |waiting| format!(", {waiting}"));
    wrap(
        &mut out,
        &format!("{name}{cpu}: {count} samples {span}{off}{waiting}, {laws}"),
    );
    let mut line = format!("mean {}", style.unit.text(samples.mean()));
    for quantile in &style.quantiles {
        let upper = samples.quantile_upper(*quantile);
        let _ = write!(line, "  {quantile} {}", style.unit.quantile(upper));
    }
    let mut max = format!("max {}", style.unit.max(samples.max));
    if let Some((cpu, worst)) = samples.worst {
        let _ = write!(max, " ({}:{} on CPU {cpu})", comm(&worst), worst.task.pid);
    }
    // Keep the maximum and its task together.
    if line.len() + 2 + max.len() <= WIDTH {
        wrap(&mut out, &format!("{line}  {max}"));
    } else {
        wrap(&mut out, &line);
        wrap(&mut out, &max);
    }
    self::bars(&mut out, samples, bars, style.unit);
    tell(&mut out, &notes(interval), style);
    out
}

pub fn bars(out: &mut String, distribution: &Distribution, rows: u64, unit: Unit) {
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for (bounds, count) in distribution.buckets() {
        let (lower, upper) = row(bounds.lower, rows);
        match found.last_mut() {
            Some((last, _, sum)) if *last == lower => *sum = sum.saturating_add(count),
            _ => {
                let upper = if bounds.is_overflow() {
                    u64::MAX
                } else {
                    upper.max(bounds.upper)
                };
                found.push((lower, upper, count));
            }
        }
    }
    let most = found.iter().map(|(_, _, count)| *count).max().unwrap_or(1);
    let mut next = None;
    for (lower, upper, count) in found {
        // Empty rows between others are shown, as long as there are few.
        let mut empty = next.filter(|next| *next < lower);
        for _ in 0..2 * rows.max(4) {
            let Some(first) = empty else { break };
            let (_, last) = row(first, rows);
            bar(out, first, last, 0, most, unit);
            empty = last.checked_add(1).filter(|next| *next < lower);
        }
        if empty.is_some() {
            out.push_str("...\n");
        }
        bar(out, lower, upper, count, most, unit);
        next = upper.checked_add(1);
    }
}

/// Returns the bounds of the row in which a value lies, if each power of two has `rows` rows.
fn row(value: u64, rows: u64) -> (u64, u64) {
    let octave = value.max(1).ilog2();
    let width = (1_u64 << octave) / rows.min(1 << octave);
    let lower = if value == 0 { 0 } else { value / width * width };
    // The value 0 shares a row with 1, as there is no power of two below.
    let lower = if lower <= 1 && rows == 1 { 0 } else { lower };
    let upper = if lower == 0 && rows == 1 {
        1
    } else {
        lower.saturating_add(width - 1)
    };
    (lower, upper)
}

fn bar(out: &mut String, lower: u64, upper: u64, count: u64, most: u64, unit: Unit) {
    const WIDEST: u64 = 36;
    let filled = u128::from(WIDEST) * u128::from(count) / u128::from(most.max(1));
    // At most 36.
    let bar = "*".repeat(filled as usize);
    let (lower, upper) = (unit.text(Some(lower)), unit.quantile(Some(upper)));
    let count = units::count(count);
    let _ = writeln!(out, "{lower:>13} -> {upper:<13}:{count:>9} |{bar:<36}|");
}

/// Returns a line with all counters and the state of the laws, for readers of JSON.
fn counters(interval: &Interval, notes: &[String], style: &Style) -> String {
    if style.form != Form::Json {
        return String::new();
    }
    let checked = interval.laws();
    let violations = checked.violations.iter().map(|violation| {
        Cell::object([
            ("law", Cell::from(violation.law)),
            ("cpu", violation.cpu.into()),
            ("off_by", violation.off_by.into()),
        ])
    });
    let head = [
        ("schema".into(), Cell::from("schedhist.counters.v1")),
        ("unix_ns".into(), interval.unix_ns.into()),
        ("time_ns".into(), interval.window.end.into()),
        ("span_ns".into(), Cell::time(interval.window.span)),
    ];
    let names = interval.window.names.counters.iter();
    let counters = names.map(|(_, name)| {
        let count = Cell::number(interval.window.counter(name));
        (name.clone().into(), count)
    });
    let waits = interval.window.long_waits.map(|all| {
        let parts = WaitPart::ALL.map(|part| (part.name(), all.sums.part(part)));
        let causes = WaitCause::ALL.into_iter().flat_map(|cause| {
            let (waits, ns) = all.sums.cause(cause);
            let waits = (cause.name().into(), waits.into());
            [waits].into_iter().chain(Cell::times([(cause.name(), ns)]))
        });
        let head = [
            ("limit_ns".into(), all.limit.into()),
            ("waits".into(), all.sums.waits().into()),
        ];
        let all = head.into_iter().chain(Cell::times(parts)).chain(causes);
        ("long_waits".into(), Cell::object(all))
    });
    let tail = [
        ("laws_checked".into(), Cell::Number(checked.checked as i128)),
        ("laws_failed".into(), violations.collect()),
        ("notes".into(), Cell::texts(notes)),
    ];
    let fields = head.into_iter().chain(counters).chain(waits);
    Cell::Object(fields.chain(tail).collect()).line()
}
