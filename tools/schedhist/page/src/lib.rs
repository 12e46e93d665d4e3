// SPDX-License-Identifier: GPL-2.0

//! A recording, or two beside each other, as one HTML page.
//!
//! The page loads nothing: its content security policy allows nothing but the style and the script
//! in it, by their hashes, and images that are part of it. All figures are there without the
//! script, which adds values under the pointer and sorting.

mod chains;
mod chart;
mod data;
pub mod flame;
mod headline;
mod html;
mod outliers;
mod png;
pub mod watched;

pub use outliers::Outliers;

use std::fmt::Write;

use chart::{text, Scale};
use html::{cell, dim, escaped, figure, key, left, sorted, table, SCROLL};

use schedhist_core::{
    distribution::{Distribution, Max, Quantile},
    engine::{histogram::totals::Worst, idle::WaitSums},
    groups::{GroupNames, GroupRow, CLASSES},
    limits::Judged,
    timeline::{Timeline, CPU_METRIC},
    units::{self, Unit},
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Constants, so that a page needs no SHA-256. The tests compare them.
const STYLE_HASH: &str = "'sha256-8c3MCiFxFN5HqmoKdUX6kg3VONczK4k660J9Sj+z2s4='";
const SCRIPT_HASH: &str = "'sha256-NjtbpmnPkZdv3gjXfItMfmBgUTObzKTLUQObqbQ4/S4='";

/// The metrics that are shown first; the others are folded.
const FIRST: [&str; 3] = ["runq", "oncpu", "offcpu"];

/// The most outliers and the most groups that are listed.
const MAX_ROWS: usize = 200;

#[derive(Clone, Debug)]
pub struct CpuRow {
    pub number: u32,
    pub switches: u64,
    pub runq: Distribution,
    /// How long tasks had it, in nanoseconds.
    pub busy: u128,
}

#[derive(Clone, Debug)]
pub struct Recording {
    /// The name of the file.
    pub name: String,
    /// The offsets from UTC of its times, as people write them.
    pub zones: Vec<String>,
    /// Facts about the machine and the recording.
    pub facts: Vec<(String, String)>,
    pub timeline: Timeline,
    /// What became of the limits that were asked for.
    pub limits: Vec<Judged>,
    pub cpus: Vec<CpuRow>,
    /// What the check of the laws found: a law and by how much it is off.
    pub laws: Vec<(String, Option<String>)>,
    /// What happened, in words.
    pub marks: Vec<String>,
    pub groups: Vec<GroupRow>,
    pub numbers: Vec<GroupNames>,
    /// The rule by which tasks are grouped.
    pub rule: String,
    /// The long waits, if the module looked at any.
    pub long_waits: Option<WaitSums>,
    pub outliers: Outliers,
    pub stacks: Option<flame::Stacks>,
    pub watched: watched::Watched,
}

pub fn duration(ns: u64) -> String {
    text(ns)
}

/// Returns the page of one recording, or of two.
pub fn render(all: &[Recording]) -> String {
    let mut out = String::with_capacity(1 << 19);
    let names: Vec<_> = all.iter().map(|one| escaped(&one.name)).collect();
    let title = format!("schedhist: {}", names.join(" and "));
    let hosts: Vec<_> = all.iter().map(|one| escaped(one.host())).collect();
    // Two of the same machine are told apart by their files.
    let heading = match hosts.as_slice() {
        [a, b] if a == b || names == hosts => names.join(" and "),
        hosts => hosts.join(" and "),
    };
    let _ = write!(
        out,
        "<!doctype html>\n<!-- SPDX-License-Identifier: GPL-2.0 -->\n<html lang=\"en\"><head>\
         <meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; img-src data:; style-src {STYLE_HASH}; script-src {SCRIPT_HASH}; \
         base-uri 'none'; form-action 'none'\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" \
         content=\"light dark\"><title>{title}</title><style>{STYLE}</style></head><body><main>\
         <h1>{heading}</h1>",
    );
    pair(&mut out, all, &mut |out, _, recording| {
        let (place, sentence) = (escaped(&recording.place()), escaped(&recording.sentence()));
        let _ = write!(
            out,
            "<p class=\"dim\">{place}</p><p class=\"lead\">{sentence}</p>"
        );
        limits(out, &recording.limits);
    });
    out += "<nav><a href=\"#summary\">Summary</a><a href=\"#metrics\">Over time</a>\
            <a href=\"#cpus\">CPUs</a><a href=\"#groups\">Groups</a>\
            <a href=\"#outliers\">Outliers</a><a href=\"#stacks\">Stacks</a><a href=\"#about\">About the recording</a></nav>";
    summary(&mut out, all);
    let shown = metrics(&mut out, all);
    cpus(&mut out, all);
    groups(&mut out, all);
    outliers::write(&mut out, all, &shown);
    stacks(&mut out, all);
    about(&mut out, all);
    data::write(&mut out, all, &shown);
    let _ = writeln!(out, "</main><script>{SCRIPT}</script></body></html>");
    out
}

/// Writes which limits were kept.
fn limits(out: &mut String, all: &[Judged]) {
    for limit in all {
        let class = match limit.is_kept {
            Some(true) => "good",
            Some(false) => "bad",
            None => "dim",
        };
        let (word, text, about) = (limit.word(), escaped(&limit.text), escaped(&limit.about));
        let _ = write!(
            out,
            "<p class=\"limit\"><span class=\"{class}\">{word}</span> {text}: {about}</p>"
        );
    }
}

/// Writes a part for each recording, beside each other.
fn pair(out: &mut String, all: &[Recording], one: &mut dyn FnMut(&mut String, usize, &Recording)) {
    let two = if all.len() > 1 { " two" } else { "" };
    let _ = write!(out, "<div class=\"pair{two}\">");
    for (number, recording) in all.iter().enumerate() {
        out.push_str("<div>");
        heading(out, all, number);
        one(out, number, recording);
        out.push_str("</div>");
    }
    out.push_str("</div>");
}

/// Writes which of two recordings follows: a label, as it stands below headings of any level.
fn heading(out: &mut String, all: &[Recording], number: usize) {
    if all.len() > 1 {
        let letter = ['A', 'B'][number.min(1)];
        let name = escaped(&all[number].name);
        let _ = write!(out, "<p class=\"side\">{letter}: {name}</p>");
    }
}

/// Returns how many percent of the whole a part is.
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn quantile(distribution: &Distribution, share: &str) -> Option<u64> {
    let share = Quantile::parse(share).filter(|share| distribution.supports(*share))?;
    distribution.quantile_upper(share)
}

fn time(out: &mut String, value: Option<u64>) {
    sorted(
        out,
        value.unwrap_or_default(),
        &Unit::Fitting.quantile(value),
    );
}

/// Writes a maximum: `<` precedes an upper bound.
fn greatest(out: &mut String, max: Max) {
    let text = match max {
        Max::None => "-".to_owned(),
        max => escaped(&Unit::Fitting.max(max)),
    };
    sorted(out, max.value().unwrap_or_default(), &text);
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
    let heads = "<metric|count|a second|mean|p50|p90|p99|p99.9|p99.99|max|<task of the max";
    pair(out, all, &mut |out, _, recording| {
        table(out, true, heads, &mut |out| {
            for (place, metric) in recording.timeline.names.metrics.iter().enumerate() {
                summary_row(out, recording, place, &metric.name);
            }
        });
    });
    dim(
        out,
        "Quantiles are upper bounds of their buckets. Those with fewer than ten samples \
         beyond them are not shown. &lt; marks an upper bound.",
    );
    if let [a, b] = all {
        changes(out, a, b);
    }
}

fn summary_row(out: &mut String, recording: &Recording, place: usize, name: &str) {
    let total = recording.timeline.total(place);
    let count = total.count();
    let rate = count as f64 * 1e9 / recording.timeline.span().max(1) as f64;
    out.push_str("<tr>");
    left(out, "", name);
    sorted(out, count, &units::count(count));
    cell(out, format_args!("{rate:.1}"));
    time(out, total.mean());
    for share in ["50", "90", "99", "99.9", "99.99"] {
        time(out, quantile(&total, share));
    }
    greatest(out, total.max);
    left(out, "", &worst_text(total.worst));
    out.push_str("</tr>");
}

/// Writes the changes of the quantiles from the first recording to the second.
fn changes(out: &mut String, a: &Recording, b: &Recording) {
    out.push_str("<h3>From A to B</h3>");
    let percent = |a: f64, b: f64| match a {
        0.0 => "-".to_owned(),
        a => format!("{:+.1} %", (b - a) / a * 100.0),
    };
    let scheme = a.timeline.scheme;
    let change = |x: Option<u64>, y: Option<u64>| match (x, y) {
        (Some(x), Some(y)) if scheme == b.timeline.scheme && scheme.index(x) == scheme.index(y) => {
            "same bucket".to_owned()
        }
        (Some(x), Some(y)) => percent(x as f64, y as f64),
        _ => "-".to_owned(),
    };
    let heads = "<metric|samples a second|p50|p90|p99|p99.9|max";
    table(out, false, heads, &mut |out| {
        for (place, metric) in a.timeline.names.metrics.iter().enumerate() {
            let Some(other) = b.timeline.position(&metric.name) else {
                continue;
            };
            let (x, y) = (a.timeline.total(place), b.timeline.total(other));
            let rate = |one: &Recording, d: &Distribution| {
                d.count() as f64 / one.timeline.span().max(1) as f64
            };
            out.push_str("<tr>");
            left(out, "", &metric.name);
            cell(out, percent(rate(a, &x), rate(b, &y)));
            for share in ["50", "90", "99", "99.9"] {
                cell(out, change(quantile(&x, share), quantile(&y, share)));
            }
            let exact = |max: Max| max.value().filter(|_| max.is_exact());
            cell(out, change(exact(x.max), exact(y.max)));
            out.push_str("</tr>");
        }
    });
    dim(
        out,
        "Two recordings show a difference, but not whether it is \
         chance: <code>schedhist diff</code> tests that with repeated runs.",
    );
}

/// Writes the charts of each metric. Returns the metrics that are shown, with their scales.
fn metrics(out: &mut String, all: &[Recording]) -> Vec<(String, Scale)> {
    out.push_str(
        "<h2 id=\"metrics\">Over time</h2><p class=\"dim\">A column of a heat map is a part of \
         the time, \
         a row half a power of two, and the colour the rate of samples on a logarithmic scale: ",
    );
    colours(out);
    out.push_str(
        " from a ten-thousandth of the greatest rate, or less, to the greatest. Dashed vertical \
         lines \
         are gaps, triangles outliers. Times are in the time zone in which this page was made: \
         its offset from UTC is at the top.</p>",
    );
    let Some(first) = all.first() else {
        return Vec::new();
    };
    let mut names: Vec<_> = FIRST.map(str::to_owned).to_vec();
    for metric in &first.timeline.names.metrics {
        if !names.contains(&metric.name) {
            names.push(metric.name.clone());
        }
    }
    let mut shown = Vec::new();
    for name in names {
        let places = all.iter().filter_map(|recording| {
            let place = recording.timeline.position(&name)?;
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
        metric_section(out, all, &name, scale, shown.len());
        if !is_first {
            out.push_str("</details>");
        }
        shown.push((name, scale));
    }
    shown
}

fn colours(out: &mut String) {
    for level in 0..8 {
        for (class, palette) in [(" light", png::LIGHT), (" dark", png::DARK)] {
            let [red, green, blue] = palette[level * 2];
            let colour = format!("#{red:02x}{green:02x}{blue:02x}");
            let rect = format!("width=\"1\" height=\"1\" fill=\"{colour}\"");
            key(out, class, rect);
        }
    }
}

fn metric_section(out: &mut String, all: &[Recording], name: &str, scale: Scale, number: usize) {
    // The percentiles stand beside the only heat map, or below two.
    let is_pair = all.len() > 1;
    out.push_str(if is_pair {
        ""
    } else {
        "<div class=\"pair two\">"
    });
    pair(out, all, &mut |out, recording_number, recording| {
        let Some(place) = recording.timeline.position(name) else {
            return;
        };
        let marks = outliers::marks(recording, recording_number, name);
        let key = format!("{recording_number}:{number}");
        let heat = chart::heat(&recording.timeline, place, scale, &key, &marks);
        let lines = chart::quantiles(&recording.timeline, place, scale);
        let caption = "samples, and p50, p90, p99 and the maximum over time";
        figure(
            out,
            &format!("{heat}</div><output></output>{SCROLL}{lines}"),
            format_args!("{name}: {caption}"),
        );
    });
    let totals: Vec<_> = all
        .iter()
        .enumerate()
        .filter_map(|(number, recording)| {
            let place = recording.timeline.position(name)?;
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
        "<div>"
    });
    figure(
        out,
        &chart::percentiles(&lines, scale),
        format_args!("{name} by percentile: each step to the right leaves a tenth of the samples"),
    );
    if let [(_, total)] = totals.as_slice() {
        let chart = chart::histogram(total, scale);
        figure(
            out,
            &chart,
            format_args!("{name}: how many samples were how long"),
        );
    }
    if let [(_, a), (_, b)] = totals.as_slice() {
        let text =
            "by how much the share of each duration has grown from A to B (up) or shrunk (down)";
        let chart = chart::difference(a, b, scale);
        figure(out, &chart, format_args!("{name}: {text}"));
    }
    out.push_str(if is_pair { "</div>" } else { "</div></div>" });
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
    pair(out, all, &mut |out, _, recording| {
        let caption = format!(
            "The greatest sample of {CPU_METRIC} of each CPU: up to 10 us pale, up to {} the \
             strongest colour",
            text(most)
        );
        figure(out, &chart::cpus(&recording.timeline, most), caption);
        let count = recording.cpus.len();
        if count > 16 {
            let _ = write!(out, "<details><summary>{count} CPUs</summary>");
        }
        let heads = "CPU|switches|waits|p50|p99|p99.9|max|busy";
        table(out, true, heads, &mut |out| {
            for cpu in &recording.cpus {
                out.push_str("<tr>");
                cell(out, cpu.number);
                cell(out, cpu.switches);
                cell(out, cpu.runq.count());
                for share in ["50", "99", "99.9"] {
                    time(out, quantile(&cpu.runq, share));
                }
                greatest(out, cpu.runq.max);
                let busy = percent(units::clamp(cpu.busy), recording.timeline.span());
                sorted(out, format_args!("{busy:.1}"), &format!("{busy:.1} %"));
                out.push_str("</tr>");
            }
        });
        if count > 16 {
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
    for (class, name) in CLASSES.iter().enumerate() {
        key(
            out,
            "",
            format_args!("class=\"g{class}\" width=\"1\" height=\"1\""),
        );
        let _ = write!(out, " {name} ");
    }
    out.push_str("</p>");
    pair(out, all, &mut |out, _, recording| {
        let _ = write!(out, "<p>By {}.</p>", escaped(&recording.rule));
        let heads = "<group|on CPU|waits|waited|p99|max|<because of|<most, other groups";
        table(out, true, heads, &mut |out| {
            for group in recording.groups.iter().take(MAX_ROWS) {
                group_row(out, group);
            }
        });
        if recording.groups.len() > MAX_ROWS {
            let more = recording.groups.len() - MAX_ROWS;
            let _ = write!(out, "<p>And {more} more groups.</p>");
        }
    });
    dim(
        out,
        "p99 and max are since tasks were grouped; all else is of the recording.",
    );
}

fn group_row(out: &mut String, group: &GroupRow) {
    out.push_str("<tr>");
    left(out, " name", &escaped(&group.name));
    time(out, Some(group.oncpu_ns));
    cell(out, group.waits.0);
    time(out, Some(group.waits.1));
    time(out, group.runq.0);
    time(out, group.runq.1);
    let (mut bar, mut x, mut words) = (String::new(), 0, Vec::new());
    for (class, share) in units::shares(&group.ended_ns).iter().enumerate() {
        let _ = write!(
            bar,
            "<rect class=\"g{class}\" x=\"{x}\" width=\"{share}\" height=\"100\"/>"
        );
        x += share;
        if *share != 0 {
            words.push(format!("{} % {}", units::tenths(*share), CLASSES[class]));
        }
    }
    left(out, " bars", &html::bar(&bar, &words.join(", ")));
    let most = group.neighbours.iter().take(3);
    let most = most.map(|(name, ns)| format!("{} ({})", escaped(name), text(*ns)));
    left(out, " name", &most.collect::<Vec<_>>().join(", "));
    out.push_str("</tr>");
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
        heading(out, all, number);
        flame::write(out, stacks, &flame::OF_STACKS);
    }
}

fn about(out: &mut String, all: &[Recording]) {
    out.push_str("<h2 id=\"about\">About the recording</h2>");
    pair(out, all, &mut |out, _, recording| {
        table(out, false, "", &mut |out| {
            let mut row = |key: &str, class: &str, value: &str| {
                let _ = write!(out, "<tr><th class=\"l\">{}</th>", escaped(key));
                left(out, class, &escaped(value));
                out.push_str("</tr>");
            };
            for (key, value) in &recording.facts {
                row(key, " name", value);
            }
            // Of several parts that a gap divides, what is the same is said once.
            let mut laws: Vec<_> = recording.laws.iter().collect();
            laws.dedup();
            for (law, off) in laws {
                match off {
                    Some(off) => row("laws", " name bad", &format!("{law}: {off}")),
                    None => row("laws", " name", law),
                }
            }
            for mark in &recording.marks {
                row("note", " name", mark);
            }
        });
    });
}
