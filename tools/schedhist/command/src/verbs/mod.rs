// SPDX-License-Identifier: GPL-2.0

//! The verbs, one to a file.

mod bcc;
mod completions;
pub mod ctl;
pub mod diff;
mod doctor;
pub mod export;
mod groups;
mod hist;
mod record;
pub mod report;
mod run;
mod runqslower;
mod top;
pub mod watch;

use crate::{
    cli::{Cli, StyleArgs, Verb},
    failure::{note, Failure, Result},
    outliers::stacks,
    setting::{self, grouping},
    source::Source,
    sys, tty,
};

/// Runs the verb that was given.
pub fn run(cli: &Cli) -> Result {
    let is_bare = cli.style == StyleArgs::default();
    let source = &Source::new(cli.dir.as_deref());
    let Some(verb) = &cli.verb else {
        look_for_left(source, false);
        return match is_bare && tty::is_there() {
            true => top::live(source),
            false => hist::summary(&cli.style, source),
        };
    };
    if !is_bare {
        let why = "options other than --dir come after the verb";
        return Err(Failure::Usage(why.to_owned()));
    }
    let is_apart = match verb {
        Verb::Report(_) | Verb::Diff(_) | Verb::Completions(_) | Verb::Man(_) => true,
        Verb::Export(args) => args.perfetto.is_some(),
        _ => false,
    };
    if is_apart && cli.dir.is_some() {
        let why = "--dir: this reads no files of the module";
        return Err(Failure::Usage(why.to_owned()));
    }
    match verb {
        _ if is_apart => {}
        // It shows with all else what was left.
        Verb::Doctor => {}
        // These write settings themselves.
        Verb::Ctl(_) | Verb::Run(_) | Verb::Watch(_) => look_for_left(source, true),
        Verb::Runqslower(_) | Verb::Runqlat(_) | Verb::Cpudist(_) => look_for_left(source, true),
        _ => look_for_left(source, false),
    }
    match verb {
        Verb::Top(args) => top::top(args, source),
        Verb::Hist(args) => hist::hist(args, source),
        Verb::Runqlat(args) => bcc::runqlat(args, source),
        Verb::Cpudist(args) => bcc::cpudist(args, source),
        Verb::Runqslower(args) => runqslower::runqslower(args, source),
        Verb::Groups(args) => groups::groups(args, source),
        Verb::Run(args) => run::run(args, source),
        Verb::Record(args) => record::record(args, source),
        Verb::Report(args) => report::report(args),
        Verb::Diff(args) => diff::diff(args),
        Verb::Export(args) => export::export(args, source),
        Verb::Watch(args) => watch::watch(args, source),
        Verb::Ctl(args) => ctl::ctl(args, source),
        Verb::Doctor => doctor::doctor(source),
        Verb::Completions(args) => completions::completions(args.shell),
        Verb::Man(args) => completions::man(&args.folder),
    }
}

/// Finds all that processes have left that were killed, and restores it if `restores` is true.
fn left(source: &Source, restores: bool) -> Vec<String> {
    if !source.is_live() || sys::euid() != 0 {
        return Vec::new();
    }
    // Rules first: a list that has none is not needed.
    let mut all = grouping::left(source, restores);
    all.extend(setting::left(source, restores));
    all.extend(stacks::left(restores));
    all
}

/// Restores what was left if `restores` is true, or else notes it.
fn look_for_left(source: &Source, restores: bool) {
    let what = match restores {
        true => "restored",
        false => "schedhist ctl restores it",
    };
    for one in left(source, restores) {
        note(format!("{one}: {what}"));
    }
}
