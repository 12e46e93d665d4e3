// SPDX-License-Identifier: GPL-2.0

//! `watch`: waits for a sample above a threshold, says who caused it, and acts, as rtla does.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use clap::builder::TypedValueParser;
use schedhist_core::{
    chains,
    engine::metric::{Metric, Side},
    groups::SureNames,
    path::Slices,
    raw,
    stacks::Stack,
    text::Outlier,
};

use crate::{
    cli::Watch,
    error::{verdict, At, Error, Result},
    in_progress::{self, Reported},
    options::{self, known, Parsed},
    outliers::{
        shown::{self, Names},
        stacks::{Stacks, PATIENCE, TRACEFS},
        summary::Summary,
        threshold, Next, Stream,
    },
    output::{note, print},
    setting::{owner, Setting},
    source::{self, Reading, Source},
    sys,
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
                .filter(|command| !command.is_empty())
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
        let now: Vec<_> = now
            .split([',', ' '])
            .filter(|word| !word.is_empty() && *word != "none")
            .collect();
        let missing = words.iter().filter(|word| !now.contains(word));
        let all: Vec<_> = now.iter().chain(missing).copied().collect();
        Ok((all.len() > now.len()).then(|| all.join(",")))
    })
}

/// Returns the names of the groups in an outlier that are sure for all of its time.
fn names_in(named: &SureNames, outlier: &Outlier) -> Names {
    let end = outlier.end_ns.unwrap_or(0);
    let begin = end.saturating_sub(outlier.duration_ns);
    named.of(outlier.groups(), (begin, end))
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
/// [`engine::chain::LastChains::keep`](schedhist_core::engine::chain::LastChains::keep).
pub fn has_chains(metric: &str) -> bool {
    let is_it = |one: &&Metric| one.name() == metric;
    metric != "none"
        && Metric::ALL
            .iter()
            .find(is_it)
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
    let names = first.timed.snapshot.names.clone();
    let clock = Clock::new(&first);
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
        unnamed: Vec::new(),
        names: Rarely::default(),
        slices: Rarely::default(),
        has_skipped: false,
    };
    let ended = watcher.watch(&mut stream, &names);
    stream.note_suppressed(source);
    if !watcher.unnamed.is_empty() {
        watcher.see_names();
        watcher.add_up();
    }
    let (seen, missed) = (watcher.seen, watcher.missed);
    let printed = match (args.quiet, &watcher.summary) {
        (_, Some(summary)) => print(&match args.json {
            true => summary.json(&args.metric, ns, (seen, missed)),
            false => summary.text(&args.metric, ns, (seen, missed)),
        }),
        (true, None) => print(&format!(
            "{seen} above {} us, {missed} (of all metrics) missed\n",
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
    clock: Clock,
    named: SureNames,
    stacks: Option<Stacks>,
    reported: Reported,
    seen: u64,
    missed: u64,
    /// What is added up instead of printed.
    summary: Option<Summary>,
    /// Outliers for the summary, with their stacks, since when groups were looked at.
    unnamed: Vec<(Outlier, Option<Vec<String>>)>,
    names: Rarely,
    slices: Rarely,
    /// Whether a note has said that slices were not read.
    has_skipped: bool,
}

/// Lets one kind of work be done for a fifth of the time at most, however often it is asked for.
#[derive(Default)]
struct Rarely(Option<Instant>);

impl Rarely {
    /// Returns when the work begins, if it is to be done.
    fn begin(&self) -> Option<Instant> {
        let now = Instant::now();
        self.0.is_none_or(|next| next <= now).then_some(now)
    }

    fn end(&mut self, begin: Instant) {
        let now = Instant::now();
        self.0 = Some(now + (now - begin) * 4);
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
                            self.explain(&mut found);
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
    fn explain(&mut self, found: &mut [Outlier]) {
        let Some(begin) = self.slices.begin() else {
            if !std::mem::replace(&mut self.has_skipped, true) && !self.args.quiet {
                note("outliers come fast: some chains do not tell behind whom tasks waited");
            }
            return;
        };
        if found.iter().all(|outlier| outlier.chain.is_none()) {
            return;
        }
        let mut slices = Slices::default();
        if fs::read(self.source.path("slices")).is_ok_and(|data| slices.add(&data).is_ok()) {
            let by_task = slices.by_task();
            for outlier in found {
                slices.explain(outlier, &by_task);
            }
        }
        self.slices.end(begin);
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
                    let names = self
                        .named
                        .of([group].into_iter(), (snapshot.time, snapshot.time));
                    match self.args.json {
                        true => names.get(&group).filter(|_| group != 0).cloned(),
                        false => shown::name_of(group, &names),
                    }
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
            let is_over = self.act(event)?;
            printed?;
            if is_over || self.ends() {
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
        let mut has_names = self.unnamed.is_empty();
        let has_groups = found.iter().flat_map(Outlier::groups).any(|id| id != 0);
        if !quiet && (has_groups || !has_names) {
            let begin = self.names.begin();
            if let Some(begin) = begin {
                self.see_names();
                self.names.end(begin);
            }
            has_names = begin.is_some();
        }
        let patience = Instant::now() + PATIENCE;
        self.missed = self.missed.saturating_add(missed);
        if missed != 0 && !quiet {
            note(format!("{missed} outliers (of all metrics) were missed"));
        }
        for outlier in found {
            if !self.is_above(outlier) {
                continue;
            }
            let is_end = self.reported.ends(outlier);
            let stacks = self.stacks.as_mut();
            let stack = stacks.map(|stacks| stacks.of(outlier.id, patience));
            let printed = match (quiet, &self.summary) {
                (_, Some(_)) => {
                    self.unnamed.push((outlier.clone(), stack.flatten()));
                    Ok(())
                }
                (true, None) => Ok(()),
                (false, None) => {
                    let names = names_in(&self.named, outlier);
                    print(&self.shown(outlier, is_end, &names, stack))
                }
            };
            // Also if nobody reads the output any more.
            let mut is_over = false;
            if !is_end {
                self.seen += 1;
                is_over = self.act(Event {
                    pid: outlier.pid,
                    cpu: outlier.cpu,
                    duration_ns: outlier.duration_ns,
                    is_ongoing: false,
                })?;
            }
            printed?;
            if is_over || self.ends() {
                return Ok(true);
            }
        }
        if has_names {
            self.add_up();
        }
        Ok(false)
    }

    /// Adds to the summary what has waited for the names of its groups.
    fn add_up(&mut self) {
        for (outlier, stack) in self.unnamed.drain(..) {
            let names = names_in(&self.named, &outlier);
            let name = |group| shown::name_of(group, &names);
            if let Some(summary) = &mut self.summary {
                summary.add(&outlier, &name, stack.as_deref());
            }
        }
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
            let unix_ns = self.clock.unix_ns(self.source, outlier);
            let chain = self.args.chain;
            return shown::json(outlier, names, unix_ns, is_end, stack.as_ref(), chain);
        }
        let mut out = shown::text(outlier, names);
        if self.args.chain && outlier.chain.is_none() {
            out += "  its chain is not kept\n";
        }
        if is_end {
            out += "  reported before its end\n";
        }
        out + &stack.map_or_else(String::new, |stack| shown::stack_text(outlier, stack))
    }

    /// Returns whether a signal has asked to end meanwhile.
    fn act(&self, event: Event) -> Result<bool> {
        for action in &self.args.on_threshold {
            if act(action, event)? {
                return Ok(true);
            }
        }
        Ok(false)
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

/// Takes an action. Returns whether a signal has asked to end meanwhile.
fn act(action: &Action, event: Event) -> Result<bool> {
    match action {
        Action::Module(word) if event.is_ongoing => {
            let (file, value) = match *word {
                "snapshot" => ("snapshot", "1"),
                _ => ("tracing_on", "0"),
            };
            let path = format!("{TRACEFS}/{file}");
            fs::write(&path, value).at(path)?;
        }
        Action::Module(_) | Action::Continue => {}
        Action::Shell(command) => {
            let mut shell = Command::new("/bin/sh");
            sys::with_signals(&mut shell)
                .args(["-c", command])
                .env("SCHEDHIST_PID", event.pid.to_string())
                .env("SCHEDHIST_CPU", event.cpu.to_string())
                .env("SCHEDHIST_DURATION_NS", event.duration_ns.to_string());
            let (status, is_over) = sys::run_through(&mut shell).at("/bin/sh")?;
            if !status.success() {
                note(format!("the shell command ended with {status}"));
            }
            return Ok(is_over);
        }
        Action::Signal { number, pid } => {
            sys::kill(*pid, *number).at(format!("signal {number} to {pid}"))?;
        }
    }
    Ok(false)
}

/// The times of a snapshot by the module's clock and by the wall clock.
struct Clock {
    module_ns: u64,
    unix_ns: u64,
    /// What both clocks of this machine said then.
    at: (Instant, u64),
}

impl Clock {
    fn new(reading: &Reading) -> Self {
        let timed = &reading.timed;
        Self {
            module_ns: timed.snapshot.time,
            // The snapshot's own time is when it was begun.
            unix_ns: timed.unix_ns.saturating_sub(timed.read_ns),
            at: (Instant::now(), source::unix_ns()),
        }
    }

    /// Returns whether another snapshot is needed: a minute later, as the clocks drift apart, and
    /// after a suspend or if the wall clock was set.
    fn is_old(&self) -> bool {
        let (instant, unix_ns) = self.at;
        let passed = instant.elapsed();
        let by_wall = i128::from(source::unix_ns()) - i128::from(unix_ns);
        let apart = by_wall.abs_diff(passed.as_nanos() as i128);
        passed > Duration::from_secs(60) || apart > 10_000_000
    }

    /// Returns the wall-clock time at which an outlier ended, in nanoseconds since 1970.
    fn unix_ns(&mut self, source: &Source, outlier: &Outlier) -> Option<u64> {
        let end = outlier.end_ns?;
        if self.is_old() {
            if let Ok(reading) = source.read() {
                *self = Self::new(&reading);
            }
        }
        let later = self
            .unix_ns
            .saturating_add(end.saturating_sub(self.module_ns));
        Some(later.saturating_sub(self.module_ns.saturating_sub(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for again and again leaves time for the stream.
    #[test]
    fn rarely() {
        let mut work = Rarely::default();
        let begin = work.begin().expect("the first time");
        work.end(begin.checked_sub(Duration::from_secs(100)).unwrap_or(begin));
        let next = work.0.expect("when it may be done again");
        assert!(work.begin().is_none() && next >= begin + Duration::from_secs(400));
        work.0 = Some(Instant::now());
        assert!(work.begin().is_some());
    }

    /// After a suspend, or when the wall clock was set, the clocks are compared again.
    #[test]
    fn clocks_apart() {
        for (apart_ns, is_old) in [(0, false), (2_000_000_000, true)] {
            let clock = Clock {
                module_ns: 0,
                unix_ns: 0,
                at: (Instant::now(), source::unix_ns() - apart_ns),
            };
            assert_eq!(clock.is_old(), is_old, "{apart_ns}");
        }
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
