// SPDX-License-Identifier: GPL-2.0

//! `report --html`: one or two recordings as a page.

use std::{cmp::Reverse, collections::BTreeMap, fs, path::Path};

use clap::ArgMatches;
use schedhist_core::{
    distribution::Distribution,
    groups::{self, GroupRow},
    laws,
    page::{self, flame::Stacks, watched, CpuRow, Recording},
    raw::Names,
    text::Groups,
    timeline::Timeline,
    window::Window,
};

use crate::{
    failure::{note, Failure, Result},
    files,
    recordings::runs::{self, Losses},
    verbs::report,
};

/// The number of columns of a chart, for one recording, and for each of two.
const COLUMNS: [usize; 2] = [240, 120];

/// Writes the page.
pub fn html(args: &ArgMatches, path: &str, out: &str) -> Result {
    let range = report::range(args)?;
    let mut paths = vec![path];
    paths.extend(args.get_one::<String>("against").map(String::as_str));
    let stacks = args.get_many::<String>("stacks").into_iter().flatten();
    for path in { paths.iter().copied() }.chain(stacks.map(String::as_str)) {
        files::check_other(path, out)?;
    }
    let columns = COLUMNS[paths.len() - 1];
    let recordings = paths.iter().map(|path| read(path, range, columns));
    let recordings = recordings.collect::<Result<Vec<_>>>()?;
    let (mut recordings, lost): (Vec<_>, Vec<_>) = recordings.into_iter().unzip();
    add_stacks(args, &mut recordings)?;
    let text = page::render(&recordings);
    files::write(out, text.as_bytes())?;
    note(format!("{out}: {} bytes", text.len()));
    lost.iter().try_for_each(Losses::check)
}

/// Adds the stacks of outliers, and those of each recording, in this order.
fn add_stacks(args: &ArgMatches, recordings: &mut [Recording]) -> Result {
    let mut next = 0;
    for path in args.get_many::<String>("stacks").into_iter().flatten() {
        let bytes = fs::read(path).map_err(|error| Failure::at(path, error))?;
        let text = String::from_utf8_lossy(&bytes);
        if text.trim().is_empty() && recordings.len() == 1 {
            note(format!("{path}: it is empty"));
            continue;
        }
        if text.starts_with('{') {
            let watched = watched::parse(&text);
            for recording in recordings.iter_mut() {
                recording.watched.extend(watched.clone());
            }
            continue;
        }
        let Some(recording) = recordings.get_mut(next) else {
            let text = "--stacks: there are more files than recordings";
            return Err(Failure::Usage(text.to_owned()));
        };
        let stacks = Stacks::parse(&name(path), &bytes);
        recording.stacks = Some(stacks.map_err(|why| Failure::at(path, why))?);
        next += 1;
    }
    Ok(())
}

/// Returns the name of a file without its folders.
fn name(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The totals of a CPU.
struct Cpu {
    switches: u64,
    runq: Distribution,
    busy: u128,
}

/// What is added up while the recording is read.
#[derive(Default)]
struct Sums {
    timeline: Option<Timeline>,
    cpus: BTreeMap<u32, Cpu>,
    laws: Vec<(String, Option<String>)>,
    /// The end of the last interval, in nanoseconds since the first snapshot.
    last: Option<u64>,
    skipped: u64,
    read_ns: u64,
    intervals: u64,
}

fn read(path: &str, range: (f64, f64), columns: usize) -> Result<(Recording, Losses)> {
    let mut sums = Sums::default();
    let mut contents = runs::read(path, |interval| {
        let (before, after) = (interval.before, interval.after);
        let (begin, end) = interval.at;
        if !interval.is_within(range) {
            return Ok(());
        }
        let window = Window::between(&before.snapshot, &after.snapshot);
        let window = window.map_err(|why| Failure::Error(why.to_string()))?;
        let timeline = sums
            .timeline
            .get_or_insert_with(|| Timeline::new(&window, columns));
        let after_gap = sums.last.is_some_and(|last| last != begin);
        sums.last = Some(end);
        if timeline.push(&window, end, after_gap).is_none() {
            sums.skipped += 1;
            return Ok(());
        }
        sums.intervals += 1;
        sums.read_ns = sums.read_ns.max(after.read_ns);
        add_cpus(&mut sums.cpus, &window);
        Ok(())
    })?;
    let Some(timeline) = sums.timeline else {
        let text = "there are not two snapshots without a gap between them";
        return Err(Failure::at(path, text));
    };
    for (first, last) in &contents.spans {
        let Ok(window) = Window::between(&first.snapshot, &last.snapshot) else {
            continue;
        };
        if window.span == Some(0) {
            continue;
        }
        let checked = laws::check(&window, first.read_ns.saturating_add(last.read_ns));
        sums.laws.extend(checked.violations.iter().map(|violation| {
            let off = format!("off by {} on CPU {}", violation.off_by, violation.cpu);
            (violation.law.to_owned(), Some(off))
        }));
        if checked.violations.is_empty() {
            let mut text = format!("{} hold on every CPU", checked.checked);
            if checked.in_flight != 0 {
                let number = checked.in_flight;
                text += &format!(", but for at most {number} switches in flight");
            }
            sums.laws.push((text, None));
        }
    }
    let mut facts: Vec<_> = contents
        .info
        .iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let mut fact = |key: &str, value: String| facts.push((key.to_owned(), value));
    fact("recorded", format!("{:.1} s", timeline.span() as f64 / 1e9));
    fact("intervals", sums.intervals.to_string());
    fact("CPUs", timeline.cpus.len().to_string());
    fact("precision", timeline.scheme.precision().bits().to_string());
    fact("longest read", page::duration(sums.read_ns));
    if sums.skipped != 0 {
        fact(
            "left out",
            format!("{} intervals of another kind", sums.skipped),
        );
    }
    if range != report::WHOLE {
        let begin = timeline.columns.first().map_or(0, |column| column.begin);
        let end = timeline.columns.last().map_or(0, |column| column.end);
        contents
            .outliers
            .retain(|(at, _)| (begin..=end).contains(at));
        fact(
            "of the whole recording",
            "its groups, its laws, and what happened".to_owned(),
        );
    }
    let (groups, rule) = all_groups(&contents.groups);
    let cpus = sums.cpus.into_iter().map(|(number, cpu)| CpuRow {
        number,
        switches: cpu.switches,
        runq: cpu.runq,
        busy: cpu.busy,
    });
    let (outliers, shorter) = page::worst(contents.outliers);
    let recording = Recording {
        name: name(path),
        facts,
        cpus: cpus.collect(),
        laws: sums.laws,
        marks: { contents.marks.into_iter() }
            .chain(contents.lost.0.iter().map(|(_, lost)| lost.to_string()))
            .collect(),
        groups,
        rule,
        outliers,
        shorter,
        stacks: None,
        watched: watched::Watched::new(),
        timeline,
    };
    Ok((recording, contents.lost))
}

fn add_cpus(cpus: &mut BTreeMap<u32, Cpu>, window: &Window) {
    let place = window.names.counter("switches");
    let of = |names: &Names, name: &str, number: u32| {
        let series = names.series(name);
        series.map(|series| window.distribution(series, |cpu| cpu == number))
    };
    for cpu in &window.cpus {
        let sums = cpus.entry(cpu.number).or_insert_with(|| Cpu {
            switches: 0,
            runq: Distribution::new(window.scheme),
            busy: 0,
        });
        let switches = place.and_then(|place| cpu.counters.get(place));
        sums.switches = sums
            .switches
            .saturating_add(switches.copied().unwrap_or_default());
        sums.busy += window.busy(cpu);
        if let Some(runq) = of(&window.names, "runq", cpu.number) {
            sums.runq.merge(&runq);
        }
    }
}

/// Returns what the groups of the last rule did in all parts of a recording, and that rule.
fn all_groups(parts: &[(Groups, Groups)]) -> (Vec<GroupRow>, String) {
    let rule = parts.last().map_or("", |(_, last)| &last.rule);
    let mut all: Vec<GroupRow> = Vec::new();
    for (first, last) in parts.iter().filter(|(_, last)| last.rule == rule) {
        for row in groups::between(first, last) {
            match all.iter_mut().find(|known| known.name == row.name) {
                Some(known) => add_row(known, &row),
                None => all.push(row),
            }
        }
    }
    all.sort_by_key(|row| Reverse(row.waits.1));
    (all, rule.to_owned())
}

/// Adds what a group of the same name did in a later part.
fn add_row(sum: &mut GroupRow, row: &GroupRow) {
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    add(&mut sum.oncpu_ns, row.oncpu_ns);
    add(&mut sum.waits.0, row.waits.0);
    add(&mut sum.waits.1, row.waits.1);
    for (sum, more) in sum.ended_ns.iter_mut().zip(row.ended_ns) {
        add(sum, more);
    }
    // The quantile of all parts is not known.
    sum.runq = (None, sum.runq.1.max(row.runq.1));
    for (name, ns) in &row.neighbours {
        match sum.neighbours.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => add(known, *ns),
            None => sum.neighbours.push((name.clone(), *ns)),
        }
    }
    sum.neighbours.sort_by_key(|(_, ns)| Reverse(*ns));
}
