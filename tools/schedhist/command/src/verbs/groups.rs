// SPDX-License-Identifier: GPL-2.0

//! `groups`: who waits, and because of whom.

use std::collections::BTreeMap;

use clap::ArgMatches;
use schedhist_core::{
    distribution::{Distribution, Quantile},
    groups::{self, GroupRow, CLASSES},
    text::{shares, Groups},
};

use crate::{
    failure::{print, Failure, Result},
    group_histograms,
    options::{Form, Style, Wanted},
    render,
    setting::grouping::MORE_GROUPS,
    source::{Frame, Source},
    table::{self, Cell, Column, Table},
    verbs::hist::each_interval,
};

/// All groups at one time.
#[derive(Default)]
struct All {
    groups: Groups,
    /// The waits of each group, by its number.
    runq: BTreeMap<u32, Distribution>,
}

/// What is in progress is told in text from this time on, in nanoseconds.
const LONG: u64 = 100_000_000;

/// What a group did, and its waits meanwhile.
type Row = (GroupRow, Option<Distribution>);

impl All {
    /// Returns what the groups did since an earlier table; since an empty one, all of it.
    fn since(&self, last: &Self) -> Vec<Row> {
        let rows = groups::between(&last.groups, &self.groups)
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

fn read(source: &Source) -> Result<All> {
    let groups = source.groups()?;
    if groups.rule == "none" || groups.rule.is_empty() {
        return Err(Failure::Error(format!(
            "{}: tasks are not grouped: schedhist ctl group_by cgroup",
            source.path("groups").display()
        )));
    }
    let runq = group_histograms::read(source, "runq")?.into_iter();
    let runq = runq.map(|(id, (_, runq))| (id, runq));
    Ok(All {
        groups,
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
    let mut is_headed = false;
    let mut show =
        |mut rows: Vec<Row>, groups: &Groups, span: &str, time: (&Frame, Option<u64>)| {
            let more = rows.len().saturating_sub(most);
            rows.truncate(most);
            let mut table = table(rows, groups, span, time, args.get_flag("wide"), &style);
            if more != 0 {
                table.after.push(format!("... and {more} more: --rows"));
            }
            print(&table.render(&style, &mut is_headed))
        };
    let mut last = read(source)?;
    let first = source.read()?;
    if wanted.interval.is_none() {
        let frame = first.since_load();
        let rows = last.since(&All::default());
        return show(
            rows,
            &last.groups,
            "since group_by was written",
            (&frame, None),
        );
    }
    each_interval(source, first, wanted.interval, wanted.count, |frame, _| {
        let now = read(source)?;
        let rows = now.since(&last);
        // The groups are not read at the very time of the snapshot.
        let time = now.groups.since(&last.groups).or(frame.window.span);
        last = now;
        show(rows, &last.groups, &render::span(&frame), (&frame, time))
    })
}

/// The least room for a name: the end of a long path is to be seen.
const NAME: usize = 22;

/// Returns the groups, in a frame of the time in which they did that.
fn table<'a>(
    rows: Vec<Row>,
    groups: &Groups,
    span: &str,
    (frame, time): (&'a Frame, Option<u64>),
    is_wide: bool,
    style: &'a Style,
) -> Table<'a, Row> {
    let ns = |f: fn(&GroupRow) -> u64| move |(row, _): &Row| Cell::Time(f(row));
    let count = |f: fn(&GroupRow) -> u64| move |(row, _): &Row| Cell::Count(f(row));
    let name = |(row, _): &Row| Cell::from(&row.name);
    let mut columns = vec![
        Column::new("unix_ns", |_| Cell::Number(frame.unix_ns.into())),
        Column::new("span_ns", move |_| Cell::time(time)),
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
    let waits = table::distribution(style, 7, &shown, |(_, waits): &Row| waits.as_ref());
    // The first two would be those of the waits again.
    let waits = waits.into_iter().enumerate();
    columns.extend(waits.map(|(place, column)| match place {
        0 | 1 => column.json_only(),
        _ => column,
    }));
    columns.extend(
        ["own", "oth", "ker", "idl"]
            .iter()
            .enumerate()
            .map(|(class, heading)| {
                let share =
                    move |(row, _): &Row| Cell::Number((shares(&row.ended_ns)[class] / 10).into());
                let gap = if class == 0 { 2 } else { 1 };
                Column::text(share).right(*heading, 3).gap(gap)
            }),
    );
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
    table.notes = frame.notes.clone();
    let is_wanted = |name: &str| matches!(name, "runq" | "oncpu");
    table.notes.extend(render::off(&frame.window, is_wanted));
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

#[cfg(test)]
mod tests {
    use schedhist_core::text;

    use super::*;

    /// Returns one group with that many waits of 1 ns.
    fn all(name: &str, waits: u64) -> All {
        let text = format!(
            "# schedhist groups version 1\ngroup_by cgroup\nlimit 9\nrefused 0\n\
             group id 1 runq_count {waits} runq_sum_ns {waits} name {name}\n"
        );
        let histogram = format!("# runq\nprecision 3\nbucket 1 1 {waits}\n");
        let histogram = text::histograms(&histogram).unwrap().remove(0);
        All {
            groups: text::groups(&text).unwrap(),
            runq: BTreeMap::from([(1, histogram.distribution)]),
        }
    }

    #[test]
    fn waits_of_an_interval() {
        let since = |last: &All, now: &All| {
            let (row, waits) = now.since(last).remove(0);
            (row.waits.0, waits.map(|waits| waits.count()))
        };
        let last = all("/a", 5);
        assert_eq!(since(&All::default(), &last), (5, Some(5)));
        assert_eq!(since(&last, &all("/a", 7)), (2, Some(2)));
        // Another group has got the number.
        assert_eq!(since(&last, &all("/b", 7)), (7, Some(7)));
        // There was no histogram at first.
        let mut last = last;
        last.runq.clear();
        assert_eq!(since(&last, &all("/a", 7)), (2, Some(7)));
        // It went back.
        last.runq = all("/a", 9).runq;
        assert_eq!(since(&last, &all("/a", 7)), (2, None));
    }
}
