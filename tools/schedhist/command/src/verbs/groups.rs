// SPDX-License-Identifier: GPL-2.0

//! `groups`: who waits, and because of whom.
//!
//! Only this file knows that groups are read from text files: `groups` and `group_hist/METRIC`.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt::Write, //
};

use clap::ArgMatches;
use schedhist_core::{
    distribution::{
        Distribution,
        Quantile, //
    },
    json::{
        quoted,
        Object, //
    },
    text::{
        self,
        shares,
        Group, //
    },
    units,
};

use crate::{
    failure::{
        print,
        Failure,
        Result, //
    },
    options::{
        Form,
        Style,
        Wanted, //
    },
    source::Source,
    verbs::{
        hist::each_interval,
        render, //
    },
};

/// The classes of tasks that had the CPU when a wait ended.
const CLASSES: [&str; 4] = ["own", "other", "kernel", "idle"];

/// The histograms of one group, interval by interval.
#[derive(Debug)]
pub struct GroupHistograms {
    name: String,
    metrics: Vec<String>,
    last: Distribution,
}

impl GroupHistograms {
    /// Begins now. `path` is the name of the group, or the path of its cgroup below `/sys/fs/cgroup`.
    pub fn new(source: &Source, path: &str, metrics: &[String]) -> Result<Self> {
        if let Some(metric) = metrics
            .iter()
            .find(|m| !matches!(m.as_str(), "oncpu" | "runq" | "offcpu"))
        {
            return Err(Failure::Usage(format!(
                "groups have no histogram of {metric}"
            )));
        }
        let rule = text::groups(&source.text("groups")?)?.rule;
        if !rule.starts_with("cgroup") {
            return Err(Failure::Error(format!(
                "{}: tasks are grouped by '{rule}': schedhist ctl group_by cgroup",
                source.path("group_by").display()
            )));
        }
        let name = path
            .strip_prefix("/sys/fs/cgroup")
            .unwrap_or(path)
            .trim_end_matches('/');
        let name = if name.is_empty() { "/" } else { name };
        let mut group = Self {
            name: name.to_owned(),
            metrics: metrics.to_vec(),
            last: Distribution::new(schedhist_core::engine::histogram::bucket::Scheme::DEFAULT),
        };
        group.last = group.all(source)?;
        Ok(group)
    }

    fn all(&self, source: &Source) -> Result<Distribution> {
        let mut all: Option<Distribution> = None;
        for metric in &self.metrics {
            let one = histograms(source, metric)?.remove(&self.name);
            match (&mut all, one) {
                (Some(all), Some(one)) => all.merge(&one),
                (None, one) => all = one,
                _ => {}
            }
        }
        // A group without samples yet has no block.
        Ok(all.unwrap_or_else(|| Distribution::new(self.last.scheme)))
    }

    /// Returns the samples since the last call.
    pub fn next(&mut self, source: &Source) -> Result<Distribution> {
        let all = self.all(source)?;
        // New groups have begun if a count went back, or if there were none before.
        let since = if all.scheme == self.last.scheme {
            all.since(&self.last)
        } else {
            None
        };
        let since = since.unwrap_or_else(|| all.clone());
        self.last = all;
        Ok(since)
    }
}

/// Returns the histogram of each group, by the group's name.
pub fn histograms(source: &Source, metric: &str) -> Result<BTreeMap<String, Distribution>> {
    let name = format!("group_hist/{metric}");
    let blocks = text::histograms(&source.text(&name)?)
        .map_err(|why| Failure::at(source.path(&name).display(), why))?;
    let blocks = blocks
        .into_iter()
        .filter_map(|block| Some((block.pairs.get("name")?.to_owned(), block.distribution)));
    Ok(blocks.collect())
}

/// What a group did.
#[derive(Clone, Debug, Default)]
struct Row {
    oncpu_ns: u64,
    waits: u64,
    waited_ns: u64,
    ended_ns: [u64; 4],
    neighbours: BTreeMap<String, u64>,
    runq: Option<Distribution>,
}

impl Row {
    fn new(group: &Group, runq: Option<Distribution>) -> Self {
        let number = |key: &str| units::clamp(group.pairs.number(key).unwrap_or_default());
        let neighbours = group.neighbours.iter();
        Self {
            oncpu_ns: number("oncpu_sum_ns"),
            waits: number("runq_count"),
            waited_ns: number("runq_sum_ns"),
            ended_ns: CLASSES.map(|class| number(&format!("ended_by_{class}_ns"))),
            neighbours: neighbours
                .map(|n| (n.name.clone(), units::clamp(n.ended_ns)))
                .collect(),
            runq,
        }
    }

    /// Subtracts an earlier row. Counts that went back mean that new groups have begun.
    fn since(&self, old: &Self) -> Self {
        if self.waits < old.waits || self.oncpu_ns < old.oncpu_ns {
            return self.clone();
        }
        let mut new = self.clone();
        new.oncpu_ns -= old.oncpu_ns;
        new.waits -= old.waits;
        new.waited_ns = new.waited_ns.saturating_sub(old.waited_ns);
        for (new, old) in new.ended_ns.iter_mut().zip(old.ended_ns) {
            *new = new.saturating_sub(old);
        }
        for (name, ns) in &mut new.neighbours {
            *ns = ns.saturating_sub(old.neighbours.get(name).copied().unwrap_or_default());
        }
        if let (Some(new), Some(old)) = (&mut new.runq, &old.runq) {
            if let Some(since) = new.since(old) {
                *new = since;
            }
        }
        new
    }
}

/// All groups at one time.
struct Table {
    rule: String,
    refused: u64,
    rows: BTreeMap<String, Row>,
}

fn read(source: &Source) -> Result<Table> {
    let path = source.path("groups");
    let groups =
        text::groups(&source.text("groups")?).map_err(|w| Failure::at(path.display(), w))?;
    if groups.rule == "none" || groups.rule.is_empty() {
        return Err(Failure::Error(format!(
            "{}: tasks are not grouped: schedhist ctl group_by cgroup",
            path.display()
        )));
    }
    let mut runq = histograms(source, "runq")?;
    let rows = groups.groups.iter();
    let rows = rows.map(|group| {
        (
            group.name.clone(),
            Row::new(group, runq.remove(&group.name)),
        )
    });
    Ok(Table {
        rows: rows.collect(),
        rule: groups.rule,
        refused: groups.refused,
    })
}

/// Prints the groups, those first that waited longest.
pub fn groups(args: &ArgMatches, source: &Source) -> Result {
    let style = Style::new(args)?;
    let wanted = Wanted::new(args.get_many::<String>("words").unwrap_or_default())?;
    if let Some(word) = wanted.metrics.first() {
        return Err(Failure::Usage(format!("unexpected argument '{word}'")));
    }
    let rows = args
        .get_one::<String>("rows")
        .map_or(Ok(20), |rows| crate::options::count(rows))?;
    let most = usize::try_from(rows).unwrap_or(usize::MAX);
    let wide = args.get_flag("wide");
    let mut last = read(source)?;
    if wanted.interval.is_none() {
        return print(&show(
            &last,
            "since group_by was written",
            most,
            wide,
            &style,
        ));
    }
    let first = source.read()?;
    each_interval(source, first, wanted.interval, wanted.count, |frame, _| {
        let now = read(source)?;
        let rows = now.rows.iter().map(|(name, row)| {
            let since = last
                .rows
                .get(name)
                .map_or_else(|| row.clone(), |old| row.since(old));
            (name.clone(), since)
        });
        let since = Table {
            rule: now.rule.clone(),
            refused: now.refused,
            rows: rows.collect(),
        };
        let text = show(&since, &render::span(&frame), most, wide, &style);
        last = now;
        print(&text)
    })
}

fn show(table: &Table, span: &str, most: usize, wide: bool, style: &Style) -> String {
    let mut rows: Vec<_> = table
        .rows
        .iter()
        .filter(|(_, r)| r.waits != 0 || r.oncpu_ns != 0)
        .collect();
    rows.sort_by_key(|(name, row)| (Reverse(row.waited_ns), (*name).clone()));
    let all = rows.len();
    rows.truncate(most);
    match &style.form {
        Form::Json => rows
            .iter()
            .map(|(name, row)| json(name, row, style))
            .collect(),
        Form::Csv(separator) => csv(&rows, separator),
        Form::Text => {
            let mut out = String::new();
            render::wrap(
                &mut out,
                &format!("schedhist: groups by {}, {span}", table.rule),
            );
            out += "  oncpu   waits  waited     p99     max  own oth ker idl  group\n";
            for (name, row) in rows {
                text_row(&mut out, name, row, wide, style);
            }
            if all > most {
                let _ = writeln!(out, "... and {} more: --rows", all - most);
            }
            if table.refused != 0 {
                let note = "groups that found no room are in other: schedhist ctl group_limit";
                render::wrap(&mut out, &format!("note: {} times, {note}", table.refused));
            }
            out
        }
    }
}

fn text_row(out: &mut String, name: &str, row: &Row, wide: bool, style: &Style) {
    let unit = style.unit;
    let p99 = Quantile::parse("99");
    let runq = row.runq.as_ref();
    let p99 = runq.and_then(|runq| runq.quantile_upper(p99?));
    let max = runq.map_or_else(|| "-".to_owned(), |runq| unit.max(runq.max));
    let _ = write!(
        out,
        "{:>7} {:>7} {:>7} {:>7} {max:>7} ",
        unit.text(Some(row.oncpu_ns)),
        units::count(row.waits),
        unit.text(Some(row.waited_ns)),
        unit.quantile(p99),
    );
    for share in shares(&row.ended_ns) {
        let _ = write!(out, "{:>4}", share / 10);
    }
    let room = if wide { usize::MAX } else { 80 - 58 };
    let _ = writeln!(out, "  {}", cut(name, room));
    let waited: u64 = row
        .ended_ns
        .iter()
        .fold(0, |sum, ns| sum.saturating_add(*ns));
    let mut neighbours: Vec<_> = row.neighbours.iter().filter(|(_, ns)| **ns != 0).collect();
    neighbours.sort_by_key(|(_, ns)| Reverse(**ns));
    for (name, ns) in neighbours.into_iter().take(2) {
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

fn json(name: &str, row: &Row, style: &Style) -> String {
    let mut object = Object::new("schedhist.group.v1")
        .string("name", name)
        .raw("oncpu_ns", row.oncpu_ns)
        .raw("waits", row.waits)
        .raw("waited_ns", row.waited_ns);
    for (class, ns) in CLASSES.iter().zip(row.ended_ns) {
        object = object.raw(&format!("ended_by_{class}_ns"), ns);
    }
    let neighbours = row.neighbours.iter();
    let neighbours = neighbours.map(|(name, ns)| format!("[{},{ns}]", quoted(name)));
    object = object.array("neighbours", neighbours);
    if let Some(runq) = &row.runq {
        object = render::distribution_json(object, runq, style);
    }
    object.end() + "\n"
}

fn csv(rows: &[(&String, &Row)], separator: &str) -> String {
    let mut out = [
        "oncpu_ns",
        "waits",
        "waited_ns",
        "own_ns",
        "other_ns",
        "kernel_ns",
        "idle_ns",
        "name",
    ]
    .join(separator)
        + "\n";
    for (name, row) in rows {
        let mut values = vec![row.oncpu_ns, row.waits, row.waited_ns];
        values.extend(row.ended_ns);
        let values: Vec<_> = values.iter().map(u64::to_string).collect();
        let _ = writeln!(out, "{}{separator}{name}", values.join(separator));
    }
    out
}
