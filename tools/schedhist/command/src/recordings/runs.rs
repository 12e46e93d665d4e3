// SPDX-License-Identifier: GPL-2.0

//! Runs of a command, as `run -o` records them and as `report` and `diff` read them.

use std::{collections::BTreeSet, fmt::Write, path::Path};

use schedhist_core::{
    distribution::{Distribution, Max, OTHER_PRECISION},
    engine::idle::WaitSums,
    raw::DecodeError,
    recording::file::TimedSnapshot,
    text::{self, Pairs},
    window::Window,
};

use crate::{
    cli::When,
    error::{At, Error, Result},
    output::note,
    recordings::{
        merged,
        reader::{self, Contents},
    },
};

/// Whose samples a run has.
pub const COMMAND: &str = "command";
/// The same, where `run` was attached: what is called [`COMMAND`] elsewhere.
const ATTACHED: [&str; 2] = ["process", "cgroup"];
/// The same, for the whole machine.
pub const MACHINE: &str = "machine";

/// The counts of the command's group, as a run has them.
pub const COUNTS: [&str; 6] = [
    "voluntary",
    "involuntary",
    "migrations",
    "oncpu_ns",
    "waited_ns",
    "not_in_histogram",
];

/// How many buckets the histograms of a run may have: two gigabytes. Those of 4096 CPUs take fewer,
/// with any precision.
pub const MOST_BUCKETS: usize = 1 << 28;

/// Whose samples, the metric, and the samples.
pub type Histogram = (String, String, Distribution);

/// A run: figures, and histograms by whose and of which metric they are.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// `key value` lines: begun_unix_ns, wall_ns, status, cpus, module, precision.
    pub pairs: Pairs,
    pub histograms: Vec<Histogram>,
}

impl Run {
    /// Adds the long waits of this run to `sums`.
    pub fn add_long_waits(&self, sums: &mut WaitSums) {
        let numbers = self.pairs.get(LONG_WAITS).unwrap_or_default();
        let numbers = numbers.split(' ').map_while(|number| number.parse().ok());
        let mut run = WaitSums::default();
        for (number, found) in run.0.iter_mut().zip(numbers) {
            *number = found;
        }
        sums.add(&run);
    }

    /// Returns what [`COMMAND`] stands for, to be shown.
    pub fn whose(&self) -> &'static str {
        let whose = self.pairs.get("whose");
        let attached = ATTACHED.into_iter().find(|name| whose == Some(*name));
        attached.unwrap_or(COMMAND)
    }

    pub fn histogram(&self, scope: &str, metric: &str) -> Option<&Distribution> {
        let mut found = self.histograms.iter();
        let found = found.find(|(s, m, _)| s == scope && m == metric);
        found.map(|(_, _, distribution)| distribution)
    }

    /// Drops the samples of all metrics but these.
    pub fn keep(&mut self, metrics: &[String]) {
        self.histograms
            .retain(|(_, metric, _)| metrics.contains(metric));
    }

    /// Returns what happened that readers of the figures should know.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.pairs.get("notes").into_iter();
        notes
            .flat_map(|notes| notes.split('\t'))
            .map(str::to_owned)
            .collect()
    }

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

    /// Decodes a run, with the histograms that are wanted, by their scope and metric. All of them
    /// take 32 MB for 256 CPUs.
    pub fn decode(
        run: &str,
        is_wanted: &dyn Fn(&str, &str) -> bool,
    ) -> std::result::Result<Self, DecodeError> {
        // Not within a line, where it belongs to a word of the command.
        let mut parts = run.split("\n#");
        let pairs = Pairs::of_lines(parts.next().unwrap_or_default());
        let mut histograms = Vec::new();
        let (mut known, mut buckets) = (BTreeSet::new(), 0);
        for part in parts {
            let block = text::histogram(part)?;
            let keys = ["scope", "metric"].map(|key| block.pairs.get(key).map(str::to_owned));
            let [Some(scope), Some(metric)] = keys else {
                continue;
            };
            if !is_wanted(&scope, &metric) {
                continue;
            }
            // A few bytes may claim to be more than memory.
            buckets += block.distribution.scheme.buckets();
            if buckets > MOST_BUCKETS || !known.insert((scope.clone(), metric.clone())) {
                let why = format!("a run has too many histograms, or {metric} of {scope} twice");
                return Err(DecodeError(why));
            }
            histograms.push((scope, metric, block.distribution));
        }
        Ok(Self { pairs, histograms })
    }
}

/// The runs of A or B, with the samples that are compared.
#[derive(Default)]
pub struct Side {
    pub runs: Vec<Run>,
    /// What happened, in words.
    pub marks: Vec<String>,
}

/// Returns the runs of a recording, or of all recordings in a folder, with the histograms of some
/// metrics.
pub fn of_path(path: &Path, metrics: &[String], when: &When) -> Result<Side> {
    let mut side = Side::default();
    for file in merged::files(&[path.to_owned()])? {
        side.add(&file, metrics, when)?;
    }
    Ok(side)
}

impl Side {
    /// Adds the runs of a recording; a recording without any counts as one run.
    fn add(&mut self, path: &Path, metrics: &[String], when: &When) -> Result {
        let is_wanted = |scope: &str, metric: &str| {
            matches!(scope, COMMAND | MACHINE) && metrics.iter().any(|it| it == metric)
        };
        let mut runs = Vec::new();
        let mut add = |run: &str| {
            runs.push(Run::decode(run, &is_wanted).at(path)?);
            Ok(())
        };
        let contents = reader::read_runs(path, when, &mut |_| Ok(()), &mut add)?;
        if let Some(option) = when.option().filter(|_| !runs.is_empty()) {
            note(format!(
                "{} runs are not compared with --{option}",
                runs.len()
            ));
            runs.clear();
        }
        if runs.is_empty() {
            let mut run = run_of(path, &contents)?;
            run.keep(metrics);
            runs.push(run);
            // Where there are runs, they are of the snapshots.
            self.marks.extend(contents.marks);
        }
        self.runs.extend(runs);
        Ok(())
    }
}

/// Returns the intervals of a recording as a run.
fn run_of(path: &Path, contents: &Contents) -> Result<Run> {
    let mut histograms: Vec<Histogram> = Vec::new();
    let mut wall: u64 = 0;
    let mut waits = WaitSums::default();
    for (first, last) in &contents.spans {
        let Ok(window) = Window::between(&first.snapshot, &last.snapshot) else {
            continue;
        };
        if histograms
            .first()
            .is_some_and(|(.., d)| d.scheme != window.scheme)
        {
            return Err(Error::at(path, OTHER_PRECISION));
        }
        wall = wall.saturating_add(window.span.unwrap_or_default());
        add_window(&mut histograms, &window, MACHINE, |_| true);
        if let Some(all) = &window.long_waits {
            waits.add(&all.sums);
        }
    }
    let Some((first, _)) = contents.spans.first() else {
        return Err(Error::at(path, "it holds neither runs nor an interval"));
    };
    let module = contents.info.get("module").unwrap_or("-");
    let about = describe(first, module) + &long_waits(&waits);
    let pairs = format!("wall_ns {wall}\n{about}");
    Ok(Run {
        pairs: Pairs::of_lines(&pairs),
        histograms,
    })
}

/// Returns `key value` lines about what must be the same for a comparison.
pub fn describe(timed: &TimedSnapshot, module: &str) -> String {
    format!(
        "begun_unix_ns {}\ncpus {}\nprecision {}\nmetrics_on {}\nmodule {module}\n",
        timed.unix_ns,
        timed.snapshot.cpus.len(),
        timed.snapshot.scheme.precision().bits(),
        timed.snapshot.metrics_on,
    )
}

/// The pair with the long waits of a run: how many, their parts, and their causes.
const LONG_WAITS: &str = "long_waits";

/// Returns the same about long waits, if there were any.
pub fn long_waits(sums: &WaitSums) -> String {
    if sums.waits() == 0 {
        return String::new();
    }
    let mut line = LONG_WAITS.to_owned();
    for number in sums.0 {
        line += &format!(" {number}");
    }
    line + "\n"
}

/// Adds the samples in a window of those CPUs that are wanted, as those of `scope`.
pub fn add_window(
    histograms: &mut Vec<Histogram>,
    window: &Window,
    scope: &str,
    is_wanted: impl Fn(u32) -> bool,
) {
    for metric in &window.names.metrics {
        let distribution = window.distribution(metric, &is_wanted);
        let mut known = histograms.iter_mut();
        match known.find(|(s, name, _)| s == scope && *name == metric.name) {
            Some((_, _, all)) => all.merge(&distribution),
            None => histograms.push((scope.to_owned(), metric.name.clone(), distribution)),
        }
    }
}
