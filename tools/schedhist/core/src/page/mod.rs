// SPDX-License-Identifier: GPL-2.0

//! A recording, or two beside each other, as one HTML page.
//!
//! The page loads nothing: its content security policy allows nothing but the style and the script
//! in it, by their hashes, and images that are part of it. All figures are there without the
//! script, which adds values under the pointer and sorting.

mod chart;
pub mod flame;
mod png;
pub mod watched;

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write};

use base64::{engine::general_purpose::STANDARD, Engine};
use chart::{text, Mark, Scale};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    distribution::{Distribution, Max, Quantile},
    engine::histogram::totals::Worst,
    groups::GroupRow,
    text::Outlier,
    timeline::{Timeline, CPU_METRIC},
    units::{self, Unit},
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The metrics that are shown first; the others are folded.
const FIRST: [&str; 3] = ["runq", "oncpu", "offcpu"];

/// The most outliers and the most groups that are listed.
const MOST: usize = 200;

/// What a CPU did.
#[derive(Clone, Debug)]
pub struct CpuRow {
    /// Its number.
    pub number: u32,
    /// Its switches.
    pub switches: u64,
    /// Its waits.
    pub runq: Distribution,
    /// How long tasks had it, in nanoseconds.
    pub busy: u128,
}

/// A recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The name of the file.
    pub name: String,
    /// Facts about the machine and the recording.
    pub facts: Vec<(String, String)>,
    /// Its course.
    pub timeline: Timeline,
    /// Its CPUs.
    pub cpus: Vec<CpuRow>,
    /// What the check of the laws found: a law and by how much it is off.
    pub laws: Vec<(String, Option<String>)>,
    /// What happened, in words.
    pub marks: Vec<String>,
    /// Its groups.
    pub groups: Vec<GroupRow>,
    /// The rule by which tasks are grouped.
    pub rule: String,
    /// Outliers, each with its end in nanoseconds since the first snapshot: the [`worst`].
    pub outliers: Vec<(u64, Outlier)>,
    /// The other ones.
    pub shorter: Vec<Shorter>,
    /// Stacks that were recorded meanwhile.
    pub stacks: Option<flame::Stacks>,
    /// Stacks of the outliers.
    pub watched: watched::Watched,
}

/// The outliers of a metric that are not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shorter {
    /// The metric.
    pub metric: String,
    /// Their number.
    pub number: usize,
    /// The longest one, in nanoseconds.
    pub longest: u64,
}

/// Keeps as many outliers as a page shows, in the order of time: the longest of each metric, then
/// the second of each, and so on, since sleeps are longer than waits. Returns the rest, too.
pub fn worst(mut outliers: Vec<(u64, Outlier)>) -> (Vec<(u64, Outlier)>, Vec<Shorter>) {
    outliers.sort_by_key(|(_, outlier)| Reverse(outlier.duration_ns));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let ranked = outliers.into_iter().map(|outlier| {
        let rank = seen.entry(outlier.1.metric.clone()).or_default();
        *rank += 1;
        (*rank, outlier)
    });
    let mut ranked: Vec<_> = ranked.collect();
    // A stable sort: those of a rank stay by length.
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut rest: Vec<Shorter> = Vec::new();
    for (_, (_, outlier)) in ranked.drain(ranked.len().min(MOST)..) {
        match rest.iter_mut().find(|known| known.metric == outlier.metric) {
            Some(known) => known.number += 1,
            // The first one is the longest.
            None => rest.push(Shorter {
                metric: outlier.metric,
                number: 1,
                longest: outlier.duration_ns,
            }),
        }
    }
    let mut kept: Vec<_> = ranked.into_iter().map(|(_, outlier)| outlier).collect();
    kept.sort_by_key(|(at, _)| *at);
    (kept, rest)
}

/// Returns text with the characters escaped that mean something in HTML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns a duration as text.
pub fn duration(ns: u64) -> String {
    text(ns)
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// Returns the page of one recording, or of two.
pub fn render(all: &[Recording]) -> String {
    let mut out = String::with_capacity(1 << 19);
    let names: Vec<_> = all.iter().map(|one| escaped(&one.name)).collect();
    let title = format!("schedhist: {}", names.join(" and "));
    let _ = write!(
        out,
        "<!doctype html>\n<!-- SPDX-License-Identifier: GPL-2.0 -->\n<html lang=\"en\"><head>\
         <meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; img-src data:; style-src {}; script-src {}; \
         base-uri 'none'; form-action 'none'\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" \
         content=\"light dark\"><title>{title}</title><style>{STYLE}</style></head><body>\
         <h1>{title}</h1>",
        hash(STYLE),
        hash(SCRIPT),
    );
    out += "<nav><a href=\"#summary\">Summary</a><a href=\"#metrics\">Over time</a>\
            <a href=\"#cpus\">CPUs</a><a href=\"#groups\">Groups</a>\
            <a href=\"#outliers\">Outliers</a><a href=\"#stacks\">Stacks</a><a href=\"#about\">About the recording</a></nav>";
    summary(&mut out, all);
    let shown = metrics(&mut out, all);
    cpus(&mut out, all);
    groups(&mut out, all);
    outliers(&mut out, all);
    stacks(&mut out, all);
    about(&mut out, all);
    data(&mut out, all, &shown);
    let _ = writeln!(out, "<script>{SCRIPT}</script></body></html>");
    out
}

/// Writes a part for each recording, beside each other.
fn pair(out: &mut String, all: &[Recording], mut one: impl FnMut(&mut String, usize, &Recording)) {
    let two = if all.len() > 1 { " two" } else { "" };
    let _ = write!(out, "<div class=\"pair{two}\">");
    for (number, recording) in all.iter().enumerate() {
        out.push_str("<div>");
        if all.len() > 1 {
            let letter = ['A', 'B'][number.min(1)];
            let _ = write!(out, "<h3>{letter}: {}</h3>", escaped(&recording.name));
        }
        one(out, number, recording);
        out.push_str("</div>");
    }
    out.push_str("</div>");
}

fn quantile(distribution: &Distribution, share: &str) -> Option<u64> {
    // Fewer samples beyond it say nothing.
    let share = Quantile::parse(share).filter(|share| distribution.beyond(*share) >= 10)?;
    distribution.quantile_upper(share)
}

fn cell(out: &mut String, value: Option<u64>) {
    let sort = value.unwrap_or_default();
    let text = Unit::Fitting.quantile(value);
    let _ = write!(out, "<td data-v=\"{sort}\">{text}</td>");
}

fn worst_text(worst: Option<(u32, Worst)>) -> String {
    worst.map_or(String::new(), |(cpu, worst)| {
        let comm = worst.task.comm.split(|byte| *byte == 0).next();
        let comm = String::from_utf8_lossy(comm.unwrap_or_default());
        escaped(&format!("{comm}:{} on CPU {cpu}", worst.task.pid))
    })
}

fn summary(out: &mut String, all: &[Recording]) {
    out.push_str("<h2 id=\"summary\">Summary</h2>");
    for recording in all {
        for (law, off) in &recording.laws {
            if let Some(off) = off {
                let _ = write!(
                    out,
                    "<p class=\"bad\">{}: the law {} does not hold: {}</p>",
                    escaped(&recording.name),
                    escaped(law),
                    escaped(off)
                );
            }
        }
    }
    pair(out, all, |out, _, recording| {
        out.push_str(
            "<div class=\"scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">metric</th>\
             <th>count</th><th>a second</th><th>mean</th><th>p50</th><th>p90</th><th>p99</th>\
             <th>p99.9</th><th>p99.99</th><th>max</th><th class=\"l\">task of the \
             max</th></tr></thead>\
             <tbody>",
        );
        for (place, series) in recording.timeline.names.series.iter().enumerate() {
            let total = recording.timeline.total(place);
            let count = total.count();
            let rate = count as f64 * 1e9 / recording.timeline.span().max(1) as f64;
            let name = &series.name;
            let _ = write!(
                out,
                "<tr><td class=\"l\">{name}</td><td data-v=\"{count}\">{}</td><td>{rate:.1}</td>",
                units::count(count)
            );
            cell(out, total.mean());
            for share in ["50", "90", "99", "99.9", "99.99"] {
                cell(out, quantile(&total, share));
            }
            let max = match total.max {
                Max::None => "-".to_owned(),
                max => escaped(&Unit::Fitting.max(max)),
            };
            let sort = total.max.value().unwrap_or_default();
            let worst = worst_text(total.worst);
            let _ = write!(
                out,
                "<td data-v=\"{sort}\">{max}</td><td class=\"l\">{worst}</td></tr>"
            );
        }
        out.push_str("</tbody></table></div>");
    });
    out.push_str(
        "<p class=\"dim\">Quantiles are upper bounds of their buckets. Those with fewer than ten \
         samples \
         beyond them are not shown. &lt; marks an upper bound.</p>",
    );
    if let [a, b] = all {
        changes(out, a, b);
    }
}

/// Writes the changes of the quantiles from the first recording to the second.
fn changes(out: &mut String, a: &Recording, b: &Recording) {
    out.push_str(
        "<h3>From A to B</h3><div class=\"scroll\"><table><thead><tr><th class=\"l\">metric</th>\
         <th>samples a second</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th></tr>\
         </thead><tbody>",
    );
    let percent = |a: f64, b: f64| {
        if a == 0.0 {
            "-".to_owned()
        } else {
            format!("{:+.1} %", (b - a) / a * 100.0)
        }
    };
    for (place, series) in a.timeline.names.series.iter().enumerate() {
        let Some(other) = b.timeline.place(&series.name) else {
            continue;
        };
        let (x, y) = (a.timeline.total(place), b.timeline.total(other));
        let rate = |one: &Recording, d: &Distribution| {
            d.count() as f64 / one.timeline.span().max(1) as f64
        };
        let rates = percent(rate(a, &x), rate(b, &y));
        let _ = write!(
            out,
            "<tr><td class=\"l\">{}</td><td>{rates}</td>",
            series.name
        );
        let mut change = |x: Option<u64>, y: Option<u64>| {
            let (Some(x), Some(y)) = (x, y) else {
                out.push_str("<td>-</td>");
                return;
            };
            let same = a.timeline.scheme == b.timeline.scheme
                && a.timeline.scheme.index(x) == a.timeline.scheme.index(y);
            let text = if same {
                "same bucket".to_owned()
            } else {
                percent(x as f64, y as f64)
            };
            let _ = write!(out, "<td>{text}</td>");
        };
        for share in ["50", "90", "99", "99.9"] {
            change(quantile(&x, share), quantile(&y, share));
        }
        change(x.max.value(), y.max.value());
        out.push_str("</tr>");
    }
    out.push_str(
        "</tbody></table></div><p class=\"dim\">Two recordings show a difference, but not whether \
         it is \
         chance: <code>schedhist diff</code> tests that with repeated runs.</p>",
    );
}

/// Writes the charts of each metric. Returns the metrics that are shown, with their scales.
fn metrics(out: &mut String, all: &[Recording]) -> Vec<(String, Scale)> {
    out.push_str(
        "<h2 id=\"metrics\">Over time</h2><p class=\"dim\">A column of a heat map is a part of \
         the time, \
         a row half a power of two, and the colour the rate of samples on a logarithmic scale: ",
    );
    key(out);
    out.push_str(
        " from a ten-thousandth of the greatest rate, or less, to the greatest. Dashed vertical \
         lines \
         are gaps, triangles outliers.</p>",
    );
    let Some(first) = all.first() else {
        return Vec::new();
    };
    let mut names: Vec<_> = FIRST.map(str::to_owned).to_vec();
    for series in &first.timeline.names.series {
        if !names.contains(&series.name) {
            names.push(series.name.clone());
        }
    }
    let mut shown = Vec::new();
    for name in names {
        let places = all.iter().filter_map(|recording| {
            let place = recording.timeline.place(&name)?;
            Some((&recording.timeline, place))
        });
        let Some(scale) = chart::scale(places) else {
            continue;
        };
        let is_first = FIRST.contains(&name.as_str());
        if is_first {
            let _ = write!(out, "<h3 id=\"m-{name}\">{name}</h3>");
        } else {
            let _ = write!(out, "<details><summary>{name}</summary>");
        }
        one_metric(out, all, &name, scale, shown.len());
        if !is_first {
            out.push_str("</details>");
        }
        shown.push((name, scale));
    }
    shown
}

/// Writes the key of the colours.
fn key(out: &mut String) {
    for level in 0..8 {
        for (class, palette) in [("light", png::LIGHT), ("dark", png::DARK)] {
            let [red, green, blue] = palette[level * 2];
            let _ = write!(
                out,
                "<svg class=\"key {class}\" viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect \
                 width=\"1\" \
                 height=\"1\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/></svg>"
            );
        }
    }
}

fn one_metric(out: &mut String, all: &[Recording], name: &str, scale: Scale, number: usize) {
    // The percentiles stand beside the only heat map, or below two.
    let is_pair = all.len() > 1;
    out.push_str(if is_pair {
        ""
    } else {
        "<div class=\"pair two\">"
    });
    pair(out, all, |out, recording_number, recording| {
        let Some(place) = recording.timeline.place(name) else {
            return;
        };
        let marks = { recording.outliers.iter() }
            .enumerate()
            .filter(|(_, (_, outlier))| {
                outlier.metric == name || (name == "runq" && outlier.metric.starts_with("runq_"))
            });
        let marks: Vec<_> = marks
            .map(|(at, (time, outlier))| Mark {
                time: *time,
                anchor: format!("o{recording_number}-{at}"),
                title: escaped(&format!(
                    "{} of {}:{}",
                    text(outlier.duration_ns),
                    outlier.comm,
                    outlier.pid
                )),
            })
            .collect();
        let key = format!("{recording_number}:{number}");
        let heat = chart::heat(&recording.timeline, place, scale, &key, &marks);
        let lines = chart::quantiles(&recording.timeline, place, scale);
        let _ = write!(
            out,
            "<figure><div class=\"scroll\">{heat}</div><output></output><div \
             class=\"scroll\">{lines}\
             </div><figcaption>{name}: samples, and p50, p90, p99 and the maximum over time\
             </figcaption></figure>"
        );
    });
    let totals: Vec<_> = all
        .iter()
        .enumerate()
        .filter_map(|(number, recording)| {
            let place = recording.timeline.place(name)?;
            let letter = if all.len() > 1 {
                ["A", "B"][number.min(1)]
            } else {
                ""
            };
            Some((letter, recording.timeline.total(place)))
        })
        .collect();
    let lines: Vec<_> = totals
        .iter()
        .map(|(letter, total)| (*letter, total))
        .collect();
    out.push_str(if is_pair {
        "<div class=\"pair two\">"
    } else {
        ""
    });
    let _ = write!(
        out,
        "<figure><div class=\"scroll\">{}</div><figcaption>{name} by percentile: each step to the \
         right \
         leaves a tenth of the samples</figcaption></figure>",
        chart::percentiles(&lines, scale)
    );
    if let [(_, a), (_, b)] = totals.as_slice() {
        let _ = write!(
            out,
            "<figure><div class=\"scroll\">{}</div><figcaption>{name}: by how much the share of \
             each \
             duration has grown from A to B (up) or shrunk (down)</figcaption></figure>",
            chart::difference(a, b, scale)
        );
    }
    out.push_str("</div>");
}

fn cpus(out: &mut String, all: &[Recording]) {
    out.push_str("<h2 id=\"cpus\">CPUs</h2>");
    let most = all
        .iter()
        .flat_map(|recording| &recording.timeline.columns)
        .flat_map(|column| &column.cpus)
        .copied()
        .filter(|ns| *ns != u64::MAX)
        .max()
        .unwrap_or(1);
    pair(out, all, |out, _, recording| {
        let _ = write!(
            out,
            "<figure><div class=\"scroll\">{}</div><figcaption>The greatest sample of \
             {CPU_METRIC} of each \
             CPU: up to 10 us pale, up to {} the strongest colour</figcaption></figure>",
            chart::cpus(&recording.timeline, most),
            text(most)
        );
        let many = recording.cpus.len() > 16;
        if many {
            let _ = write!(
                out,
                "<details><summary>{} CPUs</summary>",
                recording.cpus.len()
            );
        }
        out.push_str(
            "<div class=\"scroll\"><table class=\"sort\"><thead><tr><th>CPU</th><th>switches</th>\
             <th>waits</th><th>p50</th><th>p99</th><th>p99.9</th><th>max</th><th>busy</th></tr></thead>\
             <tbody>",
        );
        for cpu in &recording.cpus {
            let busy = cpu.busy as f64 * 100.0 / recording.timeline.span().max(1) as f64;
            let (number, waits) = (cpu.number, cpu.runq.count());
            let _ = write!(
                out,
                "<tr><td>{number}</td><td>{}</td><td>{waits}</td>",
                cpu.switches
            );
            for share in ["50", "99", "99.9"] {
                cell(out, quantile(&cpu.runq, share));
            }
            cell(out, cpu.runq.max.value());
            let _ = write!(out, "<td data-v=\"{busy:.1}\">{busy:.1} %</td></tr>");
        }
        out.push_str("</tbody></table></div>");
        if many {
            out.push_str("</details>");
        }
    });
}

fn groups(out: &mut String, all: &[Recording]) {
    out.push_str("<h2 id=\"groups\">Groups</h2>");
    if all.iter().all(|recording| recording.groups.is_empty()) {
        out.push_str(
            "<p>None recorded: tasks were not grouped. <code>schedhist ctl group_by cgroup</code> \
             before \
             <code>schedhist record</code> makes a group of each cgroup.</p>",
        );
        return;
    }
    out.push_str("<p class=\"dim\">The time that tasks waited, by who had the CPU at the end: ");
    for (class, name) in ["own group", "another group", "the kernel", "idle"]
        .iter()
        .enumerate()
    {
        let _ = write!(
            out,
            "<svg class=\"key\" viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"g{class}\" \
             width=\"1\" height=\"1\"/></svg> {name} "
        );
    }
    out.push_str("</p>");
    pair(out, all, |out, _, recording| {
        let rule = escaped(&recording.rule);
        let _ = write!(
            out,
            "<p>By {rule}.</p><div class=\"scroll\"><table class=\"sort\"><thead><tr><th \
             class=\"l\">group\
             </th><th>on CPU</th><th>waits</th><th>waited</th><th>p99</th><th>max</th>\
             <th class=\"l\">because of</th><th class=\"l\">most, other \
             groups</th></tr></thead><tbody>"
        );
        for group in recording.groups.iter().take(MOST) {
            let name = escaped(&group.name);
            let _ = write!(out, "<tr><td class=\"l name\">{name}</td>");
            cell(out, Some(group.oncpu_ns));
            let _ = write!(out, "<td>{}</td>", group.waits.0);
            cell(out, Some(group.waits.1));
            cell(out, group.runq.0);
            cell(out, group.runq.1);
            let shares = crate::text::shares(&group.ended_ns);
            let mut bar = String::new();
            let (mut x, mut words) = (0, Vec::new());
            for (class, share) in shares.iter().enumerate() {
                let _ = write!(
                    bar,
                    "<rect class=\"g{class}\" x=\"{x}\" width=\"{share}\" height=\"100\"/>"
                );
                x += share;
                let name = ["own", "other", "kernel", "idle"][class];
                words.push(format!("{name} {}.{} %", share / 10, share % 10));
            }
            let words = words.join(", ");
            let _ = write!(
                out,
                "<td class=\"l\"><svg class=\"bar\" viewBox=\"0 0 1000 100\" \
                 preserveAspectRatio=\"none\" \
                 role=\"img\"><title>{words}</title>{bar}</svg></td><td class=\"l name\">"
            );
            let most = group
                .neighbours
                .iter()
                .take(3)
                .map(|(name, ns)| format!("{} ({})", escaped(name), text(*ns)));
            let most: Vec<_> = most.collect();
            let _ = write!(out, "{}</td></tr>", most.join(", "));
        }
        out.push_str("</tbody></table></div>");
        if recording.groups.len() > MOST {
            let _ = write!(
                out,
                "<p>And {} more groups.</p>",
                recording.groups.len() - MOST
            );
        }
    });
    out.push_str(
        "<p class=\"dim\">p99 and max are since tasks were grouped; all else is of the \
         recording.</p>",
    );
}

fn outliers(out: &mut String, all: &[Recording]) {
    out.push_str("<h2 id=\"outliers\">Outliers</h2>");
    if all.iter().all(|recording| recording.outliers.is_empty()) {
        out.push_str(
            "<p>None recorded. <code>schedhist ctl threshold_ns/runq 10000000</code> before \
             <code>schedhist record</code> reports waits above 10 ms, with the tasks that had the CPU \
             meanwhile.</p>",
        );
        return;
    }
    pair(out, all, |out, number, recording| {
        let stack = |outlier: &Outlier| recording.watched.get(&(outlier.id, outlier.duration_ns));
        let has_stacks = { recording.outliers.iter() }.any(|(_, it)| stack(it).is_some());
        out.push_str(
            "<div class=\"scroll\"><table class=\"sort\"><thead><tr><th>at</th><th \
             class=\"l\">metric</th>\
             <th class=\"l\">task</th><th>CPU</th><th>duration</th><th class=\"l\">who had the CPU\
             </th>",
        );
        if has_stacks {
            out.push_str("<th class=\"l\">where it had left the CPU, innermost frame first</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for (at, (time, outlier)) in recording.outliers.iter().enumerate() {
            let seconds = *time as f64 / 1e9;
            let task = escaped(&format!("{}:{}", outlier.comm, outlier.pid));
            let _ = write!(
                out,
                "<tr id=\"o{number}-{at}\"><td data-v=\"{seconds:.3}\">{seconds:.3} s</td>\
                 <td class=\"l\">{}</td><td class=\"l\">{task}</td><td>{}</td>",
                escaped(&outlier.metric),
                outlier.cpu
            );
            cell(out, Some(outlier.duration_ns));
            let mut culprits: Vec<_> = outlier.culprits.iter().collect();
            culprits.sort_by_key(|culprit| Reverse(culprit.ran_ns));
            let whole = outlier.duration_ns.max(1) as f64;
            let words = culprits.iter().take(5).map(|culprit| {
                let share = culprit.ran_ns as f64 * 100.0 / whole;
                let task = escaped(&format!("{}:{}", culprit.comm, culprit.pid));
                format!("{task} {} ({share:.1} %)", text(culprit.ran_ns))
            });
            let words: Vec<_> = words.collect();
            let _ = write!(out, "<td class=\"l name\">{}</td>", words.join(", "));
            if has_stacks {
                let frames = stack(outlier).into_iter().flatten();
                // Without the offset in the function.
                let names = frames.map(|frame| frame.split('+').next().unwrap_or_default());
                let names: Vec<_> = names.map(escaped).collect();
                let _ = write!(out, "<td class=\"l stack\">{}</td>", names.join(" &lt; "));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        for shorter in &recording.shorter {
            let (number, longest) = (shorter.number, text(shorter.longest));
            let metric = escaped(&shorter.metric);
            let _ = write!(
                out,
                "<p>And {number} more of {metric}, of {longest} at most.</p>"
            );
        }
    });
}

fn stacks(out: &mut String, all: &[Recording]) {
    out.push_str("<h2 id=\"stacks\">Stacks</h2>");
    if all.iter().all(|recording| recording.stacks.is_none()) {
        out.push_str(
            "<p>None given. <code>perf record -g -e schedhist:offcpu -p PID</code> records where a \
             process blocks, <code>perf script &gt; FILE</code> prints it, and <code>schedhist report \
             --html OUT --stacks FILE</code> draws it as a flame graph here.</p>",
        );
        return;
    }
    for (number, recording) in all.iter().enumerate() {
        let Some(stacks) = &recording.stacks else {
            continue;
        };
        if all.len() > 1 {
            let letter = ['A', 'B'][number.min(1)];
            let _ = write!(out, "<h3>{letter}: {}</h3>", escaped(&recording.name));
        }
        flame::write(out, stacks);
    }
}

fn about(out: &mut String, all: &[Recording]) {
    out.push_str("<h2 id=\"about\">About the recording</h2>");
    pair(out, all, |out, _, recording| {
        out.push_str("<div class=\"scroll\"><table><tbody>");
        for (key, value) in &recording.facts {
            let (key, value) = (escaped(key), escaped(value));
            let _ = write!(
                out,
                "<tr><th class=\"l\">{key}</th><td class=\"l name\">{value}</td></tr>"
            );
        }
        for (law, off) in &recording.laws {
            let (law, class) = (escaped(law), if off.is_some() { " bad" } else { "" });
            let off = off
                .as_ref()
                .map_or(String::new(), |off| format!(": {}", escaped(off)));
            let _ = write!(
                out,
                "<tr><th class=\"l\">laws</th><td class=\"l name{class}\">{law}{off}</td></tr>"
            );
        }
        for mark in &recording.marks {
            let mark = escaped(mark);
            let _ = write!(
                out,
                "<tr><th class=\"l\">note</th><td class=\"l name\">{mark}</td></tr>"
            );
        }
        out.push_str("</tbody></table></div>");
    });
}

/// The figures of a recording for the script.
#[derive(Serialize)]
struct Figures<'a> {
    name: &'a str,
    /// The begin and the length of each column, in milliseconds.
    times: Vec<[u64; 2]>,
    metrics: Vec<MetricFigures>,
}

/// The figures of a metric, column by column.
#[derive(Serialize)]
struct MetricFigures {
    low: usize,
    rows: usize,
    /// The rows that have samples, each followed by their number.
    cells: Vec<Vec<u64>>,
    /// p50, p99 and the maximum.
    quantiles: Vec<[u64; 3]>,
}

impl MetricFigures {
    fn new(timeline: &Timeline, name: &str, scale: Scale) -> Self {
        let place = timeline.place(name);
        let columns = timeline.columns.iter();
        let series = columns.filter_map(|column| column.series.get(place?));
        let cells = |one: &Distribution| {
            let rows = (0_u64..).zip(chart::cells(one));
            let filled = rows.filter(|(_, count)| *count != 0);
            filled.flat_map(|(row, count)| [row, count]).collect()
        };
        let quantiles = |one: &Distribution| {
            let share = |text| Quantile::parse(text).and_then(|share| one.quantile_upper(share));
            [share("50"), share("99"), one.max.value()].map(Option::unwrap_or_default)
        };
        Self {
            low: scale.low,
            rows: scale.high - scale.low + 1,
            cells: series.clone().map(cells).collect(),
            quantiles: series.map(quantiles).collect(),
        }
    }
}

/// Writes the figures for the script.
fn data(out: &mut String, all: &[Recording], shown: &[(String, Scale)]) {
    let figures = all.iter().map(|recording| {
        let timeline = &recording.timeline;
        let times = timeline.columns.iter();
        let shown = shown.iter();
        Figures {
            name: &recording.name,
            times: times
                .map(|column| [column.begin, column.span].map(|ns| ns / 1_000_000))
                .collect(),
            metrics: shown
                .map(|(name, scale)| MetricFigures::new(timeline, name, *scale))
                .collect(),
        }
    });
    // Text and numbers: this does not fail.
    let json = serde_json::to_string(&figures.collect::<Vec<_>>()).unwrap_or_default();
    // Nothing in it may end the element.
    let json = json.replace('<', "\\u003c");
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"data\">{json}</script>"
    );
}
