// SPDX-License-Identifier: GPL-2.0

//! The verbs, one to a file.

mod bcc;
mod completions;
mod ctl;
mod diff;
mod doctor;
mod export;
mod group_histograms;
mod grouping;
mod groups;
mod hist;
mod html;
mod locks;
mod merged;
pub mod ongoing;
mod outliers;
mod perfetto;
mod record;
mod render;
mod report;
mod run;
mod runqslower;
mod runs;
mod serve;
mod setting;
mod stacks;
mod top;
mod watch;

use std::path::Path;

use clap::ArgMatches;

use crate::{
    failure::{
        Failure,
        Result, //
    },
    source::Source,
    tty, //
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

/// Returns whether there is a process that owns what is called `name`, which is `prefix` with its
/// PID. Returns `None` if that is no such name.
fn has_owner(name: &str, prefix: &str) -> Option<bool> {
    let pid: u32 = name.strip_prefix(prefix)?.parse().ok()?;
    Some(is_process(pid))
}

/// Returns whether there is a process with this PID.
fn is_process(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Where cgroups of version 2 are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns whether they are mounted there.
fn has_cgroups() -> bool {
    Path::new(CGROUPS).join("cgroup.procs").exists()
}
