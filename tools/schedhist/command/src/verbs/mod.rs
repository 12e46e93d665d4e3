// SPDX-License-Identifier: GPL-2.0

//! The verbs, mostly one to a file.
//!
//! To add a verb, write a struct for its arguments, with examples, and its variant of [`Verb`] in
//! [`crate::cli`], a file for it here, and its line in [`run`]. One that reads no file of the
//! module is also in `is_apart` there. One that changes a setting takes it from [`crate::setting`],
//! which restores it, and is in the line of [`run`] that restores what others left. Add it to
//! what [`completions`] says of status, files and environment, to the table of verbs in
//! `docs/tool.md`, and to the tests that CONTRIBUTING.md names.

mod bcc;
pub mod check;
pub mod completions;
pub mod ctl;
pub mod diff;
mod doctor;
mod export;
mod flamegraph;
mod groups;
mod hist;
mod record;
mod report;
mod run;
mod runqslower;
mod top;
pub mod topics;
pub mod watch;

use crate::{
    cli::{Cli, StyleArgs, Verb},
    error::{Error, Result},
    setting::leftovers,
    source::Source,
    tty,
};

/// Runs the verb that was given. Returns the exit status.
pub fn run(cli: &Cli) -> Result<u8> {
    let is_bare = cli.style == StyleArgs::default();
    let source = &Source::new(cli.dir.as_deref());
    let Some(verb) = &cli.verb else {
        leftovers::tell(source, false);
        let ended = match is_bare && tty::is_there() {
            true => top::live(source),
            false => hist::summary(&cli.style, source),
        };
        return ended.map(|()| 0);
    };
    if !is_bare {
        let why = "options other than --dir come after the verb";
        return Err(Error::usage(why));
    }
    let is_apart = match verb {
        Verb::Report(_) | Verb::Diff(_) | Verb::Flamegraph(_) => true,
        Verb::Completions(_) | Verb::Man(_) => true,
        Verb::Export(args) => args.perfetto.is_some(),
        Verb::Top(args) => args.input.is_some(),
        Verb::Check(args) => args.prometheus || args.input.is_some(),
        _ => false,
    };
    if is_apart && cli.dir.is_some() {
        let why = "--dir: this reads no files of the module";
        return Err(Error::usage(why));
    }
    match verb {
        _ if is_apart => {}
        // It shows what was left with all else.
        Verb::Doctor => {}
        // These write settings themselves.
        Verb::Ctl(_) | Verb::Run(_) | Verb::Ab(_) | Verb::Watch(_) => leftovers::tell(source, true),
        Verb::Runqslower(_) | Verb::Runqlat(_) | Verb::Cpudist(_) => leftovers::tell(source, true),
        _ => leftovers::tell(source, false),
    }
    let ended = match verb {
        // The status of these is a verdict.
        Verb::Run(args) => return run::run(args, source),
        Verb::Ab(args) => return run::ab(args, source),
        Verb::Record(args) => return record::record(args, source),
        Verb::Report(args) => return report::report(args),
        Verb::Diff(args) => return diff::diff(args),
        Verb::Check(args) => return check::check(args, source),
        Verb::Export(args) => return export::export(args, source),
        Verb::Watch(args) => return watch::watch(args, source),
        Verb::Doctor => return doctor::doctor(source),
        Verb::Top(args) => top::top(args, source),
        Verb::Hist(args) => hist::hist(args, source),
        Verb::Runqlat(args) => bcc::runqlat(args, source),
        Verb::Cpudist(args) => bcc::cpudist(args, source),
        Verb::Runqslower(args) => runqslower::runqslower(args, source),
        Verb::Groups(args) => groups::groups(args, source),
        Verb::Ctl(args) => ctl::ctl(args, source),
        Verb::Flamegraph(args) => flamegraph::flamegraph(args),
        Verb::Completions(args) => completions::completions(args.shell),
        Verb::Man(args) => completions::man(&args.folder),
    };
    ended.map(|()| 0)
}
