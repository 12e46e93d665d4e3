// SPDX-License-Identifier: GPL-2.0

//! Summaries and histograms of a frame, as text, JSON Lines or separated values.

use std::fmt::Write;

use schedhist_core::{
    distribution::Distribution,
    engine::{
        self,
        format::text::Escaped,
        histogram::totals::Worst,
        metric::{Metric, MetricSet},
    },
    json::{quoted, Object},
    laws,
    raw::Series,
    units::{self, Unit},
    window::Window,
};

pub use crate::failure::{printable, wrap};

use crate::{
    failure::{note, WIDTH},
    options::{Form, Style},
    source::Frame,
};

/// Counters that mean that something is missing from the histograms. They are shown if not 0.
const LOSSES: [&str; 3] = ["untracked", "wake_unseen", "clock_backwards"];

/// The CPUs that a histogram is of.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// All of them.
    All,
    /// A list of them, as the user gave it.
    List(&'a str),
    /// One.
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

/// Returns the name of the task of a sample.
pub fn comm(worst: &Worst) -> String {
    name(&worst.task.comm)
}

/// Returns the length of a frame's window in words.
pub fn span(frame: &Frame) -> String {
    match frame.window.span {
        None => "since the module was loaded".to_owned(),
        Some(ns) => format!("in {}", Unit::Fitting.text(Some(ns))),
    }
}

/// Returns the state of the laws in words, and lines about those that do not hold.
pub fn laws(frame: &Frame) -> (String, Vec<String>) {
    let checked = laws::check(&frame.window, frame.read_ns);
    let violations = checked.violations.iter().map(|violation| {
        let sign = if violation.off_by < 0 { "less" } else { "more" };
        let by = violation.off_by.unsigned_abs();
        format!(
            "cpu {}: {} does not hold: the left side is {by} {sign}",
            violation.cpu, violation.law
        )
    });
    let text = match (checked.violations.len(), checked.checked) {
        (0, 0) => "laws not checked: metrics are off".to_owned(),
        (0, _) => "laws ok".to_owned(),
        (n, all) => format!("{n} of {all} laws FAIL"),
    };
    (text, violations.collect())
}

/// Returns the counters that mean loss and are not 0, in words.
fn losses(frame: &Frame) -> Option<String> {
    let counters = LOSSES.iter().filter_map(|name| {
        let count = frame.window.counter(name).filter(|count| *count != 0)?;
        Some(format!("{name} {count}"))
    });
    let counters: Vec<_> = counters.collect();
    (!counters.is_empty()).then(|| format!("not in histograms: {}", counters.join(", ")))
}

/// Returns which of the metrics that are wanted are off, in words: they have no samples, which is
/// not the same as that nothing happened.
pub fn off(window: &Window, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let series = window.names.series.iter();
    let off = series.filter(|series| is_wanted(&series.name) && !window.is_on(series));
    let off: Vec<_> = off.map(|series| series.name.as_str()).collect();
    let set = match off.iter().all(|name| is_default(name)) {
        true => "default",
        false => "all",
    };
    let are = if off.len() == 1 { "is" } else { "are" };
    let names = off.join(", ");
    (!off.is_empty()).then(|| format!("{names} {are} off: schedhist ctl metrics {set}"))
}

/// Returns whether a metric is on unless somebody has switched it off.
pub fn is_default(name: &str) -> bool {
    let is_part = |part: &Metric| MetricSet::DEFAULT.contains(*part);
    let mut all = engine::metric::Series::ALL.iter();
    all.any(|series| series.name == name && series.parts.iter().all(is_part))
}

/// Returns the unit for a headline, if the user chose one.
pub fn in_unit(unit: Unit) -> String {
    match unit.name() {
        "" => String::new(),
        name => format!(", in {name}"),
    }
}

/// Returns all notes of a frame.
pub fn all_notes(frame: &Frame, violations: &[String]) -> Vec<String> {
    let more = frame.in_progress.len().saturating_sub(2);
    let in_progress = frame.in_progress.iter().take(2);
    let in_progress = in_progress.map(|text| format!("in progress: {text}"));
    let more = (more != 0).then(|| format!("{more} more stays and waits are in progress"));
    { frame.notes.iter().cloned() }
        .chain(in_progress)
        .chain(more)
        .chain(losses(frame))
        .chain(violations.to_vec())
        .collect()
}

/// Appends the notes of a frame.
pub fn notes(out: &mut String, frame: &Frame, violations: &[String]) {
    for line in all_notes(frame, violations) {
        wrap(out, &format!("note: {line}"));
    }
}

/// Sends the notes of a frame, and that metrics are off, to standard error if the output has no
/// place for them.
pub fn notes_beside(frame: &Frame, is_wanted: impl Fn(&str) -> bool, style: &Style) {
    let mut notes = all_notes(frame, &laws(frame).1);
    notes.extend(off(&frame.window, is_wanted));
    tell_beside(&notes, style);
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

/// Sends notes to standard error if the output has no place for them.
pub fn tell_beside(notes: &[String], style: &Style) {
    if let Form::Csv(_) = style.form {
        tell(&mut String::new(), notes, style);
    }
}

/// Returns the table of all metrics.
pub fn summary(frame: &Frame, style: &Style) -> String {
    let mut out = String::new();
    let (state, violations) = laws(frame);
    let switches = frame.window.counter("switches").unwrap_or_default();
    let cpus = frame.window.cpus.len();
    let unit = in_unit(style.unit);
    wrap(
        &mut out,
        &format!(
            "schedhist: {cpus} CPUs, {switches} switches {}{unit}, {state}",
            span(frame)
        ),
    );
    // Three significant digits are short; all digits of a second in microseconds are not.
    let width = if style.unit == Unit::Fitting { 8 } else { 14 };
    // The name, the count and the maximum leave room for five quantiles, or for two.
    let shown = style.quantiles.len().min((WIDTH - 23 - 9 - width) / width);
    let _ = write!(out, "{:<23}{:>9}", "metric", "count");
    for quantile in &style.quantiles[..shown] {
        let _ = write!(out, "{:>width$}", quantile.to_string());
    }
    let _ = writeln!(out, "{:>width$}", "max");
    let mut worst = Vec::new();
    for series in &frame.window.names.series {
        let distribution = frame.window.distribution(series, |_| true);
        if distribution.count() == 0 && !frame.window.is_on(series) {
            continue;
        }
        let count = units::count(distribution.count());
        let _ = write!(out, "{:<23}{count:>9}", series.name);
        for quantile in &style.quantiles[..shown] {
            let upper = distribution.quantile_upper(*quantile);
            let _ = write!(out, "{:>width$}", style.unit.quantile(upper));
        }
        let _ = writeln!(out, "{:>width$}", style.unit.max(distribution.max));
        if let (Some((cpu, sample)), "runq" | "oncpu" | "offcpu") =
            (distribution.worst, series.name.as_str())
        {
            let task = format!("{}:{}", comm(&sample), sample.task.pid);
            let value = style.unit.text(Some(sample.value));
            worst.push(format!(
                "worst {}: {value}, {task} on CPU {cpu}",
                series.name
            ));
        }
    }
    for line in worst {
        wrap(&mut out, &line);
    }
    out += &cut_note(shown, style);
    if let Some(off) = off(&frame.window, is_default) {
        wrap(&mut out, &format!("note: {off}"));
    }
    notes(&mut out, frame, &violations);
    out
}

/// Returns a note if not all percentiles that were asked for are shown.
pub fn cut_note(shown: usize, style: &Style) -> String {
    let mut out = String::new();
    if shown < style.quantiles.len() {
        let text = format!("note: {shown} percentiles fit into 80 columns; -j and -x print all");
        wrap(&mut out, &text);
    }
    out
}

/// What a histogram is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The time.
    pub frame: &'a Frame,
    /// What [`laws`] says of it.
    pub laws: &'a (String, Vec<String>),
    /// The metric.
    pub series: &'a Series,
    /// The CPUs.
    pub scope: Scope<'a>,
}

/// Returns a histogram with bars: `rows` rows to a power of two, which must be a power of two
/// itself.
fn histogram(about: About<'_>, distribution: &Distribution, rows: u64, style: &Style) -> String {
    let mut out = String::new();
    let About {
        frame,
        laws: (state, violations),
        series,
        scope,
    } = about;
    let cpu = match scope {
        Scope::All => String::new(),
        other => format!(", CPU {}", other.text()),
    };
    let off = if frame.window.is_on(series) {
        ""
    } else {
        ", metric is off"
    };
    wrap(
        &mut out,
        &format!(
            "{}{cpu}: {} samples {}{off}, {state}",
            series.name,
            distribution.count(),
            span(frame)
        ),
    );
    let mut line = format!("mean {}", style.unit.text(distribution.mean()));
    for quantile in &style.quantiles {
        let upper = distribution.quantile_upper(*quantile);
        let _ = write!(line, "  {quantile} {}", style.unit.quantile(upper));
    }
    let mut max = format!("max {}", style.unit.max(distribution.max));
    if let Some((cpu, worst)) = distribution.worst {
        let _ = write!(max, " ({}:{} on CPU {cpu})", comm(&worst), worst.task.pid);
    }
    // Keep the maximum and its task together.
    if line.len() + 2 + max.len() <= WIDTH {
        wrap(&mut out, &format!("{line}  {max}"));
    } else {
        wrap(&mut out, &line);
        wrap(&mut out, &max);
    }
    bars(&mut out, distribution, rows, style.unit);
    notes(&mut out, frame, violations);
    out
}

/// Appends the rows of a histogram.
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
            one_bar(out, first, last, 0, most, unit);
            empty = last.checked_add(1).filter(|next| *next < lower);
        }
        if empty.is_some() {
            out.push_str("...\n");
        }
        one_bar(out, lower, upper, count, most, unit);
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

fn one_bar(out: &mut String, lower: u64, upper: u64, count: u64, most: u64, unit: Unit) {
    const WIDEST: u64 = 36;
    let filled = u128::from(WIDEST) * u128::from(count) / u128::from(most.max(1));
    // At most 36.
    let bar = "*".repeat(filled as usize);
    let (lower, upper) = (unit.text(Some(lower)), unit.quantile(Some(upper)));
    let count = units::count(count);
    let _ = writeln!(out, "{lower:>13} -> {upper:<13}:{count:>9} |{bar:<36}|");
}

/// Returns the JSON object of a histogram: `docs/tool.md` describes the fields.
pub fn json(
    frame: &Frame,
    series: &Series,
    scope: Scope<'_>,
    distribution: &Distribution,
    style: &Style,
) -> String {
    let object = Object::new("schedhist.histogram.v1")
        .raw("unix_ns", frame.unix_ns)
        .raw("time_ns", frame.window.end)
        .optional("span_ns", frame.window.span)
        .string("metric", &series.name)
        .string("cpu", &scope.text())
        .raw("on", frame.window.is_on(series));
    let mut line = distribution_json(object, distribution, style)
        .array("notes", frame.notes.iter().map(|note| quoted(note)))
        .end();
    line.push('\n');
    line
}

/// Adds the figures of a distribution to an object.
pub fn distribution_json(object: Object, distribution: &Distribution, style: &Style) -> Object {
    let upper = |upper: u64| match upper {
        u64::MAX => "null".to_owned(),
        upper => upper.to_string(),
    };
    let quantiles = style.quantiles.iter().filter_map(|quantile| {
        let bounds = distribution.quantile(*quantile)?;
        let (name, last) = (quantile.to_string(), upper(bounds.upper));
        Some(format!(
            "{{\"name\":{},\"lower\":{},\"upper\":{last}}}",
            quoted(&name),
            bounds.lower
        ))
    });
    let buckets = distribution.buckets();
    let buckets = buckets.map(|(b, count)| format!("[{},{},{count}]", b.lower, upper(b.upper)));
    let mut object = object
        .raw("count", distribution.count())
        .raw("sum_ns", distribution.sum)
        .optional("min_ns", distribution.min)
        .optional(
            "max_ns",
            distribution.max.value().filter(|max| *max != u64::MAX),
        )
        .raw("max_is_exact", distribution.max.is_exact());
    if let Some((cpu, worst)) = distribution.worst {
        object = object
            .raw("max_cpu", cpu)
            .raw("max_pid", worst.task.pid)
            .string("max_comm", &comm(&worst))
            .raw("max_time_ns", worst.time);
    }
    object
        .array("quantiles", quantiles)
        .array("buckets", buckets)
}

/// Returns the JSON object of all counters, with the state of the laws.
pub fn counters_json(frame: &Frame) -> String {
    let mut object = Object::new("schedhist.counters.v1")
        .raw("unix_ns", frame.unix_ns)
        .raw("time_ns", frame.window.end)
        .optional("span_ns", frame.window.span);
    for (_, name) in &frame.window.names.counters {
        object = object.optional(name, frame.window.counter(name));
    }
    let checked = laws::check(&frame.window, frame.read_ns);
    let violations = checked.violations.iter().map(|violation| {
        Object::default()
            .string("law", violation.law)
            .raw("cpu", violation.cpu)
            .raw("off_by", violation.off_by)
            .end()
    });
    let mut line = object
        .raw("laws_checked", checked.checked)
        .array("laws_failed", violations)
        .array("notes", frame.notes.iter().map(|note| quoted(note)))
        .end();
    line.push('\n');
    line
}

/// Returns the names of the columns of a distribution: see [`csv_values`].
pub fn csv_columns(style: &Style) -> Vec<String> {
    let mut columns = vec!["count".to_owned(), "sum_ns".to_owned()];
    let quantiles = style.quantiles.iter();
    columns.extend(quantiles.map(|quantile| format!("{quantile}_ns")));
    columns.extend(["max_ns", "max_is_exact"].map(str::to_owned));
    columns
}

/// Returns the values of a distribution: a quantile is the upper bound of its bucket.
pub fn csv_values(distribution: &Distribution, style: &Style) -> Vec<String> {
    let mut values = vec![
        distribution.count().to_string(),
        distribution.sum.to_string(),
    ];
    let quantiles = style.quantiles.iter();
    values.extend(quantiles.map(|quantile| csv_number(distribution.quantile_upper(*quantile))));
    values.push(csv_number(distribution.max.value()));
    values.push(u8::from(distribution.max.is_exact()).to_string());
    values
}

/// Returns the text of a value: nothing stands for none.
pub fn csv_number(number: Option<u64>) -> String {
    match number {
        Some(u64::MAX) => "inf".to_owned(),
        number => number.map_or(String::new(), |number| number.to_string()),
    }
}

/// Returns a row of values: one that would not be one value otherwise is quoted, as in RFC 4180.
pub fn csv_row(values: &[impl AsRef<str>], separator: &str) -> String {
    let quoted = values.iter().map(AsRef::as_ref).map(|value| {
        // Any part of a separator: with its neighbour's, it might make one.
        let is_special = |c| separator.contains(c) || matches!(c, '"' | '\n' | '\r');
        if value.contains(is_special) {
            format!("\"{}\"", value.replace('"', "\"\""))
        } else {
            value.to_owned()
        }
    });
    quoted.collect::<Vec<_>>().join(separator) + "\n"
}

/// Returns the names of the columns that [`csv`] prints.
pub fn csv_head(style: &Style, separator: &str) -> String {
    let mut columns = ["unix_ns", "span_ns", "metric", "cpu"]
        .map(str::to_owned)
        .to_vec();
    columns.extend(csv_columns(style));
    csv_row(&columns, separator)
}

/// Returns a row of values.
pub fn csv(
    frame: &Frame,
    series: &Series,
    scope: Scope<'_>,
    distribution: &Distribution,
    style: &Style,
    separator: &str,
) -> String {
    let mut values = vec![
        frame.unix_ns.to_string(),
        csv_number(frame.window.span),
        series.name.clone(),
        scope.text(),
    ];
    values.extend(csv_values(distribution, style));
    csv_row(&values, separator)
}

/// Returns a histogram in the form that the user chose.
pub fn one(about: About<'_>, distribution: &Distribution, rows: u64, style: &Style) -> String {
    let About {
        frame,
        series,
        scope,
        ..
    } = about;
    match &style.form {
        Form::Text => histogram(about, distribution, rows, style) + "\n",
        Form::Json => json(frame, series, scope, distribution, style),
        Form::Csv(separator) => csv(frame, series, scope, distribution, style, separator),
    }
}

/// Returns all metrics of a frame in the form that the user chose, without [`head`].
pub fn all(frame: &Frame, style: &Style) -> String {
    let each = |one: &dyn Fn(&Series, &Distribution) -> String| {
        let series = frame.window.names.series.iter();
        let series = series.map(|s| one(s, &frame.window.distribution(s, |_| true)));
        series.collect::<String>()
    };
    match &style.form {
        Form::Text => summary(frame, style),
        Form::Json => each(&|s, d| json(frame, s, Scope::All, d, style)) + &counters_json(frame),
        Form::Csv(separator) => each(&|s, d| csv(frame, s, Scope::All, d, style, separator)),
    }
}

/// Returns what comes first, once, in the form that the user chose.
pub fn head(style: &Style) -> String {
    match &style.form {
        Form::Text | Form::Json => String::new(),
        Form::Csv(separator) => csv_head(style, separator),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a row at the separators that are in no quotation marks.
    fn split(row: &str, separator: &str) -> Vec<String> {
        let (mut values, mut value) = (Vec::new(), String::new());
        let (mut rest, mut is_quoted) = (row.strip_suffix('\n').unwrap(), false);
        while let Some(c) = rest.chars().next() {
            if let (false, Some(after)) = (is_quoted, rest.strip_prefix(separator)) {
                values.push(std::mem::take(&mut value));
                rest = after;
            } else if let (true, Some(after)) = (is_quoted, rest.strip_prefix("\"\"")) {
                value.push('"');
                rest = after;
            } else {
                is_quoted ^= c == '"';
                value.extend(Some(c).filter(|c| *c != '"'));
                rest = &rest[c.len_utf8()..];
            }
        }
        values.push(value);
        values
    }

    /// Whatever names look like, and whatever separates them.
    #[test]
    fn values_of_a_row() {
        let parts = [
            "a", ",", ";", ";;", "\"", "\n", "\t", " ", "=", "\\x0a", "é",
        ];
        for separator in [",", ";", ";;", ";,", "\t", " ", "é"] {
            for (i, first) in parts.iter().enumerate() {
                for second in parts {
                    let third = parts[(i * 7 + 3) % parts.len()];
                    let values = [format!("{first}{second}"), third.to_owned(), String::new()];
                    let row = csv_row(&values, separator);
                    assert_eq!(split(&row, separator), values, "{separator:?}: {row}");
                }
            }
        }
    }
}
