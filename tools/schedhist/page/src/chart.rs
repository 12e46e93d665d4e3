// SPDX-License-Identifier: GPL-2.0

//! The charts of the page, as SVG.

use std::fmt::{Display, Write};

use super::{headline::local, png};
use schedhist_core::{
    distribution::{Distribution, Quantile},
    timeline::{lowest_row, row_begin, rows, Timeline, ROWS},
    units::Unit,
};

/// The width of a chart, in its own units.
const WIDTH: f64 = 760.0;
/// The left edge of the plot: room for labels.
const LEFT: f64 = 58.0;
/// The right edge of the plot: room for the names of lines.
const RIGHT: f64 = 720.0;
const TOP: f64 = 12.0;

/// A range of rows, and the greatest rate of samples in a cell: what charts beside each other have
/// in common.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub low: usize,
    pub high: usize,
    /// Samples a second.
    pub most: f64,
}

/// Returns the number of samples in each row from the scale's lowest one on.
pub fn cells(distribution: &Distribution) -> [u64; ROWS] {
    let mut all = rows(distribution);
    let least = lowest_row();
    for low in 0..least {
        all[least] = all[least].saturating_add(std::mem::take(&mut all[low]));
    }
    all
}

fn rate(count: u64, span: u64) -> f64 {
    count as f64 * 1e9 / span.max(1) as f64
}

/// Returns the scale of a metric in all recordings; `None` if there are no samples.
pub fn scale<'a>(all: impl Iterator<Item = (&'a Timeline, usize)>) -> Option<Scale> {
    let mut scale: Option<Scale> = None;
    for (timeline, place) in all {
        for column in &timeline.columns {
            let Some(samples) = column.metrics.get(place) else {
                continue;
            };
            for (row, count) in cells(samples).into_iter().enumerate() {
                if count != 0 {
                    let rate = rate(count, column.span);
                    let scale = scale.get_or_insert(Scale {
                        low: row,
                        high: row,
                        most: rate,
                    });
                    scale.low = scale.low.min(row);
                    scale.high = scale.high.max(row);
                    scale.most = scale.most.max(rate);
                }
            }
        }
    }
    scale
}

pub fn text(ns: u64) -> String {
    Unit::Fitting.text(Some(ns))
}

fn open(out: &mut String, height: f64, more: &str, title: &str) {
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\"{more}><title>{title}</title>"
    );
}

/// A picture without parts that lead somewhere.
const IMAGE: &str = " role=\"img\"";

const END: &str = " text-anchor=\"end\"";

fn label(out: &mut String, x: f64, y: f64, more: &str, text: impl Display) {
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\"{more}>{text}</text>");
}

/// Writes a line that helps the eye, or that shows something else.
fn path(out: &mut String, class: &str, path: impl Display) {
    let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
}

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// The round distances between labels of a time axis, in nanoseconds.
const STEPS: [u64; 24] = {
    const S: u64 = SECOND;
    const M: u64 = 60 * S;
    [
        S / 10,
        S / 5,
        S / 2,
        S,
        2 * S,
        5 * S,
        10 * S,
        15 * S,
        30 * S,
        M,
        2 * M,
        5 * M,
        10 * M,
        15 * M,
        30 * M,
        60 * M,
        120 * M,
        180 * M,
        240 * M,
        360 * M,
        720 * M,
        DAY,
        2 * DAY,
        7 * DAY,
    ]
};

/// The most labels of a time axis, and how many columns wide each of them is at least.
const LABELS: u64 = 8;

/// Returns where round times of the local clock are: in columns, with their labels.
fn ticks(timeline: &Timeline) -> Vec<(f64, String)> {
    let lengths = timeline
        .columns
        .iter()
        .map(|it| it.end.saturating_sub(it.begin));
    let span = lengths.sum::<u64>();
    let fitting = STEPS.iter().find(|step| span / **step < LABELS);
    let step = *fitting.unwrap_or(&(span / LABELS).next_multiple_of(DAY));
    let least = timeline.columns.len() as f64 / (LABELS + 2) as f64;
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for (place, column) in timeline.columns.iter().enumerate() {
        let length = column.end.saturating_sub(column.begin).max(1);
        let first = column.clock.next_multiple_of(step);
        for ns in (first..column.clock.saturating_add(length)).step_by(step as usize) {
            let x = place as f64 + (ns - column.clock) as f64 / length as f64;
            // If the clock was set, they would stand too close.
            if ticks.last().is_some_and(|(last, _)| x - last < least) {
                continue;
            }
            let format = match ns % DAY {
                0 if step >= 60 * SECOND => "%m-%d",
                _ if step >= 60 * SECOND => "%H:%M",
                _ if step >= SECOND => "%H:%M:%S",
                _ => "%M:%S%.3f",
            };
            ticks.push((x, local(ns, format)));
        }
    }
    ticks
}

fn times(out: &mut String, timeline: &Timeline, bottom: f64) {
    let columns = &timeline.columns;
    let width = (RIGHT - LEFT) / columns.len().max(1) as f64;
    for (place, text) in ticks(timeline) {
        let x = LEFT + place * width;
        path(out, "grid", format_args!("M{x:.1} {bottom}v4"));
        label(out, x, bottom + 16.0, " text-anchor=\"middle\"", text);
    }
    for (place, column) in columns.iter().enumerate() {
        if column.after_gap && place != 0 {
            let x = LEFT + place as f64 * width;
            path(out, "gap", format_args!("M{x:.1} {TOP}V{bottom}"));
        }
    }
}

/// A mark above a heat map that leads to a place in the page.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The time, in nanoseconds since the first snapshot of the recording.
    pub time: u64,
    /// The id of the mark, if something leads to it.
    pub id: Option<String>,
    /// The id of the element that it leads to.
    pub anchor: String,
    pub title: String,
}

/// Returns the column of a time, in nanoseconds since the first snapshot. Outliers are read after
/// the last snapshot.
pub fn column_of(timeline: &Timeline, time: u64) -> usize {
    let columns = &timeline.columns;
    columns
        .partition_point(|column| column.end < time)
        .min(columns.len().saturating_sub(1))
}

/// Returns a heat map: time from left to right, duration upwards, and the rate of samples as
/// colour.
pub fn heat(timeline: &Timeline, place: usize, scale: Scale, key: &str, marks: &[Mark]) -> String {
    let rows = scale.high - scale.low + 1;
    let height = (rows as f64 * 7.0).clamp(100.0, 280.0);
    let (columns, bottom) = (timeline.columns.len(), TOP + height);
    let mut pixels = vec![0; rows * columns];
    for (x, column) in timeline.columns.iter().enumerate() {
        let cells = cells(&column.metrics[place]);
        for y in 0..rows {
            let count = cells[scale.high - y];
            if count != 0 {
                // Four powers of ten, so that a single sample among many can be seen.
                let share = 1.0 + (rate(count, column.span) / scale.most).log10() / 4.0;
                pixels[y * columns + x] = png::level(share);
            }
        }
    }
    let mut out = String::new();
    let area = format!("{LEFT} {TOP} {} {height}", RIGHT - LEFT);
    let more = format!(" role=\"group\" class=\"heat\" data-key=\"{key}\" data-area=\"{area}\"");
    open(&mut out, bottom + 20.0, &more, "Heat map over time");
    images(&mut out, columns, &pixels, height);
    let step = rows.div_ceil(8).next_multiple_of(2);
    for row in (scale.low..=scale.high).filter(|row| row % step == 0) {
        let y = bottom - (row - scale.low) as f64 * height / rows as f64;
        duration_label(&mut out, row_begin(row), y);
    }
    times(&mut out, timeline, bottom);
    let _ = write!(
        out,
        "<rect class=\"frame\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{height}\"/>\
         <rect class=\"cursor\" y=\"{TOP}\" height=\"{height}\"/>",
        RIGHT - LEFT
    );
    for mark in marks {
        let at = column_of(timeline, mark.time);
        let x = LEFT + (at as f64 + 0.5) * (RIGHT - LEFT) / columns as f64;
        let id = mark.id.as_ref().map(|id| format!(" id=\"{id}\""));
        let _ = write!(
            out,
            "<a{} href=\"#{}\"><path class=\"mark\" d=\"M{x:.1} {TOP}l-5 \
             -9h10z\"><title>{}</title></path></a>",
            id.unwrap_or_default(),
            mark.anchor,
            mark.title
        );
    }
    out + "</svg>"
}

fn images(out: &mut String, columns: usize, pixels: &[u8], height: f64) {
    for (class, palette) in [("light", &png::LIGHT), ("dark", &png::DARK)] {
        let url = png::data_url(columns, pixels, palette);
        let _ = write!(
            out,
            "<image class=\"{class}\" href=\"{url}\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" \
             height=\"{height}\" preserveAspectRatio=\"none\"/>",
            RIGHT - LEFT
        );
    }
}

fn duration_label(out: &mut String, ns: u64, y: f64) {
    path(out, "grid", format_args!("M{} {y:.1}h4", LEFT - 4.0));
    label(out, LEFT - 7.0, y + 4.0, END, text(ns));
}

/// Returns a heat map of the greatest sample of each CPU: time from left to right, CPUs downwards.
pub fn cpus(timeline: &Timeline, most: u64) -> String {
    let (columns, count) = (timeline.columns.len(), timeline.cpus.len());
    let height = (count as f64 * 10.0).clamp(20.0, 360.0);
    let mut pixels = vec![0; columns * count];
    for (x, column) in timeline.columns.iter().enumerate() {
        for (y, ns) in column.cpus.iter().enumerate() {
            if *ns != 0 {
                let share = (*ns as f64 / 1e4).max(1.0).ln() / (most as f64 / 1e4).max(2.0).ln();
                pixels[y * columns + x] = png::level(share);
            }
        }
    }
    let mut out = String::new();
    let title = "Greatest wait of each CPU over time";
    open(
        &mut out,
        TOP + height + 20.0,
        " role=\"img\" class=\"cpus\"",
        title,
    );
    images(&mut out, columns, &pixels, height);
    for place in (0..count).step_by(count.div_ceil(16).max(1)) {
        let y = TOP + (place as f64 + 0.5) * height / count as f64 + 4.0;
        let name = format!("CPU {}", timeline.cpus[place]);
        label(&mut out, LEFT - 7.0, y, END, name);
    }
    times(&mut out, timeline, TOP + height);
    out + "</svg>"
}

/// The position of a duration on a logarithmic axis.
fn level(ns: u64, low: f64, high: f64, height: f64) -> f64 {
    let share = ((ns.max(1) as f64).log10() - low) / (high - low);
    TOP + height * (1.0 - share.clamp(0.0, 1.0))
}

/// The ends of a logarithmic axis that has all rows of a scale, as powers of ten.
fn ends(scale: Scale) -> (f64, f64) {
    let low = (row_begin(scale.low) as f64).log10();
    (
        low,
        (row_begin(scale.high + 1) as f64).log10().max(low + 0.5),
    )
}

fn powers(out: &mut String, low: f64, high: f64, height: f64) {
    for power in low.ceil() as i32..=high.floor() as i32 {
        let ns = 10_f64.powi(power) as u64;
        let y = level(ns, low, high, height);
        path(out, "grid", format_args!("M{LEFT} {y:.1}H{RIGHT}"));
        duration_label(out, ns, y);
    }
}

/// Returns the quantiles over time.
pub fn quantiles(timeline: &Timeline, place: usize, scale: Scale) -> String {
    const HEIGHT: f64 = 150.0;
    let (low, high) = ends(scale);
    let mut out = String::new();
    open(&mut out, TOP + HEIGHT + 20.0, IMAGE, "Quantiles over time");
    powers(&mut out, low, high, HEIGHT);
    times(&mut out, timeline, TOP + HEIGHT);
    let width = (RIGHT - LEFT) / timeline.columns.len().max(1) as f64;
    let shares = ["50", "90", "99"]
        .map(Quantile::parse)
        .into_iter()
        .chain([None]);
    let mut labels: Vec<(f64, usize, &str)> = Vec::new();
    for (number, share) in shares.enumerate() {
        let (mut line, mut pen_down, mut last) = (String::new(), false, 0.0);
        for (at, column) in timeline.columns.iter().enumerate() {
            let samples = &column.metrics[place];
            let value = match share {
                Some(share) if samples.beyond(share) > 0 => samples.quantile_upper(share),
                Some(_) => None,
                None => samples.max.value(),
            };
            let Some(value) = value else {
                pen_down = false;
                continue;
            };
            pen_down &= !column.after_gap;
            let y = level(value, low, high, HEIGHT);
            let x = LEFT + at as f64 * width;
            let pen = if pen_down { 'L' } else { 'M' };
            let _ = write!(line, "{pen}{x:.1} {y:.1}h{width:.1}");
            (pen_down, last) = (true, y);
        }
        if !line.is_empty() {
            path(&mut out, &format!("s{number}"), line);
            labels.push((last, number, ["p50", "p90", "p99", "max"][number]));
        }
    }
    // Positive numbers are in the order of their bits.
    labels.sort_by_cached_key(|(y, ..)| y.to_bits());
    let mut above = 0.0_f64;
    for (y, number, name) in labels {
        above = y.max(above + 11.0);
        let class = format!(" class=\"t{number}\"");
        label(&mut out, RIGHT + 5.0, above + 4.0, &class, name);
    }
    out + "</svg>"
}

/// Returns the distributions by percentile, on the axis that HdrHistogram's plots have: each step
/// to the right leaves a tenth of the samples.
pub fn percentiles(all: &[(&str, &Distribution)], scale: Scale) -> String {
    const HEIGHT: f64 = 170.0;
    let (low, high) = ends(scale);
    let mut out = String::new();
    let title = "Distribution by percentile";
    open(&mut out, TOP + HEIGHT + 20.0, IMAGE, title);
    powers(&mut out, low, high, HEIGHT);
    let most = all.iter().map(|(_, d)| d.count()).max().unwrap_or_default();
    let decades = (most.max(10) as f64).log10().ceil().clamp(1.0, 9.0);
    let step = (RIGHT - LEFT) / decades;
    for decade in 0..=decades as usize {
        let name = match decade {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            n => format!("99.{} %", "9".repeat(n - 2)),
        };
        let x = LEFT + decade as f64 * step;
        let anchor = if decade == 0 { "start" } else { "middle" };
        let bottom = TOP + HEIGHT;
        path(&mut out, "grid", format_args!("M{x:.1} {TOP}V{bottom}"));
        let anchor = format!(" text-anchor=\"{anchor}\"");
        label(&mut out, x, bottom + 15.0, &anchor, name);
    }
    for (number, (name, distribution)) in all.iter().enumerate() {
        let count = distribution.count();
        let (mut line, mut below, mut last_x) = (String::new(), 0_u64, f64::MIN);
        let mut y = TOP + HEIGHT;
        for (bounds, n) in distribution.buckets() {
            below = below.saturating_add(n);
            let left = (count.saturating_sub(below) as f64).max(0.5) / count as f64;
            let x = (LEFT - left.log10() * step).clamp(LEFT, RIGHT);
            let upper = bounds
                .upper
                .min(distribution.max.value().unwrap_or(u64::MAX));
            y = level(upper, low, high, HEIGHT);
            if x - last_x >= 1.0 || below == count {
                let pen = if line.is_empty() { 'M' } else { 'L' };
                let _ = write!(line, "{pen}{x:.1} {y:.1}");
                last_x = x;
            }
        }
        if !line.is_empty() {
            path(&mut out, &format!("s{number}"), line);
            let x = (last_x + 5.0).min(RIGHT + 5.0);
            let class = format!(" class=\"t{number}\"");
            label(&mut out, x, y + 4.0 + 11.0 * number as f64, &class, name);
        }
    }
    out + "</svg>"
}

/// Returns how many samples were how long: a bar for each power of two, with its numbers.
pub fn histogram(all: &Distribution, scale: Scale) -> String {
    const BAR: f64 = 13.0;
    let (cells, count) = (cells(all), all.count().max(1));
    let powers: Vec<_> = (scale.low / 2..=scale.high / 2).collect();
    let of = |power: usize| cells[2 * power..].iter().take(2).sum::<u64>();
    let most = powers
        .iter()
        .map(|power| of(*power))
        .max()
        .unwrap_or(1)
        .max(1);
    let height = powers.len() as f64 * BAR;
    let mut out = String::new();
    open(&mut out, TOP + height + 4.0, IMAGE, "Histogram");
    // Room for the numbers behind the longest bar.
    let room = RIGHT - LEFT - 150.0;
    for (place, power) in powers.iter().rev().enumerate() {
        let y = TOP + place as f64 * BAR;
        let (n, width) = (of(*power), of(*power) as f64 / most as f64 * room);
        label(
            &mut out,
            LEFT - 7.0,
            y + 10.0,
            END,
            text(row_begin(2 * power)),
        );
        if n != 0 {
            let _ = write!(
                out,
                "<rect class=\"bar0\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\"/>",
                y + 1.0,
                width.max(1.0),
                BAR - 2.0
            );
            let percent = n as f64 * 100.0 / count as f64;
            let decimals = if percent < 0.1 { 4 } else { 1 };
            let numbers = format!("{percent:.decimals$} %, {n}");
            label(&mut out, LEFT + width.max(1.0) + 6.0, y + 10.0, "", numbers);
        }
    }
    out + "</svg>"
}

/// Returns by how much the share of each row has grown from the first distribution to the second.
pub fn difference(a: &Distribution, b: &Distribution, scale: Scale) -> String {
    const HEIGHT: f64 = 130.0;
    let share = |distribution: &Distribution| {
        let count = distribution.count().max(1) as f64;
        cells(distribution).map(|n| n as f64 / count)
    };
    let (a, b) = (share(a), share(b));
    let all = scale.low..=scale.high;
    let most = all
        .clone()
        .map(|row| (b[row] - a[row]).abs())
        .fold(1e-6, f64::max);
    let mut out = String::new();
    let title = "Difference of the shares";
    open(&mut out, TOP + HEIGHT + 20.0, IMAGE, title);
    let (middle, width) = (
        TOP + HEIGHT / 2.0,
        (RIGHT - LEFT) / (scale.high - scale.low + 1) as f64,
    );
    for (sign, y) in [("+", TOP + 8.0), ("-", TOP + HEIGHT)] {
        let text = format!("{sign}{:.2} %", most * 100.0);
        label(&mut out, LEFT - 7.0, y, END, text);
    }
    let labels = (scale.high - scale.low + 1)
        .div_ceil(10)
        .next_multiple_of(2);
    for row in all {
        let x = LEFT + (row - scale.low) as f64 * width;
        let change = b[row] - a[row];
        let height = change.abs() / most * HEIGHT / 2.0;
        let (y, class) = if change > 0.0 {
            (middle - height, "r1")
        } else {
            (middle, "r0")
        };
        let width = width - 1.0;
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>"
        );
        if row % labels == 0 {
            label(&mut out, x, TOP + HEIGHT + 15.0, "", text(row_begin(row)));
        }
    }
    path(&mut out, "grid", format_args!("M{LEFT} {middle}H{RIGHT}"));
    out + "</svg>"
}
