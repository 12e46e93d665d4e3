// SPDX-License-Identifier: GPL-2.0

//! `run`: measures a command with its children, and the machine beside it.

use std::{
    ffi::OsString,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    time::Duration, //
};

use clap::ArgMatches;

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
    source::Source,
    sys::Waiter,
    verbs::record::Output,
};

mod job;
mod own_group;
mod print;

use job::Job;
use own_group::OwnGroup;
pub use print::recorded;

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
    let mut output = match args.get_one::<String>("output") {
        None => None,
        Some(path) if args.get_flag("append") => Some(Output::append(path)?),
        Some(path) => Some(Output::begin(path, "old")?),
    };
    // Before the cgroup: it blocks the signals that would leave that behind.
    let waiter = Waiter::new().map_err(|error| Failure::at("signals", error))?;
    let own_group = OwnGroup::new(source);
    if let Err(why) = &own_group {
        note(format!(
            "only the machine is measured, not the command by itself: {why}"
        ));
    }
    let job = Job {
        source,
        waiter,
        own_group: own_group.ok(),
        words: args
            .get_many::<OsString>("command")
            .unwrap_or_default()
            .collect(),
        interval,
        delay,
        timeout,
        cpus,
        each_cpu: args.get_flag("no-aggr"),
        style,
    };
    print::eprint_all(&print::head(&job.style));
    let has_table = args.get_flag("table") && job.style.form == Form::Text;
    let mut status = 0;
    let mut runs = Vec::new();
    for number in 1..=repeat {
        let title = match repeat {
            1 => job.program().into_owned(),
            _ => format!("{} ({number} of {repeat})", job.program()),
        };
        // Not before: an older recording stays if there is no such command.
        let mut publish = || match &mut output {
            Some(output) => output.publish("old"),
            None => Ok(()),
        };
        let outcome = job.once(&title, &mut publish)?;
        status = status.max(exit_status(outcome.status));
        match outcome.run {
            Some(mut run) => {
                if let Some(output) = &mut output {
                    output.write(|recorder| recorder.run(&run.encode()))?;
                }
                if has_table {
                    run.histograms.retain(print::is_in_table_of_runs);
                    runs.push(run);
                }
            }
            None if outcome.is_early => {}
            None => return Err(Failure::Quiet(status.max(1))),
        }
        if outcome.is_over {
            break;
        }
    }
    if has_table {
        print::eprint_all(&print::table_of_runs(&runs, job.style.unit));
    }
    match status {
        0 => Ok(()),
        status => Err(Failure::Quiet(status)),
    }
}
