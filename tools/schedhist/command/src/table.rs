// SPDX-License-Identifier: GPL-2.0

//! Tables: people and programs get the same columns, rows and notes.
//!
//! A verb declares each column once: its value, its key for programs, its heading for people. Text,
//! `-x` and `-j` are three writers of the same table.

use std::borrow::Cow;

use schedhist_core::{
    distribution::{Distribution, Max, Quantile},
    engine::histogram::totals::Worst,
    units::{self, Unit},
};
use serde::{Serialize, Serializer};

use crate::{
    options::{Form, Style},
    output::{note, printable, wrap, WIDTH},
    render::comm,
};

/// A value of a table or of a JSON object.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Does not apply: JSON has no such field.
    Absent,
    /// Not known: `-`, nothing, `null`.
    Unknown,
    Text(String),
    Number(i128),
    /// A number that people see rounded if it is large.
    Count(u64),
    /// Nanoseconds, in the user's unit for people. `u64::MAX` is infinite.
    Time(u64),
    Max(Max),
    Probability(f64),
    /// A number of tasks on average.
    Tasks(Option<f64>),
    Flag(bool),
    List(Vec<Cell>),
    Object(Vec<(Cow<'static, str>, Cell)>),
}

impl Cell {
    /// A duration that may not be known.
    pub fn time(nanoseconds: Option<u64>) -> Self {
        nanoseconds.map_or(Self::Unknown, Self::Time)
    }

    /// A number that may not be known.
    pub fn number(number: Option<impl Into<i128>>) -> Self {
        number.map_or(Self::Unknown, |number| Self::Number(number.into()))
    }

    pub fn texts(texts: &[String]) -> Self {
        texts.iter().map(Self::from).collect()
    }

    pub fn object<K: Into<Cow<'static, str>>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
        Self::Object(fields.collect())
    }

    /// Times as fields of an object, by what they are of.
    pub fn times(
        parts: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> impl Iterator<Item = (Cow<'static, str>, Self)> {
        let parts = parts.into_iter();
        parts.map(|(what, ns)| (format!("{what}_ns").into(), Self::Time(ns)))
    }

    fn for_people(&self, unit: Unit) -> String {
        match self {
            Self::Count(count) => units::count(*count),
            Self::Time(nanoseconds) => unit.quantile(Some(*nanoseconds)),
            Self::Max(max) => unit.max(*max),
            Self::Probability(p) => format!("{p:.3}"),
            Self::Tasks(average) => units::tasks(*average),
            Self::Absent | Self::Unknown => "-".to_owned(),
            other => other.separated(),
        }
    }

    fn separated(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Count(count) => count.to_string(),
            Self::Time(u64::MAX) => "inf".to_owned(),
            Self::Time(nanoseconds) => nanoseconds.to_string(),
            Self::Max(max) => Self::time(max.value()).separated(),
            Self::Probability(p) | Self::Tasks(Some(p)) => format!("{p:.4}"),
            Self::Flag(flag) => u8::from(*flag).to_string(),
            Self::Absent | Self::Unknown | Self::Tasks(None) => String::new(),
            Self::List(_) | Self::Object(_) => String::new(),
        }
    }

    pub fn line(&self) -> String {
        // Fails for keys that are no strings, and these are.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl<T: AsRef<str> + ?Sized> From<&T> for Cell {
    fn from(text: &T) -> Self {
        Self::Text(text.as_ref().to_owned())
    }
}

impl FromIterator<Self> for Cell {
    fn from_iter<I: IntoIterator<Item = Self>>(cells: I) -> Self {
        Self::List(cells.into_iter().collect())
    }
}

macro_rules! from_numbers {
    ($($number:ty)+) => {
        $(impl From<$number> for Cell {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        })+
    };
}

from_numbers!(i32 u32 u64 i128);

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Unknown | Self::Time(u64::MAX) => serializer.serialize_none(),
            Self::Tasks(average) => average
                .map(|tasks| (tasks * 1e4).round() / 1e4)
                .serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_i128(*number),
            Self::Count(number) | Self::Time(number) => serializer.serialize_u64(*number),
            Self::Max(max) => Self::time(max.value()).serialize(serializer),
            Self::Probability(p) => serializer.serialize_f64(*p),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::List(cells) => serializer.collect_seq(cells),
            Self::Object(fields) => {
                let there = fields.iter().filter(|(_, it)| !matches!(it, Self::Absent));
                serializer.collect_map(there.map(|(key, value)| (key, value)))
            }
        }
    }
}

const TEXT: u8 = 1;
const SEPARATED: u8 = 2;
const JSON: u8 = 4;

/// A column, and its value in a row of the type `R`.
pub struct Column<'a, R> {
    head: Head,
    value: Box<dyn Fn(&R) -> Cell + 'a>,
}

/// What a column is, whatever its rows are.
struct Head {
    key: Cow<'static, str>,
    heading: Cow<'static, str>,
    /// Which writers have it.
    forms: u8,
    layout: Layout,
}

/// How text shows a column.
#[derive(Clone, Copy, Default)]
struct Layout {
    gap: usize,
    width: usize,
    is_right: bool,
    /// Whether text drops it if there is no room.
    is_optional: bool,
    /// Whether the beginning of a text is cut off that is too long: the end of a path says more.
    is_cut: bool,
}

impl<'a, R> Column<'a, R> {
    /// A column for programs: of `-x` and `-j`.
    pub fn new(key: impl Into<Cow<'static, str>>, value: impl Fn(&R) -> Cell + 'a) -> Self {
        let layout = Layout {
            gap: 1,
            ..Layout::default()
        };
        Self {
            head: Head {
                key: key.into(),
                heading: "".into(),
                forms: SEPARATED | JSON,
                layout,
            },
            value: Box::new(value),
        }
    }

    /// A column for people alone.
    pub fn text(value: impl Fn(&R) -> Cell + 'a) -> Self {
        Self::new("", value).only(0)
    }

    /// A column of JSON alone, as for what has no place in a row.
    pub fn json(key: impl Into<Cow<'static, str>>, value: impl Fn(&R) -> Cell + 'a) -> Self {
        Self::new(key, value).only(JSON)
    }

    /// A column of `-x`.
    pub fn csv(key: impl Into<Cow<'static, str>>, value: impl Fn(&R) -> Cell + 'a) -> Self {
        Self::new(key, value).only(SEPARATED)
    }

    fn only(mut self, forms: u8) -> Self {
        self.head.forms = forms;
        self
    }

    /// Makes it a column of JSON alone.
    pub fn json_only(self) -> Self {
        self.only(JSON)
    }

    /// Shows it to people, on the left of so much room at least.
    pub fn left(mut self, heading: impl Into<Cow<'static, str>>, width: usize) -> Self {
        self.head.forms |= TEXT;
        self.head.heading = heading.into();
        self.head.layout.width = width;
        self
    }

    /// The same, on the right.
    pub fn right(self, heading: impl Into<Cow<'static, str>>, width: usize) -> Self {
        let mut column = self.left(heading, width);
        column.head.layout.is_right = true;
        column
    }

    /// Sets the distance from the column before, which is 1 otherwise.
    pub fn gap(mut self, gap: usize) -> Self {
        self.head.layout.gap = gap;
        self
    }

    /// Cuts long texts unless `is_wide`. For the last column.
    pub fn cut(mut self, is_wide: bool) -> Self {
        self.head.layout.is_cut = !is_wide;
        self
    }
}

/// Returns the least width of a column of durations.
pub fn width(unit: Unit) -> usize {
    // Three significant digits are short; all digits of a second in microseconds are not.
    if unit == Unit::Fitting {
        7
    } else {
        13
    }
}

/// Returns the columns of a distribution. People see those quantiles that are in `shown`, in
/// columns of this width at least.
pub fn distribution<'a, R: 'a>(
    style: &Style,
    width: usize,
    shown: &[Quantile],
    of: fn(&R) -> Option<&Distribution>,
) -> Vec<Column<'a, R>> {
    let value =
        move |cell: fn(&Distribution) -> Cell| move |row: &R| of(row).map_or(Cell::Absent, cell);
    let mut columns = vec![
        Column::new("count", value(|d| Cell::Count(d.count()))).right("count", 8),
        Column::new(
            "sum_ns",
            value(|d| Cell::Number(i128::try_from(d.sum).unwrap_or(i128::MAX))),
        ),
        Column::json("min_ns", value(|d| Cell::time(d.min))),
    ];
    columns.extend(style.quantiles.iter().map(|quantile| {
        let quantile = *quantile;
        let upper = move |d: &Distribution| Cell::time(d.quantile_upper(quantile));
        let value = move |row: &R| of(row).map_or(Cell::Absent, upper);
        let mut column = Column::csv(format!("{quantile}_ns"), value);
        column.head.layout.is_optional = true;
        match shown.contains(&quantile) {
            true => column.right(quantile.to_string(), width),
            false => column,
        }
    }));
    columns.extend([
        Column::new("max_ns", value(|d| Cell::Max(d.max))).right("max", width),
        Column::new("max_is_exact", value(|d| Cell::Flag(d.max.is_exact()))),
    ]);
    type OfWorst = fn(u32, &Worst) -> Cell;
    let worst: [(&str, OfWorst); 4] = [
        ("max_cpu", |cpu, _| cpu.into()),
        ("max_pid", |_, worst| worst.task.pid.into()),
        ("max_comm", |_, worst| Cell::Text(comm(worst))),
        ("max_time_ns", |_, worst| worst.time.into()),
    ];
    columns.extend(worst.map(|(key, cell)| {
        Column::json(key, move |row: &R| {
            let worst = of(row).and_then(|d| d.worst);
            worst.map_or(Cell::Absent, |(cpu, worst)| cell(cpu, &worst))
        })
    }));
    let quantiles = style.quantiles.clone();
    let quantiles = move |d: &Distribution| {
        let bounds = quantiles.iter().filter_map(|quantile| {
            let bounds = d.quantile(*quantile)?;
            let name = quantile.to_string();
            Some(Cell::object([
                ("name", Cell::Text(name)),
                ("lower", Cell::Time(bounds.lower)),
                ("upper", Cell::Time(bounds.upper)),
            ]))
        });
        bounds.collect()
    };
    columns.push(Column::json("quantiles", move |row: &R| {
        of(row).map_or(Cell::Absent, &quantiles)
    }));
    columns.push(Column::json(
        "buckets",
        value(|d| {
            let buckets = d.buckets().map(|(bounds, count)| {
                let bounds = [bounds.lower, bounds.upper].map(Cell::Time);
                Cell::List([&bounds[..], &[Cell::Count(count)]].concat())
            });
            buckets.collect()
        }),
    ));
    columns
}

/// What people see below a row.
type Below<'a, R> = Box<dyn Fn(&R) -> Vec<String> + 'a>;

/// A table with rows of the type `R`.
pub struct Table<'a, R> {
    /// The name that tells a program which fields to expect.
    pub schema: &'static str,
    /// What people see above it, line by line.
    pub title: Vec<String>,
    pub columns: Vec<Column<'a, R>>,
    pub rows: Vec<R>,
    /// Whether text leaves out a row.
    pub is_minor: Box<dyn Fn(&R) -> bool + 'a>,
    /// What people see below a row, and below all rows.
    pub below: Below<'a, R>,
    pub after: Vec<String>,
    /// What readers of the figures should know, in any form.
    pub notes: Vec<String>,
}

impl<'a, R> Table<'a, R> {
    pub fn new(schema: &'static str, columns: Vec<Column<'a, R>>, rows: Vec<R>) -> Self {
        Self {
            schema,
            title: Vec::new(),
            columns,
            rows,
            is_minor: Box::new(|_| false),
            below: Box::new(|_| Vec::new()),
            after: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the table in the form that the user chose. The names of its columns come first,
    /// once. Notes that have no place in it go to standard error.
    pub fn render(&self, style: &Style, is_headed: &mut bool) -> String {
        match &style.form {
            Form::Text => self.text(style),
            Form::Json => self.filled(JSON).objects(),
            Form::Csv(separator) => self.filled(SEPARATED).separated(separator, is_headed),
        }
    }

    /// Returns the table as people see it.
    pub fn text(&self, style: &Style) -> String {
        self.filled(TEXT).text(style.unit)
    }

    /// Returns what a writer needs.
    fn filled(&self, form: u8) -> Filled<'_> {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns.filter(|c| c.head.forms & form != 0).collect();
        let rows = self.rows.iter();
        let rows: Vec<_> = rows
            .filter(|row| form != TEXT || !(self.is_minor)(row))
            .collect();
        let cells = |row| columns.iter().map(|c| (c.value)(row)).collect();
        Filled {
            schema: self.schema,
            title: &self.title,
            heads: columns.iter().map(|column| &column.head).collect(),
            rows: rows.iter().map(|row| cells(row)).collect(),
            below: match form {
                TEXT => rows.iter().map(|row| (self.below)(row)).collect(),
                _ => Vec::new(),
            },
            after: &self.after,
            notes: &self.notes,
        }
    }
}

/// A table whose rows are values: compiled once for all types of rows.
struct Filled<'t> {
    schema: &'static str,
    title: &'t [String],
    heads: Vec<&'t Head>,
    rows: Vec<Vec<Cell>>,
    below: Vec<Vec<String>>,
    after: &'t [String],
    notes: &'t [String],
}

impl Filled<'_> {
    fn objects(self) -> String {
        // Without a row, there is no place for them.
        if self.rows.is_empty() {
            self.notes.iter().for_each(note);
        }
        let object = |row: Vec<Cell>| {
            let fields = self.heads.iter().map(|head| head.key.clone()).zip(row);
            let schema = [("schema".into(), Cell::from(self.schema))];
            let notes = [("notes".into(), Cell::texts(self.notes))];
            Cell::Object(schema.into_iter().chain(fields).chain(notes).collect()).line()
        };
        self.rows.into_iter().map(object).collect()
    }

    fn separated(&self, separator: &str, is_headed: &mut bool) -> String {
        self.notes.iter().for_each(note);
        let keys = self.heads.iter().map(|head| head.key.to_string());
        let head = Some(keys.collect()).filter(|_| !std::mem::replace(is_headed, true));
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(Cell::separated).collect());
        let rows = head.into_iter().chain(rows);
        rows.map(|values| separated(values, separator)).collect()
    }

    fn text(&self, unit: Unit) -> String {
        let mut columns: Vec<_> = self
            .heads
            .iter()
            .enumerate()
            .map(|(at, head)| Shown::new(head, self.rows.iter().map(|row| &row[at]), unit))
            .collect();
        if let Some(first) = columns.first_mut() {
            first.layout.gap = 0;
        }
        let all = columns.len();
        let total = |columns: &[Shown]| {
            columns
                .iter()
                .map(|c| c.layout.gap + c.layout.width)
                .sum::<usize>()
        };
        while total(&columns) > WIDTH {
            let mut optional = columns.iter().rposition(|column| column.layout.is_optional);
            // One of them stays.
            optional =
                optional.filter(|last| columns[..*last].iter().any(|c| c.layout.is_optional));
            let Some(last) = optional else { break };
            columns.remove(last);
        }
        let room = WIDTH.saturating_sub(total(&columns));
        if let Some(last) = columns.last_mut().filter(|column| column.layout.is_cut) {
            last.layout.width += room;
        }
        let mut out = String::new();
        self.title.iter().for_each(|line| wrap(&mut out, line));
        for line in 0..=self.rows.len() {
            columns
                .iter()
                .for_each(|column| column.write(line, &mut out));
            // The last column is not filled up.
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            let below = line.checked_sub(1).map(|row| &self.below[row]);
            for line in below.into_iter().flatten() {
                out += line;
                out.push('\n');
            }
        }
        self.after.iter().for_each(|line| wrap(&mut out, line));
        if all != columns.len() {
            let optional = columns.iter().filter(|column| column.layout.is_optional);
            let shown = optional.count();
            let text =
                format!("note: {shown} percentiles fit into 80 columns; -j and -x print all");
            wrap(&mut out, &text);
        }
        for text in self.notes {
            wrap(&mut out, &format!("note: {}", printable(text)));
        }
        out
    }
}

/// A column as people see it: its heading, and its values.
struct Shown {
    cells: Vec<String>,
    layout: Layout,
}

impl Shown {
    fn new<'c>(head: &Head, cells: impl Iterator<Item = &'c Cell>, unit: Unit) -> Self {
        let values = cells.map(|cell| cell.for_people(unit));
        let cells: Vec<_> = [head.heading.to_string()]
            .into_iter()
            .chain(values)
            .collect();
        let widest = cells.iter().map(|cell| cell.chars().count()).max();
        let mut layout = head.layout;
        if let Some(widest) = widest.filter(|_| !layout.is_cut) {
            layout.width = layout.width.max(widest.min(WIDTH));
        }
        Self { cells, layout }
    }

    fn write(&self, line: usize, out: &mut String) {
        let Layout { gap, width, .. } = self.layout;
        let text = match self.layout.is_cut {
            true => cut(&self.cells[line], width),
            false => self.cells[line].clone(),
        };
        *out += &match self.layout.is_right {
            true => format!("{:gap$}{text:>width$}", ""),
            false => format!("{:gap$}{text:<width$}", ""),
        };
    }
}

/// Cuts the beginning of a name off that has no room.
pub fn cut(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let rest: String = name.chars().skip(count - (room - 2)).collect();
    format!("..{rest}")
}

/// Returns a row of values: one that would not be one value otherwise is quoted, as in RFC 4180. By
/// hand, as the crate csv takes a separator of one byte: `-x` takes any text, as perf stat's does.
fn separated(values: Vec<String>, separator: &str) -> String {
    let quoted = values.into_iter().map(|value| {
        // Any part of a separator: with its neighbour's, it might make one.
        let is_special = |c| separator.contains(c) || matches!(c, '"' | '\n' | '\r');
        if value.contains(is_special) {
            format!("\"{}\"", value.replace('"', "\"\""))
        } else {
            value
        }
    });
    quoted.collect::<Vec<_>>().join(separator) + "\n"
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
                    let row = separated(values.to_vec(), separator);
                    assert_eq!(split(&row, separator), values, "{separator:?}: {row}");
                }
            }
        }
    }
}
