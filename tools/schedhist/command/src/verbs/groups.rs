// SPDX-License-Identifier: GPL-2.0

//! `groups`: who waits, and because of whom.

use schedhist_core::{
    distribution::{Distribution, Quantile},
    engine::group::records::GroupMetric,
    groups::{Between, GroupRow, CLASSES},
    raw::Groups,
    text::shares,
};

use crate::{
    cli,
    error::{Error, Result},
    options::{Form, Style},
    output::print,
    render,
    setting::grouping::MORE_GROUPS,
    source::{each_interval, Interval, Reading, Source},
    table::{self, Cell, Column, Table},
};

/// What is in progress is told in text from this time on, in nanoseconds.
const LONG: u64 = 100_000_000;

/// What a group did, and its waits meanwhile.
type Row = (GroupRow, Distribution);

/// Returns what the groups did since an earlier time; without one, since they began.
fn since(old: Option<&Groups>, new: &Groups) -> Vec<Row> {
    let between = Between::new(old, new);
    let row = |row: GroupRow| {
        let group = new.groups.iter().find(|group| group.id == row.id)?;
        let waits = between.samples(group, &[GroupMetric::Runq]);
        Some((row, waits))
    };
    between.rows().into_iter().filter_map(row).collect()
}

/// Returns the groups of a reading.
fn groups_of(reading: &Reading, source: &Source) -> Result<Groups> {
    reading.groups()?.ok_or_else(|| {
        Error::new(format!(
            "{}: tasks are not grouped: schedhist ctl group_by cgroup",
            source.path("groups").display()
        ))
    })
}

/// Prints the groups, those first that waited longest.
pub fn groups(args: &cli::Groups, source: &Source) -> Result {
    let style = Style::new(&args.style);
    // A program wants all of them.
    let most = match (args.rows, &style.form) {
        (Some(rows), _) => usize::try_from(rows).unwrap_or(usize::MAX),
        (None, Form::Text) => 20,
        (None, _) => usize::MAX,
    };
    let mut is_headed = false;
    let mut show = |mut rows: Vec<Row>, groups: &Groups, span: &str, interval: &Interval| {
        let more = rows.len().saturating_sub(most);
        rows.truncate(most);
        let mut table = table(rows, groups, span, interval, args.wide, &style);
        if more != 0 {
            table.after.push(format!("... and {more} more: --rows"));
        }
        print(&table.render(&style, &mut is_headed))
    };
    let first = source.read()?;
    let mut last = groups_of(&first, source)?;
    if args.interval.is_none() {
        let (rows, span) = (since(None, &last), "since group_by was written");
        return show(rows, &last, span, &first.since_load());
    }
    let (interval, count) = (args.interval, args.count);
    each_interval(source, first, interval, count, |interval, reading| {
        let now = groups_of(reading, source)?;
        let rows = since(Some(&last), &now);
        last = now;
        show(rows, &last, &render::span(&interval), &interval)
    })
}

/// The least room for a name: the end of a long path is to be seen.
const NAME: usize = 16;

/// Returns the groups, in an interval of the time in which they did that.
fn table<'a>(
    rows: Vec<Row>,
    groups: &Groups,
    span: &str,
    interval: &'a Interval,
    is_wide: bool,
    style: &'a Style,
) -> Table<'a, Row> {
    let ns = |f: fn(&GroupRow) -> u64| move |(row, _): &Row| Cell::Time(f(row));
    let count = |f: fn(&GroupRow) -> u64| move |(row, _): &Row| Cell::Count(f(row));
    let name = |(row, _): &Row| Cell::from(&row.name);
    let mut columns = vec![
        Column::new("unix_ns", |_| Cell::Number(interval.unix_ns.into())),
        Column::new("span_ns", |_| Cell::time(interval.window.span)),
        Column::json("name", name),
        Column::new("oncpu_ns", ns(|row| row.oncpu_ns)).right("oncpu", 7),
        Column::json("oncpu_in_progress", count(|row| row.in_progress.oncpu.0)),
        Column::json("oncpu_in_progress_ns", ns(|row| row.in_progress.oncpu.1)),
        Column::json("oncpu_unseen_ns", ns(|row| row.in_progress.unseen.1)),
        Column::new("waits", count(|row| row.waits.0)).right("waits", 7),
        Column::new("waited_ns", ns(|row| row.waits.1)).right("waited", 7),
        Column::json("waits_in_progress", count(|row| row.in_progress.runq.0)),
        Column::json("waited_in_progress_ns", ns(|row| row.in_progress.runq.1)),
    ];
    columns.extend(CLASSES.iter().enumerate().map(|(class, name)| {
        let ended = move |(row, _): &Row| Cell::Time(row.ended_ns[class]);
        Column::new(format!("ended_by_{name}_ns"), ended)
    }));
    columns.push(Column::json("neighbours", |(row, _): &Row| {
        let neighbours = row.neighbours.iter();
        let pair = |(name, ns): &(String, u64)| vec![Cell::from(name), Cell::Time(*ns)];
        Cell::List(neighbours.map(|it| Cell::List(pair(it))).collect())
    }));
    let shown = match style.are_quantiles_chosen {
        true => style.quantiles.clone(),
        false => Quantile::parse("99").into_iter().collect(),
    };
    let waits = table::distribution(style, 7, &shown, |(_, waits): &Row| Some(waits));
    // The first two would be those of the waits again.
    let waits = waits.into_iter().enumerate();
    columns.extend(waits.map(|(place, column)| match place {
        0 | 1 => column.json_only(),
        _ => column,
    }));
    columns.extend(CLASSES.iter().enumerate().map(|(class, heading)| {
        let share = move |(row, _): &Row| Cell::Number((shares(&row.ended_ns)[class] / 10).into());
        let gap = if class == 0 { 2 } else { 1 };
        Column::text(share).right(*heading, heading.len()).gap(gap)
    }));
    columns.push(
        Column::csv("name", name)
            .left("group", NAME)
            .gap(2)
            .cut(is_wide),
    );
    let mut table = Table::new("schedhist.group.v1", columns, rows);
    let unit = render::in_unit(style.unit);
    let title = format!("schedhist: groups by {}, {span}{unit}", groups.rule);
    table.title.push(title);
    table.below = Box::new(move |(row, _)| below(row, is_wide, style));
    table.notes = interval.notes.clone();
    let is_wanted = |name: &str| matches!(name, "runq" | "oncpu");
    table.notes.extend(render::off(&interval.window, is_wanted));
    if groups.refused != 0 {
        let note = "a task found no room for a group, and is in other";
        table
            .notes
            .push(format!("{} times, {note}: {MORE_GROUPS}", groups.refused));
    }
    table
}

/// Returns what people see of a group below its row: what it is doing, and who keeps it waiting.
fn below(row: &GroupRow, is_wide: bool, style: &Style) -> Vec<String> {
    let in_progress = [
        (row.in_progress.oncpu, "on a CPU"),
        (row.in_progress.runq, "waiting for one"),
    ];
    // In a short list, what everybody does is of no interest.
    let in_progress = in_progress.into_iter().filter(|((_, ns), _)| *ns >= LONG);
    let in_progress = in_progress.map(|((count, ns), what)| {
        let time = style.unit.text(Some(ns));
        format!("        in progress: {count} {what}, {time} so far")
    });
    let waited = { row.ended_ns.iter() }.fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let neighbours = row.neighbours.iter().take(2).map(|(name, ns)| {
        let percent = u128::from(*ns) * 100 / u128::from(waited.max(1));
        let room = if is_wide { usize::MAX } else { 80 - 24 };
        format!("        {percent:>3}% kept by {}", table::cut(name, room))
    });
    in_progress.chain(neighbours).collect()
}
