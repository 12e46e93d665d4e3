// SPDX-License-Identifier: GPL-2.0

//! The outliers of a recording: those that are listed, those that are marked, and who had the CPU.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use schedhist_core::{
    culprits,
    gather::entry,
    text::Outlier,
    timeline::CPU_METRIC,
    units::{shares, tenths},
};

use crate::{
    chains,
    chart::{self, text, Mark, Scale},
    flame,
    headline::local,
    html::{self, cell, escaped, left, table},
    pair, percent, time, Recording, MAX_ROWS,
};

/// The outliers of a metric that are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shorter {
    /// The longest one, in nanoseconds.
    longest: u64,
    /// Their ends, in nanoseconds since the first snapshot.
    ends: Vec<u64>,
}

/// Outliers. A page lists some, marks all, and adds all up.
#[derive(Clone, Debug, Default)]
pub struct Outliers {
    /// Each with its end in nanoseconds since the first snapshot, in the order of time.
    pub(crate) listed: Vec<(u64, Outlier)>,
    /// By metric.
    shorter: Vec<(String, Shorter)>,
    /// Who had the CPU during waits, with the index of the longest one in the list, if it is there.
    culprits: Vec<(String, culprits::Sum, Option<usize>)>,
    chains: flame::Stacks,
}

impl Outliers {
    /// Lists as many as a page shows: the longest of each metric, then the second of each, and so
    /// on, since sleeps are longer than waits.
    pub fn new(mut all: Vec<(u64, Outlier)>) -> Self {
        all.sort_by_cached_key(|(_, outlier)| Reverse(outlier.duration_ns));
        let waits = all.iter().filter(|(_, it)| culprits::is_wait(it));
        let sums = culprits::by(waits.clone().map(|(_, it)| it), culprits::comm);
        let ids: Vec<_> = waits.map(|(at, it)| (*at, it.id)).collect();
        let chains = chains::stacks(all.iter().map(|(_, it)| it));
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let ranked = all.into_iter().map(|outlier| {
            let rank = seen.entry(outlier.1.metric.clone()).or_default();
            *rank += 1;
            (*rank, outlier)
        });
        let mut ranked: Vec<_> = ranked.collect();
        // A stable sort: those of a rank stay by length.
        ranked.sort_by_cached_key(|(rank, _)| *rank);
        let mut shorter: Vec<(String, Shorter)> = Vec::new();
        for (_, (end, outlier)) in ranked.drain(ranked.len().min(MAX_ROWS)..) {
            let of_metric = entry(&mut shorter, outlier.metric);
            of_metric.longest = of_metric.longest.max(outlier.duration_ns);
            of_metric.ends.push(end);
        }
        let mut listed: Vec<_> = ranked.into_iter().map(|(_, outlier)| outlier).collect();
        listed.sort_by_cached_key(|(at, _)| *at);
        let culprits = sums.into_iter().map(|(name, sum)| {
            let id = ids[sum.worst.0];
            let row = listed.iter().position(|(at, it)| (*at, it.id) == id);
            (name, sum, row)
        });
        Self {
            culprits: culprits.collect(),
            listed,
            shorter,
            chains,
        }
    }
}

/// Returns the metric in whose heat map an outlier is looked for.
fn home(outlier: &Outlier) -> &str {
    match culprits::is_wait(outlier) {
        true => CPU_METRIC,
        false => &outlier.metric,
    }
}

/// Returns the marks of all outliers above the heat map of a metric: one for each that is listed,
/// and one for each other column that has any.
pub fn marks(recording: &Recording, recording_number: usize, name: &str) -> Vec<Mark> {
    let is_here = |of: &str| of == name || (name == "runq" && of.starts_with("runq_"));
    let marks = recording.outliers.listed.iter().enumerate();
    let mut marks: Vec<_> = marks
        .filter(|(_, (_, outlier))| is_here(&outlier.metric))
        .map(|(at, (time, outlier))| Mark {
            time: *time,
            // That which the row of the outlier leads to.
            id: (home(outlier) == name).then(|| format!("m{recording_number}-{at}")),
            anchor: format!("o{recording_number}-{at}"),
            title: escaped(&format!(
                "{} of {}:{}",
                text(outlier.duration_ns),
                outlier.comm,
                outlier.pid
            )),
        })
        .collect();
    let column = |time| chart::column_of(&recording.timeline, time);
    let mut marked: BTreeSet<_> = marks.iter().map(|mark| column(mark.time)).collect();
    let shorter = recording
        .outliers
        .shorter
        .iter()
        .filter(|(metric, _)| is_here(metric));
    for time in shorter.flat_map(|(_, it)| &it.ends) {
        if marked.insert(column(*time)) {
            marks.push(Mark {
                time: *time,
                id: None,
                anchor: format!("more{recording_number}"),
                title: "outliers that are not listed".to_owned(),
            });
        }
    }
    marks
}

pub fn write(out: &mut String, all: &[Recording], shown: &[(String, Scale)]) {
    out.push_str("<h2 id=\"outliers\">Outliers</h2>");
    if all
        .iter()
        .all(|recording| recording.outliers.listed.is_empty())
    {
        out.push_str(
            "<p>None recorded. <code>schedhist ctl threshold_ns/runq 10000000</code> before \
             <code>schedhist record</code> reports waits above 10 ms, with the tasks that had the CPU \
             meanwhile.</p>",
        );
        return;
    }
    pair(out, all, &mut |out, number, recording| {
        by_culprit(out, recording, number);
        chains::write(out, &recording.outliers.chains);
        let stack = |outlier: &Outlier| recording.watched.get(&(outlier.id, outlier.duration_ns));
        let has_stacks = recording
            .outliers
            .listed
            .iter()
            .any(|(_, it)| stack(it).is_some());
        let mut heads = "at|<metric|<task|CPU|duration|<who had the CPU".to_owned();
        let has_chains = recording
            .outliers
            .listed
            .iter()
            .any(|(_, it)| it.chain.is_some());
        if has_chains {
            heads += "|<its chain, back in time";
        }
        if has_stacks {
            heads += "|<where it had left the CPU, innermost frame first";
        }
        // The longest first: the place in the order of time is the anchor.
        let mut order: Vec<_> = recording.outliers.listed.iter().enumerate().collect();
        order.sort_by_cached_key(|(_, (_, outlier))| Reverse(outlier.duration_ns));
        table(out, true, &heads, &mut |out| {
            for &(at, (end, outlier)) in &order {
                let _ = write!(out, "<tr id=\"o{number}-{at}\">");
                let has_mark = shown.iter().any(|(metric, _)| metric == home(outlier));
                let mark = has_mark.then(|| format!("m{number}-{at}"));
                let clock = recording.timeline.clock(*end);
                outlier_row(out, (*end, clock), outlier, mark.as_deref());
                if has_chains {
                    chains::bar(out, outlier);
                }
                if has_stacks {
                    let frames = stack(outlier).into_iter().flatten();
                    // Without the offset in the function.
                    let names = frames.map(|frame| frame.split('+').next().unwrap_or_default());
                    let names: Vec<_> = names.map(escaped).collect();
                    left(out, " stack", &names.join(" &lt; "));
                }
                out.push_str("</tr>");
            }
        });
        let _ = write!(out, "<div id=\"more{number}\">");
        for (metric, shorter) in &recording.outliers.shorter {
            let (number, longest) = (shorter.ends.len(), text(shorter.longest));
            let metric = escaped(metric);
            let _ = write!(
                out,
                "<p>And {number} more of {metric}, of {longest} at most.</p>"
            );
        }
        out.push_str("</div>");
    });
}

/// The most culprits that are listed.
const CULPRITS: usize = 10;

/// Writes who had the CPU during all waits.
fn by_culprit(out: &mut String, recording: &Recording, number: usize) {
    let sums = &recording.outliers.culprits;
    if sums.is_empty() {
        return;
    }
    let times: Vec<_> = sums.iter().map(|(_, sum, _)| sum.ran_ns).collect();
    let shares = shares(&times);
    let heads = "<who had the CPU|outliers|time|<share of all|<the longest of them";
    table(out, true, heads, &mut |out| {
        for ((name, sum, row), share) in sums.iter().zip(&shares).take(CULPRITS) {
            out.push_str("<tr>");
            left(out, " name", &escaped(name));
            cell(out, sum.outliers);
            time(out, Some(sum.ran_ns));
            let rect = format!("<rect class=\"hot\" width=\"{share}\" height=\"100\"/>");
            let bar = html::bar(&rect, &format!("{} %", tenths(*share)));
            let _ = write!(out, "<td class=\"l bars\" data-v=\"{share}\">{bar}</td>");
            let ns = sum.worst.1;
            let link = match row {
                Some(at) => format!("<a href=\"#o{number}-{at}\">{}</a>", text(ns)),
                None => text(ns),
            };
            let _ = write!(out, "<td class=\"l\" data-v=\"{ns}\">{link}</td>");
            out.push_str("</tr>");
        }
    });
    if sums.len() > CULPRITS {
        let more = sums.len() - CULPRITS;
        let _ = write!(out, "<p>And {more} more.</p>");
    }
}

fn outlier_row(out: &mut String, (end, clock): (u64, u64), outlier: &Outlier, mark: Option<&str>) {
    let seconds = end as f64 / 1e9;
    let task = |comm: &str, pid: i32| escaped(&format!("{comm}:{pid}"));
    let time_of_day = local(clock, "%H:%M:%S%.3f");
    let shown = match mark {
        Some(mark) => format!("<a href=\"#{mark}\">{time_of_day}</a>"),
        None => time_of_day,
    };
    let _ = write!(
        out,
        "<td data-v=\"{seconds:.3}\" title=\"{seconds:.3} s since the first snapshot\">{shown}</td>"
    );
    left(out, "", &escaped(&outlier.metric));
    left(out, "", &task(&outlier.comm, outlier.pid));
    cell(out, outlier.cpu);
    time(out, Some(outlier.duration_ns));
    let words = outlier
        .longest_culprits()
        .into_iter()
        .take(5)
        .map(|culprit| {
            let share = percent(culprit.ran_ns, outlier.duration_ns);
            let task = task(&culprit.comm, culprit.pid);
            format!("{task} {} ({share:.1} %)", text(culprit.ran_ns))
        });
    left(out, " name", &words.collect::<Vec<_>>().join(", "));
}
