// SPDX-License-Identifier: GPL-2.0

//! `report`: what a recording holds.

use std::path::{Path, PathBuf};

use schedhist_core::{
    distribution::Distribution, hdr, recording::file::TimedSnapshot, window::Window,
};

use crate::{
    cli::Report,
    failure::{note, print, Failure, Result},
    options::{check_metrics, Form, Style, WHOLE},
    recordings::{
        html, merged,
        runs::{self, Contents, NO_INTERVAL},
    },
    render::{self, Row},
    source::Frame,
    verbs::run,
};

/// Prints a recording.
pub fn report(args: &Report) -> Result {
    let style = Style::new(&args.style);
    let path = &args.input[0];
    let files = merged::files(&args.input)?;
    if files.len() != 1 || *path != files[0] {
        return many(args, &files, &style);
    }
    if let Some(out) = &args.html {
        return html::html(args, path, out);
    }
    let metrics = &args.metrics;
    let times = args.time.unwrap_or(WHOLE);
    if let Some(metric) = &args.hlog {
        return hlog(path, metric, times);
    }
    let (mut is_headed, mut has_shown) = (false, false);
    let mut show_one = |before: &TimedSnapshot, after: &TimedSnapshot| {
        has_shown = true;
        show_frame(&frame(before, after)?, metrics, &style, &mut is_headed)
    };
    // The first and the last snapshot of each part within the times.
    let mut spans: Vec<(TimedSnapshot, TimedSnapshot)> = Vec::new();
    let mut end = None;
    let contents = runs::read(path, |interval| {
        if !interval.is_within(times) {
            return Ok(());
        }
        let (before, after) = (interval.before, interval.after);
        if args.each {
            return show_one(before, after);
        }
        match spans.last_mut().filter(|_| end == Some(interval.at.0)) {
            Some((_, last)) => *last = after.clone(),
            None => spans.push((before.clone(), after.clone())),
        }
        end = Some(interval.at.1);
        Ok(())
    })?;
    if let Some(metric) = &args.hgrm {
        note_off(&contents, metric)?;
        print(&hgrm(&spans, metric)?)?;
        return contents.lost.check();
    }
    for (before, after) in &spans {
        show_one(before, after)?;
    }
    // These choose some of the snapshots, and a run has none.
    let chosen = match args.each {
        true => Some("each"),
        false => args.time.map(|_| "time"),
    };
    match (chosen, contents.runs.len()) {
        (None, _) => print(&run::recorded(&contents.runs, metrics, &style)?)?,
        (Some(_), 0) => {}
        (Some(option), _) if contents.spans.is_empty() => {
            return Err(Failure::Usage(format!(
                "--{option}: {} holds runs, which have no intervals",
                path.display()
            )));
        }
        (Some(option), number) => {
            note(format!("{number} runs are not shown with --{option}"));
        }
    }
    let mut out = String::new();
    render::tell(&mut out, &contents.marks, &style);
    if style.form == Form::Json {
        out += &contents.lost.json();
    }
    print(&out)?;
    if !has_shown && (chosen.is_some() || contents.runs.is_empty()) {
        return Err(no_span());
    }
    contents.lost.check()
}

/// Prints the sum of several recordings.
fn many(args: &Report, files: &[PathBuf], style: &Style) -> Result {
    for (option, is_given) in [
        ("time", args.time.is_some()),
        ("html", args.html.is_some()),
        ("hgrm", args.hgrm.is_some()),
        ("hlog", args.hlog.is_some()),
        ("each", args.each),
    ] {
        if is_given {
            return Err(Failure::Usage(format!("--{option} takes one recording")));
        }
    }
    let (frame, lost) = merged::frame(files)?;
    show_frame(&frame, &args.metrics, style, &mut false)?;
    if style.form == Form::Json {
        print(&lost.json())?;
    }
    lost.check()
}

fn frame(before: &TimedSnapshot, after: &TimedSnapshot) -> Result<Frame> {
    let window = Window::between(&before.snapshot, &after.snapshot);
    let window = window.map_err(|why| Failure::Error(why.to_string()))?;
    let mut frame = Frame::new(window, after);
    frame.read_ns = before.read_ns.saturating_add(after.read_ns);
    Ok(frame)
}

fn show_frame(frame: &Frame, metrics: &[String], style: &Style, is_headed: &mut bool) -> Result {
    check_metrics(&frame.window.names, metrics)?;
    if metrics.is_empty() {
        let end = if style.form == Form::Text { "\n" } else { "" };
        return print(&(render::summary(frame, style, is_headed) + end));
    }
    let find = |name| frame.window.names.metric(name);
    let metrics = metrics.iter().filter_map(|name| find(name));
    let rows = metrics.map(|metric| Row::whole(frame, metric)).collect();
    print(&render::histograms(frame, rows, 1, style, is_headed))
}

fn no_span() -> Failure {
    Failure::Error(NO_INTERVAL.to_owned())
}

/// Returns the samples of a metric in a frame.
fn samples(frame: &Frame, metric: &str) -> Result<Distribution> {
    check_metrics(&frame.window.names, &[metric.to_owned()])?;
    let metric = frame.window.names.metric(metric).ok_or_else(no_span)?;
    Ok(frame.window.distribution(metric, |_| true))
}

/// Notes that a metric is off, which the forms of HdrHistogram have no place for.
fn note_off(contents: &Contents, metric: &str) -> Result {
    if let Some((first, last)) = contents.spans.first() {
        let off = render::off(&frame(first, last)?.window, |name| name == metric);
        off.iter().for_each(note);
    }
    Ok(())
}

/// Prints HdrHistogram's log of a metric.
fn hlog(path: &Path, metric: &str, times: (f64, f64)) -> Result {
    let (mut log, mut origin) = (String::new(), None);
    let contents = runs::read(path, |interval| {
        let (begin, end) = interval.at;
        let origin = *origin.get_or_insert(interval.before.unix_ns.saturating_sub(begin));
        if interval.is_within(times) {
            let samples = samples(&frame(interval.before, interval.after)?, metric)?;
            if log.is_empty() {
                log = hdr::log_head(origin);
            }
            log += &hdr::log_line(begin, end - begin, &samples);
        }
        Ok(())
    })?;
    note_off(&contents, metric)?;
    if log.is_empty() {
        return Err(no_span());
    }
    print(&log)?;
    contents.lost.check()
}

/// Returns the percentiles in the form that HdrHistogram's plotters read.
fn hgrm(spans: &[(TimedSnapshot, TimedSnapshot)], metric: &str) -> Result<String> {
    let mut all: Option<Distribution> = None;
    for (before, after) in spans {
        let one = samples(&frame(before, after)?, metric)?;
        match &mut all {
            Some(all) if all.scheme != one.scheme => {
                return Err(Failure::Error(
                    "the precision changed meanwhile: choose a part by --time".to_owned(),
                ));
            }
            Some(all) => all.merge(&one),
            None => all = Some(one),
        }
    }
    Ok(hdr::percentiles(&all.ok_or_else(no_span)?))
}
