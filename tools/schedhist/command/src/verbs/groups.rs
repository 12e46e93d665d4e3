// SPDX-License-Identifier: GPL-2.0

//! `groups`: who waits, and because of whom; who makes others wait.

use schedhist_core::{
    distribution::{Distribution, Quantile},
    engine::{
        group::records::{GroupCounter, GroupMetric},
        idle::{Distance, WaitCause, WaitPart},
    },
    groups::{offenders, GroupRow, GroupWindow, Offender, CLASSES},
    raw::{Group, Groups},
    units::{percent, shares, tasks_on_average},
};

use crate::{
    cli,
    error::{Error, Result},
    options::{Form, Style},
    output::{print, WIDTH},
    render,
    setting::grouping::{ANEW, MORE_GROUPS, NO_HISTOGRAM},
    source::{each_interval, Interval, Reading, Source},
    table::{self, Cell, Column, Table},
};

/// Off-CPU periods because a quota was spent, and their sum.
const THROTTLED: usize = GroupCounter::Throttled as usize;
const THROTTLED_NS: usize = GroupCounter::ThrottledNs as usize;

/// What is in progress is told in text from this time on, in nanoseconds.
const LONG: u64 = 100_000_000;

/// What a group did, and its waits meanwhile.
type Row = (GroupRow, Distribution);

/// Returns what the groups did in an interval.
fn rows(between: &GroupWindow<'_>, new: &Groups) -> Vec<Row> {
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

/// Prints the groups, those first that waited longest, or that kept others waiting longest.
pub fn groups(args: &cli::Groups, source: &Source) -> Result {
    let style = Style::new(&args.style);
    let mut is_headed = false;
    let mut show = |old: Option<&Groups>, groups: &Groups, span: &str, interval: &Interval| {
        let between = GroupWindow::new(old, groups);
        let is_anew = groups.are_anew(old);
        let shown = Shown {
            span: match is_anew {
                true => render::span_text(between.span),
                false => span.to_owned(),
            },
            is_anew,
            between,
            groups,
            interval,
            args,
            style: &style,
        };
        let text = match args.offenders {
            true => shown.render(shown.offenders(&shown.between.rows()), &mut is_headed),
            false => shown.render(shown.groups(), &mut is_headed),
        };
        print(&text)
    };
    let first = source.read()?;
    let mut last = groups_of(&first, source)?;
    if args.interval.is_none() {
        let span = "since group_by was written";
        return show(None, &last, span, &first.since_load());
    }
    let (interval, count) = (args.interval, args.count);
    each_interval(source, first, interval, count, &mut |interval, reading| {
        let now = groups_of(reading, source)?;
        show(Some(&last), &now, &render::span(&interval), &interval)?;
        last = now;
        Ok(())
    })
}

/// The least room for a name: the end of a long path is to be seen.
const NAME: usize = 14;

/// What is shown of an interval, and how.
struct Shown<'a> {
    between: GroupWindow<'a>,
    groups: &'a Groups,
    span: String,
    /// Whether the groups began in the interval.
    is_anew: bool,
    interval: &'a Interval,
    args: &'a cli::Groups,
    style: &'a Style,
}

impl Shown<'_> {
    /// Returns a table as the user wants it, without the rows for which there is no room.
    fn render<R>(&self, mut table: Table<'_, R>, is_headed: &mut bool) -> String {
        // A program wants all of them.
        let most = match (self.args.rows, &self.style.form) {
            (Some(rows), _) => usize::try_from(rows).unwrap_or(usize::MAX),
            (None, Form::Text) => 20,
            (None, _) => usize::MAX,
        };
        let more = table.rows.len().saturating_sub(most);
        table.rows.truncate(most);
        if more != 0 {
            table.after.push(format!("... and {more} more: --rows"));
        }
        table.notes.extend(self.interval.notes.iter().cloned());
        table.notes.extend(self.is_anew.then(|| ANEW.to_owned()));
        let is_wanted = |name: &str| matches!(name, "runq" | "oncpu");
        table
            .notes
            .extend(render::off(&self.interval.window, &is_wanted));
        if self.groups.refused != 0 {
            table.notes.push(format!(
                "{} times since tasks were grouped, a task found no room for a group, and went to \
                 other: {MORE_GROUPS}",
                self.groups.refused
            ));
        }
        let of_all = |of: &dyn Fn(&Group) -> u64| {
            let all = self.groups.groups.iter();
            let all = all.filter(|group| !self.groups.is_gone(group.id));
            all.map(of).fold(0, u64::saturating_add)
        };
        let late = of_all(&|group| self.between.not_in_histogram(group, &[GroupMetric::Runq]));
        // A few are usual, and change no p99.
        if late != 0 && late > of_all(&|group| self.between.count(group, GroupMetric::Runq)) / 100 {
            table.notes.push(format!("{late} waits {NO_HISTOGRAM}"));
        }
        table.render(self.style, is_headed)
    }

    /// Returns a table without columns but those of the interval.
    fn table<'b, R>(&'b self, what: &str, schema: &'static str, rows: Vec<R>) -> Table<'b, R> {
        let columns = vec![
            Column::new("unix_ns", |_| self.interval.unix_ns.into()),
            Column::new("span_ns", |_| {
                Cell::time(match self.is_anew {
                    true => self.between.span,
                    false => self.interval.window.span,
                })
            }),
            Column::json("rule", |_| Cell::from(&self.groups.rule)),
        ];
        let mut table = Table::new(schema, columns, rows);
        let (rule, unit) = (&self.groups.rule, render::in_unit(self.style.unit));
        table
            .title
            .push(format!("schedhist: {what} by {rule}, {}{unit}", self.span));
        table
    }

    /// Returns the groups.
    fn groups(&self) -> Table<'_, Row> {
        let style = self.style;
        let mut table = self.table(
            "groups",
            "schedhist.group.v1",
            rows(&self.between, self.groups),
        );
        let ns = |f: fn(&GroupRow) -> u64| move |(row, _): &Row| Cell::Time(f(row));
        let count = |f: fn(&GroupRow) -> u64| move |(row, _): &Row| Cell::Count(f(row));
        let name = |(row, _): &Row| Cell::from(&row.name);
        let span = self.between.span;
        let columns = &mut table.columns;
        columns.extend([
            Column::json("name", name),
            Column::new("oncpu_ns", ns(|row| row.oncpu_ns)).right("oncpu", 6),
            Column::json("oncpu_in_progress", count(|row| row.in_progress.oncpu.0)),
            Column::json("oncpu_in_progress_ns", ns(|row| row.in_progress.oncpu.1)),
            Column::json("oncpu_unseen_ns", ns(|row| row.in_progress.unseen.1)),
            Column::new("waits", count(|row| row.waits.0)).right("waits", 6),
            Column::new("waited_ns", ns(|row| row.waits.1)).right("waited", 6),
            Column::new("tasks_waiting", move |(row, _): &Row| {
                Cell::Tasks(tasks_on_average(row.waits.1.into(), span))
            })
            .right("queue", 5),
            Column::json("waits_in_progress", count(|row| row.in_progress.runq.0)),
            Column::json("waited_in_progress_ns", ns(|row| row.in_progress.runq.1)),
        ]);
        columns.extend(CLASSES.iter().enumerate().map(|(class, name)| {
            let ended = move |(row, _): &Row| Cell::Time(row.ended_ns[class]);
            Column::new(format!("ended_by_{name}_ns"), ended)
        }));
        columns.extend([
            Column::json("throttled", count(|row| row.counters[THROTTLED])),
            Column::json("throttled_ns", ns(|row| row.counters[THROTTLED_NS])),
        ]);
        columns.extend(placement());
        columns.push(Column::json("neighbours", |(row, _): &Row| {
            pairs(row.neighbours.iter().map(|(name, ns)| (name, *ns)))
        }));
        let shown = match style.are_quantiles_chosen {
            true => style.quantiles.clone(),
            false => Quantile::parse("99").into_iter().collect(),
        };
        let waits = table::distribution(style, 6, &shown, |(_, waits): &Row| Some(waits));
        // The first two would be those of the waits again.
        let waits = waits.into_iter().enumerate();
        columns.extend(waits.map(|(place, column)| match place {
            0 | 1 => column.json_only(),
            _ => column,
        }));
        columns.extend(CLASSES.iter().enumerate().map(|(class, heading)| {
            let share = move |(row, _): &Row| (shares(&row.ended_ns)[class] / 10).into();
            let gap = if class == 0 { 2 } else { 1 };
            Column::text(share).right(*heading, heading.len()).gap(gap)
        }));
        columns.push(
            Column::csv("name", name)
                .left("group", NAME)
                .gap(2)
                .cut(self.args.wide),
        );
        // While it is off, there are those of before.
        let are_looked_at = self
            .interval
            .window
            .long_waits
            .is_some_and(|waits| waits.limit != 0);
        table.below = Box::new(move |(row, _)| {
            let served = are_looked_at.then(|| served(row, style)).flatten();
            served
                .into_iter()
                .chain(below(row, self.args.wide, style))
                .collect()
        });
        table
    }

    /// Returns the groups that kept others waiting. All that is said of them is the least that is
    /// sure.
    fn offenders<'b>(&'b self, rows: &'b [GroupRow]) -> Table<'b, Offender> {
        let (offenders, unnamed) = offenders(rows);
        let kept = offenders
            .iter()
            .fold(unnamed, |all, it| all.saturating_add(it.kept_ns));
        let span = self.between.span;
        let share = move |it: &Offender| percent(it.kept_ns, kept).into();
        let name = |it: &Offender| Cell::from(&it.name);
        let mut table = self.table("offenders", "schedhist.offender.v1", offenders);
        table.columns.extend([
            Column::json("name", name),
            Column::new("kept_at_least_ns", |it: &Offender| Cell::Time(it.kept_ns))
                .right("at least", 8),
            Column::text(share).right("share", 5),
            Column::new("tasks_at_least", move |it: &Offender| {
                Cell::Tasks(tasks_on_average(it.kept_ns.into(), span))
            })
            .right("queue", 5),
            Column::new(
                "groups",
                |it: &Offender| Cell::Count(it.waited.len() as u64),
            )
            .right("groups", 6),
            Column::json("waited_at_least", |it: &Offender| {
                pairs(
                    it.waited
                        .iter()
                        .map(|(place, ns)| (&rows[*place].name, *ns)),
                )
            }),
            Column::json("unnamed_ns", move |_| Cell::Time(unnamed)),
            Column::csv("name", name)
                .left("kept others waiting", NAME)
                .gap(2)
                .cut(self.args.wide),
        ]);
        let is_wide = self.args.wide;
        table.below = Box::new(move |it| {
            let waited = it.waited.iter().take(2).map(|(place, ns)| {
                let row = &rows[*place];
                let percent = percent(*ns, row.ended());
                line(
                    format!("        {percent:>3}% of the waits of "),
                    &row.name,
                    is_wide,
                )
            });
            waited.collect()
        });
        if unnamed != 0 {
            let (time, share) = (self.style.unit.text(Some(unnamed)), percent(unnamed, kept));
            table.after.push(format!(
                "{time} of waits, {share}%, ended by other groups that are not named"
            ));
        }
        table
    }
}

/// Returns names with times for JSON.
fn pairs<'a>(all: impl Iterator<Item = (&'a String, u64)>) -> Cell {
    let pair = |(name, ns): (&String, u64)| Cell::List(vec![Cell::from(name), Cell::Time(ns)]);
    all.map(pair).collect()
}

/// Returns a line below a row, with a name that has room in it.
fn line(before: String, name: &str, is_wide: bool) -> String {
    let room = if is_wide {
        usize::MAX
    } else {
        WIDTH - before.len()
    };
    before + &table::cut(name, room)
}

/// Returns the columns of where the tasks of a group ran and waited.
fn placement<'a>() -> impl Iterator<Item = Column<'a, Row>> {
    let migrations = Distance::BETWEEN_CPUS.into_iter().enumerate();
    let migrations = migrations.map(|(place, distance)| {
        let count = move |(row, _): &Row| Cell::Count(row.migrations[place]);
        Column::json(format!("migrations_{}", distance.name()), count)
    });
    let waits = Column::json("long_waits", |(row, _): &Row| {
        Cell::Count(row.long_waits.waits())
    });
    let parts = WaitPart::ALL.into_iter().map(|part| {
        let sum = move |(row, _): &Row| Cell::Time(row.long_waits.part(part));
        Column::json(format!("long_wait_{}_ns", part.name()), sum)
    });
    let causes = WaitCause::ALL.into_iter().flat_map(|cause| {
        let name = cause.name();
        let count = move |(row, _): &Row| Cell::Count(row.long_waits.cause(cause).0);
        let sum = move |(row, _): &Row| Cell::Time(row.long_waits.cause(cause).1);
        [
            Column::json(format!("long_waits_{name}"), count),
            Column::json(format!("long_waits_{name}_ns"), sum),
        ]
    });
    migrations.chain([waits]).chain(parts).chain(causes)
}

/// Returns what people see of a group's long waits below its row, if there are any.
fn served(row: &GroupRow, style: &Style) -> Option<String> {
    let waits = &row.long_waits;
    let served = render::served(waits, style.unit)?;
    Some(format!("        {} long waits, {served}", waits.waits()))
}

/// Returns what people see of a group below its row: whether its quota was spent, what it is doing,
/// and who keeps it waiting.
fn below(row: &GroupRow, is_wide: bool, style: &Style) -> Vec<String> {
    let throttled = row.counters[THROTTLED];
    let throttled = (throttled != 0).then(|| {
        let time = style.unit.text(Some(row.counters[THROTTLED_NS]));
        format!("        throttled {throttled} times, {time} in total")
    });
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
    let neighbours = row.neighbours.iter().take(2).map(|(name, ns)| {
        let percent = percent(*ns, row.ended());
        line(format!("        {percent:>3}% kept by "), name, is_wide)
    });
    throttled
        .into_iter()
        .chain(in_progress)
        .chain(neighbours)
        .collect()
}
