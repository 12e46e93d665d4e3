// SPDX-License-Identifier: GPL-2.0

//! `groups`: who waits, and because of whom.

use std::{collections::BTreeMap, fmt::Write};

use clap::ArgMatches;
use schedhist_core::{
    distribution::{Distribution, Quantile},
    groups::{self, GroupRow, CLASSES},
    json::{quoted, Object},
    text::{shares, Groups},
    units,
};

use crate::{
    failure::{note, print, Failure, Result},
    group_histograms,
    options::{Form, Style, Wanted},
    render,
    setting::grouping::MORE_GROUPS,
    source::{Frame, Source},
    verbs::hist::each_interval,
};

/// All groups at one time.
#[derive(Default)]
struct Table {
    all: Groups,
    /// The waits of each group, by its number.
    runq: BTreeMap<u32, Distribution>,
}

/// What is in progress is told in text from this time on, in nanoseconds.
const LONG: u64 = 100_000_000;

/// What a group did, and its waits meanwhile.
type Row = (GroupRow, Option<Distribution>);

impl Table {
    /// Returns what the groups did since an earlier table; since an empty one, all of it.
    fn since(&self, last: &Self) -> Vec<Row> {
        let rows = groups::between(&last.all, &self.all)
            .into_iter()
            .map(|row| {
                let runq = self.runq.get(&row.id);
                let old = last.runq.get(&row.id).filter(|_| !row.is_new);
                let since = match (runq, old) {
                    (Some(runq), Some(old)) => runq.since(old),
                    _ => runq.cloned(),
                };
                (row, since)
            });
        rows.collect()
    }
}

fn read(source: &Source) -> Result<Table> {
    let groups = source.groups()?;
    if groups.rule == "none" || groups.rule.is_empty() {
        return Err(Failure::Error(format!(
            "{}: tasks are not grouped: schedhist ctl group_by cgroup",
            source.path("groups").display()
        )));
    }
    let runq = group_histograms::read(source, "runq")?.into_iter();
    let runq = runq.map(|(id, (_, runq))| (id, runq));
    Ok(Table {
        all: groups,
        runq: runq.collect(),
    })
}

/// Prints the groups, those first that waited longest.
pub fn groups(args: &ArgMatches, source: &Source) -> Result {
    let style = Style::new(args)?;
    let wanted = Wanted::new(args.get_many::<String>("words").unwrap_or_default())?;
    if let Some(word) = wanted.metrics.first() {
        return Err(Failure::Usage(format!("unexpected argument '{word}'")));
    }
    let rows = args.get_one::<String>("rows");
    let rows = rows.map(|rows| crate::options::count(rows)).transpose()?;
    // A program wants all of them.
    let most = match (rows, &style.form) {
        (Some(rows), _) => usize::try_from(rows).unwrap_or(usize::MAX),
        (None, Form::Text) => 20,
        (None, _) => usize::MAX,
    };
    let shown = Shown {
        most,
        wide: args.get_flag("wide"),
        style: &style,
    };
    let mut last = read(source)?;
    let first = source.read()?;
    print(&csv_head(&style))?;
    if wanted.interval.is_none() {
        let frame = first.since_load();
        let span = "since group_by was written";
        let rows = last.since(&Table::default());
        return print(&show(rows, &last.all, span, (&frame, None), &shown));
    }
    each_interval(source, first, wanted.interval, wanted.count, |frame, _| {
        let now = read(source)?;
        let rows = now.since(&last);
        // The groups are not read at the very time of the snapshot.
        let time = now.all.since(&last.all).or(frame.window.span);
        last = now;
        print(&show(
            rows,
            &last.all,
            &render::span(&frame),
            (&frame, time),
            &shown,
        ))
    })
}

/// The least room for a name: the end of a long path is to be seen.
const NAME: usize = 22;

/// How much is shown of the groups, and how.
struct Shown<'a> {
    most: usize,
    /// Names are not cut.
    wide: bool,
    style: &'a Style,
}

/// Returns the groups, in a frame of the time in which they did that.
fn show(
    mut rows: Vec<Row>,
    groups: &Groups,
    span: &str,
    (frame, time): (&Frame, Option<u64>),
    shown: &Shown<'_>,
) -> String {
    let Shown { most, wide, style } = *shown;
    let time = (frame.unix_ns, time);
    let mut notes = frame.notes.clone();
    let is_wanted = |name: &str| matches!(name, "runq" | "oncpu");
    notes.extend(render::off(&frame.window, is_wanted));
    if groups.refused != 0 {
        let note = "a task found no room for a group, and is in other";
        notes.push(format!("{} times, {note}: {MORE_GROUPS}", groups.refused));
    }
    let all = rows.len();
    rows.truncate(most);
    match &style.form {
        Form::Json => {
            let row = |(row, runq): &Row| json(row, runq.as_ref(), time, &notes, style);
            let text: String = rows.iter().map(row).collect();
            // Without a row, there is no place for them.
            if rows.is_empty() {
                notes.iter().for_each(note);
            }
            text
        }
        Form::Csv(separator) => {
            render::tell_beside(&notes, style);
            csv(&rows, time, separator, style)
        }
        Form::Text => {
            let mut out = String::new();
            let unit = render::in_unit(style.unit);
            render::wrap(
                &mut out,
                &format!("schedhist: groups by {}, {span}{unit}", groups.rule),
            );
            let width = width(&rows, style);
            let quantiles = quantiles(width, style);
            for column in ["oncpu", "waits", "waited"] {
                let width = if column == "waits" { 7 } else { width };
                let _ = write!(out, "{column:>width$} ");
            }
            for quantile in &quantiles {
                let _ = write!(out, "{:>width$} ", quantile.to_string());
            }
            let _ = writeln!(out, "{:>width$}  own oth ker idl  group", "max");
            for (row, runq) in &rows {
                text_row(
                    &mut out,
                    row,
                    runq.as_ref(),
                    (width, &quantiles),
                    wide,
                    style,
                );
            }
            if all > most {
                let _ = writeln!(out, "... and {} more: --rows", all - most);
            }
            if style.are_quantiles_chosen {
                out += &render::cut_note(quantiles.len(), style);
            }
            render::tell(&mut out, &notes, style);
            out
        }
    }
}

/// Returns the percentiles for which a line of text has room: p99, or as many as fit of those that
/// the user chose.
fn quantiles(width: usize, style: &Style) -> Vec<Quantile> {
    if !style.are_quantiles_chosen {
        return Quantile::parse("99").into_iter().collect();
    }
    let room = 80_usize.saturating_sub(30 + NAME + 3 * width) / (width + 1);
    style.quantiles.iter().take(room.max(1)).copied().collect()
}

fn text_row(
    out: &mut String,
    row: &GroupRow,
    runq: Option<&Distribution>,
    (width, quantiles): (usize, &[Quantile]),
    wide: bool,
    style: &Style,
) {
    let unit = style.unit;
    let max = runq.map_or_else(|| "-".to_owned(), |runq| unit.max(runq.max));
    let _ = write!(
        out,
        "{:>width$} {:>7} {:>width$} ",
        unit.text(Some(row.oncpu_ns)),
        units::count(row.waits.0),
        unit.text(Some(row.waits.1)),
    );
    for quantile in quantiles {
        let upper = runq.and_then(|runq| runq.quantile_upper(*quantile));
        let _ = write!(out, "{:>width$} ", unit.quantile(upper));
    }
    let _ = write!(out, "{max:>width$} ");
    for share in shares(&row.ended_ns) {
        let _ = write!(out, "{:>4}", share / 10);
    }
    let columns = 3 * width + quantiles.len() * (width + 1);
    let room = 80_usize.saturating_sub(29 + columns).max(NAME);
    let room = if wide { usize::MAX } else { room };
    let _ = writeln!(out, "  {}", cut(&row.name, room));
    for ((count, ns), what) in [
        (row.in_progress.oncpu, "on a CPU"),
        (row.in_progress.runq, "waiting for one"),
    ] {
        // In a short list, what everybody does is of no interest.
        if ns >= LONG {
            let time = unit.text(Some(ns));
            let _ = writeln!(out, "        in progress: {count} {what}, {time} so far");
        }
    }
    let waited: u64 = row
        .ended_ns
        .iter()
        .fold(0, |sum, ns| sum.saturating_add(*ns));
    for (name, ns) in row.neighbours.iter().take(2) {
        let percent = u128::from(*ns) * 100 / u128::from(waited.max(1));
        let room = if wide { usize::MAX } else { 80 - 24 };
        let _ = writeln!(out, "        {percent:>3}% kept by {}", cut(name, room));
    }
}

/// Cuts the beginning of a name off, as the end of a path says more.
fn cut(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let rest: String = name.chars().skip(count - (room - 2)).collect();
    format!("..{rest}")
}

fn json(
    row: &GroupRow,
    runq: Option<&Distribution>,
    (unix_ns, span): (u64, Option<u64>),
    notes: &[String],
    style: &Style,
) -> String {
    let mut object = Object::new("schedhist.group.v1")
        .raw("unix_ns", unix_ns)
        .optional("span_ns", span)
        .string("name", &row.name)
        .raw("oncpu_ns", row.oncpu_ns)
        .raw("oncpu_in_progress", row.in_progress.oncpu.0)
        .raw("oncpu_in_progress_ns", row.in_progress.oncpu.1)
        .raw("oncpu_unseen_ns", row.in_progress.unseen.1)
        .raw("waits", row.waits.0)
        .raw("waited_ns", row.waits.1)
        .raw("waits_in_progress", row.in_progress.runq.0)
        .raw("waited_in_progress_ns", row.in_progress.runq.1);
    for (class, ns) in CLASSES.iter().zip(row.ended_ns) {
        object = object.raw(&format!("ended_by_{class}_ns"), ns);
    }
    let neighbours = row.neighbours.iter();
    let neighbours = neighbours.map(|(name, ns)| format!("[{},{ns}]", quoted(name)));
    object = object.array("neighbours", neighbours);
    if let Some(runq) = runq {
        object = render::distribution_json(object, runq, style);
    }
    let notes = notes.iter().map(|note| quoted(note));
    object.array("notes", notes).end() + "\n"
}

/// Returns the width of a column of durations: three significant digits are short, all digits in a
/// unit of the user's are not.
fn width(rows: &[Row], style: &Style) -> usize {
    let sums = rows.iter().flat_map(|(row, runq)| {
        let max = runq.as_ref().map(|runq| style.unit.max(runq.max));
        let sums = [row.oncpu_ns, row.waits.1].map(|ns| style.unit.text(Some(ns)));
        sums.into_iter().chain(max)
    });
    sums.map(|text| text.len()).max().unwrap_or_default().max(7)
}

/// Returns the names of the columns that [`csv`] prints, if the user chose that form.
fn csv_head(style: &Style) -> String {
    let Form::Csv(separator) = &style.form else {
        return String::new();
    };
    let columns = [
        "unix_ns",
        "span_ns",
        "oncpu_ns",
        "waits",
        "waited_ns",
        "own_ns",
        "other_ns",
        "kernel_ns",
        "idle_ns",
    ];
    let mut columns = columns.map(str::to_owned).to_vec();
    // The first two would be those of the waits again.
    columns.extend(render::csv_columns(style).split_off(2));
    columns.push("name".to_owned());
    render::csv_row(&columns, separator)
}

fn csv(
    rows: &[Row],
    (unix_ns, span): (u64, Option<u64>),
    separator: &str,
    style: &Style,
) -> String {
    let line = |(row, runq): &Row| {
        let mut values = vec![unix_ns.to_string(), render::csv_number(span)];
        let numbers = [row.oncpu_ns, row.waits.0, row.waits.1];
        values.extend(numbers.iter().chain(&row.ended_ns).map(u64::to_string));
        match runq {
            Some(runq) => values.extend(render::csv_values(runq, style).split_off(2)),
            None => values.extend(vec![String::new(); style.quantiles.len() + 2]),
        }
        values.push(row.name.clone());
        render::csv_row(&values, separator)
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use schedhist_core::text;

    use super::*;

    /// Returns one group with that many waits of 1 ns.
    fn table(name: &str, waits: u64) -> Table {
        let text = format!(
            "# schedhist groups version 1\ngroup_by cgroup\nlimit 9\nrefused 0\n\
             group id 1 runq_count {waits} runq_sum_ns {waits} name {name}\n"
        );
        let histogram = format!("# runq\nprecision 3\nbucket 1 1 {waits}\n");
        let histogram = text::histograms(&histogram).unwrap().remove(0);
        Table {
            all: text::groups(&text).unwrap(),
            runq: BTreeMap::from([(1, histogram.distribution)]),
        }
    }

    #[test]
    fn waits_of_an_interval() {
        let since = |last: &Table, now: &Table| {
            let (row, waits) = now.since(last).remove(0);
            (row.waits.0, waits.map(|waits| waits.count()))
        };
        let last = table("/a", 5);
        assert_eq!(since(&Table::default(), &last), (5, Some(5)));
        assert_eq!(since(&last, &table("/a", 7)), (2, Some(2)));
        // Another group has got the number.
        assert_eq!(since(&last, &table("/b", 7)), (7, Some(7)));
        // There was no histogram at first.
        let mut last = last;
        last.runq.clear();
        assert_eq!(since(&last, &table("/a", 7)), (2, Some(7)));
        // It went back.
        last.runq = table("/a", 9).runq;
        assert_eq!(since(&last, &table("/a", 7)), (2, None));
    }
}
