// SPDX-License-Identifier: GPL-2.0

//! `run`: measures a command with its children, and the machine beside it.

use std::{
    fmt::Write,
    fs::{
        File,
        OpenOptions, //
    },
    os::unix::process::ExitStatusExt,
    process::{
        Child,
        Command,
        ExitStatus, //
    },
    time::{
        Duration,
        Instant, //
    },
};

use clap::ArgMatches;
use schedhist_core::{
    distribution::{
        Distribution,
        Quantile, //
    },
    json::Object,
    recording::file::Recorder,
    text::{
        self,
        Pairs, //
    },
    units::{
        self,
        Unit, //
    },
};

use crate::{
    failure::{
        note,
        Failure,
        Result, //
    },
    options::{
        self,
        Form,
        Style, //
    },
    source::{
        Frame,
        Reading,
        Source, //
    },
    sys::{
        self,
        Waiter,
        Woken, //
    },
    verbs::{
        groups,
        machine::Cgroup,
        record, render,
        runs::{
            self,
            Run,
            COMMAND,
            MACHINE, //
        },
    },
};

/// The metrics that a group has histograms of.
const OF_GROUPS: [&str; 3] = ["oncpu", "runq", "offcpu"];

/// Counts of the command's group: the key in a run, and that in the file `groups`.
const COUNTS: [(&str, &str); 6] = [
    ("voluntary", "voluntary"),
    ("involuntary", "involuntary"),
    ("migrations", "migrations"),
    ("oncpu_ns", "oncpu_sum_ns"),
    ("waited_ns", "runq_sum_ns"),
    ("not_in_histogram", "not_in_histogram"),
];

/// Returns the exit status to pass on: 128 and the signal for a command that was killed.
pub fn exit_status(status: ExitStatus) -> u8 {
    let number = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(number).unwrap_or(1)
}

/// What is to be measured, and how.
struct Job<'a> {
    source: &'a Source,
    waiter: Waiter,
    cgroup: Option<Cgroup<'a>>,
    words: Vec<&'a String>,
    interval: Option<Duration>,
    delay: Option<Duration>,
    timeout: Option<Duration>,
    /// The CPUs of the machine that count, as numbers and as the user gave them.
    cpus: Option<(Vec<u32>, String)>,
    each_cpu: bool,
    style: Style,
}

/// All that is known at one time.
struct State {
    reading: Reading,
    histograms: Vec<Option<Distribution>>,
    counts: Option<[u64; COUNTS.len()]>,
}

/// What came of one run.
struct Outcome {
    /// `None` if the module could not be read at the end.
    run: Option<Run>,
    status: ExitStatus,
    /// Whether a signal asks to end.
    is_over: bool,
}

/// Runs the command, once or several times.
pub fn run(args: &ArgMatches, source: &Source) -> Result {
    let style = Style::new(args)?;
    let repeat = args
        .get_one::<String>("repeat")
        .map_or(Ok(1), |n| options::count(n))?;
    let millis = |name: &str| {
        let text = args.get_one::<String>(name);
        let parsed = text.map(|text| {
            let number = text.parse().ok().filter(|ms| (1..=86_400_000).contains(ms));
            let wrong = || Failure::Usage(format!("--{name} {text}: milliseconds, 1 or more"));
            number.map(Duration::from_millis).ok_or_else(wrong)
        });
        parsed.transpose()
    };
    // First, as it tells whether there is a module, and who may use it.
    let snapshot = source.read()?.taken.snapshot;
    let cpus = args.get_one::<String>("cpu").map(|list| {
        let cpus = options::cpu_list(list)?;
        let is_there = |cpu: &u32| snapshot.cpus.iter().any(|there| there.number == *cpu);
        match cpus.iter().find(|cpu| !is_there(cpu)) {
            Some(cpu) => Err(Failure::Usage(format!("there is no CPU {cpu}"))),
            None => Ok((cpus, list.clone())),
        }
    });
    let cpus = cpus.transpose()?;
    let (interval, delay, timeout) = (millis("interval")?, millis("delay")?, millis("timeout")?);
    let mut recorder = match args.get_one::<String>("output") {
        None => None,
        Some(path) if args.get_flag("append") && std::path::Path::new(path).exists() => {
            Some(append(path)?)
        }
        Some(path) => Some(record::create(path)?),
    };
    // Before the cgroup: it blocks the signals that would leave that behind.
    let waiter = Waiter::new().map_err(|error| Failure::at("signals", error))?;
    let cgroup = Cgroup::new(source);
    if let Err(why) = &cgroup {
        note(format!(
            "only the machine is measured, not the command by itself: {why}"
        ));
    }
    let job = Job {
        source,
        waiter,
        cgroup: cgroup.ok(),
        words: args
            .get_many::<String>("command")
            .unwrap_or_default()
            .collect(),
        interval,
        delay,
        timeout,
        cpus,
        each_cpu: args.get_flag("no-aggr"),
        style,
    };
    if let Form::Csv(separator) = &job.style.form {
        eprint_all(&csv_head(&job.style, separator));
    }
    let mut status = 0;
    let mut runs = Vec::new();
    for number in 1..=repeat {
        let title = match repeat {
            1 => job.words[0].clone(),
            _ => format!("{} ({number} of {repeat})", job.words[0]),
        };
        let outcome = job.once(&title)?;
        status = status.max(exit_status(outcome.status));
        let Some(run) = outcome.run else {
            return Err(Failure::Quiet(status.max(1)));
        };
        if let Some(recorder) = &mut recorder {
            let written = recorder.run(&run.encode());
            written.map_err(|error| Failure::at("the output file", error))?;
        }
        runs.push(run);
        if outcome.is_over {
            break;
        }
    }
    if args.get_flag("table") && job.style.form == Form::Text {
        eprint_all(&table_of_runs(&runs, job.style.unit));
    }
    match status {
        0 => Ok(()),
        status => Err(Failure::Quiet(status)),
    }
}

/// Writes to standard error, whose reader may have gone. As with perf stat, standard output belongs
/// to the command.
fn eprint_all(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn append(path: &str) -> Result<Recorder<File>> {
    // Fails unless it is a recording.
    let lost = {
        let mut player = runs::open(path)?;
        while player.next_item().is_some() {}
        player.lost().map(str::to_owned)
    };
    if let Some(why) = lost {
        return Err(Failure::at(path, format!("{why}: nothing can be appended")));
    }
    let file = OpenOptions::new().append(true).open(path);
    Ok(Recorder::append(
        file.map_err(|error| Failure::at(path, error))?,
    ))
}

impl Job<'_> {
    fn state(&self) -> Result<State> {
        let mut histograms: Vec<Option<Distribution>> = vec![None; OF_GROUPS.len()];
        let mut counts = None;
        if let Some(cgroup) = &self.cgroup {
            // The command may create cgroups below its own.
            let is_ours = |name: &str| {
                let below = name.strip_prefix(cgroup.group.as_str());
                below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
            };
            for (found, metric) in histograms.iter_mut().zip(OF_GROUPS) {
                for (name, one) in groups::histograms(self.source, metric)?.into_values() {
                    match found {
                        _ if !is_ours(&name) => {}
                        None => *found = Some(one),
                        Some(found) => found.merge(&one),
                    }
                }
            }
            let groups = text::groups(&self.source.text("groups")?)?;
            let groups = groups.groups.iter().filter(|group| is_ours(&group.name));
            let mut sums = [0; COUNTS.len()];
            for group in groups {
                for (sum, (_, key)) in sums.iter_mut().zip(COUNTS) {
                    let number = group.pairs.number::<u128>(key).unwrap_or_default();
                    *sum = units::clamp(number.saturating_add(u128::from(*sum)));
                }
            }
            // There is no group before the first task.
            counts = Some(sums);
        }
        Ok(State {
            reading: self.source.read()?,
            histograms,
            counts,
        })
    }

    fn spawn(&self) -> Result<Child> {
        let program = self.words[0];
        let mut command = Command::new(program);
        sys::with_signals(command.args(&self.words[1..]));
        if let Some(cgroup) = &self.cgroup {
            let procs = cgroup.procs();
            let procs = procs.map_err(|error| Failure::at("cgroup.procs", error))?;
            sys::enter_cgroup(&mut command, procs);
        }
        command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                note(format!("{program}: command not found"));
                Failure::Quiet(127)
            }
            _ => {
                note(format!("{program}: {error}"));
                Failure::Quiet(126)
            }
        })
    }

    /// Runs the command once, and prints what it did.
    fn once(&self, title: &str) -> Result<Outcome> {
        let mut first = self.state()?;
        let start = Instant::now();
        let mut child = self.spawn()?;
        let pid = i32::try_from(child.id()).unwrap_or_default();
        let mut last: Option<(State, Duration)> = None;
        let (mut begin, mut end) = (self.delay, self.timeout);
        let mut tick = self.interval.map(|ms| ms + begin.unwrap_or_default());
        let mut is_over = false;
        let status = loop {
            let waited = child.try_wait();
            if let Some(status) = waited.map_err(|error| Failure::at(self.words[0], error))? {
                break status;
            }
            let deadline = [begin, end, tick].into_iter().flatten().min();
            match self.waiter.wait(deadline.map(|after| start + after), None) {
                Woken::Signal(signal) => {
                    is_over = true;
                    if !signal.is_from_terminal {
                        let _ = sys::kill(pid, signal.number);
                    }
                }
                Woken::Timeout => {
                    let now = start.elapsed();
                    if begin.take_if(|begin| *begin <= now).is_some() {
                        first = self.state()?;
                    } else if end.take_if(|end| *end <= now).is_some() {
                        let _ = sys::kill(pid, libc::SIGTERM);
                    } else if let (Some(due), Some(interval)) = (tick, self.interval) {
                        let after = self.state()?;
                        let (before, from) = match &last {
                            Some((state, at)) => (state, Some(*at)),
                            None => (&first, self.delay),
                        };
                        let (run, frame) = self.between(before, &after, None, from, now);
                        last = Some((after, now));
                        eprint_all(&self.show(&run, &frame, title));
                        tick = Some((due + interval).max(now));
                    }
                }
                Woken::Child | Woken::Readable => {}
            }
        };
        let wall = start.elapsed();
        if begin.is_some() {
            note("the command ended before it was to be measured: -D");
        }
        let run = match self.state() {
            Ok(after) => {
                if begin.is_some() {
                    first = self.state()?;
                }
                let (run, frame) = self.between(&first, &after, Some(status), self.delay, wall);
                eprint_all(&self.show(&run, &frame, title));
                Some(run)
            }
            Err(Failure::Error(why) | Failure::Usage(why)) => {
                note(why);
                None
            }
            Err(quiet) => return Err(quiet),
        };
        Ok(Outcome {
            run,
            status,
            is_over,
        })
    }

    /// Returns the activity between two states, as a run.
    fn between(
        &self,
        old: &State,
        new: &State,
        status: Option<ExitStatus>,
        from: Option<Duration>,
        to: Duration,
    ) -> (Run, Frame) {
        let frame = new.reading.since(&old.reading);
        let mut histograms = Vec::new();
        let of_groups = old.histograms.iter().zip(&new.histograms);
        for (metric, (old, new)) in OF_GROUPS.iter().zip(of_groups) {
            if let Some(new) = new {
                let since = old.as_ref().and_then(|old| new.since(old));
                let since = since.unwrap_or_else(|| new.clone());
                histograms.push((COMMAND.to_owned(), (*metric).to_owned(), since));
            }
        }
        let is_wanted = |cpu| {
            let cpus = self.cpus.as_ref();
            cpus.is_none_or(|(cpus, _)| cpus.contains(&cpu))
        };
        runs::add_window(&mut histograms, &frame.window, MACHINE, is_wanted);
        if self.each_cpu {
            let numbers = frame.window.cpus.iter().map(|cpu| cpu.number);
            for number in numbers.filter(|cpu| is_wanted(*cpu)) {
                let scope = format!("cpu{number}");
                runs::add_window(&mut histograms, &frame.window, &scope, |cpu| cpu == number);
            }
        }
        let module = std::fs::read_to_string("/sys/module/schedhist/version").unwrap_or_default();
        let mut pairs = runs::describe(&old.reading.taken, module.trim());
        let list = self.cpus.as_ref().map_or("all", |(_, list)| list);
        let (from, to) = (from.unwrap_or_default().as_nanos(), to.as_nanos());
        let words: Vec<_> = self.words.iter().map(|word| word.as_str()).collect();
        let words = words.join(" ").replace(['\n', '#'], " ");
        // Writing to a String does not fail.
        let _ = write!(
            pairs,
            "cpu_list {list}\nwall_ns {}\nfrom_ns {from}\nto_ns {to}\nwords {words}\n",
            to.saturating_sub(from)
        );
        if let Some(status) = status {
            let _ = writeln!(pairs, "status {}", exit_status(status));
        }
        if let (Some(old), Some(new)) = (old.counts, new.counts) {
            for (((key, _), old), new) in COUNTS.iter().zip(old).zip(new) {
                // The groups began anew if a count went back.
                let _ = writeln!(pairs, "{key} {}", new.checked_sub(old).unwrap_or(new));
            }
        }
        let run = Run {
            pairs: Pairs::of_lines(&pairs),
            histograms,
        };
        (run, frame)
    }

    /// Returns a run in the form that the user chose.
    fn show(&self, run: &Run, frame: &Frame, title: &str) -> String {
        let style = &self.style;
        match &style.form {
            Form::Json => run.histograms.iter().map(|h| json(run, h, style)).collect(),
            Form::Csv(separator) => run
                .histograms
                .iter()
                .map(|h| csv(run, h, style, separator))
                .collect(),
            Form::Text => {
                let time = |key| Unit::Fitting.text(run.pairs.number(key));
                let (state, violations) = render::laws(frame);
                let span = match run.pairs.get("status") {
                    Some(_) => time("wall_ns"),
                    None => format!("from {} to {}", time("from_ns"), time("to_ns")),
                };
                let mut out = format!("\n{title}: {span}, {state}\n");
                out += &table(run, style);
                for line in frame.notes.iter().chain(&violations) {
                    render::wrap(&mut out, &format!("note: {line}"));
                }
                out
            }
        }
    }
}

/// Returns the table of a run.
pub fn table(run: &Run, style: &Style) -> String {
    let mut out = String::new();
    let number = |key| run.pairs.number::<u64>(key);
    let time = |key| style.unit.text(number(key));
    if let (Some(voluntary), Some(involuntary)) = (number("voluntary"), number("involuntary")) {
        let line = format!(
            "{COMMAND}: {} switches ({involuntary} involuntary), {} on CPU, {} waiting",
            voluntary.saturating_add(involuntary),
            time("oncpu_ns"),
            time("waited_ns")
        );
        render::wrap(&mut out, &line);
    }
    // Three significant digits are short; all digits of a second in microseconds are not.
    let (width, most) = if style.unit == Unit::Fitting {
        (8, 5)
    } else {
        (14, 2)
    };
    let shown = style.quantiles.len().min(most);
    let _ = write!(out, "{:<8} {:<10}{:>9}", "whose", "metric", "count");
    for quantile in &style.quantiles[..shown] {
        let _ = write!(out, "{:>width$}", quantile.to_string());
    }
    let _ = writeln!(out, "{:>width$}", "max");
    for (scope, metric, distribution) in &run.histograms {
        let is_part = metric.starts_with("runq_") || metric.starts_with("blocked_");
        if is_part || distribution.count() == 0 {
            continue;
        }
        let count = units::count(distribution.count());
        let _ = write!(out, "{scope:<8} {metric:<10}{count:>9}");
        for quantile in &style.quantiles[..shown] {
            let upper = distribution.quantile_upper(*quantile);
            let _ = write!(out, "{:>width$}", style.unit.quantile(upper));
        }
        let _ = writeln!(out, "{:>width$}", style.unit.max(distribution.max));
    }
    if number("voluntary").is_none() && !run.histograms.iter().any(|(scope, ..)| scope == COMMAND) {
        let _ = writeln!(out, "note: all figures are of the whole {MACHINE}");
    }
    if let Some(list) = run.pairs.get("cpu_list").filter(|list| *list != "all") {
        render::wrap(
            &mut out,
            &format!("note: of the {MACHINE}, only CPU {list}"),
        );
    }
    if let Some(late) = number("not_in_histogram").filter(|late| *late != 0) {
        let text = format!(
            "note: {late} samples of the {COMMAND} are in no histogram: a group gets these a \
             moment after its first task has run"
        );
        render::wrap(&mut out, &text);
    }
    out
}

/// Returns a table with a row for each run.
fn table_of_runs(runs: &[Run], unit: Unit) -> String {
    let is_grouped = runs
        .iter()
        .all(|run| run.histogram(COMMAND, "runq").is_some());
    let scope = if is_grouped { COMMAND } else { MACHINE };
    let width = if unit == Unit::Fitting { 9 } else { 13 };
    let mut out = format!(
        "\nwaits for a CPU (runq) of the {scope}\n{:>4}{:>9}{:>9}{:>9}",
        "run", "wall", "on CPU", "waits"
    );
    for name in ["p50", "p99", "max"] {
        let _ = write!(out, "{name:>width$}");
    }
    out.push('\n');
    for (number, run) in runs.iter().enumerate() {
        let time = |key| Unit::Fitting.text(run.pairs.number(key));
        let runq = run.histogram(scope, "runq");
        let quantile = |text| {
            let upper = Quantile::parse(text).and_then(|q| runq?.quantile_upper(q));
            unit.quantile(upper)
        };
        let _ = writeln!(
            out,
            "{:>4}{:>9}{:>9}{:>9}{:>width$}{:>width$}{:>width$}",
            number + 1,
            time("wall_ns"),
            time("oncpu_ns"),
            units::count(runq.map_or(0, Distribution::count)),
            quantile("50"),
            quantile("99"),
            runq.map_or_else(|| "-".to_owned(), |runq| unit.max(runq.max)),
        );
    }
    out
}

fn json(run: &Run, (scope, metric, d): &(String, String, Distribution), style: &Style) -> String {
    let number = |key| run.pairs.number::<u64>(key);
    let mut object = Object::new("schedhist.run.v1")
        .string("scope", scope)
        .string("metric", metric)
        .optional("wall_ns", number("wall_ns"))
        .optional("from_ns", number("from_ns"))
        .optional("to_ns", number("to_ns"))
        .optional("status", number("status"));
    if scope == COMMAND {
        for (key, _) in COUNTS {
            object = object.optional(key, number(key));
        }
    }
    render::distribution_json(object, d, style).end() + "\n"
}

/// Returns the names of the columns of [`csv`].
fn csv_head(style: &Style, separator: &str) -> String {
    let columns = ["from_ns", "to_ns", "scope", "metric"];
    let mut columns = columns.map(str::to_owned).to_vec();
    columns.extend(render::csv_columns(style));
    columns.join(separator) + "\n"
}

fn csv(
    run: &Run,
    (scope, metric, d): &(String, String, Distribution),
    style: &Style,
    separator: &str,
) -> String {
    let mut values = vec![
        render::csv_number(run.pairs.number("from_ns")),
        render::csv_number(run.pairs.number("to_ns")),
        scope.clone(),
        metric.clone(),
    ];
    values.extend(render::csv_values(d, style));
    values.join(separator) + "\n"
}
