// SPDX-License-Identifier: GPL-2.0

//! No verb, and `hist`: summaries and histograms.

use crate::{
    cli::{Hist, StyleArgs},
    error::{Error, Result},
    options::{check_metrics, Positionals, Style},
    output::print,
    render::{self, Row, Scope},
    source::{each_interval, Interval, Source},
};

/// Prints a summary of all metrics since the load.
pub fn summary(style: &StyleArgs, source: &Source) -> Result {
    let style = Style::new(style);
    let interval = source.read()?.since_load();
    print(&render::summary(&interval, &style, &mut false))
}

pub fn hist(args: &Hist, source: &Source) -> Result {
    let style = Style::new(&args.style);
    let mut positionals = Positionals::new(&args.words)?;
    if positionals.metrics.is_empty() {
        positionals.metrics.push("runq".to_owned());
    }
    let rows = args.sub_buckets;
    let first = source.read()?;
    let snapshot = &first.timed.snapshot;
    check_metrics(&snapshot.names, &positionals.metrics)?;
    let cpus = args.cpu.as_ref();
    cpus.map_or(Ok(()), |cpus| cpus.check(snapshot))?;
    if rows > 1 << snapshot.scheme.precision().bits() {
        return Err(Error::usage(format!(
            "-b {rows} is finer than the module's precision of {} bits",
            snapshot.scheme.precision().bits()
        )));
    }
    let is_wanted = |cpu| cpus.is_none_or(|cpus| cpus.numbers.contains(&cpu));
    let mut is_headed = false;
    let mut show = |interval: &Interval| {
        let mut all = Vec::new();
        let names = &interval.window.names;
        for metric in positionals
            .metrics
            .iter()
            .filter_map(|name| names.metric(name))
        {
            let mut add = |scope, is_wanted: &dyn Fn(u32) -> bool| {
                all.push(Row::new(interval, metric, scope, is_wanted));
            };
            if args.each_cpu {
                let numbers = interval.window.cpus.iter().map(|cpu| cpu.number);
                for cpu in numbers.filter(|cpu| is_wanted(*cpu)) {
                    add(Scope::Cpu(cpu), &|other| other == cpu);
                }
            } else {
                let scope = cpus.map_or(Scope::All, |cpus| Scope::List(&cpus.text));
                add(scope, &is_wanted);
            }
        }
        print(&render::histograms(
            interval,
            all,
            rows,
            &style,
            &mut is_headed,
        ))
    };
    match positionals.interval {
        None => show(&first.since_load()),
        interval => each_interval(
            source,
            first,
            interval,
            positionals.count,
            &mut |interval, _| show(&interval),
        ),
    }
}
