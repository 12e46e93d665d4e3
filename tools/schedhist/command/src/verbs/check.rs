// SPDX-License-Identifier: GPL-2.0

//! `check`: whether the limits in a file are kept, and those limits as a rule for Prometheus.

use std::{env, fmt::Write, fs, io::IsTerminal, path::Path};

use schedhist_core::limits::{Judged, Limit, Samples, FORM};

use crate::{
    cli::Check,
    error::{verdict, At, Error, Result},
    output::print,
    recordings::reader::{self, no_interval},
    render,
    setting::grouping::ANEW,
    source::{Interval, Source},
    sys::Waiter,
    table::Cell,
};

/// Returns the limits of a file, if there is one.
pub fn some_limits(path: Option<&Path>) -> Result<Vec<Limit>> {
    path.map_or(Ok(Vec::new()), limits)
}

/// Returns a line without its comment, which begins with `#` at the beginning of the line or
/// after white space.
fn without_comment(line: &str) -> &str {
    let is_begin = |at: usize| line[..at].chars().last().is_none_or(char::is_whitespace);
    let mut all = line.match_indices('#').map(|(at, _)| at);
    &line[..all.find(|at| is_begin(*at)).unwrap_or(line.len())]
}

/// Parses the limits of a file, one to a line.
fn limits(path: &Path) -> Result<Vec<Limit>> {
    let text = fs::read_to_string(path).at(path)?;
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line).trim();
        if !line.is_empty() {
            let limit = Limit::parse(line).ok_or_else(|| {
                let why = format!("{}, line {number}: '{line}' is not {FORM}", path.display());
                Error::usage(why)
            });
            all.push(limit?);
        }
    }
    match all.is_empty() {
        true => Err(Error::usage(format!("{}: no limits", path.display()))),
        false => Ok(all),
    }
}

/// Returns the rules for Prometheus.
fn rules(limits: &[Limit]) -> Result<String> {
    // Its series would never be there, and the rule never alert.
    if let Some(limit) = limits.iter().find(|limit| !limit.is_known()) {
        return Err(Error::usage(format!(
            "'{}': there is no such metric",
            limit.text
        )));
    }
    let mut out = "groups:\n- name: schedhist\n  rules:\n".to_owned();
    for limit in limits {
        // A string of JSON is one of YAML.
        let quoted = |text: &str| Cell::from(text).line().trim_end().to_owned();
        let _ = write!(
            out,
            "  - alert: SchedhistLimit\n    expr: {}\n    for: 5m\n    labels:\n      limit: {}\n    \
             annotations:\n      summary: {}\n",
            quoted(&limit.expression()),
            quoted(&limit.text),
            quoted(&format!("not kept on {{{{ $labels.instance }}}}: {}", limit.text)),
        );
    }
    Ok(out)
}

/// Returns the status: 1 if a limit is not kept, else 2 if one cannot be told.
pub fn check(args: &Check, source: &Source) -> Result<u8> {
    judged(args, source).map_err(Error::of_trouble)
}

fn judged(args: &Check, source: &Source) -> Result<u8> {
    let limits = limits(&args.file)?;
    if args.prometheus {
        return print(&rules(&limits)?).map(|()| 0);
    }
    let (mut notes, mut status) = (Vec::new(), 0);
    let judged = match &args.input {
        Some(path) => {
            let contents = reader::read(path, &args.when, |_| Ok(()))?;
            if contents.spans.is_empty() {
                return Err(no_interval(false).about(path));
            }
            // What was lost may have broken a limit.
            status = 2 * contents.lost.status();
            for (first, last) in &contents.spans {
                if let Ok(interval) = Interval::between(first, last) {
                    add_notes(&mut notes, &interval, &limits);
                }
            }
            contents.judge(&limits)
        }
        None => live(args, source, &limits, &mut notes)?,
    };
    let is_coloured = std::io::stdout().is_terminal()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut out = String::new();
    for note in &notes {
        let _ = writeln!(out, "note: {note}");
    }
    for judged in &judged {
        let (colour, worse) = match judged.is_kept {
            Some(true) => (32, 0),
            Some(false) => (31, 1),
            None => (33, 2),
        };
        // A limit that is broken is worse than one that cannot be told.
        status = match (status, worse) {
            (1, _) | (_, 1) => 1,
            (a, b) => a.max(b),
        };
        let word = format!("{:<8}", judged.word());
        let word = match is_coloured {
            true => format!("\x1b[{colour}m{word}\x1b[0m"),
            false => word,
        };
        let _ = writeln!(out, "{word}{}: {}", judged.text, judged.about);
    }
    Ok(verdict(status, print(&out).map_err(Error::of_trouble)))
}

/// Adds what is to be known of an interval that is judged, unless it is there.
fn add_notes(notes: &mut Vec<String>, interval: &Interval, limits: &[Limit]) {
    let is_wanted = |name: &str| limits.iter().any(|limit| limit.metric == name);
    let off = render::off(&interval.window, &is_wanted);
    for note in interval.notes.iter().chain(&off) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
}

/// Judges limits of the module, and adds notes.
fn live(
    args: &Check,
    source: &Source,
    limits: &[Limit],
    notes: &mut Vec<String>,
) -> Result<Vec<Judged>> {
    let first = source.read()?;
    let (interval, groups) = match args.interval {
        None => (first.since_load(), first.groups()?.map(|new| (None, new))),
        Some(interval) => {
            let waiter = Waiter::new()?;
            waiter.is_over_before(Some(std::time::Instant::now() + interval));
            let second = source.read()?;
            let groups = second.groups()?.map(|new| Ok((first.groups()?, new)));
            (second.since(&first), groups.transpose()?)
        }
    };
    add_notes(notes, &interval, limits);
    let groups = groups.as_ref().map(|(old, new)| (old.as_ref(), new));
    let is_anew = groups.is_some_and(|(old, new)| new.are_anew(old));
    let samples = Samples {
        windows: &[interval.window],
        groups: groups.into_iter().collect(),
        are_recorded: false,
    };
    if is_anew && limits.iter().any(|limit| limit.group.is_some()) {
        notes.push(ANEW.to_owned());
    }
    Ok(limits.iter().map(|limit| limit.judge(&samples)).collect())
}
