// SPDX-License-Identifier: GPL-2.0

//! `report`: what a recording holds. Its status tells whether the recording is damaged, whatever
//! becomes of the output.

use std::path::{Path, PathBuf};

use schedhist_core::{
    culprits, distribution::Distribution, gather::Gather, groups::GroupNames, hdr,
    recording::file::TimedSnapshot, units::Unit,
};

use crate::{
    cli::Report,
    error::{told, verdict, Error, Result},
    options::{check_metrics, Form, Style},
    outliers::{shown, summary::Summary},
    output::{note, Printer},
    recordings::{
        html, merged, part,
        reader::{self, no_interval, Contents, Recorded, NOT_TWO},
        tables,
    },
    render::{self, Row, Scope},
    source::Interval,
    sys,
    verbs::watch,
};

pub fn report(args: &Report) -> Result<u8> {
    let path = &args.input[0];
    if let Some(file) = args.metrics.iter().find(|name| Path::new(name).is_file()) {
        let why = format!("'{file}' is a file, and no metric: schedhist report -i {file}");
        return Err(Error::usage(why));
    }
    let files = merged::files(&args.input)?;
    let is_one = files.len() == 1 && *path == files[0];
    let mut printer = Printer::default();
    let style = Style::new(&args.style);
    let status = match (&args.html, &args.hlog, &args.hgrm) {
        _ if !is_one => many(args, &files, &style, &mut printer),
        (Some(out), ..) => return html::html(args, path, out),
        (_, Some(metric), _) => hlog(args, metric, &mut printer),
        (.., Some(metric)) => hgrm(args, metric, &mut printer),
        _ => one(args, &style, &mut printer),
    };
    match status {
        Ok(status) => Ok(verdict(status, printer.end())),
        Err(error) => {
            told(printer.end());
            Err(error)
        }
    }
}

/// Prints the tables of a recording.
fn one(args: &Report, style: &Style, printer: &mut Printer) -> Result<u8> {
    let (metrics, path) = (&args.metrics, &args.input[0]);
    let (mut is_headed, mut has_shown) = (false, false);
    let mut show_between =
        |before: &TimedSnapshot, after: &TimedSnapshot, printer: &mut Printer| {
            has_shown = true;
            if printer.has_failed() {
                return Ok(());
            }
            if args.each && style.form == Form::Text {
                printer.print(&format!("{}\n", sys::time_of_day(after.unix_ns)));
            }
            printer.print(&text(
                &Interval::between(before, after)?,
                metrics,
                style,
                &mut is_headed,
            )?);
            Ok(())
        };
    let mut runs = Vec::new();
    let contents = reader::read_runs(
        path,
        &args.when,
        &mut |pair| match args.each {
            true => show_between(pair.before, pair.after, printer),
            false => Ok(()),
        },
        &mut |run| {
            runs.push(run.to_owned());
            Ok(())
        },
    )?;
    for (before, after) in contents.spans.iter().filter(|_| !args.each) {
        show_between(before, after, printer)?;
    }
    // These choose some of the snapshots, and a run has none.
    let chosen = match args.each {
        true => Some("each"),
        false => args.when.option(),
    };
    match (chosen, contents.runs) {
        (None, _) => printer.print(&tables::recorded(path, &runs, metrics, style)?),
        (Some(_), 0) => {}
        (Some(_), _) if contents.spans.is_empty() => {
            return Err(reader::only_runs("each", path));
        }
        (Some(option), number) => note(format!("{number} runs are not shown with --{option}")),
    }
    let mut out = String::new();
    render::tell(&mut out, &contents.marks, style);
    if style.form == Form::Json {
        out += &contents.lost.json();
    }
    if !args.each {
        out += &outliers(&contents, metrics, style);
    }
    printer.print(&out);
    if !has_shown && (chosen.is_some() || contents.runs == 0) {
        return Err(no_interval(args.when.option().is_some()));
    }
    Ok(contents.lost.status())
}

/// Returns the outliers of the metrics, or else those that are waits: for people the longest one,
/// and who had the CPU in all of them.
fn outliers(contents: &Contents, metrics: &[String], style: &Style) -> String {
    let numbers = contents.numbers();
    let is_wanted = |it: &&Recorded| match metrics {
        [] => culprits::is_wait(&it.outlier),
        all => all.iter().any(|metric| watch::is_of(&it.outlier, metric)),
    };
    let wanted: Vec<_> = contents.outliers.iter().filter(is_wanted).collect();
    let names = |it: &Recorded| -> shown::Names {
        let span = (it.at.saturating_sub(it.outlier.duration_ns), it.at);
        let name = |id| Some((id, GroupNames::name(&numbers, span, id)?.to_owned()));
        it.outlier.groups().filter_map(name).gather()
    };
    match style.form {
        Form::Json => wanted
            .iter()
            .map(|it| {
                shown::json(
                    &it.outlier,
                    &names(it),
                    Some(it.unix_ns),
                    false,
                    None,
                    it.outlier.chain.is_some(),
                )
            })
            .collect(),
        Form::Text => summary(&wanted, names),
        Form::Csv(_) => {
            if !wanted.is_empty() {
                note(format!(
                    "{} outliers: only -j and text have them",
                    wanted.len()
                ));
            }
            String::new()
        }
    }
}

fn summary(outliers: &[&Recorded], names: impl Fn(&Recorded) -> shown::Names) -> String {
    let Some(worst) = outliers.iter().max_by_key(|it| it.outlier.duration_ns) else {
        return String::new();
    };
    // A number says nothing to people.
    let names = |it: &Recorded| {
        let mut names = names(it);
        for id in it.outlier.groups().filter(|id| *id != 0) {
            names.entry(id).or_insert_with(|| "not known".to_owned());
        }
        names
    };
    let mut summary = Summary::default();
    for it in outliers {
        let names = names(it);
        summary.add(&it.outlier, &|group| shown::name_of(group, &names), None);
    }
    let (s, total) = match summary.count {
        1 => ("", ""),
        _ => ("s", " in total"),
    };
    format!(
        "{} outlier{s}, {}{total}; the longest ended at {}:\n{}{}",
        summary.count,
        Unit::Fitting.text(Some(summary.sum_ns)),
        part::shown(worst.unix_ns),
        shown::text(&worst.outlier, &names(worst)),
        summary.parts_text()
    )
}

/// Prints the sum of several recordings.
fn many(args: &Report, files: &[PathBuf], style: &Style, printer: &mut Printer) -> Result<u8> {
    for (option, is_given) in [
        ("html", args.html.is_some()),
        ("hgrm", args.hgrm.is_some()),
        ("hlog", args.hlog.is_some()),
        ("each", args.each),
    ] {
        if is_given {
            return Err(Error::usage(format!("--{option} takes one recording")));
        }
    }
    let (interval, lost) = merged::interval(files, &args.when)?;
    printer.print(&text(&interval, &args.metrics, style, &mut false)?);
    if style.form == Form::Json {
        printer.print(&lost.json());
    }
    Ok(lost.status())
}

fn text(
    interval: &Interval,
    metrics: &[String],
    style: &Style,
    is_headed: &mut bool,
) -> Result<String> {
    check_metrics(&interval.window.names, metrics)?;
    if metrics.is_empty() {
        let end = if style.form == Form::Text { "\n" } else { "" };
        return Ok(render::summary(interval, style, is_headed) + end);
    }
    let found = metrics
        .iter()
        .filter_map(|name| interval.window.names.metric(name));
    let rows = found
        .map(|metric| Row::new(interval, metric, Scope::All, |_| true))
        .collect();
    Ok(render::histograms(interval, rows, 1, style, is_headed))
}

/// Returns the samples of a metric in an interval.
fn samples(before: &TimedSnapshot, after: &TimedSnapshot, metric: &str) -> Result<Distribution> {
    let window = Interval::between(before, after)?.window;
    check_metrics(&window.names, &[metric.to_owned()])?;
    let metric = window.names.metric(metric);
    let metric = metric.ok_or_else(|| Error::new(NOT_TWO))?;
    Ok(window.distribution(metric, &|_| true))
}

/// Notes that a metric is off, which the forms of HdrHistogram have no place for.
fn note_off(contents: &Contents, metric: &str) -> Result {
    if let Some((first, last)) = contents.spans.first() {
        let window = Interval::between(first, last)?.window;
        render::off(&window, &|name| name == metric)
            .iter()
            .for_each(note);
    }
    Ok(())
}

/// Prints HdrHistogram's log of a metric.
fn hlog(args: &Report, metric: &str, printer: &mut Printer) -> Result<u8> {
    let mut is_headed = false;
    let contents = reader::read(&args.input[0], &args.when, |pair| {
        let (begin, end) = pair.at;
        let samples = samples(pair.before, pair.after, metric)?;
        if !std::mem::replace(&mut is_headed, true) {
            let begin = pair.before.unix_ns.saturating_sub(begin);
            printer.print(&hdr::log_head(begin));
        }
        printer.print(&hdr::log_line(begin, end - begin, &samples));
        Ok(())
    })?;
    note_off(&contents, metric)?;
    match is_headed {
        true => Ok(contents.lost.status()),
        false => Err(no_interval(false)),
    }
}

/// Prints the percentiles in the form that HdrHistogram's plotters read.
fn hgrm(args: &Report, metric: &str, printer: &mut Printer) -> Result<u8> {
    let contents = reader::read(&args.input[0], &args.when, |_| Ok(()))?;
    note_off(&contents, metric)?;
    let spans = contents
        .spans
        .iter()
        .map(|(before, after)| samples(before, after, metric));
    let spans = spans.collect::<Result<Vec<_>>>()?;
    let all = Distribution::sum(spans.into_iter())
        .map_err(|why| Error::new(why).with_remedy("choose a part by --time"))?;
    printer.print(&hdr::percentiles(&all.ok_or_else(|| no_interval(false))?));
    Ok(contents.lost.status())
}
