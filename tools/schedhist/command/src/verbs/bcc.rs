// SPDX-License-Identifier: GPL-2.0

//! `runqlat` and `cpudist`: the letters and the tables of BCC's tools of these names.

use clap::ArgMatches;
use schedhist_core::{
    distribution::Distribution,
    log2::Log2, //
};

use crate::{
    failure::{
        print,
        Failure,
        Result, //
    },
    options::{
        check_metrics,
        Wanted, //
    },
    source::Source,
    sys,
    verbs::{
        groups::GroupHistograms,
        hist::each_interval, //
    },
};

/// The table to print.
struct Table {
    /// The metrics that are added up.
    metrics: Vec<String>,
    /// What BCC's tool prints at first.
    title: &'static str,
    /// Whether to print the average, the total and the count.
    extension: bool,
}

/// Prints run-queue latency.
pub fn runqlat(args: &ArgMatches, source: &Source) -> Result {
    if args.get_flag("pidnss") {
        return Err(not_kept("PID namespace"));
    }
    let table = Table {
        metrics: vec!["runq".to_owned()],
        title: "Tracing run queue latency... Hit Ctrl-C to end.\n",
        extension: false,
    };
    tables(args, source, &table)
}

/// Prints on-CPU or off-CPU time.
pub fn cpudist(args: &ArgMatches, source: &Source) -> Result {
    let is_off = args.get_flag("offcpu");
    // cpudist -O counts every absence, also of preempted tasks.
    let mut metrics = if is_off {
        vec!["offcpu", "runq_preempt"]
    } else {
        vec!["oncpu"]
    };
    if args.get_flag("include-idle") {
        metrics.push("idle");
    }
    let table = Table {
        metrics: metrics.into_iter().map(str::to_owned).collect(),
        title: if is_off {
            "Tracing off-CPU time... Hit Ctrl-C to end.\n"
        } else {
            "Tracing on-CPU time... Hit Ctrl-C to end.\n"
        },
        extension: args.get_flag("extension"),
    };
    tables(args, source, &table)
}

fn not_kept(what: &str) -> Failure {
    Failure::Usage(format!(
        "there is no table for each {what} here: write {what} to group_by and use schedhist groups; \
         schedhist run measures a command, -c a cgroup"
    ))
}

fn tables(args: &ArgMatches, source: &Source, table: &Table) -> Result {
    for (option, what) in [("pids", "process"), ("tids", "thread")] {
        if args.get_flag(option) {
            return Err(not_kept(what));
        }
    }
    if args.get_one::<String>("pid").is_some() {
        return Err(not_kept("process"));
    }
    let wanted = Wanted::new(args.get_many::<String>("words").unwrap_or_default())?;
    if let Some(word) = wanted.metrics.first() {
        return Err(Failure::Usage(format!("unexpected argument '{word}'")));
    }
    let (unit, label) = if args.get_flag("milliseconds") {
        (1_000_000, "msecs")
    } else {
        (1_000, "usecs")
    };
    let first = source.read()?;
    check_metrics(&first.taken.snapshot.names, &table.metrics)?;
    let mut group = match args.get_one::<String>("cgroup") {
        None => None,
        Some(path) => Some(GroupHistograms::new(source, path, &table.metrics)?),
    };
    print(table.title)?;
    each_interval(source, first, wanted.interval, wanted.count, |frame, _| {
        let mut all = Distribution::new(frame.window.scheme);
        match &mut group {
            Some(group) => all = group.next(source)?,
            None => {
                for series in table
                    .metrics
                    .iter()
                    .filter_map(|n| frame.window.names.series(n))
                {
                    all.merge(&frame.window.distribution(series, |_| true));
                }
            }
        }
        let mut out = String::from("\n");
        if args.get_flag("timestamp") {
            out += &format!("{:<8}\n", sys::time_of_day(frame.unix_ns / 1_000_000_000));
        }
        // Writing to a String does not fail.
        let _ = Log2::new(&all, unit).write(&mut out, label);
        if table.extension && all.count() != 0 {
            let total = all.sum / u128::from(unit);
            let mean = total / u128::from(all.count());
            out += &format!(
                "\navg = {mean} {label}, total: {total} {label}, count: {}\n\n",
                all.count()
            );
        }
        for note in &frame.notes {
            crate::failure::note(note);
        }
        print(&out)
    })
}
