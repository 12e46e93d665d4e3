// SPDX-License-Identifier: GPL-2.0

//! `run`: measures a command with its children, and the machine beside it.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use crate::{
    cli::Run,
    failure::{note, verdict, Failure, Result},
    files,
    options::{Form, Style},
    source::Source,
    sys::Waiter,
    verbs::record::Output,
};

mod job;
mod log;
mod own_group;
mod print;

use job::Job;
use log::Log;
use own_group::OwnGroup;
pub use print::{happened, recorded};

/// Returns the exit status to pass on: 128 and the signal for a command that was killed.
pub fn exit_status(status: ExitStatus) -> u8 {
    let number = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(number).unwrap_or(1)
}

/// Runs the command, once or several times.
pub fn run(args: &Run, source: &Source) -> Result {
    let style = Style::new(&args.style);
    let log = Log::new(args, &style)?;
    // First, as it tells whether there is a module, and who may use it.
    let snapshot = source.read()?.taken.snapshot;
    let cpus = args.cpu.as_ref();
    cpus.map_or(Ok(()), |cpus| cpus.check(&snapshot))?;
    // With -j and -x, the file is the log.
    let mut output = match args.output.as_deref().filter(|_| style.form == Form::Text) {
        None => None,
        Some(path) if args.append => Some(Output::append(path)?),
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
        words: &args.command,
        interval: args.interval,
        delay: args.delay,
        timeout: args.timeout,
        cpus,
        each_cpu: args.no_aggr,
        module: files::read("/sys/module/schedhist/version").unwrap_or_default(),
        style,
        log,
    };
    let mut status = 0;
    let ended = repeated(&job, args.repeat, args.table, output.as_mut(), &mut status);
    verdict(status, ended.and(job.log.end()))
}

/// Runs the command `repeat` times. `status` becomes the highest of all runs.
fn repeated(
    job: &Job<'_>,
    repeat: u64,
    has_table: bool,
    mut output: Option<&mut Output>,
    status: &mut u8,
) -> Result {
    let mut runs = Vec::new();
    for number in 1..=repeat {
        let title = match repeat {
            1 => job.program().into_owned(),
            _ => format!("{} ({number} of {repeat})", job.program()),
        };
        // Not before: what is older stays if there is no such command.
        let mut started = || {
            job.log.begin(&print::head(&job.style));
            match &mut output {
                Some(output) => output.publish("old"),
                None => Ok(()),
            }
        };
        let outcome = job.once(&title, &mut started)?;
        *status = exit_status(outcome.status).max(*status);
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
            None => return Err(Failure::Quiet(1)),
        }
        if outcome.is_over {
            break;
        }
    }
    if has_table {
        job.log.print(&print::table_of_runs(&runs, &job.style));
    }
    Ok(())
}
