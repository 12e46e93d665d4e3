// SPDX-License-Identifier: GPL-2.0

//! The verbs, one to a file.

mod bcc;
mod completions;
mod ctl;
mod diff;
mod doctor;
pub mod export;
mod groups;
mod hist;
mod record;
pub mod report;
mod run;
mod runqslower;
mod top;
mod watch;

use clap::ArgMatches;

use crate::{
    failure::{note, Failure, Result},
    outliers::stacks,
    setting::{self, grouping},
    source::Source,
    sys, tty,
};

/// Returns whether no option asks for the summary.
fn is_bare(args: &ArgMatches) -> bool {
    let flags = ["nanoseconds", "microseconds", "milliseconds", "json"];
    let values = ["quantiles", "separator"];
    !flags.iter().any(|name| args.get_flag(name))
        && !values.iter().any(|name| args.contains_id(name))
}

/// Runs the verb that was given.
pub fn run(args: &ArgMatches, source: &Source) -> Result {
    if let (Some((verb, _)), false) = (args.subcommand(), is_bare(args)) {
        return Err(Failure::Usage(format!(
            "options other than --dir come after '{verb}'"
        )));
    }
    if let (Some((verb @ ("report" | "diff" | "completions" | "man"), _)), true) =
        (args.subcommand(), args.contains_id("dir"))
    {
        return Err(Failure::Usage(format!(
            "--dir: '{verb}' reads no files of the module"
        )));
    }
    look_for_left(args.subcommand_name(), source);
    match args.subcommand() {
        None if is_bare(args) && tty::is_there() => top::live(source),
        None => hist::summary(args, source),
        Some(("top", args)) => top::top(args, source),
        Some(("hist", args)) => hist::hist(args, source),
        Some(("runqlat", args)) => bcc::runqlat(args, source),
        Some(("cpudist", args)) => bcc::cpudist(args, source),
        Some(("runqslower", args)) => runqslower::runqslower(args, source),
        Some(("groups", args)) => groups::groups(args, source),
        Some(("run", args)) => run::run(args, source),
        Some(("record", args)) => record::record(args, source),
        Some(("report", args)) => report::report(args),
        Some(("diff", args)) => diff::diff(args),
        Some(("export", args)) => export::export(args, source),
        Some(("watch", args)) => watch::watch(args, source),
        Some(("ctl", args)) => ctl::ctl(args, source),
        Some(("doctor", _)) => doctor::doctor(source),
        Some(("completions", args)) => completions::completions(args),
        Some(("man", args)) => completions::man(args),
        Some(_) => Ok(()),
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

/// Restores what was left, before a verb that writes settings itself, or else notes it.
fn look_for_left(verb: Option<&str>, source: &Source) {
    let restores = matches!(
        verb,
        Some("ctl" | "run" | "watch" | "runqslower" | "runqlat" | "cpudist")
    );
    // `doctor` shows it with all else, and the others do not read the module.
    if matches!(
        verb,
        Some("doctor" | "report" | "diff" | "completions" | "man")
    ) {
        return;
    }
    let what = match restores {
        true => "restored",
        false => "schedhist ctl restores it",
    };
    for one in left(source, restores) {
        note(format!("{one}: {what}"));
    }
}
