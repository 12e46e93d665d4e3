// SPDX-License-Identifier: GPL-2.0

//! What `top` shows, for any size of the screen.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Style, Stylize},
    text::{Line, Span, Text},
    widgets::Widget,
};
use schedhist_core::{
    distribution::Max,
    groups::CLASSES,
    text::{shares, Outlier},
    timeline::{row, row_begin, ROWS},
    units::{tasks, tasks_on_average, Unit},
};

use super::{
    history::{Cpu, History, Moment},
    screen::{span, Look, LEVELS},
};
use crate::{sys, table::cut};

/// The number of CPUs that are shown each for itself.
const UNFOLDED: usize = 16;

/// Durations below this one, in nanoseconds, share the lowest row.
const LEAST: u64 = 64;

/// What the user has chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The metric whose heat map is shown, by its place.
    pub metric: usize,
    /// How many intervals before the last one; 0 follows.
    pub back: usize,
    /// Whether it was paused, and so does not follow.
    pub paused: bool,
    pub help: bool,
}

/// What else is shown.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Why there is nothing new, if so.
    pub trouble: Option<String>,
    /// The share of one CPU that this program takes, in hundredths of a percent.
    pub own: Option<u64>,
    /// CPUs that belong together, each set by its name and the places of its CPUs.
    pub folds: Vec<(String, Vec<usize>)>,
    /// The rule by which tasks are grouped; empty if they are not.
    pub rule: String,
    /// The threshold of waits, as the file has it.
    pub threshold: String,
}

/// Shares `lines` among the metrics, the heat map, the CPUs, the groups and the outliers, which
/// need `most`.
fn plan(lines: usize, mut most: [usize; 5]) -> [usize; 5] {
    if lines < 8 {
        return [lines.min(2), lines.saturating_sub(2), 0, 0, 0];
    }
    let mut plan = [most[0].min((lines * 3 / 10).max(3)), 5, 0, 0, 0];
    let mut left = lines.saturating_sub(plan[0] + plan[1]);
    // Two lines for each, then one more in turn, the heat map first.
    for part in &mut plan[2..] {
        if left >= 2 {
            *part = 2;
            left -= 2;
        }
    }
    grow(&mut plan, left, most);
    // Each line of the heat map has as many rows as any other: some lines may be left.
    let (_, used) = lines_of(most[1].saturating_sub(1), plan[1] - 1);
    left = plan[1].saturating_sub(1 + used.max(1));
    plan[1] -= left;
    most[1] = 0;
    grow(&mut plan, left, most);
    plan
}

/// Adds `left` lines, one to each part in turn, up to what it needs.
fn grow(plan: &mut [usize; 5], mut left: usize, most: [usize; 5]) {
    let mut before = 0;
    while left != before {
        before = left;
        for part in [1, 0, 2, 3, 4] {
            if left > 0 && (1..most[part]).contains(&plan[part]) {
                plan[part] += 1;
                left -= 1;
            }
        }
    }
}

/// What is shown, and how.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub history: &'a History,
    pub choice: &'a Choice,
    pub status: &'a Status,
    pub look: Look,
}

type Lines = Vec<Line<'static>>;

const KEYS: &str = "q quit  ? help  j/k metric  h/l back and forth in time  space pause";

const HELP: [&str; 14] = [
    "q            quit",
    "j k, arrows  choose the metric of the heat map",
    "h l, arrows  one interval back, or forth; Page Up, Page Down: ten",
    "Home End     the first interval that is kept; the last one",
    "space        pause, and go on; recording goes on meanwhile",
    "? Escape     this page",
    "",
    "The heat map: time from left to right, duration upwards, and the more",
    "samples the brighter. A step of brightness is about a factor of five.",
    "CPUs: how busy each was over time, and the p99 of the waits for it now.",
    "Groups: who waits, and who has the CPU at the end of the waits: the group's",
    "own tasks, another group, the kernel, nobody; and which group has it most.",
    "Outliers: the last waits above threshold_ns, with who had the CPU; and what",
    "is in progress since before the interval, and so in no histogram yet.",
];

impl View<'_> {
    pub fn draw(&self, (width, height): (u16, u16)) -> Buffer {
        // There is an upper limit.
        let area = Rect::new(0, 0, width, height);
        let (width, height) = (area.width, area.height);
        let mut screen = Buffer::empty(area);
        let row = |y, height| Rect::new(0, y, width, height);
        if width < 20 || height < 4 {
            Line::from("too small").render(row(0, 1), &mut screen);
            return screen;
        }
        let last = { self.history.moments.len() }.saturating_sub(1 + self.choice.back);
        let moment = self.history.moments.get(last);
        let title = span(&self.title(moment), Style::new());
        title.render(row(0, 1), &mut screen);
        screen.set_style(row(0, 1), Style::new().reversed());
        span(KEYS, self.look.dim()).render(row(height - 1, 1), &mut screen);
        let body = row(1, height - 2);
        match moment {
            None => {
                let text = self.status.trouble.as_deref();
                let text = text.unwrap_or("waiting for the first interval");
                span(text, Style::new()).render(body, &mut screen);
            }
            Some(_) if self.choice.help => Text::from_iter(HELP).render(body, &mut screen),
            Some(moment) => self.parts(&mut screen, body, last, moment),
        }
        screen
    }

    fn parts(&self, screen: &mut Buffer, body: Rect, last: usize, moment: &Moment) {
        let width = usize::from(body.width);
        let range = self.range(last, width);
        let groups = self.groups(moment, width);
        let outliers = self.outliers(moment);
        let most = [
            self.history.names.len() + 1,
            1 + range.map_or(1, |(low, high)| high - low + 1),
            1 + self.status.folds.len().div_ceil(self.cpu_columns(width)),
            groups.len(),
            outliers.len(),
        ];
        let heights = plan(body.height.into(), most);
        let mut top = body.y;
        let areas = heights.map(|height| {
            let area = Rect::new(0, top, body.width, height as u16);
            top += area.height;
            area
        });
        let metrics = self.metrics(moment, width, heights[0]);
        Text::from(metrics).render(areas[0], screen);
        self.heat(screen, areas[1], last, range);
        self.cpus(screen, areas[2], last);
        Text::from(groups).render(areas[3], screen);
        Text::from(outliers).render(areas[4], screen);
    }

    fn title(&self, moment: Option<&Moment>) -> String {
        let mut words = vec!["schedhist".to_owned()];
        if let Some(moment) = moment {
            words.push(sys::time_of_day(moment.unix_ns / 1_000_000_000));
            words.push(match moment.span {
                Some(span) => format!("last {}", text(Some(span))),
                None => "since the load".to_owned(),
            });
            if self.choice.back > 0 {
                words.insert(1, format!("[{} back]", self.choice.back));
            }
            if self.choice.paused {
                words.insert(1, "[paused]".to_owned());
            }
            if !moment.lawful {
                words.insert(1, "[LAWS BROKEN]".to_owned());
            }
            words.push(format!("{} CPUs", self.history.cpus.len()));
            let rate = per_second(moment.switches, moment);
            let unit = if moment.span.is_some() { "/s" } else { "" };
            words.push(format!("{rate} switches{unit}"));
            words.push(format!("{} tasks waiting", tasks(moment.waiting)));
        }
        if let Some(own) = self.status.own {
            words.push(format!("top itself {}.{:02}% CPU", own / 100, own % 100));
        }
        let note = moment.and_then(|moment| moment.notes.first());
        if let Some(trouble) = self.status.trouble.as_ref().or(note) {
            words.insert(1, format!("[{trouble}]"));
        }
        words.join("  ")
    }

    fn metrics(&self, moment: &Moment, width: usize, lines: usize) -> Lines {
        // Names are cut where there is little room, and on the narrowest screens, there is none for
        // the rate.
        let (name, rate) = match width {
            0..40 => (11, 0),
            40..60 => (14, 9),
            _ => (25, 9),
        };
        let room = width.saturating_sub(name + rate) / 9;
        let mut shown: Vec<usize> = [0, 2, 4, 1, 3].into_iter().take(room).collect();
        shown.sort_unstable();
        let line = |first: &str, count: &str, value: &dyn Fn(usize) -> String, style| {
            let values = shown.iter().map(|place| format!("{:>9}", value(*place)));
            let values = values.collect::<String>();
            Line::from(span(
                &format!("{first:<name$}{count:>rate$.rate$}{values}"),
                style,
            ))
        };
        let count = if moment.span.is_some() {
            "per s"
        } else {
            "count"
        };
        let names = ["p50", "p90", "p99", "p99.9", "max"];
        let head = line(
            "metric",
            count,
            &|place| names[place].to_owned(),
            self.look.dim(),
        );
        let rows = lines.saturating_sub(1);
        let first = { self.choice.metric.saturating_sub(rows / 2) }
            .min(self.history.names.len().saturating_sub(rows));
        let all = self.history.names.iter().zip(&moment.rows).enumerate();
        let rows = all.skip(first).take(rows).map(|(place, (metric, row))| {
            let (mark, style) = match place == self.choice.metric {
                true => ('>', Style::new().bold()),
                false => (' ', Style::new()),
            };
            let metric: String = metric.chars().take(name - 2).collect();
            let value = |place: usize| match row.quantiles.get(place) {
                Some(value) => text(*value),
                None if row.max == Max::None => "-".to_owned(),
                None => Unit::Fitting.max(row.max),
            };
            line(
                &format!("{mark}{metric}"),
                &per_second(row.count, moment),
                &value,
                style,
            )
        });
        std::iter::once(head).chain(rows).collect()
    }

    /// Returns the lowest and the highest row of all intervals that the heat map shows. What is
    /// shorter than the least duration shares its row.
    fn range(&self, last: usize, width: usize) -> Option<(usize, usize)> {
        let first = (last + 1).saturating_sub(width.saturating_sub(LEFT));
        let moments = self.history.moments.range(first..=last);
        let cells = moments.filter_map(|moment| Some(&moment.rows.get(self.choice.metric)?.cells));
        let filled = cells.flat_map(|cells| cells.iter().enumerate().filter(|(_, n)| **n > 0));
        let (low, high) = filled.fold((usize::MAX, 0), |(low, high), (row, _)| {
            (low.min(row), high.max(row))
        });
        (low <= high).then(|| (low.max(row(LEAST)).min(high), high))
    }

    fn heat(&self, screen: &mut Buffer, area: Rect, last: usize, range: Option<(usize, usize)>) {
        let width = usize::from(area.width);
        let Some(name) = self.history.names.get(self.choice.metric) else {
            return;
        };
        if area.height < 2 || width < LEFT + 8 {
            return;
        }
        // The title has the legend, too.
        let mut title = vec![
            span(name, Style::new().bold()),
            span(" over time, samples in an interval: ", self.look.dim()),
        ];
        let mut length = title.iter().map(Span::width).sum::<usize>();
        for (label, level) in ["1", "5", "25", "125", "625", "3k", "16k", "78k"]
            .iter()
            .zip(1..)
        {
            if length + 4 < width {
                let (shade, style) = self.look.level(level);
                title.push(span(label, self.look.dim()));
                title.push(Span::styled(format!("{shade}"), style));
                title.push(Span::raw(" "));
                length += label.len() + 2;
            }
        }
        Line::from(title).render(area, screen);
        let columns = width - LEFT;
        let first = (last + 1).saturating_sub(columns);
        let left = LEFT + columns - (last + 1 - first);
        let Some((low, high)) = range else {
            let none = span("no samples", self.look.dim());
            screen.set_span(LEFT as u16, area.y + 1, &none, area.width);
            return;
        };
        let (step, used) = lines_of(high - low + 1, usize::from(area.height) - 1);
        for line in 0..used {
            let y = area.y + (used - line) as u16;
            let from = low + line * step;
            if line % 2 == 0 || used < 5 {
                let label = format!("{:>7}", text(Some(row_begin(from))));
                screen.set_span(0, y, &span(&label, self.look.dim()), area.width);
            }
            // The lowest and the highest line have all that is beyond them.
            let begin = if line == 0 { 0 } else { from };
            let end = if line + 1 == used { ROWS } else { from + step };
            for (moment, x) in self.history.moments.range(first..=last).zip(left as u16..) {
                let cells = moment.rows.get(self.choice.metric);
                let cells = cells.map_or(&[][..], |row| &row.cells[begin..end.min(ROWS)]);
                let count = cells.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
                let (shade, style) = self.look.level(level(count));
                if shade != ' ' {
                    screen[(x, y)].set_char(shade).set_style(style);
                }
            }
        }
    }

    /// Returns how many CPUs stand beside each other.
    fn cpu_columns(&self, width: usize) -> usize {
        (width / CPU_WIDTH).clamp(1, self.status.folds.len().max(1))
    }

    fn cpus(&self, screen: &mut Buffer, area: Rect, last: usize) {
        if area.height < 2 {
            return;
        }
        let (history, folds) = (self.history, &self.status.folds);
        let columns = self.cpu_columns(area.width.into());
        let width = usize::from(area.width) / columns;
        let rows = usize::from(area.height) - 1;
        let shown = (rows * columns).min(folds.len());
        let folded = if history.cpus.len() > UNFOLDED {
            ", folded"
        } else {
            ""
        };
        let mut about =
            format!("{folded}: busy over time and now, tasks waiting, greatest p99 of the waits");
        if shown < folds.len() {
            about += &format!(" ({} more)", folds.len() - shown);
        }
        let title = vec!["CPUs".bold(), span(&about, self.look.dim())];
        Line::from(title).render(area, screen);
        for (number, (name, places)) in folds.iter().take(shown).enumerate() {
            let x = (number / rows * width) as u16;
            let y = area.y + 1 + (number % rows) as u16;
            screen.set_span(x, y, &span(name, Style::new()), area.width);
            let left = x + 12;
            let room = width.saturating_sub(12 + 22);
            let of = |moment: &Moment| -> (u64, f64, Option<u64>) {
                let cpus = places.iter().filter_map(|place| moment.cpus.get(*place));
                let cpus: Vec<&Cpu> = cpus.collect();
                let sum: u64 = cpus.iter().map(|cpu| u64::from(cpu.busy)).sum();
                let p99 = cpus.iter().filter_map(|cpu| cpu.p99).max();
                let waiting: u64 = cpus.iter().map(|cpu| u64::from(cpu.waiting)).sum();
                let waiting = waiting as f64 / 100.0;
                (sum / (cpus.len() as u64).max(1), waiting, p99)
            };
            let first = (last + 1).saturating_sub(room);
            let moments = history.moments.range(first..=last);
            for (moment, x) in moments.rev().zip((left..left + room as u16).rev()) {
                let height = (of(moment).0 * 8).div_ceil(1000) as usize;
                let height = self.look.height(height);
                screen[(x, y)]
                    .set_char(height)
                    .set_style(self.look.class(0));
            }
            let (busy, waiting, p99) = of(&history.moments[last]);
            let waiting = tasks(Some(waiting));
            let figures = format!("{:>4}% {waiting:>5} {:>8}", busy / 10, text(p99));
            screen.set_span(
                left + room as u16,
                y,
                &span(&figures, Style::new()),
                area.width,
            );
        }
    }

    fn groups(&self, moment: &Moment, width: usize) -> Lines {
        let (look, plain) = (self.look, Style::new());
        let mut title = vec!["Groups".bold()];
        if self.status.rule.is_empty() {
            let text = "tasks are not grouped: schedhist ctl group_by cgroup";
            return vec![title.into(), span(text, look.dim()).into()];
        }
        // The classes stand above their shares.
        let name_width = (width / 3).clamp(10, 60);
        let room = name_width + FIGURES - "Groups".len();
        let about = format!(" by {}: who waits, because of", self.status.rule);
        let about = format!("{about:<room$.room$}");
        title.push(span(&about, look.dim()));
        let classes = CLASSES.iter().enumerate();
        title.extend(classes.map(|(class, name)| span(&format!("  {name}"), look.class(class))));
        let mut lines = vec![Line::from(title)];
        if moment.groups.is_empty() {
            lines.push(span("nobody waited", look.dim()).into());
        }
        let whole = u128::from(moment.span.unwrap_or(0).max(1));
        let percent = |ns: u64| match moment.span {
            Some(_) => format!("{}%", u128::from(ns) * 100 / whole),
            None => text(Some(ns)),
        };
        let average = |ns: u64| tasks(tasks_on_average(ns.into(), moment.groups_span));
        for group in &moment.groups {
            let name = cut(&group.name, name_width - 1);
            let (ran, waiting) = (percent(group.oncpu_ns), average(group.waits.1));
            let first = format!("{name:<name_width$}ran {ran:>6}  waiting {waiting:>5} ");
            let mut line = vec![span(&first, plain)];
            for (class, share) in shares(&group.ended_ns).iter().enumerate() {
                let width = CLASSES[class].len() + 1;
                let text = format!("{:>width$}%", (share + 5) / 10);
                line.push(span(&text, look.class(class)));
            }
            if let Some((most, ns)) = group.neighbours.first() {
                line.push(span(&format!("  most {most} {}", average(*ns)), plain));
            }
            lines.push(line.into());
        }
        let offenders =
            { moment.offenders.iter() }.map(|it| format!("{} by {}", average(it.kept_ns), it.name));
        let offenders: Vec<_> = offenders.collect();
        if !offenders.is_empty() && width >= WIDE {
            let text = format!("tasks kept waiting, at least: {}", offenders.join(", "));
            lines.insert(1, span(&text, look.warn()).into());
        }
        lines
    }

    fn outliers(&self, moment: &Moment) -> Lines {
        let (look, title) = (self.look, "Outliers".bold());
        let outliers = { self.history.outliers.iter() }.filter(|(time, _)| *time <= moment.unix_ns);
        let outliers = outliers
            .rev()
            .map(|(time, outlier)| self.outlier(*time, outlier));
        let in_progress = moment.in_progress.iter().map(|text| {
            let begin = span("in progress: ", Style::new());
            Line::from(vec![begin, span(text, look.warn())])
        });
        let mut lines: Lines = in_progress.chain(outliers).take(40).collect();
        let about = ", the last ones: who waited, and who had the CPU";
        if lines.is_empty() {
            let text = match self.status.threshold.as_str() {
                "" | "none" => "there is no threshold: schedhist ctl threshold_ns/runq 10000000",
                _ => "none yet",
            };
            return vec![title.into(), span(text, look.dim()).into()];
        }
        lines.insert(0, vec![title, span(about, look.dim())].into());
        lines
    }

    fn outlier(&self, time: u64, outlier: &Outlier) -> Line<'static> {
        let what = format!(
            "{} {:>7} {}:{} on {}",
            sys::time_of_day(time / 1_000_000_000),
            text(Some(outlier.duration_ns)),
            outlier.comm,
            outlier.pid,
            outlier.cpu
        );
        let mut culprits: Vec<_> = outlier.culprits.iter().collect();
        culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.ran_ns));
        let culprits = culprits.iter().take(3).map(|culprit| {
            let share = u128::from(culprit.ran_ns) * 100 / u128::from(outlier.duration_ns.max(1));
            let text = format!("  {}:{} {share}%", culprit.comm, culprit.pid);
            span(&text, self.look.warn())
        });
        std::iter::once(span(&what, Style::new()))
            .chain(culprits)
            .collect()
    }
}

fn text(ns: Option<u64>) -> String {
    Unit::Fitting.quantile(ns)
}

/// Returns a count as a rate, or as it is since the load.
fn per_second(count: u64, moment: &Moment) -> String {
    let rate = match moment.span {
        Some(span) => u128::from(count) * 1_000_000_000 / u128::from(span.max(1)),
        None => u128::from(count),
    };
    schedhist_core::units::count(u64::try_from(rate).unwrap_or(u64::MAX))
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
fn lines_of(rows: usize, lines: usize) -> (usize, usize) {
    let step = rows.div_ceil(lines.max(1)).max(1);
    (step, rows.div_ceil(step).min(lines))
}

/// The least width of a CPU, or of several that are folded.
const CPU_WIDTH: usize = 40;

/// The least width with room for offenders, and for the worst one of each group.
const WIDE: usize = 100;

/// The width of how long a group ran, and how many of its tasks waited.
const FIGURES: usize = 26;

/// Returns the CPUs as they are shown: each for itself, or folded by `sets`, or, if there are
/// none, into as many as are shown unfolded.
pub fn folds(cpus: &[u32], sets: &[(String, Vec<u32>)]) -> Vec<(String, Vec<usize>)> {
    if cpus.len() <= UNFOLDED {
        let each = cpus.iter().enumerate();
        return each
            .map(|(place, cpu)| (format!("CPU {cpu}"), vec![place]))
            .collect();
    }
    let place = |cpu: &u32| cpus.binary_search(cpu).ok();
    if sets.len() > 1 {
        let sets = sets.iter().map(|(name, set)| {
            (
                name.clone(),
                set.iter().filter_map(place).collect::<Vec<_>>(),
            )
        });
        return sets.filter(|(_, places)| !places.is_empty()).collect();
    }
    let all: Vec<_> = (0..cpus.len()).collect();
    let each = cpus.len().div_ceil(UNFOLDED);
    let name = |places: &[usize]| match places {
        [first, .., last] => format!("CPU {}-{}", cpus[*first], cpus[*last]),
        [one] => format!("CPU {}", cpus[*one]),
        [] => String::new(),
    };
    all.chunks(each)
        .map(|places| (name(places), places.to_vec()))
        .collect()
}
