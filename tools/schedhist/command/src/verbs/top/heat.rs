// SPDX-License-Identifier: GPL-2.0

//! The heat map of `top`.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Style, Stylize},
    text::{Line, Span},
    widgets::Widget,
};
use schedhist_core::timeline::{lowest_row, row, row_begin, ROWS};

use super::{
    screen::{span, LEVELS},
    view::{text, View},
};
use crate::sys;

impl View<'_> {
    /// Returns the lowest and the highest row of all intervals that the heat map shows. What is
    /// below [`lowest_row`] counts in it.
    pub fn range(&self, last: usize, width: usize) -> Option<(usize, usize)> {
        let first = (last + 1).saturating_sub(width.saturating_sub(LEFT));
        let moments = self.history.moments.range(first..=last);
        let cells =
            moments.filter_map(|moment| Some(&self.rows(moment).get(self.choice.metric)?.cells));
        let filled = cells.flat_map(|cells| cells.iter().enumerate().filter(|(_, n)| **n > 0));
        let (low, high) = filled.fold((usize::MAX, 0), |(low, high), (row, _)| {
            (low.min(row), high.max(row))
        });
        (low <= high).then(|| (low.max(lowest_row()).min(high), high))
    }

    /// Returns the title of the heat map, with the legend.
    fn heat_title(&self, name: &str, width: usize) -> Line<'static> {
        let mut title = vec![
            span(name, Style::new().bold()),
            span(" over time, samples in an interval: ", self.look.dim()),
        ];
        let mut length = title.iter().map(Span::width).sum::<usize>();
        let labels = ["1", "5", "25", "125", "625", "3k", "16k", "78k"].iter();
        let mut all: Vec<_> = labels
            .zip(1..)
            .map(|(label, level)| (*label, level, false))
            .collect();
        all.insert(0, ("> p99", 8, true));
        for (label, level, is_tail) in all {
            if length + label.len() + 3 < width {
                let (shade, style) = self.look.level(level, is_tail);
                title.push(span(label, self.look.dim()));
                title.push(Span::styled(format!("{shade}"), style));
                title.push(Span::raw(" "));
                length += label.len() + 2;
            }
        }
        Line::from(title)
    }

    pub fn heat(
        &self,
        screen: &mut Buffer,
        area: Rect,
        last: usize,
        range: Option<(usize, usize)>,
    ) {
        let width = usize::from(area.width);
        let Some(name) = self.history.names.get(self.choice.metric) else {
            return;
        };
        if area.height < 2 || width < LEFT + 8 {
            return;
        }
        self.heat_title(name, width).render(area, screen);
        let columns = width - LEFT;
        let first = (last + 1).saturating_sub(columns);
        let left = LEFT + columns - (last + 1 - first);
        let Some((low, high)) = range else {
            let none = span("no samples", self.look.dim());
            screen.set_span(LEFT as u16, area.y + 1, &none, area.width);
            return;
        };
        // Where there is little room, the time gives way.
        let lines = usize::from(area.height) - 1 - usize::from(area.height > 4);
        let (step, used) = lines_of(high - low + 1, lines);
        let limit = self.threshold(name);
        let threshold = limit.map(|limit| row(limit).clamp(low, high));
        for line in 0..used {
            let y = area.y + (used - line) as u16;
            let from = low + line * step;
            let is_threshold = threshold.is_some_and(|row| (from..from + step).contains(&row));
            if line % 2 == 0 || used < 5 || is_threshold {
                let label = match is_threshold {
                    true => format!("{:>7}", text(limit)),
                    false => format!("{:>7}", text(Some(row_begin(from)))),
                };
                let style = if is_threshold {
                    self.look.warn()
                } else {
                    self.look.dim()
                };
                screen.set_span(0, y, &span(&label, style), area.width);
            }
            if is_threshold {
                let rule = if self.look.unicode { '┄' } else { '-' };
                for x in LEFT as u16..area.width {
                    screen[(x, y)].set_char(rule).set_style(self.look.dim());
                }
            }
            // The lowest and the highest line have all that is beyond them.
            let begin = if line == 0 { 0 } else { from };
            let end = if line + 1 == used { ROWS } else { from + step };
            for (moment, x) in self.history.moments.range(first..=last).zip(left as u16..) {
                let Some(cells) = self.rows(moment).get(self.choice.metric) else {
                    continue;
                };
                let count = cells.cells[begin..end.min(ROWS)].iter();
                let count = count.fold(0_u64, |sum, n| sum.saturating_add(*n));
                // Of few samples, the greatest is no tail.
                let p99 = cells.quantiles[2].filter(|_| cells.count >= 100);
                let is_tail = p99.is_some_and(|p99| from > row(p99));
                let (shade, style) = self.look.level(level(count), is_tail);
                if shade != ' ' {
                    screen[(x, y)].set_char(shade).set_style(style);
                }
            }
        }
        if lines + 1 < usize::from(area.height) {
            let moments = self.history.moments.range(first..=last);
            let times: Vec<_> = moments.map(|moment| moment.unix_ns / 1_000_000).collect();
            let y = area.y + 1 + used as u16;
            for (x, label) in axis(&times) {
                let x = (left + x) as u16;
                if usize::from(x) + label.len() <= width {
                    screen.set_span(x, y, &span(&label, self.look.dim()), area.width);
                }
            }
        }
    }

    /// Returns the threshold of a metric, in nanoseconds, if there is one: for the parts of `runq`,
    /// that of `runq` unless they have their own.
    fn threshold(&self, metric: &str) -> Option<u64> {
        let all = &self.status.thresholds;
        let of = |metric: &str| all.iter().flatten().find(|(name, _)| name == metric);
        let of_runq = || of("runq").filter(|_| metric.starts_with("runq"));
        of(metric).or_else(of_runq).map(|(_, ns)| *ns)
    }
}

/// Returns labels below a heat map whose columns end at these times, in milliseconds since 1970:
/// round times, far enough from one another.
fn axis(times: &[u64]) -> Vec<(usize, String)> {
    const ROUND: [u64; 15] = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 21_600, 86_400,
    ];
    const APART: usize = 12;
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return Vec::new();
    };
    let each = last.saturating_sub(*first) / (times.len() as u64 - 1).max(1);
    let wanted = (each * APART as u64).div_ceil(1_000);
    let step = ROUND
        .iter()
        .find(|step| **step >= wanted)
        .unwrap_or(&86_400)
        * 1_000;
    let mut labels: Vec<(usize, String)> = Vec::new();
    for (place, pair) in times.windows(2).enumerate() {
        let is_round = pair[0] / step != pair[1] / step;
        let is_free = labels
            .last()
            .is_none_or(|(last, _)| place + 1 - last >= APART);
        if is_round && is_free {
            let time = pair[1] / step * step * 1_000_000;
            labels.push((place + 1, sys::time_of_day(time)));
        }
    }
    labels
}

/// Returns the level of a number of samples: 0 for none; each further one is a factor of about
/// five.
fn level(count: u64) -> u8 {
    const STEPS: [u64; LEVELS as usize] = [1, 5, 25, 125, 625, 3_125, 15_625, 78_125];
    STEPS.iter().filter(|step| count >= **step).count() as u8
}

/// The left edge of the heat map.
const LEFT: usize = 8;

/// Returns how many rows of the heat map share a line, and how many of `lines` they take.
pub fn lines_of(rows: usize, lines: usize) -> (usize, usize) {
    let step = rows.div_ceil(lines.max(1)).max(1);
    (step, rows.div_ceil(step).min(lines))
}
