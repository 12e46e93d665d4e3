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
        Command,
        ExitStatus, //
    },
    time::Instant,
};

use clap::ArgMatches;
use schedhist_core::{
    distribution::Distribution,
    json::Object,
    recording::file::Recorder,
    text::Pairs,
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

/// Returns the exit status to pass on: 128 and the signal for a command that was killed.
pub fn exit_status(status: ExitStatus) -> u8 {
    let number = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(number).unwrap_or(1)
}

/// Runs the command, once or several times.
pub fn run(args: &ArgMatches, source: &Source) -> Result {
    let style = Style::new(args)?;
    let repeat = args
        .get_one::<String>("repeat")
        .map_or(Ok(1), |n| options::count(n))?;
    let words: Vec<_> = args
        .get_many::<String>("command")
        .unwrap_or_default()
        .collect();
    let mut recorder = match args.get_one::<String>("output") {
        None => None,
        Some(path) if args.get_flag("append") && std::path::Path::new(path).exists() => {
            Some(append(path)?)
        }
        Some(path) => Some(record::create(path)?),
    };
    let waiter = Waiter::new().map_err(|error| Failure::at("signals", error))?;
    let cgroup = Cgroup::new(source);
    if let Err(why) = &cgroup {
        note(format!(
            "only the machine is measured, not the command by itself: {why}"
        ));
    }
    let cgroup = cgroup.ok();
    let mut status = 0;
    for number in 1..=repeat {
        let (run, frame, ended, is_over) = once(source, &waiter, cgroup.as_ref(), &words)?;
        status = status.max(exit_status(ended));
        if let Some(recorder) = &mut recorder {
            let written = recorder.run(&run.encode());
            written.map_err(|error| Failure::at("the output file", error))?;
        }
        let title = match repeat {
            1 => words[0].clone(),
            _ => format!("{} ({number} of {repeat})", words[0]),
        };
        // As perf stat does: standard output belongs to the command.
        eprint_all(&show(&run, &frame, &title, &style));
        if is_over {
            break;
        }
    }
    match status {
        0 => Ok(()),
        status => Err(Failure::Quiet(status)),
    }
}

/// Writes to standard error, whose reader may have gone.
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

/// The histograms of the command's group so far.
fn of_group(source: &Source, cgroup: Option<&Cgroup<'_>>) -> Result<Vec<Option<Distribution>>> {
    let Some(cgroup) = cgroup else {
        return Ok(vec![None; OF_GROUPS.len()]);
    };
    let all = OF_GROUPS.iter().map(|metric| {
        let mut all = groups::histograms(source, metric)?;
        Ok(all.remove(&cgroup.group))
    });
    all.collect()
}

/// Runs the command once. Returns also whether a signal asks to end.
fn once(
    source: &Source,
    waiter: &Waiter,
    cgroup: Option<&Cgroup<'_>>,
    words: &[&String],
) -> Result<(Run, Frame, ExitStatus, bool)> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    if let Some(cgroup) = cgroup {
        let procs = cgroup
            .procs()
            .map_err(|error| Failure::at("cgroup.procs", error))?;
        sys::enter_cgroup(&mut command, procs);
    }
    let group_before = of_group(source, cgroup)?;
    let before = source.read()?;
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            note(format!("{}: command not found", words[0]));
            Failure::Quiet(127)
        }
        _ => {
            note(format!("{}: {error}", words[0]));
            Failure::Quiet(126)
        }
    })?;
    let pid = i32::try_from(child.id()).unwrap_or_default();
    let mut is_over = false;
    let status = loop {
        if let Some(status) = child
            .try_wait()
            .map_err(|error| Failure::at(words[0], error))?
        {
            break status;
        }
        match waiter.wait(None, None) {
            // The terminal sends SIGINT to the command, too.
            Woken::Signal(signal) => {
                is_over = true;
                if signal != libc::SIGINT {
                    let _ = sys::kill(pid, signal);
                }
            }
            Woken::Timeout | Woken::Child | Woken::Readable => {}
        }
    };
    let wall_ns = sys::since(start);
    let after = source.read()?;
    let group_after = of_group(source, cgroup)?;
    let frame = after.since(&before);
    let mut histograms = Vec::new();
    for ((metric, old), new) in OF_GROUPS.iter().zip(group_before).zip(group_after) {
        if let Some(new) = new {
            let since = old.and_then(|old| new.since(&old)).unwrap_or(new);
            histograms.push((COMMAND.to_owned(), (*metric).to_owned(), since));
        }
    }
    runs::add_window(&mut histograms, &frame.window);
    let module = std::fs::read_to_string("/sys/module/schedhist/version").unwrap_or_default();
    let about = runs::describe(&before.taken, module.trim());
    let command: Vec<_> = words.iter().map(|word| word.as_str()).collect();
    let command = command.join(" ").replace(['\n', '#'], " ");
    let pairs = format!(
        "{about}wall_ns {wall_ns}\nstatus {}\nwords {command}\n",
        exit_status(status)
    );
    let run = Run {
        pairs: Pairs::of_lines(&pairs),
        histograms,
    };
    Ok((run, frame, status, is_over))
}

/// Returns a run in the form that the user chose.
fn show(run: &Run, frame: &Frame, title: &str, style: &Style) -> String {
    match &style.form {
        Form::Json => run.histograms.iter().map(|h| json(run, h, style)).collect(),
        Form::Csv(separator) => run
            .histograms
            .iter()
            .map(|(scope, metric, d)| {
                let max = d.max.value().map_or(String::new(), |max| max.to_string());
                let mut values = vec![scope.clone(), metric.clone(), d.count().to_string()];
                values.push(d.sum.to_string());
                let quantiles = style.quantiles.iter().map(|q| d.quantile_upper(*q));
                values.extend(quantiles.map(|q| q.map_or(String::new(), |q| q.to_string())));
                values.push(max);
                values.join(separator) + "\n"
            })
            .collect(),
        Form::Text => {
            let mut out = format!("\n {title}: ");
            let wall = run.pairs.number("wall_ns");
            let (state, violations) = render::laws(frame);
            let _ = writeln!(out, "{}, {state}", Unit::Fitting.text(wall));
            out += &table(run, style);
            for line in frame.notes.iter().chain(&violations) {
                render::wrap(&mut out, &format!("note: {line}"));
            }
            out
        }
    }
}

/// Returns the table of a run.
pub fn table(run: &Run, style: &Style) -> String {
    let mut out = String::new();
    let shown = style.quantiles.len().min(4);
    let _ = write!(out, "{:<8} {:<22}{:>9}", "whose", "metric", "count");
    for quantile in &style.quantiles[..shown] {
        let _ = write!(out, "{:>8}", quantile.to_string());
    }
    let _ = writeln!(out, "{:>8}", "max");
    for (scope, metric, distribution) in &run.histograms {
        let is_part = metric.starts_with("runq_") || metric.starts_with("blocked_");
        if is_part || distribution.count() == 0 {
            continue;
        }
        let count = units::count(distribution.count());
        let _ = write!(out, "{scope:<8} {metric:<22}{count:>9}");
        for quantile in &style.quantiles[..shown] {
            let upper = distribution.quantile_upper(*quantile);
            let _ = write!(out, "{:>8}", style.unit.quantile(upper));
        }
        let _ = writeln!(out, "{:>8}", style.unit.max(distribution.max));
    }
    if !run.histograms.iter().any(|(scope, _, _)| scope == COMMAND) {
        let _ = writeln!(out, "note: all figures are of the whole {MACHINE}");
    }
    out
}

fn json(run: &Run, (scope, metric, d): &(String, String, Distribution), style: &Style) -> String {
    let object = Object::new("schedhist.run.v1")
        .string("scope", scope)
        .string("metric", metric)
        .optional("wall_ns", run.pairs.number::<u64>("wall_ns"))
        .optional("status", run.pairs.number::<u64>("status"));
    render::distribution_json(object, d, style).end() + "\n"
}
