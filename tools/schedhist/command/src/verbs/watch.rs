// SPDX-License-Identifier: GPL-2.0

//! `watch`: waits for a sample above a threshold, says who caused it, and acts, as rtla does.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs, mem,
    process::Command,
    time::{Duration, Instant},
};

use clap::builder::TypedValueParser;
use schedhist_core::{
    chains::{self, Chain, Hop},
    engine::metric::{Metric, Side},
    groups::SureNames,
    path::Slices,
    raw,
    recording::file::TimedSnapshot,
    stacks::Stack,
    text::{shares, Outlier},
    units::Unit,
};

use crate::{
    cli::Watch,
    error::{verdict, At, Error, Result},
    in_progress::{self, Reported},
    options::{self, known, Parsed},
    outliers::{
        stacks::{Stacks, PATIENCE, TRACEFS},
        threshold, Next, Stream,
    },
    output::{note, print, share_line, wrap, wrap_after},
    setting::{owner, Setting},
    source::{self, Source},
    sys,
    table::Cell,
    verbs::{dependence::Dependence, summary::Summary},
};

/// The metrics whose slices and waits can be seen while they last.
const IN_PROGRESS: &str = "oncpu idle runq runq_wakeup runq_preempt throttled";

/// The time from one look at what is in progress to the next. What is above the threshold by less
/// than that most likely ends soon: then the module reports it, with its culprits.
const PERIOD: Duration = Duration::from_secs(1);

/// The exit status if the threshold was exceeded.
const EXCEEDED: u8 = 3;

/// For `--chain`, of each CPU: they take 64 KiB.
const SLICES: &str = "1024";

/// What to do at an outlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The module does it: a word for its file `on_outlier`.
    Module(&'static str),
    Shell(String),
    Signal {
        number: i32,
        pid: i32,
    },
    Continue,
}

impl Action {
    /// Returns a parser of actions.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        const NAMES: &str = "trace snapshot continue shell,command= signal,num=";
        known(|| NAMES.split(' ').collect()).try_map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Parsed<Self> {
        let action = match text.split_once(',').unwrap_or((text, "")) {
            ("trace", "") => Some(Self::Module("tracing_off")),
            ("snapshot", "") => Some(Self::Module("snapshot")),
            ("continue", "") => Some(Self::Continue),
            ("shell", rest) => rest
                .strip_prefix("command=")
                .map(|command| Self::Shell(command.to_owned())),
            ("signal", rest) => Self::signal(rest),
            _ => None,
        };
        action.ok_or_else(|| {
            "trace, snapshot, shell,command=COMMAND, signal,num=N,pid=PID, or continue".to_owned()
        })
    }

    fn signal(rest: &str) -> Option<Self> {
        let value = |key: &str| rest.split(',').find_map(|pair| pair.strip_prefix(key));
        let number = value("num=")?.parse().ok();
        let pid = match value("pid=")? {
            "parent" => std::os::unix::process::parent_id() as i32,
            pid => pid.parse().ok()?,
        };
        Some(Self::Signal {
            number: number.filter(|number| (1..=64).contains(number))?,
            // 0 and negative numbers would stand for many processes.
            pid: Some(pid).filter(|pid| *pid > 0)?,
        })
    }
}

/// Makes the module take these actions at each outlier, besides those that it takes already, for as
/// long as the result exists.
fn on_outlier<'a>(source: &'a Source, words: &[&str]) -> Result<Setting<'a>> {
    Setting::new(source, "on_outlier", &|now| {
        let now: Vec<_> = { now.split([',', ' ']) }
            .filter(|word| !word.is_empty() && *word != "none")
            .collect();
        let missing = words.iter().filter(|word| !now.contains(word));
        let all: Vec<_> = now.iter().chain(missing).copied().collect();
        Ok((all.len() > now.len()).then(|| all.join(",")))
    })
}

/// Notes which other outliers cause an action of the module, too: it takes any of them.
fn note_others(source: &Source, names: &raw::Names, metric: &str, ns: u64, words: &str) {
    for other in &names.metrics {
        let file = format!("threshold_ns/{}", other.name);
        let Ok(threshold) = source.text(&file) else {
            continue;
        };
        let threshold = threshold.trim();
        let is_lower = threshold.parse().is_ok_and(|threshold: u64| threshold < ns);
        if threshold != "none" && (other.name != metric || is_lower) {
            note(format!(
                "{file} is {threshold}: such an outlier causes '{words}', too"
            ));
        }
    }
}

/// Returns whether samples of a metric are waits or sleeps, which have chains: see
/// [`engine::chain::Chains::keep`](schedhist_core::engine::chain::Chains::keep).
pub fn has_chains(metric: &str) -> bool {
    let is_it = |one: &&Metric| one.name() == metric;
    metric != "none" && { Metric::ALL.iter().find(is_it) }
        .is_none_or(|one| one.side() != Side::Prev)
}

/// Makes the module keep slices for chains, unless it does, for as long as the result exists.
pub fn keep_slices<'a>(source: &'a Source, slices: &str) -> Result<Setting<'a>> {
    Setting::new(source, "chain", &|now| {
        Ok((now == "0").then(|| slices.to_owned()))
    })
}

pub fn watch(args: &Watch, source: &Source) -> Result<u8> {
    let (metric, ns) = (args.metric.as_str(), args.threshold.as_nanos() as u64);
    if args.chain && !has_chains(metric) {
        return Err(Error::usage(format!(
            "{metric}: only waits and sleeps have a chain"
        )));
    }
    let first = source.read()?;
    let mut named = SureNames::default();
    first.see_names(&mut named);
    let clock = first.timed;
    let names = clock.snapshot.names.clone();
    options::check_metrics(&names, &[metric.to_owned()])?;
    // First the stream: it misses nothing, and blocks the signals that would leave the settings.
    let mut stream = Stream::open(source)?;
    let stacks = args.stacks.then(|| Stacks::new(source)).transpose()?;
    let words = args.on_threshold.iter().filter_map(|action| match action {
        Action::Module(word) => Some(*word),
        _ => None,
    });
    let words: Vec<_> = words.collect();
    let mut _restored = None;
    if !words.is_empty() {
        note_others(source, &names, metric, ns, &words.join(","));
        _restored = Some(on_outlier(source, &words)?);
    }
    // Before the threshold: what is kept from here on explains the first outlier.
    let _chain = args
        .chain
        .then(|| keep_slices(source, SLICES))
        .transpose()?;
    let _threshold = threshold(source, metric, ns)?;
    if source.is_live() && !args.quiet {
        owner::note_pids();
    }
    let mut watcher = Watcher {
        args,
        source,
        ns,
        clock,
        named,
        stacks,
        reported: Reported::default(),
        seen: 0,
        missed: 0,
        summary: args.summary.then(Summary::default),
        names: Rarely::default(),
        slices: Rarely::default(),
    };
    let ended = watcher.watch(&mut stream, &names);
    match stream.suppressed(source) {
        0 => {}
        number => note(format!(
            "{number} outliers, of any metric, were not reported: outlier_rate"
        )),
    }
    let (seen, missed) = (watcher.seen, watcher.missed);
    let printed = match (args.quiet, &watcher.summary) {
        (_, Some(summary)) => print(&match args.json {
            true => summary.json(&args.metric, ns, (seen, missed)),
            false => summary.text(&args.metric, ns, (seen, missed)),
        }),
        (true, None) => print(&format!(
            "{seen} above {} us, {missed} more missed\n",
            options::us(args.threshold)
        )),
        (false, None) => Ok(()),
    };
    let status = if seen == 0 { 0 } else { EXCEEDED };
    Ok(verdict(status, ended.and(printed)))
}

/// What is reported of a threshold.
struct Watcher<'a> {
    args: &'a Watch,
    source: &'a Source,
    ns: u64,
    /// See [`unix_ns`].
    clock: TimedSnapshot,
    named: SureNames,
    stacks: Option<Stacks>,
    reported: Reported,
    seen: u64,
    missed: u64,
    /// What is added up instead of printed.
    summary: Option<Summary>,
    names: Rarely,
    slices: Rarely,
}

/// Lets work be done for a fifth of the time at most, however often it is asked for.
#[derive(Default)]
struct Rarely(Option<Instant>);

impl Rarely {
    fn run(&mut self, work: impl FnOnce()) {
        let start = Instant::now();
        if self.0.is_none_or(|next| next <= start) {
            work();
            let end = Instant::now();
            self.0 = Some(end + (end - start) * 4);
        }
    }
}

impl Watcher<'_> {
    /// Reports what exceeds the threshold, until an action, the time or a signal ends that.
    fn watch(&mut self, stream: &mut Stream, names: &raw::Names) -> Result {
        let metric = names.metric(&self.args.metric);
        let metric = metric.filter(|metric| IN_PROGRESS.split(' ').any(|name| name == metric.name));
        let deadline = self.args.duration.map(|duration| Instant::now() + duration);
        let mut next = Instant::now();
        loop {
            if next <= Instant::now() {
                next = Instant::now() + PERIOD;
                match metric {
                    Some(metric) => {
                        if self.report_in_progress(metric)? {
                            return Ok(());
                        }
                    }
                    None if self.args.quiet || self.named.is_empty() => {}
                    // So that the names of new groups are sure when an outlier comes.
                    None => self.see_names(),
                }
            }
            let until = Some(deadline.map_or(next, |deadline| deadline.min(next)));
            match stream.next(until)? {
                Next::Some(mut found, missed) => {
                    if self.args.chain {
                        let text = self.source.text("chains").unwrap_or_default();
                        chains::attach(&mut found, &text);
                        if self.summary.is_none() {
                            let mut slices = mem::take(&mut self.slices);
                            slices.run(|| self.explain(&mut found));
                            self.slices = slices;
                        }
                    }
                    if self.report(&found, missed)? {
                        return Ok(());
                    }
                }
                Next::Timeout if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
                Next::Timeout | Next::Over => return Ok(()),
            }
        }
    }

    /// Finds out what had the CPUs for which tasks in chains waited, while slices tell.
    fn explain(&self, found: &mut [Outlier]) {
        let mut slices = Slices::default();
        if fs::read(self.source.path("slices")).is_ok_and(|data| slices.add(&data).is_ok()) {
            found.iter_mut().for_each(|it| slices.explain(it));
        }
    }

    /// Reports slices and waits that have exceeded the threshold so far. Returns whether to end.
    fn report_in_progress(&mut self, metric: &raw::Metric) -> Result<bool> {
        let reading = self.source.read()?;
        reading.see_names(&mut self.named);
        let snapshot = reading.timed.snapshot;
        let late = Duration::from_nanos(self.ns).saturating_add(PERIOD);
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        for task in self.reported.more(&snapshot, metric, late) {
            self.seen += 1;
            let print = || {
                // Of the same snapshot.
                let groups = |group| {
                    let names = self.named.of([group].into_iter(), snapshot.time);
                    name_of(group, &names)
                };
                print(&match self.args.json {
                    true => in_progress::json(&task, &metric.name, &snapshot, groups),
                    false => in_progress::text(&task, &metric.name, &snapshot, groups),
                })
            };
            let is_quiet = self.args.quiet || self.summary.is_some();
            let printed = if is_quiet { Ok(()) } else { print() };
            let event = Event {
                pid: task.task.pid,
                cpu: task.cpu,
                duration_ns: task.duration,
                is_ongoing: true,
            };
            self.act(event)?;
            printed?;
            if self.ends() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks which names the groups have. Without names, the numbers are shown.
    fn see_names(&mut self) {
        match self.source.read() {
            Ok(reading) => reading.see_names(&mut self.named),
            Err(_) => self.named = SureNames::default(),
        }
    }

    /// Reports outliers that are above the threshold. Returns whether to end.
    fn report(&mut self, found: &[Outlier], missed: u64) -> Result<bool> {
        let quiet = self.args.quiet;
        if !quiet && found.iter().flat_map(Outlier::groups).any(|id| id != 0) {
            let mut names = mem::take(&mut self.names);
            names.run(|| self.see_names());
            self.names = names;
        }
        let patience = Instant::now() + PATIENCE;
        self.missed = self.missed.saturating_add(missed);
        if missed != 0 && !quiet {
            note(format!("{missed} outliers were missed"));
        }
        for outlier in found {
            if !self.is_above(outlier) {
                continue;
            }
            let is_end = self.reported.ends(outlier);
            let end: u64 = outlier.pairs.number("end_ns").unwrap_or(0);
            let begin = end.saturating_sub(outlier.duration_ns);
            let names = self.named.of(outlier.groups(), begin);
            let printed = match (quiet, self.summary.take()) {
                (_, Some(mut summary)) => {
                    let stack = self.stacks.as_mut();
                    let stack = stack.map(|stacks| stacks.of(outlier.id, patience));
                    let name = |group| name_of(group, &names);
                    summary.add(outlier, &name, stack.flatten().as_deref());
                    self.summary = Some(summary);
                    Ok(())
                }
                (true, None) => Ok(()),
                (false, None) => {
                    let stack = self.stacks.as_mut();
                    let stack = stack.map(|stacks| stacks.of(outlier.id, patience));
                    print(&self.shown(outlier, is_end, &names, stack))
                }
            };
            // Also if nobody reads the output any more.
            if !is_end {
                self.seen += 1;
                self.act(Event {
                    pid: outlier.pid,
                    cpu: outlier.cpu,
                    duration_ns: outlier.duration_ns,
                    is_ongoing: false,
                })?;
            }
            printed?;
            if self.ends() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_above(&self, outlier: &Outlier) -> bool {
        is_of(outlier, &self.args.metric) && outlier.duration_ns > self.ns
    }

    /// Returns what is printed of an outlier; `is_end` if it was reported before its end.
    fn shown(
        &mut self,
        outlier: &Outlier,
        is_end: bool,
        names: &Names,
        stack: Option<Option<Stack>>,
    ) -> String {
        if self.args.json {
            let unix_ns = unix_ns(self.source, &mut self.clock, outlier);
            let chain = self.args.chain;
            return json(outlier, names, unix_ns, is_end, stack.as_ref(), chain);
        }
        let mut out = text(outlier, names);
        if self.args.chain && outlier.chain.is_none() {
            out += "  its chain is not kept\n";
        }
        if is_end {
            out += "  reported before its end\n";
        }
        out + &stack.map_or_else(String::new, |stack| stack_text(outlier, stack))
    }

    fn act(&self, event: Event) -> Result {
        let mut actions = self.args.on_threshold.iter();
        actions.try_for_each(|action| act(action, event))
    }

    /// Returns whether the first report is the last one.
    fn ends(&self) -> bool {
        !self.args.summary && !self.args.on_threshold.contains(&Action::Continue)
    }
}

/// Returns whether an outlier is one of a metric: the sum `runq` stands for both of its parts.
pub fn is_of(outlier: &Outlier, metric: &str) -> bool {
    outlier.metric == metric || (metric == "runq" && outlier.metric.starts_with("runq_"))
}

/// What an action is taken for.
#[derive(Clone, Copy)]
struct Event {
    pid: i32,
    cpu: u32,
    duration_ns: u64,
    /// Whether it has not ended, so that the module has not taken its actions.
    is_ongoing: bool,
}

fn act(action: &Action, event: Event) -> Result {
    match action {
        Action::Module(word) if event.is_ongoing => {
            let (file, value) = match *word {
                "snapshot" => ("snapshot", "1"),
                _ => ("tracing_on", "0"),
            };
            let path = format!("{TRACEFS}/{file}");
            fs::write(&path, value).at(path)
        }
        Action::Module(_) | Action::Continue => Ok(()),
        Action::Shell(command) => {
            let status = sys::with_signals(&mut Command::new("/bin/sh"))
                .args(["-c", command])
                .env("SCHEDHIST_PID", event.pid.to_string())
                .env("SCHEDHIST_CPU", event.cpu.to_string())
                .env("SCHEDHIST_DURATION_NS", event.duration_ns.to_string())
                .status()
                .at("/bin/sh")?;
            if !status.success() {
                note(format!("the shell command ended with {status}"));
            }
            Ok(())
        }
        Action::Signal { number, pid } => {
            sys::kill(*pid, *number).at(format!("signal {number} to {pid}"))
        }
    }
}

/// The names of groups, by their numbers.
pub type Names = BTreeMap<u32, String>;

/// Returns how the group of a task is shown; nothing for 0, which is none or the group "other".
pub fn name_of(group: u32, names: &Names) -> Option<String> {
    let name = || {
        names
            .get(&group)
            .map_or_else(|| group.to_string(), Clone::clone)
    };
    (group != 0).then(name)
}

pub fn longest_first(parts: &mut [(String, u64)]) {
    parts.sort_by_cached_key(|(_, ns)| std::cmp::Reverse(*ns));
}

/// Returns the parts of an outlier: who had the CPU, and for how long. They add up to the whole.
fn parts(outlier: &Outlier, names: &Names) -> Vec<(String, u64)> {
    let culprits = outlier.culprits.iter();
    let mut parts: Vec<_> = culprits
        .map(|culprit| match culprit.pid {
            0 => ("idle".to_owned(), culprit.ran_ns),
            pid => {
                let group = name_of(culprit.group, names);
                let group = group.map_or_else(String::new, |group| format!(" ({group})"));
                (format!("{}:{pid}{group}", culprit.comm), culprit.ran_ns)
            }
        })
        .collect();
    longest_first(&mut parts);
    if outlier.missing_ns != 0 {
        parts.push(("not known".to_owned(), outlier.missing_ns));
    }
    parts
}

pub fn text(outlier: &Outlier, names: &Names) -> String {
    let duration = Unit::Fitting.text(Some(outlier.duration_ns));
    let cause = outlier.pairs.get("cause").unwrap_or("-");
    let mut out = String::new();
    let mut head = format!(
        "## CPU {}: {} of {}:{}: {duration}, {cause}",
        outlier.cpu, outlier.metric, outlier.comm, outlier.pid
    );
    if let Some(group) = name_of(outlier.group, names) {
        let _ = write!(head, ", group {group}");
    }
    wrap(&mut out, &head);
    let parts = parts(outlier, names);
    let ns: Vec<_> = parts.iter().map(|(_, ns)| *ns).collect();
    for ((name, ns), share) in parts.iter().zip(shares(&ns)) {
        share_line(&mut out, share, *ns, name);
    }
    out += &idle_text(outlier).unwrap_or_default();
    let chain = outlier.chain.as_ref();
    out + &chain.map_or_else(String::new, |chain| {
        chain_text(chain, outlier.duration_ns, names)
    })
}

/// Returns which CPU was idle for most of an outlier, below [`text`], if CPUs were looked at.
fn idle_text(outlier: &Outlier) -> Option<String> {
    let ns = outlier.pairs.number("idle_ns").filter(|ns| *ns != 0)?;
    let distance = match outlier.pairs.get("distance")? {
        "own" => "the same one",
        "core" => "same core",
        "llc" => "same last-level cache",
        "node" => "same node",
        _ => "another node",
    };
    let (cpu, time) = (outlier.pairs.get("idle_cpu")?, Unit::Fitting.text(Some(ns)));
    Some(format!(
        "  meanwhile CPU {cpu} ({distance}) was idle for {time}\n"
    ))
}

/// Returns the chain of an outlier, in [`text`]: its parts add up to the whole.
fn chain_text(chain: &Chain, whole: u64, names: &Names) -> String {
    let time = |ns| Unit::Fitting.text(Some(ns));
    let hops = chain.hops.iter().enumerate().map(|(number, hop)| {
        let via = match hop.via.as_str() {
            "softirq" => " (by a softirq)",
            "fork" => " (created it)",
            _ => "",
        };
        let group = name_of(hop.group, names).filter(|_| number != 0);
        let group = group.map_or_else(String::new, |group| format!(" ({group})"));
        let mut what = format!("{}{group}{via}: {}", hop.task(), hop.did(time));
        // What is less than a per cent of the whole explains nothing.
        if let Some((occupant, ns)) = hop.behind.as_ref().filter(|(_, ns)| *ns > whole / 100) {
            let _ = write!(what, ", behind {} {}", occupant.name(), time(*ns));
        }
        (hop.sum_ns(), what)
    });
    let blocked = chain.blocked().map(|(what, ns)| {
        let last = chain.hops.last().map_or_else(String::new, Hop::task);
        (ns, format!("{last}: {what}"))
    });
    let missing = chain.missing().map(|(what, ns)| (ns, what.to_owned()));
    let parts: Vec<_> = hops.chain(blocked).chain(missing).collect();
    let ns: Vec<_> = parts.iter().map(|(ns, _)| *ns).collect();
    let mut out = "  backwards, who woke whom:\n".to_owned();
    for ((ns, what), share) in parts.iter().zip(shares(&ns)) {
        share_line(&mut out, share, *ns, what.trim_end_matches(": "));
    }
    let mut sum = Dependence::default();
    sum.add(chain, &|_, _| String::new());
    debug_assert_eq!(sum.sum_ns, whole);
    wrap_after(&mut out, "  ", 4, &sum.law());
    out
}

/// Returns the object of a chain.
fn chain_json(chain: &Chain, names: &Names) -> Cell {
    let hops = chain.hops.iter().map(|hop| {
        let mut fields = vec![
            ("pid".into(), Cell::Number(hop.pid.into())),
            ("comm".into(), Cell::from(&hop.comm)),
            ("cpu".into(), Cell::Number(hop.cpu.into())),
            ("group".into(), Cell::Number(hop.group.into())),
            (
                "group_name".into(),
                names.get(&hop.group).map_or(Cell::Absent, Cell::from),
            ),
            ("via".into(), Cell::from(&hop.via)),
            ("slices".into(), Cell::Number(hop.slices.into())),
        ];
        let parts = hop.parts().into_iter();
        fields.extend(parts.map(|(what, ns)| (format!("{what}_ns").into(), Cell::Time(ns))));
        if let Some((occupant, ns)) = &hop.behind {
            fields.push(("behind".into(), Cell::from(occupant.name())));
            fields.push(("behind_ns".into(), Cell::Time(*ns)));
        }
        Cell::Object(fields)
    });
    Cell::Object(vec![
        ("end".into(), Cell::from(&chain.end)),
        ("blocked_ns".into(), Cell::Time(chain.blocked_ns)),
        ("missing_ns".into(), Cell::Time(chain.missing_ns)),
        ("hops".into(), Cell::List(hops.collect())),
    ])
}

/// Returns the stack with which the task had left its CPU, below [`text`].
fn stack_text(outlier: &Outlier, stack: Option<Stack>) -> String {
    let Some(stack) = stack else {
        return "  the trace has no stack of it\n".to_owned();
    };
    let frames = stack.iter().map(|frame| format!("    {frame}\n"));
    let head = match outlier.pairs.get("cause") {
        Some("fork") => "  begins in:\n",
        _ => "  had left the CPU in:\n",
    };
    head.to_owned() + &frames.collect::<String>()
}

/// Returns the wall-clock time at which an outlier ended, in nanoseconds since 1970. `clock` is a
/// snapshot, with its times by both clocks: another one a minute later, as they drift apart, and
/// after a suspend or if the wall clock was set.
fn unix_ns(source: &Source, clock: &mut TimedSnapshot, outlier: &Outlier) -> Option<u64> {
    let end: u64 = outlier.pairs.number("end_ns")?;
    if source::unix_ns().abs_diff(clock.unix_ns) > 60_000_000_000 {
        if let Ok(reading) = source.read() {
            *clock = reading.timed;
        }
    }
    // The snapshot's own time is when it was begun.
    let unix = clock.unix_ns.saturating_sub(clock.read_ns);
    let time = clock.snapshot.time;
    let later = unix.saturating_add(end.saturating_sub(time));
    Some(later.saturating_sub(time.saturating_sub(end)))
}

/// Returns an object. `is_end` is whether it was reported before its end; `stack` is that of
/// `--stacks`, where it was found; `chain` is whether the chain is in it.
pub fn json(
    outlier: &Outlier,
    names: &Names,
    unix_ns: Option<u64>,
    is_end: bool,
    stack: Option<&Option<Stack>>,
    chain: bool,
) -> String {
    let group_name = |group| names.get(&group).map_or(Cell::Absent, Cell::from);
    let culprits = outlier.culprits.iter().map(|culprit| {
        Cell::Object(vec![
            ("pid".into(), Cell::Number(culprit.pid.into())),
            ("comm".into(), Cell::from(&culprit.comm)),
            ("group".into(), Cell::Number(culprit.group.into())),
            ("group_name".into(), group_name(culprit.group)),
            ("ran_ns".into(), Cell::Number(culprit.ran_ns.into())),
            ("slices".into(), Cell::Number(culprit.slices.into())),
        ])
    });
    let number = |key| Cell::time(outlier.pairs.number(key));
    let idle = |key| { outlier.pairs.number(key) }.map_or(Cell::Absent, Cell::Time);
    let distance = outlier.pairs.get("distance");
    let cause = outlier.pairs.get("cause");
    let chain = chain.then_some(&outlier.chain);
    let of_chain = |it: &Option<Chain>| {
        { it.as_ref() }.map_or(Cell::Unknown, |chain| chain_json(chain, names))
    };
    let frames = |stack: &Option<Stack>| stack.as_ref().map_or(Cell::Unknown, |it| Cell::texts(it));
    let fields = vec![
        ("schema".into(), Cell::from("schedhist.outlier.v1")),
        ("id".into(), Cell::Number(outlier.id.into())),
        ("unix_ns".into(), Cell::time(unix_ns)),
        ("start_ns".into(), number("start_ns")),
        ("end_ns".into(), number("end_ns")),
        ("metric".into(), Cell::from(&outlier.metric)),
        ("cause".into(), cause.map_or(Cell::Unknown, Cell::from)),
        ("cpu".into(), Cell::Number(outlier.cpu.into())),
        ("duration_ns".into(), Cell::Time(outlier.duration_ns)),
        ("missing_ns".into(), Cell::Time(outlier.missing_ns)),
        ("pid".into(), Cell::Number(outlier.pid.into())),
        ("comm".into(), Cell::from(&outlier.comm)),
        ("group".into(), Cell::Number(outlier.group.into())),
        ("group_name".into(), group_name(outlier.group)),
        (
            "reported_before_end".into(),
            if is_end {
                Cell::Flag(true)
            } else {
                Cell::Absent
            },
        ),
        ("culprits".into(), Cell::List(culprits.collect())),
        ("idle_cpu".into(), idle("idle_cpu")),
        ("idle_ns".into(), idle("idle_ns")),
        ("distance".into(), distance.map_or(Cell::Absent, Cell::from)),
        ("stack".into(), stack.map_or(Cell::Absent, frames)),
        ("chain".into(), chain.map_or(Cell::Absent, of_chain)),
    ];
    Cell::Object(fields).line()
}

#[cfg(test)]
mod tests {
    use schedhist_core::{path::Occupant, text::OutlierParser};

    use super::*;

    #[test]
    fn shares_of_all_culprits() {
        let text_of_module =
            "outlier id 4 metric blocked_uninterruptible cause preempted_in_kernel \
            cpu 255 duration_ns 30000003 start_ns 1 end_ns 30000004 missing_ns 1000001 culprits 3 \
            pid 4194303 prio 120 group 12 comm fifteen letters\n  \
            culprit id 4 ran_ns 20000001 slices 1 pid 7 prio 120 group 3 comm x\n  \
            culprit id 4 ran_ns 5000000 slices 1 pid 0 prio 120 comm swapper/1\n  \
            culprit id 4 ran_ns 4000001 slices 9 pid 4194302 prio 49 comm \\x1b[31mred\n";
        let found = OutlierParser::default().feed(text_of_module);
        assert_eq!(
            text(&found[0], &Names::new()),
            "## CPU 255: blocked_uninterruptible of fifteen letters:4194303: 30.0ms,\n  \
             preempted_in_kernel, group 12\n   \
             66.7%   20.0ms  x:7 (3)\n   \
             16.7%   5.00ms  idle\n   \
             13.3%   4.00ms  \\x1b[31mred:4194302\n    \
             3.3%   1.00ms  not known\n"
        );
        let without = json(&found[0], &Names::new(), Some(1_800), true, None, false);
        assert!(without.starts_with(
            "{\"schema\":\"schedhist.outlier.v1\",\"id\":4,\"unix_ns\":1800,\"start_ns\":1,\
             \"end_ns\":30000004,\"metric\":\"blocked_uninterruptible\",\
             \"cause\":\"preempted_in_kernel\",\"cpu\":255,"
        ));
        assert!(!without.contains("stack") && !without.contains("group_name"));
        for part in [
            "\"reported_before_end\":true,",
            "\"comm\":\"fifteen letters\",\"group\":12,",
            "\"comm\":\"x\",\"group\":3,",
            "\"comm\":\"swapper/1\",\"group\":0,",
        ] {
            assert!(without.contains(part), "{part}");
        }
    }

    #[test]
    fn stacks() {
        let stack = vec!["anon_pipe_read".to_owned(), "vfs_read".to_owned()];
        let text_of_module =
            "outlier id 4 metric runq cpu 0 duration_ns 3 missing_ns 3 culprits 0 \
            pid 7 prio 120 comm x\n";
        let found = OutlierParser::default().feed(text_of_module);
        let with = json(
            &found[0],
            &Names::new(),
            None,
            false,
            Some(&Some(stack.clone())),
            false,
        );
        assert!(with.ends_with("\"culprits\":[],\"stack\":[\"anon_pipe_read\",\"vfs_read\"]}\n"));
        assert!(
            json(&found[0], &Names::new(), None, false, Some(&None), false)
                .ends_with(",\"stack\":null}\n")
        );
        assert_eq!(
            stack_text(&found[0], Some(stack.clone())),
            "  had left the CPU in:\n    anon_pipe_read\n    vfs_read\n"
        );
        let text_of_module =
            "outlier id 5 metric runq cause fork cpu 0 duration_ns 3 missing_ns 3 \
            culprits 0 pid 7 prio 120 comm x\n";
        let new = OutlierParser::default().feed(text_of_module);
        assert!(stack_text(&new[0], Some(stack)).starts_with("  begins in:\n"));
        assert_eq!(
            stack_text(&found[0], None),
            "  the trace has no stack of it\n"
        );
    }

    #[test]
    fn chains() {
        let text_of_module =
            "outlier id 12 metric offcpu cpu 0 duration_ns 108124056 missing_ns 0 \
            culprits 0 pid 280 prio 120 comm first\n";
        let mut found = OutlierParser::default().feed(text_of_module);
        let file = "# schedhist chains version 1\n# chain 1024\n\
            chain id 12 metric offcpu cpu 0 duration_ns 5 end overwritten blocked_ns 0 missing_ns 5 \
            hops 0\n\
            chain id 12 metric offcpu cpu 0 duration_ns 108124056 end interrupt blocked_ns 1124056 \
            missing_ns 0 hops 3\n  \
            hop id 12 via - ran_ns 0 waited_ns 1000000 preempted_ns 0 throttled_ns 0 slices 1 cpu 1 group 0 \
            pid 280 comm first\n  \
            hop id 12 via task ran_ns 71000000 waited_ns 1000000 preempted_ns 0 throttled_ns 0 \
            slices 1 cpu 1 group 0 pid 279 comm a third\n  \
            hop id 12 via fork ran_ns 4000000 waited_ns 0 preempted_ns 30000000 throttled_ns 0 \
            slices 2 cpu 1 group 2 pid 278 comm second\n";
        let names: Names = [(2, "b".to_owned())].into();
        let without = json(&found[0], &names, None, false, None, true);
        assert!(without.ends_with(",\"chain\":null}\n"));
        chains::attach(&mut found, file);
        // What is short is not shown.
        let hops = &mut found[0].chain.as_mut().unwrap().hops;
        hops[1].behind = Some((Occupant::Idle, 1_000_000));
        hops[2].behind = Some((Occupant::Task("hog".to_owned()), 29_000_000));
        assert!(text(&found[0], &names).ends_with(
            "  backwards, who woke whom:\n    \
             0.9%   1.00ms  first:280: waited 1.00ms\n   \
             66.6%   72.0ms  a third:279: ran 71.0ms, waited 1.00ms\n   \
             31.5%   34.0ms  second:278 (b) (created it): ran 4.00ms, preempted 30.0ms,\n\
             \x20                    behind hog 29.0ms\n    \
             1.0%   1.12ms  second:278: blocked until an interrupt woke it\n  \
             in ns: ran 75000000 + waited 2000000 + preempted 30000000 + blocked 1124056 =\n    \
             108124056\n"
        ));
        let with = json(&found[0], &names, None, false, None, true);
        assert!(
            with.ends_with(
                ",\"chain\":{\"end\":\"interrupt\",\"blocked_ns\":1124056,\"missing_ns\":0,\
                 \"hops\":[{\"pid\":280,\"comm\":\"first\",\"cpu\":1,\"group\":0,\"via\":\"-\",\"slices\":1,\
                 \"ran_ns\":0,\"waited_ns\":1000000,\"preempted_ns\":0,\"throttled_ns\":0},\
                 {\"pid\":279,\"comm\":\"a third\",\"cpu\":1,\"group\":0,\"via\":\"task\",\"slices\":1,\
                 \"ran_ns\":71000000,\"waited_ns\":1000000,\"preempted_ns\":0,\"throttled_ns\":0,\
                 \"behind\":\"(idle)\",\"behind_ns\":1000000},\
                 {\"pid\":278,\"comm\":\"second\",\"cpu\":1,\"group\":2,\"group_name\":\"b\",\"via\":\"fork\",\"slices\":2,\
                 \"ran_ns\":4000000,\"waited_ns\":0,\"preempted_ns\":30000000,\
                 \"throttled_ns\":0,\"behind\":\"hog\",\"behind_ns\":29000000}]}}\n"
            ),
            "{with}"
        );
    }

    #[test]
    fn names_of_groups() {
        let text_of_module =
            "outlier id 4 metric runq cpu 0 duration_ns 3 missing_ns 0 culprits 2 \
            pid 7 prio 120 group 1 comm x\n  \
            culprit id 4 ran_ns 2 slices 1 pid 8 prio 120 group 2 comm y\n  \
            culprit id 4 ran_ns 1 slices 1 pid 9 prio 120 group 0 comm z\n";
        let found = OutlierParser::default().feed(text_of_module);
        let names = [(0, "other"), (1, "/web.service"), (2, "/a")];
        let names: Names = names.map(|(id, name)| (id, name.to_owned())).into();
        let said = text(&found[0], &names);
        assert!(
            said.starts_with("## CPU 0: runq of x:7: 3ns, -, group /web.service\n"),
            "{said}"
        );
        assert!(
            said.contains("2ns  y:8 (/a)\n") && said.contains("1ns  z:9\n"),
            "{said}"
        );
        let said = json(&found[0], &names, None, false, None, false);
        assert!(
            said.contains("\"comm\":\"x\",\"group\":1,\"group_name\":\"/web.service\""),
            "{said}"
        );
    }

    #[test]
    fn actions() {
        let signal = Action::Signal { number: 9, pid: 12 };
        assert_eq!(Action::parse("signal,num=9,pid=12").unwrap(), signal);
        assert_eq!(
            Action::parse("trace").unwrap(),
            Action::Module("tracing_off")
        );
        let shell = Action::Shell("echo a,b".to_owned());
        assert_eq!(Action::parse("shell,command=echo a,b").unwrap(), shell);
        for wrong in
            " trace,now shell signal,num=9 signal,pid=1,num=x signal,num=9,pid=-1".split(' ')
        {
            assert!(Action::parse(wrong).is_err(), "{wrong}");
        }
    }
}
