// SPDX-License-Identifier: GPL-2.0

//! Runs of a command, as `run -o` records them and as `report` and `diff` read them.

use std::{
    fmt::Write,
    fs::File,
    io::BufReader, //
};

use schedhist_core::{
    distribution::{
        Distribution,
        Max, //
    },
    recording::file::{
        Item,
        Player,
        Taken, //
    },
    text::{
        self,
        Groups,
        Outlier,
        OutlierParser,
        Pairs, //
    },
    window::Window,
};

use crate::{
    failure::{
        note,
        printable,
        Failure,
        Result, //
    },
    verbs::merged,
};

/// Whose samples a run has.
pub const COMMAND: &str = "command";
/// The same, for the whole machine.
pub const MACHINE: &str = "machine";

/// A run: figures, and histograms by whose and of which metric they are.
#[derive(Clone, Debug)]
pub struct Run {
    /// `key value` lines: begun_unix_ns, wall_ns, status, cpus, module, precision.
    pub pairs: Pairs,
    /// Whose samples, the metric, and the samples.
    pub histograms: Vec<(String, String, Distribution)>,
}

impl Run {
    /// Returns the samples of a metric.
    pub fn histogram(&self, scope: &str, metric: &str) -> Option<&Distribution> {
        let mut found = self.histograms.iter();
        let found = found.find(|(s, m, _)| s == scope && m == metric);
        found.map(|(_, _, distribution)| distribution)
    }

    /// Returns the text of a run for a recording.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        for (key, value) in self.pairs.iter() {
            let _ = writeln!(out, "{key} {value}");
        }
        for (scope, metric, distribution) in &self.histograms {
            let precision = distribution.scheme.precision().bits();
            let _ = writeln!(
                out,
                "# {scope}\nscope {scope}\nmetric {metric}\nprecision {precision}"
            );
            let _ = writeln!(out, "sum {}", distribution.sum);
            match distribution.max {
                Max::None => {}
                Max::Exact(max) => drop(writeln!(out, "max {max}")),
                Max::AtMost(max) => drop(writeln!(out, "max_at_most {max}")),
            }
            for (bounds, count) in distribution.buckets() {
                let _ = writeln!(out, "bucket {bounds} {count}");
            }
        }
        out
    }

    /// Parses the text of a run.
    pub fn decode(run: &str) -> Result<Self> {
        // Not within a line, where it belongs to a word of the command.
        let (head, blocks) = run.split_once("\n#").unwrap_or((run, ""));
        let blocks = if blocks.is_empty() {
            String::new()
        } else {
            format!("#{blocks}")
        };
        let histograms = text::histograms(&blocks)?.into_iter().filter_map(|block| {
            let key = |key: &str| block.pairs.get(key).map(printable);
            Some((key("scope")?, key("metric")?, block.distribution))
        });
        Ok(Self {
            histograms: histograms.collect(),
            pairs: Pairs::of_lines(head),
        })
    }
}

/// The contents of a recording, as far as `report` and `diff` need them.
#[derive(Debug, Default)]
pub struct Contents {
    /// What was said of the machine.
    pub info: Pairs,
    /// The runs of a command.
    pub runs: Vec<Run>,
    /// The first snapshot of each part without a gap, and the last one.
    pub spans: Vec<(Taken, Taken)>,
    /// What happened, in words.
    pub marks: Vec<String>,
    /// The groups as they were recorded first and last, for each part without a gap in which they
    /// were of one rule.
    pub groups: Vec<(Groups, Groups)>,
    /// Outliers, each with its end as wall-clock time in nanoseconds since 1970.
    pub outliers: Vec<(u64, Outlier)>,
}

/// Opens a recording.
pub fn open(path: &str) -> Result<Player<BufReader<File>>> {
    let file = File::open(path).map_err(|error| Failure::at(path, error))?;
    Player::new(BufReader::new(file)).map_err(|why| Failure::at(path, why))
}

/// Reads a recording to its end; calls `between` with each two snapshots that follow one another
/// without a gap.
pub fn read(path: &str, mut between: impl FnMut(&Taken, &Taken) -> Result) -> Result<Contents> {
    let mut player = open(path)?;
    let mut contents = Contents::default();
    let mut last: Option<Taken> = None;
    let mut is_new_part = true;
    while let Some(item) = player.next_item() {
        match item {
            Item::Info(text) => contents.info = Pairs::of_lines(&text),
            Item::Run(text) => {
                contents
                    .runs
                    .push(Run::decode(&text).map_err(|why| match why {
                        Failure::Error(why) => Failure::at(path, why),
                        other => other,
                    })?);
            }
            Item::Mark(text) => {
                if text.starts_with("gap:") {
                    last = None;
                    is_new_part = true;
                }
                contents.marks.push(text);
            }
            Item::Groups(text) => {
                if let Ok(groups) = text::groups(&text) {
                    match contents.groups.last_mut() {
                        Some((_, last)) if !is_new_part && last.rule == groups.rule => {
                            *last = groups;
                        }
                        _ => contents.groups.push((groups.clone(), groups)),
                    }
                    is_new_part = false;
                }
            }
            Item::Outliers(text) => {
                let found = OutlierParser::default().feed(&text);
                let at = last
                    .as_ref()
                    .map_or((0, 0), |t| (t.unix_ns, t.snapshot.time));
                contents.outliers.extend(found.into_iter().map(|outlier| {
                    let end = outlier.pairs.number("end_ns").unwrap_or(at.1);
                    (at.0.saturating_sub(at.1.saturating_sub(end)), outlier)
                }));
            }
            Item::Snapshot(taken) => {
                let before = last
                    .replace(taken.clone())
                    .filter(|before| Window::between(&before.snapshot, &taken.snapshot).is_ok());
                match before {
                    Some(before) => {
                        between(&before, &taken)?;
                        if let Some((_, end)) = contents.spans.last_mut() {
                            *end = taken;
                        }
                    }
                    None => contents.spans.push((taken.clone(), taken)),
                }
            }
        }
    }
    if let Some(why) = player.lost() {
        note(format!("{path}: {why}; all before it was read"));
    }
    Ok(contents)
}

/// Returns the runs of a recording, or of all recordings in a folder, with the histograms of some
/// metrics.
pub fn of_path(path: &str, metrics: &[String]) -> Result<Contents> {
    let mut all = Contents::default();
    for file in merged::files([path.to_owned()].iter())? {
        let mut contents = of_file(&file)?;
        for run in &mut contents.runs {
            run.histograms
                .retain(|(_, metric, _)| metrics.contains(metric));
        }
        all.info = contents.info;
        all.runs.extend(contents.runs);
        all.marks.extend(contents.marks);
    }
    Ok(all)
}

/// Returns the runs of a recording; a recording without any counts as one run.
fn of_file(path: &str) -> Result<Contents> {
    let mut contents = read(path, |_, _| Ok(()))?;
    if contents.runs.is_empty() {
        let mut histograms: Vec<(String, String, Distribution)> = Vec::new();
        let mut wall: u64 = 0;
        for (first, last) in &contents.spans {
            let Ok(window) = Window::between(&first.snapshot, &last.snapshot) else {
                continue;
            };
            if histograms
                .first()
                .is_some_and(|(_, _, d)| d.scheme != window.scheme)
            {
                return Err(Failure::at(path, "the precision changed meanwhile"));
            }
            wall = wall.saturating_add(window.span.unwrap_or_default());
            add_window(&mut histograms, &window, MACHINE, |_| true);
        }
        let Some((first, _)) = contents.spans.first() else {
            return Err(Failure::at(path, "it holds neither runs nor snapshots"));
        };
        let module = contents.info.get("module").unwrap_or("-");
        let pairs = format!("wall_ns {wall}\n{}", describe(first, module));
        contents.runs.push(Run {
            pairs: Pairs::of_lines(&pairs),
            histograms,
        });
    }
    Ok(contents)
}

/// Returns `key value` lines about what must be the same for a comparison.
pub fn describe(taken: &Taken, module: &str) -> String {
    format!(
        "begun_unix_ns {}\ncpus {}\nprecision {}\nmetrics_on {}\nmodule {module}\n",
        taken.unix_ns,
        taken.snapshot.cpus.len(),
        taken.snapshot.scheme.precision().bits(),
        taken.snapshot.metrics_on,
    )
}

/// Adds the samples in a window of those CPUs that are wanted, as those of `scope`.
pub fn add_window(
    histograms: &mut Vec<(String, String, Distribution)>,
    window: &Window,
    scope: &str,
    is_wanted: impl Fn(u32) -> bool,
) {
    for series in &window.names.series {
        let distribution = window.distribution(series, &is_wanted);
        let mut known = histograms.iter_mut();
        match known.find(|(s, metric, _)| s == scope && *metric == series.name) {
            Some((_, _, all)) => all.merge(&distribution),
            None => histograms.push((scope.to_owned(), series.name.clone(), distribution)),
        }
    }
}
