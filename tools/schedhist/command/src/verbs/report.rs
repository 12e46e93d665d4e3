// SPDX-License-Identifier: GPL-2.0

//! `report`: what a recording holds.

use clap::{parser::ValueSource, ArgMatches};
use schedhist_core::{distribution::Distribution, hdr, recording::file::Taken, window::Window};

use crate::{
    failure::{note, print, Failure, Result},
    options::{check_metrics, Form, Style},
    recordings::{
        html, merged,
        runs::{self, Contents, NO_INTERVAL},
    },
    render::{self, Row},
    source::Frame,
    verbs::run,
};

/// Prints a recording.
pub fn report(args: &ArgMatches) -> Result {
    let style = Style::new(args)?;
    let path = args.get_one::<String>("input").map_or("", String::as_str);
    let files = merged::files(args.get_many("input").unwrap_or_default())?;
    if files.len() != 1 || *path != files[0] {
        return many(args, &files, &style);
    }
    if let Some(out) = args.get_one::<String>("html") {
        return html::html(args, path, out);
    }
    let metrics: Vec<_> = args
        .get_many::<String>("words")
        .unwrap_or_default()
        .cloned()
        .collect();
    let times = range(args)?;
    if let Some(metric) = args.get_one::<String>("hlog") {
        return hlog(path, metric, times);
    }
    let each = args.get_flag("each");
    let (mut is_headed, mut has_shown) = (false, false);
    let mut show_one = |before: &Taken, after: &Taken| {
        has_shown = true;
        show_frame(&frame(before, after)?, &metrics, &style, &mut is_headed)
    };
    // The first and the last snapshot of each part within the times.
    let mut spans: Vec<(Taken, Taken)> = Vec::new();
    let mut end = None;
    let contents = runs::read(path, |interval| {
        if !interval.is_within(times) {
            return Ok(());
        }
        let (before, after) = (interval.before, interval.after);
        if each {
            return show_one(before, after);
        }
        match spans.last_mut().filter(|_| end == Some(interval.at.0)) {
            Some((_, last)) => *last = after.clone(),
            None => spans.push((before.clone(), after.clone())),
        }
        end = Some(interval.at.1);
        Ok(())
    })?;
    if let Some(metric) = args.get_one::<String>("hgrm") {
        note_off(&contents, metric)?;
        print(&hgrm(&spans, metric)?)?;
        return contents.lost.check();
    }
    for (before, after) in &spans {
        show_one(before, after)?;
    }
    // These choose some of the snapshots, and a run has none.
    let chosen = ["each", "time"]
        .into_iter()
        .find(|name| args.value_source(name) == Some(ValueSource::CommandLine));
    match (chosen, contents.runs.len()) {
        (None, _) => print(&run::recorded(&contents.runs, &metrics, &style)?)?,
        (Some(_), 0) => {}
        (Some(option), _) if contents.spans.is_empty() => {
            return Err(Failure::Usage(format!(
                "--{option}: {path} holds runs, which have no intervals"
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
fn many(args: &ArgMatches, files: &[String], style: &Style) -> Result {
    for option in ["time", "html", "hgrm", "hlog"] {
        if args.contains_id(option) {
            return Err(Failure::Usage(format!("--{option} takes one recording")));
        }
    }
    if args.get_flag("each") {
        return Err(Failure::Usage("--each takes one recording".to_owned()));
    }
    let metrics = args.get_many::<String>("words").unwrap_or_default();
    let (frame, lost) = merged::frame(files)?;
    let metrics: Vec<_> = metrics.cloned().collect();
    show_frame(&frame, &metrics, style, &mut false)?;
    if style.form == Form::Json {
        print(&lost.json())?;
    }
    lost.check()
}

/// The times of a whole recording, in seconds.
pub const WHOLE: (f64, f64) = (0.0, f64::MAX);

/// Returns the times of `--time`, in seconds.
pub fn range(args: &ArgMatches) -> Result<(f64, f64)> {
    let range = args.get_one::<String>("time");
    range.map_or(Ok(WHOLE), |text| times(text))
}

fn times(text: &str) -> Result<(f64, f64)> {
    let parsed = text.split_once(',').and_then(|(a, b)| {
        let end = if b.is_empty() {
            f64::MAX
        } else {
            b.parse().ok()?
        };
        Some((if a.is_empty() { 0.0 } else { a.parse().ok()? }, end))
    });
    let parsed = parsed.filter(|(a, b): &(f64, f64)| a <= b);
    parsed.ok_or_else(|| Failure::Usage(format!("--time {text}: two numbers of seconds, A,B")))
}

fn frame(before: &Taken, after: &Taken) -> Result<Frame> {
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
    let series = |name| frame.window.names.series(name);
    let series = metrics.iter().filter_map(|metric| series(metric));
    let rows = series.map(|series| Row::whole(frame, series)).collect();
    print(&render::histograms(frame, rows, 1, style, is_headed))
}

fn no_span() -> Failure {
    Failure::Error(NO_INTERVAL.to_owned())
}

/// Returns the samples of a metric in a frame.
fn samples(frame: &Frame, metric: &str) -> Result<Distribution> {
    check_metrics(&frame.window.names, &[metric.to_owned()])?;
    let series = frame.window.names.series(metric).ok_or_else(no_span)?;
    Ok(frame.window.distribution(series, |_| true))
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
fn hlog(path: &str, metric: &str, times: (f64, f64)) -> Result {
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
fn hgrm(spans: &[(Taken, Taken)], metric: &str) -> Result<String> {
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
