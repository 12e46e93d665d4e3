// SPDX-License-Identifier: GPL-2.0

//! No verb, and `hist`: summaries and histograms.

use std::time::{Duration, Instant};

use crate::{
    cli::{Hist, StyleArgs},
    failure::{print, Failure, Result},
    options::{check_metrics, Positionals, Style},
    render::{self, Row, Scope},
    source::{Frame, Reading, Source},
    sys::Waiter,
};

/// Prints a summary of all metrics since the load.
pub fn summary(style: &StyleArgs, source: &Source) -> Result {
    let style = Style::new(style);
    let frame = source.read()?.since_load();
    print(&render::summary(&frame, &style, &mut false))
}

/// Calls `show` with the activity of each interval. A signal that asks to end ends the current
/// interval, and is no failure. An interval begins with the snapshot that ended the one before, so
/// nothing falls between two intervals.
pub fn each_interval(
    source: &Source,
    first: Reading,
    interval: Option<Duration>,
    count: Option<u64>,
    mut show: impl FnMut(Frame, &Reading) -> Result,
) -> Result {
    let waiter = Waiter::new().map_err(|error| Failure::at("signals", error))?;
    let mut last = first;
    let mut next = Instant::now();
    let mut left = count;
    loop {
        // Measured from the beginning, so that delays do not add up.
        let deadline = interval.map(|interval| {
            next = (next + interval).max(Instant::now());
            next
        });
        let is_over = waiter.is_over_before(deadline);
        let reading = source.read()?;
        show(reading.since(&last), &reading)?;
        last = reading;
        left = left.map(|left| left - 1);
        if is_over || left == Some(0) {
            return Ok(());
        }
    }
}

/// Prints histograms.
pub fn hist(args: &Hist, source: &Source) -> Result {
    let style = Style::new(&args.style);
    let mut wanted = Positionals::new(&args.words)?;
    if wanted.metrics.is_empty() {
        wanted.metrics.push("runq".to_owned());
    }
    let rows = args.sub_buckets;
    let first = source.read()?;
    let snapshot = &first.taken.snapshot;
    check_metrics(&snapshot.names, &wanted.metrics)?;
    let cpus = args.cpu.as_ref();
    cpus.map_or(Ok(()), |cpus| cpus.check(snapshot))?;
    if rows > 1 << snapshot.scheme.precision().bits() {
        return Err(Failure::Usage(format!(
            "-b {rows} is finer than the module's precision of {} bits",
            snapshot.scheme.precision().bits()
        )));
    }
    let is_wanted = |cpu| cpus.is_none_or(|cpus| cpus.numbers.contains(&cpu));
    let mut is_headed = false;
    let mut show = |frame: &Frame| {
        let mut all = Vec::new();
        let find = |name| frame.window.names.metric(name);
        for metric in wanted.metrics.iter().filter_map(|name| find(name)) {
            let mut add = |scope, is_wanted: &dyn Fn(u32) -> bool| {
                all.push(Row {
                    metric,
                    scope,
                    samples: frame.window.distribution(metric, is_wanted),
                });
            };
            if args.each_cpu {
                let numbers = frame.window.cpus.iter().map(|cpu| cpu.number);
                for cpu in numbers.filter(|cpu| is_wanted(*cpu)) {
                    add(Scope::Cpu(cpu), &|other| other == cpu);
                }
            } else {
                let scope = cpus.map_or(Scope::All, |cpus| Scope::List(&cpus.text));
                add(scope, &is_wanted);
            }
        }
        print(&render::histograms(
            frame,
            all,
            rows,
            &style,
            &mut is_headed,
        ))
    };
    match wanted.interval {
        None => show(&first.since_load()),
        interval => each_interval(source, first, interval, wanted.count, |frame, _| {
            show(&frame)
        }),
    }
}
