// SPDX-License-Identifier: GPL-2.0

//! `ab`: alternates two commands, as `run -o FILE --append` would, and compares them as `diff`
//! does.

use std::{ffi::OsString, io::IsTerminal};

use super::{
    group_of_command,
    job::{Job, Subject},
    log::Log,
};
use crate::{
    cli::Ab,
    error::{Error, Kind, Result},
    files,
    options::{check_metrics, Style},
    output::note,
    recordings::runs::{Run, Side},
    source::Source,
    sys::{self, Waiter},
    verbs::diff::{refuse, Comparison, SIDES},
};

pub fn ab(args: &Ab, source: &Source) -> Result<u8> {
    compared(args, source).map_err(Error::of_trouble)
}

fn compared(args: &Ab, source: &Source) -> Result<u8> {
    let style = Style::new(&args.style);
    let comparison = Comparison::new(&args.metrics, &args.fail_above, &style);
    let commands = commands(&args.words)?;
    let shell = |line: &String| ["sh", "-c", line].map(OsString::from);
    let prepare = args.prepare.as_ref().map(shell);
    // What is wrong is said before anything runs.
    let names = source.read()?.timed.snapshot.names;
    check_metrics(&names, &comparison.metrics)?;
    let mut job = Job {
        source,
        waiter: Waiter::new()?,
        group: group_of_command(source),
        subject: Subject::Command(commands[0]),
        interval: None,
        delay: None,
        timeout: None,
        cpus: None,
        each_cpu: false,
        module: files::read("/sys/module/schedhist/version").unwrap_or_default(),
        style,
        is_quiet: true,
        log: Log::default(),
    };
    let words = commands.map(|command| Subject::Command(command).words());
    let mut sides = [Side::default(), Side::default()];
    let rounds = args.warmup.saturating_add(args.repeat);
    for round in 0..rounds {
        if std::io::stderr().is_terminal() {
            note(format!("round {} of {rounds}", round + 1));
        }
        // Each is first in turn: a drift favours neither.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            if let Some(prepare) = &prepare {
                let group = job.group.take();
                job.subject = Subject::Command(prepare);
                let prepared = once(&job, "--prepare");
                job.group = group;
                prepared?;
            }
            job.subject = Subject::Command(commands[side]);
            let what = format!("{}: {}", SIDES[side], words[side]);
            let mut run = once(&job, &what)?;
            // The first rounds warm up what both need.
            if round >= args.warmup {
                run.keep(&comparison.metrics);
                sides[side].runs.push(run);
            }
        }
    }
    let style = Style::new(&args.style);
    // Settings are restored first.
    drop(job);
    let [a, b] = sides;
    comparison.compare(&a, &b, Some(&words), &style)
}

/// Splits what follows the first `--` at the second one.
fn commands(words: &[OsString]) -> Result<[&[OsString]; 2]> {
    let all: Vec<_> = words.split(|word| word == "--").collect();
    match all[..] {
        [a, b] if !a.is_empty() && !b.is_empty() => Ok([a, b]),
        _ => Err(Error::usage(
            "two commands, each after --: one with a -- of its own needs sh -c",
        )),
    }
}

/// Runs a command once, which must succeed.
fn once(job: &Job<'_>, what: &str) -> Result<Run> {
    let outcome = job.once(what, None, &mut || Ok(()))?;
    match (sys::exit_status(outcome.status), outcome.run) {
        (status, _) if outcome.is_over => {
            let why = "ended by a signal: there is nothing to compare";
            // No status of `diff` for what was not compared.
            let status = if status > 128 { status } else { 2 };
            Err(Error::new(why).with_kind(Kind::Status(status)))
        }
        (0, Some(run)) => Ok(run),
        (0, None) => Err(refuse("the module could not be read".to_owned())),
        (status, _) => {
            note(format!("{what}: it ended with status {status}"));
            Err(refuse("only runs that succeed are compared".to_owned()))
        }
    }
}
