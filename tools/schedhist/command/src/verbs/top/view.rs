// SPDX-License-Identifier: GPL-2.0

//! What `top` shows, for any size of the screen.

use std::time::Duration;

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::{Style, Stylize},
    text::{Line, Text},
    widgets::Widget,
};
use schedhist_core::{
    distribution::Max,
    units::{tasks, Unit},
};

use super::{
    heat::lines_of,
    history::{History, Moment, Part, Row},
    lists::{scrolled, Focus, Order, Outliers},
    screen::{span, Look},
};
use crate::sys;

/// The number of CPUs that are shown each for itself.
pub const UNFOLDED: usize = 16;

/// What the user has chosen.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The metric whose heat map is shown, by its place.
    pub metric: usize,
    /// How many intervals before the last one; 0 follows.
    pub back: usize,
    /// Whether it was paused, and so does not follow.
    pub paused: bool,
    pub help: bool,
    /// The list that the keys go through.
    pub focus: Focus,
    /// The places in the lists of CPUs, groups and outliers.
    pub places: [usize; 3],
    pub order: Order,
    pub outliers: Outliers,
    /// Only what has this in its name is shown: of outliers, of those who waited and who ran.
    pub filter: String,
    pub is_typing: bool,
    /// What is looked at alone.
    pub part: Option<Part>,
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
    /// The thresholds of outliers, by metric, in nanoseconds; `None` if they cannot be read.
    pub thresholds: Option<Vec<(String, u64)>>,
    pub interval: Duration,
    /// Whether a recording is played.
    pub is_recording: bool,
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
    for (part, most) in plan[2..].iter_mut().zip(&most[2..]) {
        if left >= 2 && *most > 0 {
            *part = 2;
            left -= 2;
        }
    }
    grow(&mut plan, left, most);
    // Each line of the heat map has as many rows as any other: some lines may be left.
    let (_, used) = lines_of(most[1].saturating_sub(2), plan[1] - 2);
    left = plan[1].saturating_sub(2 + used.max(1));
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

/// What the mouse may point at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Heat,
    /// A place in a list, or a list.
    Entry(Focus, Option<usize>),
}

/// Returns where the entries of a list are below its head, a line each, from `first` on.
fn entries(
    area: Rect,
    head: usize,
    first: usize,
    list: Focus,
) -> impl Iterator<Item = (Rect, Shown)> {
    let lines = area.rows().skip(head).zip(first..);
    let whole = (area, Shown::Entry(list, None));
    lines
        .map(move |(line, place)| (line, Shown::Entry(list, Some(place))))
        .chain([whole])
}

/// What is shown, and how.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub history: &'a History,
    pub choice: &'a Choice,
    pub status: &'a Status,
    pub look: Look,
}

pub type Lines = Vec<Line<'static>>;

const KEYS: &str = "q quit  ? help  j/k metric  h/l time  Tab lists  Enter alone  / filter  s sort  o outliers  + -  space pause";

const HELP: [&str; 22] = [
    "q            quit                    ? Escape  this page; Escape: back",
    "Tab          choose a list: metrics, CPUs, groups, outliers",
    "j k, arrows  choose the metric of the heat map, or go through the list",
    "Enter        look at the chosen CPU or group alone; Escape: at all",
    "/            show metrics, CPUs, groups and tasks with a text in their names",
    "s            sort metrics, CPUs, groups: as usual, by waits, busy, name",
    "o            outliers: the last, the worst, waits by culprit",
    "h l, arrows  one interval back, or forth; Page Up, Page Down: ten",
    "Home End     the first interval that is kept; the last one",
    "+ -          longer or shorter intervals",
    "space        pause, and go on; recording goes on meanwhile",
    "mouse        choose; a second click: alone; right: back; wheel: go through a",
    "             list, or on the heat map through the time",
    "",
    "The heat map: time from left to right, duration upwards, and the more",
    "samples the fuller. A step is about a factor of five. Red are samples",
    "above the p99 of their interval; the line is the threshold of outliers.",
    "CPUs: how busy over time, tasks waiting, and the p99 of the waits now.",
    "Groups: who waits, and who has the CPU at the end of the waits: the group's",
    "own tasks, another group, the kernel, nobody; and which group has it most.",
    "Outliers: waits above threshold_ns, with who had the CPU; and what is in",
    "progress since before the interval, and so in no histogram yet.",
];

/// From this width on, lists stand beside the heat map.
const BESIDE: u16 = 160;

impl View<'_> {
    pub fn draw(&self, size: (u16, u16)) -> Buffer {
        self.draw_with(size, &mut Vec::new())
    }

    /// Returns what is shown at a column and a row.
    pub fn at(&self, size: (u16, u16), (x, y): (u16, u16)) -> Option<Shown> {
        let mut all = Vec::new();
        self.draw_with(size, &mut all);
        let found = all
            .iter()
            .find(|(area, _)| area.contains(Position { x, y }));
        found.map(|(_, shown)| *shown)
    }

    fn draw_with(&self, (width, height): (u16, u16), all: &mut Vec<(Rect, Shown)>) -> Buffer {
        // There is an upper limit.
        let area = Rect::new(0, 0, width, height);
        let (width, height) = (area.width, area.height);
        let mut screen = Buffer::empty(area);
        let row = |y, height| Rect::new(0, y, width, height);
        if width < 20 || height < 4 {
            Line::from("too small").render(row(0, 1), &mut screen);
            return screen;
        }
        let (last, moment) = (self.last(), self.moment());
        let title = fitting(self.title(moment), "  ", width.into());
        let title = span(&title, Style::new());
        title.render(row(0, 1), &mut screen);
        screen.set_style(row(0, 1), Style::new().reversed());
        let keys = match self.choice.is_typing {
            true => span(
                &format!("filter: {}_", self.choice.filter),
                Style::new().bold(),
            ),
            false => span(
                &fitting(KEYS.split("  "), "  ", width.into()),
                self.look.dim(),
            ),
        };
        keys.render(row(height - 1, 1), &mut screen);
        let limits = self.limits();
        limits
            .clone()
            .unwrap_or_default()
            .render(row(1, 1), &mut screen);
        let top = 1 + u16::from(limits.is_some());
        let body = row(top, height - 1 - top);
        match moment {
            None => {
                let text = self.status.trouble.as_deref();
                let text = text.unwrap_or("waiting for the first interval");
                span(text, Style::new()).render(body, &mut screen);
            }
            Some(_) if self.choice.help => Text::from_iter(HELP).render(body, &mut screen),
            Some(moment) => self.parts(&mut screen, body, last, moment, all),
        }
        screen
    }

    /// Returns the place of the interval that is shown.
    fn last(&self) -> usize {
        self.history
            .moments
            .len()
            .saturating_sub(1 + self.choice.back)
    }

    pub fn moment(&self) -> Option<&Moment> {
        self.history.moments.get(self.last())
    }

    /// Returns the metrics of an interval, or of what is looked at alone, if that was known.
    pub fn rows<'b>(&self, moment: &'b Moment) -> &'b [Row] {
        match (&self.choice.part, &moment.part) {
            (None, _) => &moment.rows,
            (Some(wanted), Some((part, rows))) if wanted == part => rows,
            _ => &[],
        }
    }

    /// Shows the parts. Appends where each of them is, its entries first.
    fn parts(
        &self,
        screen: &mut Buffer,
        body: Rect,
        last: usize,
        moment: &Moment,
        all: &mut Vec<(Rect, Shown)>,
    ) {
        let (mut left, mut right) = (body, None);
        if body.width >= BESIDE && body.height >= 20 {
            left.width = body.width / 2;
            let x = left.width + 1;
            right = Some(Rect::new(x, body.y, body.width - x, body.height));
        }
        let width = usize::from(left.width);
        let range = self.range(last, width);
        let lists = usize::from(right.is_none());
        let most = [
            self.metrics_in_order().len() + 1,
            // The title, and the time.
            2 + range.map_or(1, |(low, high)| high - low + 1),
            1 + self.status.folds.len().div_ceil(self.cpu_columns(width)),
            lists * self.group_lines(moment, width),
            lists * self.outliers(moment, width, 40).len(),
        ];
        let heights = plan(left.height.into(), most);
        let mut top = left.y;
        let areas = heights.map(|height| {
            let area = Rect::new(0, top, left.width, height as u16);
            top += area.height;
            area
        });
        let metrics = self.metrics(moment, width, heights[0]);
        Text::from(metrics).render(areas[0], screen);
        let first = self.first_metric(heights[0].saturating_sub(1));
        all.extend(entries(areas[0], 1, first, Focus::Metrics));
        self.heat(screen, areas[1], last, range);
        all.push((areas[1], Shown::Heat));
        self.cpus(screen, areas[2], last, all);
        let (groups, outliers) = match right {
            None => (areas[3], areas[4]),
            Some(right) => {
                let width = usize::from(right.width);
                let wanted = self.group_lines(moment, width);
                let half = (right.height / 2).max(right.height.saturating_sub(
                    self.outliers(moment, width, right.height.into()).len() as u16 + 1,
                ));
                let height = half.min(wanted as u16 + 1);
                let rest = Rect::new(
                    right.x,
                    right.y + height,
                    right.width,
                    right.height - height,
                );
                (Rect { height, ..right }, rest)
            }
        };
        let lines = self.groups(moment, groups.width.into(), groups.height.into());
        Text::from(lines).render(groups, screen);
        let (head, first) = self.first_group(moment, groups.width.into(), groups.height.into());
        all.extend(entries(groups, head, first, Focus::Groups));
        all.push((outliers, Shown::Entry(Focus::Outliers, None)));
        let lines = self.outliers(moment, outliers.width.into(), outliers.height.into());
        Text::from(lines).render(outliers, screen);
    }

    /// Returns which limits are broken, if there are any.
    fn limits(&self) -> Option<Line<'static>> {
        let all = self.moment().map_or(&[][..], |moment| &moment.limits);
        let of = |is_kept| all.iter().filter(move |it| it.is_kept == is_kept);
        if all.is_empty() {
            return None;
        }
        let mut line = vec!["Limits  ".bold()];
        line.extend(of(Some(false)).map(|it| {
            let text = format!("BROKEN {}: {}  ", it.text, it.about);
            span(&text, self.look.warn())
        }));
        for (is_kept, style) in [(Some(true), self.look.good()), (None, self.look.dim())] {
            if let Some(one) = of(is_kept).next() {
                let text = format!("{} {}  ", of(is_kept).count(), one.word());
                line.push(span(&text, style));
            }
        }
        Some(line.into())
    }

    /// Returns the parts of the first line: those that matter most come first.
    fn title(&self, moment: Option<&Moment>) -> Vec<String> {
        let mut words = vec!["schedhist".to_owned()];
        if let Some(moment) = moment {
            words.push(sys::time_of_day(moment.unix_ns));
            words.push(match moment.span {
                Some(span) if self.status.interval.is_zero() => {
                    format!("last {}", text(Some(span)))
                }
                // What was asked for, and what it was.
                Some(span) => {
                    let every = self.status.interval;
                    format!("every {every:?}  last {}", text(Some(span)))
                }
                None => "since the load".to_owned(),
            });
            if self.choice.back > 0 {
                words.insert(1, format!("[{} back]", self.choice.back));
            }
            if self.choice.paused {
                words.insert(1, "[paused]".to_owned());
            }
            match &self.choice.part {
                Some(Part::Cpus(name, _)) => words.insert(1, format!("[{name} alone]")),
                Some(Part::Group(name)) => words.insert(1, format!("[{name} alone]")),
                None => {}
            }
            if !self.choice.filter.is_empty() {
                words.insert(1, format!("[filter {}]", self.choice.filter));
            }
            match self.choice.order {
                Order::Usual => {}
                Order::Waiting => words.insert(1, "[by waits]".to_owned()),
                Order::Busy => words.insert(1, "[busiest first]".to_owned()),
                Order::Name => words.insert(1, "[by name]".to_owned()),
            }
            if !moment.lawful {
                words.insert(1, "[LAWS BROKEN]".to_owned());
            }
            let rate = per_second(moment.switches, moment);
            let unit = if moment.span.is_some() { "/s" } else { "" };
            words.push(format!("{rate} switches{unit}"));
            words.push(format!("{} tasks waiting", tasks(moment.waiting)));
            words.push(format!("{} CPUs", self.history.cpus.len()));
        }
        if let Some(own) = self.status.own {
            words.push(format!("top itself {}.{:02}% CPU", own / 100, own % 100));
        }
        let note = moment.and_then(|moment| moment.notes.first());
        if let Some(trouble) = self.status.trouble.as_ref().or(note) {
            words.insert(1, format!("[{trouble}]"));
        }
        // The second one is cut rather than left out.
        if words.len() > 1 {
            let second = words.remove(1);
            words[0] += &format!("  {second}");
        }
        words
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
        let rows = lines.saturating_sub(1);
        let order = self.metrics_in_order();
        let hidden = order.len().saturating_sub(rows);
        let head = line(
            &match (hidden, width) {
                (0, _) | (_, 0..60) => "metric".to_owned(),
                (more, _) => format!("metric ({more} more)"),
            },
            count,
            &|place| names[place].to_owned(),
            self.look.dim(),
        );
        let first = self.first_metric(rows);
        let (names, all) = (&self.history.names, self.rows(moment));
        let all = order
            .into_iter()
            .filter_map(|at| Some((at, &names[at], all.get(at)?)));
        let rows = all.skip(first).take(rows).map(|(place, metric, row)| {
            let (mark, style) = match place == self.choice.metric {
                true if self.choice.focus == Focus::Metrics => ('>', Style::new().bold()),
                true => ('*', Style::new().bold()),
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

    /// Returns the first metric of those that are shown in so many rows.
    fn first_metric(&self, rows: usize) -> usize {
        let all = self.metrics_in_order();
        let chosen = all.iter().position(|place| *place == self.choice.metric);
        scrolled(chosen.unwrap_or(0), all.len(), rows)
    }
}

/// Returns as many of the words as fit into a line, at least the first.
pub fn fitting<W: AsRef<str>>(
    words: impl IntoIterator<Item = W>,
    between: &str,
    width: usize,
) -> String {
    let mut line = String::new();
    for word in words {
        let length = |text: &str| text.chars().count();
        if line.is_empty() {
            word.as_ref().clone_into(&mut line);
        } else if length(&line) + length(between) + length(word.as_ref()) <= width {
            line = line + between + word.as_ref();
        } else {
            break;
        }
    }
    line
}

pub fn text(ns: Option<u64>) -> String {
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
