// SPDX-License-Identifier: GPL-2.0

//! `report --html`: one or two recordings as a page.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use schedhist_core::{
    chains::sum,
    distribution::Distribution,
    engine::idle::WaitSums,
    gather::entry,
    groups::{GroupRow, GroupWindow},
    laws,
    limits::Limit,
    timeline::Timeline,
    window::Window,
};
use schedhist_page::{self as page, flame::Stacks, watched, CpuRow, Outliers, Recording};

use crate::{
    cli::{Report, When},
    error::{At, Error, Result},
    files,
    output::note,
    recordings::{
        part,
        reader::{self, no_interval, Contents, GroupsPart, Losses, SnapshotPair},
    },
    verbs::check,
};

/// The number of columns of a chart, for one recording, and for each of two.
const COLUMNS: [usize; 2] = [240, 120];

pub fn html(args: &Report, path: &Path, out: &Path) -> Result<u8> {
    let mut paths = vec![path];
    paths.extend(args.against.as_deref());
    for path in &paths {
        reader::check_other(path, out)?;
    }
    for path in args.stacks.iter().chain(&args.limits) {
        files::check_other(path, out)?;
    }
    let columns = COLUMNS[paths.len() - 1];
    let limits = check::some_limits(args.limits.as_deref())?;
    let recordings = paths
        .iter()
        .map(|path| read(path, &args.when, columns, &limits));
    let recordings = recordings.collect::<Result<Vec<_>>>()?;
    let (mut recordings, lost): (Vec<_>, Vec<_>) = recordings.into_iter().unzip();
    add_stacks(&args.stacks, &mut recordings)?;
    let text = page::render(&recordings);
    files::write(out, text.as_bytes())?;
    note(format!("{}: {} bytes", out.display(), text.len()));
    Ok(lost.iter().map(Losses::status).max().unwrap_or_default())
}

/// Adds the stacks of outliers, and those of each recording, in this order.
fn add_stacks(paths: &[PathBuf], recordings: &mut [Recording]) -> Result {
    let mut next = 0;
    for path in paths {
        let bytes = fs::read(path).at(path)?;
        let text = String::from_utf8_lossy(&bytes);
        if text.trim().is_empty() && recordings.len() == 1 {
            note(format!("{}: it is empty", path.display()));
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
            let why = "--stacks: there are more files than recordings";
            return Err(Error::usage(why));
        };
        let stacks = Stacks::parse(&name(path), &bytes);
        recording.stacks = Some(stacks.at(path)?);
        next += 1;
    }
    Ok(())
}

/// Returns the name of a file without its folders.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// What is added up while the recording is read.
#[derive(Default)]
struct Sums {
    timeline: Option<Timeline>,
    cpus: BTreeMap<u32, CpuRow>,
    /// The offsets from UTC, each once.
    zones: Vec<String>,
    /// The end of the last interval, in nanoseconds since the first snapshot.
    last: Option<u64>,
    skipped: u64,
    read_ns: u64,
    intervals: u64,
    long_waits: Option<WaitSums>,
}

impl Sums {
    fn add(&mut self, pair: &SnapshotPair<'_>, columns: usize) -> Result {
        let (begin, end) = pair.at;
        let window = pair.window()?;
        let timeline = self.timeline.take();
        let mut timeline = timeline.unwrap_or_else(|| Timeline::new(&window, columns));
        let after_gap = self.last.is_some_and(|last| last != begin);
        self.last = Some(end);
        let clock = part::local_ns(pair.before.unix_ns);
        let zone = part::zone(pair.before.unix_ns);
        if !self.zones.contains(&zone) {
            self.zones.push(zone);
        }
        if timeline.push(&window, end, clock, after_gap).is_some() {
            if let Some(waits) = &window.long_waits {
                self.long_waits.get_or_insert_default().add(&waits.sums);
            }
            self.intervals += 1;
            self.read_ns = self.read_ns.max(pair.after.read_ns);
            self.add_cpus(&window);
        } else {
            self.skipped += 1;
        }
        self.timeline = Some(timeline);
        Ok(())
    }

    fn add_cpus(&mut self, window: &Window) {
        let place = window.names.counter("switches");
        let runq = window.names.metric("runq");
        for cpu in &window.cpus {
            let number = cpu.number;
            let sums = self.cpus.entry(number).or_insert_with(|| CpuRow {
                number,
                switches: 0,
                runq: Distribution::new(window.scheme),
                busy: 0,
            });
            let switches = place.and_then(|place| cpu.counters.get(place));
            let switches = switches.copied().unwrap_or_default();
            sums.switches = sums.switches.saturating_add(switches);
            sums.busy += window.busy(cpu);
            if let Some(runq) = runq {
                let samples = window.distribution(runq, &|cpu| cpu == number);
                sums.runq.merge(&samples);
            }
        }
    }
}

fn read(path: &Path, when: &When, columns: usize, limits: &[Limit]) -> Result<(Recording, Losses)> {
    let mut sums = Sums::default();
    let contents = reader::read(path, when, |pair| sums.add(pair, columns))?;
    let Some(timeline) = sums.timeline.take() else {
        return Err(no_interval(false).about(path));
    };
    let mut facts = facts(&contents, &sums, &timeline);
    if when.option().is_some() {
        // They are recorded less often.
        let groups = contents.groups.iter();
        let span = sum(groups.map(|part| part.at.1.saturating_sub(part.at.0)));
        let span = format!("{:.1} s", span as f64 / 1e9);
        facts.push(("recorded of groups".to_owned(), span));
    }
    let limits = contents.judge(limits);
    let (groups, rule) = all_groups(&contents.groups);
    let numbers = contents.numbers();
    let laws = laws(&contents);
    let outliers = contents.outliers.into_iter();
    let outliers = Outliers::new(outliers.map(|it| (it.at, it.outlier)).collect());
    let recording = Recording {
        name: name(path),
        zones: sums.zones,
        facts,
        limits,
        cpus: sums.cpus.into_values().collect(),
        laws,
        marks: contents
            .marks
            .into_iter()
            .chain(contents.lost.0.iter().map(|(_, lost)| lost.to_string()))
            .collect(),
        groups,
        numbers,
        rule,
        long_waits: sums.long_waits,
        outliers,
        stacks: None,
        watched: watched::Watched::new(),
        timeline,
    };
    Ok((recording, contents.lost))
}

/// Returns what the check of the laws found in each part of a recording.
fn laws(contents: &Contents) -> Vec<(String, Option<String>)> {
    let mut laws = Vec::new();
    for (first, last) in &contents.spans {
        let window = Window::between(&first.snapshot, &last.snapshot).ok();
        let Some(window) = window.filter(|window| window.span != Some(0)) else {
            continue;
        };
        let checked = laws::check(&window, first.read_ns.saturating_add(last.read_ns));
        laws.extend(checked.violations.iter().map(|violation| {
            let off = format!("off by {} on CPU {}", violation.off_by, violation.cpu);
            (violation.law.to_owned(), Some(off))
        }));
        if checked.violations.is_empty() {
            let mut text = format!("{} hold on every CPU", checked.checked);
            if checked.in_flight != 0 {
                let number = checked.in_flight;
                text += &format!(", but for at most {number} switches in flight");
            }
            laws.push((text, None));
        }
    }
    laws
}

/// Returns what is known of the machine and of the recording.
fn facts(contents: &Contents, sums: &Sums, timeline: &Timeline) -> Vec<(String, String)> {
    let recorded = [
        ("recorded", format!("{:.1} s", timeline.span() as f64 / 1e9)),
        ("intervals", sums.intervals.to_string()),
        ("CPUs", timeline.cpus.len().to_string()),
        ("precision", timeline.scheme.precision().bits().to_string()),
        ("longest read", page::duration(sums.read_ns)),
    ];
    let left_out = || {
        (
            "left out",
            format!("{} intervals of another kind", sums.skipped),
        )
    };
    let recorded = recorded
        .into_iter()
        .chain((sums.skipped != 0).then(left_out));
    let info = contents
        .info
        .iter()
        .map(|(key, value)| (key, value.to_owned()));
    let all = info.chain(recorded);
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns what the groups of the last rule did in all parts of a recording, and that rule.
fn all_groups(parts: &[GroupsPart]) -> (Vec<GroupRow>, String) {
    let rule = parts.last().map_or("", |part| &part.last.rule);
    let mut all: Vec<GroupRow> = Vec::new();
    for part in parts.iter().filter(|part| part.last.rule == rule) {
        for row in GroupWindow::new(Some(&part.first), &part.last).rows() {
            match all.iter_mut().find(|known| known.name == row.name) {
                Some(known) => add_row(known, &row),
                None => all.push(row),
            }
        }
    }
    all.sort_by_cached_key(|row| Reverse(row.waits.1));
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
        add(entry(&mut sum.neighbours, name.clone()), *ns);
    }
    sum.neighbours.sort_by_cached_key(|(_, ns)| Reverse(*ns));
}
