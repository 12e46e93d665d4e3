// SPDX-License-Identifier: GPL-2.0

//! `run`: measures a command with its children, or what runs already, and the machine beside it.

use crate::{
    cli::Run,
    error::{noted, told, Result},
    files,
    options::{Form, Style},
    output::{note, printable},
    recordings::{
        runs::COUNTS,
        tables,
        writer::{Writer, SHARED},
    },
    setting::owner,
    source::Source,
    sys::{self, Waiter},
};

mod ab;
mod command_group;
mod job;
mod log;
mod own;
mod path;
mod target;

pub use ab::ab;
use command_group::CommandGroup;
use job::{Job, Subject};
use log::Log;
use path::PathReader;
use target::Target;

pub fn run(args: &Run, source: &Source) -> Result<u8> {
    let style = Style::new(&args.style);
    let log = Log::new(args, &style)?;
    // First, as it tells whether there is a module, and who may use it.
    let snapshot = source.read()?.timed.snapshot;
    let cpus = args.cpu.as_ref();
    cpus.map_or(Ok(()), |cpus| cpus.check(&snapshot))?;
    let target = Target::new(args)?;
    // With -j and -x, the file is the log.
    let mut output = match args.output.as_deref().filter(|_| style.form == Form::Text) {
        None => None,
        Some(path) if args.append => Some(Writer::append(path)?),
        Some(path) => Some(Writer::begin(path, SHARED)?),
    };
    // Before the cgroup: it blocks the signals that would leave that behind.
    let waiter = Waiter::new()?;
    if args.chain && source.is_live() {
        owner::need_initial_pids("--chain")?;
    }
    let _chain = args.chain.then(|| path::keep_slices(source)).transpose()?;
    let group = match &target {
        Some(target) => Some(CommandGroup::attach(source, target)?),
        None => group_of_command(source),
    };
    let job = Job {
        source,
        waiter,
        group,
        subject: match &target {
            Some(target) => Subject::Target(target),
            None => Subject::Command(&args.command),
        },
        interval: args.interval,
        delay: args.delay,
        timeout: args.timeout.or(args.measured_until()),
        cpus,
        each_cpu: args.no_aggr,
        module: files::read("/sys/module/schedhist/version").unwrap_or_default(),
        style,
        is_quiet: false,
        log,
    };
    let mut status = 0;
    let ended = repeated(&job, args, output.as_mut(), &mut status);
    // The highest: a later run may have failed to start.
    Ok(status.max(told(ended.and(job.log.end()))))
}

/// Returns a group for the command, or notes why there is none.
fn group_of_command(source: &Source) -> Option<CommandGroup<'_>> {
    let group = CommandGroup::new(source);
    if let Err(why) = &group {
        note(format!(
            "only the machine is measured, not the command by itself: {why}"
        ));
    }
    group.ok()
}

/// Runs the command `repeat` times. `status` becomes the highest of all runs.
fn repeated(job: &Job<'_>, args: &Run, mut output: Option<&mut Writer>, status: &mut u8) -> Result {
    let (repeat, has_table) = (args.repeat, args.table);
    let mut runs = Vec::new();
    for number in 1..=repeat {
        let title = match repeat {
            1 => job.subject.title(),
            _ => format!("{} ({number} of {repeat})", job.subject.title()),
        };
        // Not before: what is older stays if there is no such command.
        let mut started = || {
            job.log.begin(&tables::head(&job.style));
            match &mut output {
                Some(output) => output.publish(),
                None => Ok(()),
            }
        };
        let mut recorder = args.chain.then(|| PathReader::begin(job.source));
        let outcome = job.once(&title, recorder.as_mut(), &mut started)?;
        if let (Some(recorder), Some(pid)) = (recorder, outcome.pid) {
            let of = match job.style.form {
                Form::Json => job.subject.words(),
                _ => printable(&title),
            };
            if let Some(text) = noted(recorder.end(&of, pid, &job.style.form)) {
                job.log.print(&text);
            }
        }
        *status = sys::exit_status(outcome.status).max(*status);
        let is_attached = matches!(job.subject, Subject::Target(_));
        match outcome.run {
            Some(mut run) => {
                // A note says why nothing is known of the target.
                if is_attached && run.pairs.get(COUNTS[0]).is_none() {
                    *status = (*status).max(1);
                }
                if let Some(output) = &mut output {
                    output.write(|recorder| recorder.run(&run.encode()))?;
                }
                if has_table {
                    run.histograms.retain(tables::is_in_table_of_runs);
                    runs.push(run);
                }
            }
            None if outcome.is_early && !is_attached => {}
            // A note says why.
            None => {
                *status = (*status).max(1);
                return Ok(());
            }
        }
        if outcome.is_over {
            break;
        }
    }
    if has_table {
        job.log.print(&tables::table_of_runs(&runs, &job.style));
    }
    Ok(())
}
