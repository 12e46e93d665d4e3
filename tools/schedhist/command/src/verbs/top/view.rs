// SPDX-License-Identifier: GPL-2.0

//! What `top` shows, for any size of the screen.

use schedhist_core::{
    distribution::Max,
    groups::CLASSES,
    text::shares,
    timeline::{row, row_begin, ROWS},
    units::Unit,
};

use super::{
    history::{Cpu, History, Moment},
    screen::{Look, Screen, Style, LEVELS},
};
use crate::sys;

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
    /// Whether the help is shown.
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

/// The lines that a part of the screen gets.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    metrics: usize,
    heat: usize,
    cpus: usize,
    groups: usize,
    outliers: usize,
}

impl Plan {
    /// Shares `lines` among the parts. Each gets what it needs at most.
    fn new(lines: usize, metrics: usize, heat: usize, rest: [usize; 3]) -> Self {
        let [cpus, groups, outliers] = rest;
        if lines < 8 {
            let metrics = lines.min(2);
            return Self {
                metrics,
                heat: lines - metrics,
                ..Self::default()
            };
        }
        let mut plan = Self {
            metrics: (metrics + 1).min((lines * 3 / 10).max(3)),
            heat: 5,
            ..Self::default()
        };
        let mut left = lines.saturating_sub(plan.metrics + plan.heat);
        // Two lines for each, then one more in turn, the heat map first.
        let mut parts = [
            (&mut plan.cpus, cpus),
            (&mut plan.groups, groups),
            (&mut plan.outliers, outliers),
        ];
        for (part, _) in &mut parts {
            if left >= 2 {
                **part = 2;
                left -= 2;
            }
        }
        plan.grow(left, [heat, metrics + 1, cpus, groups, outliers]);
        // Each line of the heat map has as many rows as any other: some lines may be left.
        let rows = heat.saturating_sub(1);
        let (_, used) = lines_of(rows, plan.heat - 1);
        left = plan.heat.saturating_sub(1 + used.max(1));
        plan.heat -= left;
        plan.grow(left, [0, metrics + 1, cpus, groups, outliers]);
        plan
    }

    /// Adds `left` lines, one to each part in turn, up to what it needs.
    fn grow(&mut self, mut left: usize, most: [usize; 5]) {
        let mut grown = true;
        while left > 0 && grown {
            grown = false;
            let all = [
                &mut self.heat,
                &mut self.metrics,
                &mut self.cpus,
                &mut self.groups,
                &mut self.outliers,
            ];
            for (part, most) in all.into_iter().zip(most) {
                if left > 0 && *part < most && *part > 0 {
                    *part += 1;
                    left -= 1;
                    grown = true;
                }
            }
        }
    }
}

/// Draws the screen.
pub fn draw(
    history: &History,
    choice: &Choice,
    status: &Status,
    look: Look,
    (width, height): (usize, usize),
) -> Screen {
    let mut screen = Screen::new(width, height);
    if width < 20 || height < 4 {
        screen.text(0, 0, "too small", Style::Plain);
        return screen;
    }
    let last = history.moments.len().saturating_sub(1 + choice.back);
    let Some(moment) = history.moments.get(last) else {
        title(&mut screen, history, None, choice, status);
        let text = status
            .trouble
            .as_deref()
            .unwrap_or("waiting for the first interval");
        screen.text(0, 1, text, Style::Plain);
        footer(&mut screen);
        return screen;
    };
    title(&mut screen, history, Some(moment), choice, status);
    if choice.help {
        help(&mut screen);
        footer(&mut screen);
        return screen;
    }
    let columns = cpu_columns(width, status.folds.len());
    let outliers = { history.outliers.iter() }.filter(|(time, _)| *time <= moment.unix_ns);
    let outliers: Vec<_> = outliers.collect();
    let plan = Plan::new(
        height - 2,
        history.names.len(),
        1 + range(history, last, choice, width).map_or(1, |(low, high)| high - low + 1),
        [
            1 + status.folds.len().div_ceil(columns),
            if status.rule.is_empty() {
                2
            } else {
                1 + moment.groups.len().max(1)
            },
            1 + (moment.in_progress.len() + outliers.len()).clamp(1, 40),
        ],
    );
    let mut y = 1;
    metrics(&mut screen, history, moment, choice, (y, plan.metrics));
    y += plan.metrics;
    heat(&mut screen, history, last, choice, look, (y, plan.heat));
    y += plan.heat;
    cpus(&mut screen, history, last, status, look, (y, plan.cpus));
    y += plan.cpus;
    groups(&mut screen, moment, status, (y, plan.groups));
    y += plan.groups;
    if plan.outliers > 0 {
        let in_progress = &moment.in_progress;
        list_outliers(
            &mut screen,
            in_progress,
            &outliers,
            status,
            (y, plan.outliers),
        );
    }
    footer(&mut screen);
    screen
}

fn title(
    screen: &mut Screen,
    history: &History,
    moment: Option<&Moment>,
    choice: &Choice,
    status: &Status,
) {
    let mut words = vec!["schedhist".to_owned()];
    if let Some(moment) = moment {
        let clock = sys::time_of_day(moment.unix_ns / 1_000_000_000);
        words.push(clock);
        words.push(match moment.span {
            Some(span) => format!("last {}", text(Some(span))),
            None => "since the load".to_owned(),
        });
        if choice.back > 0 {
            words.insert(1, format!("[{} back]", choice.back));
        }
        if choice.paused {
            words.insert(1, "[paused]".to_owned());
        }
        if !moment.lawful {
            words.insert(1, "[LAWS BROKEN]".to_owned());
        }
        words.push(format!("{} CPUs", history.cpus.len()));
        let rate = per_second(moment.switches, moment);
        let unit = if moment.span.is_some() { "/s" } else { "" };
        words.push(format!("{rate} switches{unit}"));
    }
    if let Some(own) = status.own {
        words.push(format!("top itself {}.{:02}% CPU", own / 100, own % 100));
    }
    let note = moment.and_then(|moment| moment.notes.first());
    let trouble = status.trouble.as_ref().or(note);
    if let Some(trouble) = trouble {
        words.insert(1, format!("[{trouble}]"));
    }
    screen.text(0, 0, &words.join("  "), Style::Plain);
    screen.line(0, Style::Reverse);
}

fn footer(screen: &mut Screen) {
    let y = screen.height - 1;
    let keys = "q quit  ? help  j/k metric  h/l back and forth in time  space pause";
    screen.text(0, y, keys, Style::Dim);
}

fn help(screen: &mut Screen) {
    let lines = [
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
        "Groups: who waits, and who has the CPU at the end of the waits: (o)wn,",
        "o(t)her group, (k)ernel, (i)dle; and the other group that has it most.",
        "Outliers: the last waits above threshold_ns, with who had the CPU; and what",
        "is in progress since before the interval, and so in no histogram yet.",
    ];
    for (number, line) in lines.iter().enumerate() {
        if number + 2 < screen.height {
            screen.text(0, number + 1, line, Style::Plain);
        }
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

fn metrics(
    screen: &mut Screen,
    history: &History,
    moment: &Moment,
    choice: &Choice,
    (top, lines): (usize, usize),
) {
    if lines == 0 {
        return;
    }
    // Names are cut where there is little room.
    let columns = [("p50", 0), ("p99", 2), ("max", 4), ("p90", 1), ("p99.9", 3)];
    let name = match screen.width {
        0..40 => 11,
        40..60 => 14,
        _ => 25,
    };
    // On the narrowest screens, there is no room for the rate.
    let rate_width = if screen.width < 40 { 0 } else { 9 };
    let left = name + rate_width;
    let room = screen.width.saturating_sub(left) / 9;
    let mut shown: Vec<_> = columns.iter().take(room).map(|(_, place)| *place).collect();
    shown.sort_unstable();
    let count = if moment.span.is_some() {
        "per s"
    } else {
        "count"
    };
    screen.text(0, top, "metric", Style::Dim);
    if rate_width > 0 {
        screen.text(name, top, &format!("{count:>9}"), Style::Dim);
    }
    let names = ["p50", "p90", "p99", "p99.9", "max"];
    for (number, place) in shown.iter().enumerate() {
        let text = format!("{:>9}", names[*place]);
        screen.text(left + number * 9, top, &text, Style::Dim);
    }
    let rows = lines - 1;
    let first = choice
        .metric
        .saturating_sub(rows / 2)
        .min(history.names.len().saturating_sub(rows));
    for (number, place) in (first..history.names.len()).take(rows).enumerate() {
        let (y, row) = (top + 1 + number, &moment.rows[place]);
        let selected = place == choice.metric;
        let style = if selected { Style::Bold } else { Style::Plain };
        let cut: String = history.names[place].chars().take(name - 2).collect();
        let mark = if selected { '>' } else { ' ' };
        screen.text(0, y, &format!("{mark}{cut}"), style);
        let rate = per_second(row.count, moment);
        if rate_width > 0 {
            screen.text(name, y, &format!("{rate:>9}"), style);
        }
        for (number, place) in shown.iter().enumerate() {
            let value = match row.quantiles.get(*place) {
                Some(value) => text(*value),
                None if row.max == Max::None => "-".to_owned(),
                None => Unit::Fitting.max(row.max),
            };
            screen.text(left + number * 9, y, &format!("{value:>9}"), style);
        }
    }
}

/// Returns the level of a number of samples: 0 for none; each further one is a factor of about
/// five.
fn level(count: u64) -> u8 {
    const STEPS: [u64; LEVELS as usize] = [1, 5, 25, 125, 625, 3_125, 15_625, 78_125];
    STEPS.iter().filter(|step| count >= **step).count() as u8
}

/// The left edge of the heat map.
const LEFT: usize = 8;

/// Returns the lowest and the highest row of all intervals that the heat map shows. What is shorter
/// than the least duration shares its row.
fn range(history: &History, last: usize, choice: &Choice, width: usize) -> Option<(usize, usize)> {
    let first = (last + 1).saturating_sub(width.saturating_sub(LEFT));
    let moments = history.moments.range(first..=last);
    let cells = moments.filter_map(|moment| Some(&moment.rows.get(choice.metric)?.cells));
    let filled = cells.flat_map(|cells| cells.iter().enumerate().filter(|(_, n)| **n > 0));
    let (low, high) = filled.fold((usize::MAX, 0), |(low, high), (row, _)| {
        (low.min(row), high.max(row))
    });
    (low <= high).then(|| (low.max(row(LEAST)).min(high), high))
}

/// Returns how many rows of the heat map share a line, and how many of `lines` they take.
fn lines_of(rows: usize, lines: usize) -> (usize, usize) {
    let step = rows.div_ceil(lines.max(1)).max(1);
    (step, rows.div_ceil(step).min(lines))
}

fn heat(
    screen: &mut Screen,
    history: &History,
    last: usize,
    choice: &Choice,
    look: Look,
    (top, lines): (usize, usize),
) {
    let Some(name) = history.names.get(choice.metric) else {
        return;
    };
    if lines < 2 || screen.width < LEFT + 8 {
        return;
    }
    // The title has the legend, too.
    let mut x = screen.text(0, top, name, Style::Bold);
    x = screen.text(x, top, " over time, samples in an interval: ", Style::Dim);
    for (step, label) in ["1", "5", "25", "125", "625", "3k", "16k", "78k"]
        .iter()
        .enumerate()
    {
        let step = step as u8 + 1;
        if x + 4 < screen.width {
            x = screen.text(x, top, label, Style::Dim);
            x = screen.put(x, top, look.shade(step), Style::Level(step)) + 1;
        }
    }
    let rows = lines - 1;
    let columns = screen.width - LEFT;
    let first = (last + 1).saturating_sub(columns);
    let moments: Vec<_> = history.moments.range(first..=last).collect();
    let cells = |moment: &Moment| moment.rows.get(choice.metric).map(|row| *row.cells);
    let Some((low, high)) = range(history, last, choice, screen.width) else {
        screen.text(LEFT, top + 1, "no samples", Style::Dim);
        return;
    };
    let (step, used) = lines_of(high - low + 1, rows);
    for line in 0..used {
        let y = top + used - line;
        let from = low + line * step;
        if line % 2 == 0 || used < 5 {
            let label = text(Some(row_begin(from)));
            screen.text(0, y, &format!("{label:>7}"), Style::Dim);
        }
        for (x, moment) in moments.iter().enumerate() {
            let cells = cells(moment).unwrap_or([0; ROWS]);
            let range = if line == 0 {
                0..from + step
            } else {
                from..from + step
            };
            let top_of_all = if line + 1 == used { ROWS } else { range.end };
            let range = range.start..top_of_all.min(ROWS);
            let count = cells[range]
                .iter()
                .fold(0_u64, |sum, n| sum.saturating_add(*n));
            let level = level(count);
            if level > 0 {
                let x = LEFT + columns - moments.len() + x;
                screen.put(x, y, look.shade(level), Style::Level(level));
            }
        }
    }
}

/// The least width of a CPU, or of several that are folded.
const CPU_WIDTH: usize = 38;

/// Returns how many CPUs stand beside each other.
fn cpu_columns(width: usize, count: usize) -> usize {
    (width / CPU_WIDTH).clamp(1, count.max(1))
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

fn cpus(
    screen: &mut Screen,
    history: &History,
    last: usize,
    status: &Status,
    look: Look,
    (top, lines): (usize, usize),
) {
    if lines < 2 {
        return;
    }
    let folded = if history.cpus.len() > UNFOLDED {
        ", folded"
    } else {
        ""
    };
    screen.text(0, top, "CPUs", Style::Bold);
    let about = format!("{folded}: busy over time and now, greatest p99 of the waits");
    screen.text(4, top, &about, Style::Dim);
    let columns = cpu_columns(screen.width, status.folds.len());
    let width = screen.width / columns;
    let rows = lines - 1;
    let shown = (rows * columns).min(status.folds.len());
    for (number, (name, places)) in status.folds.iter().take(shown).enumerate() {
        let (x, y) = (number / rows * width, top + 1 + number % rows);
        screen.text(x, y, name, Style::Plain);
        let left = x + 12;
        let room = width.saturating_sub(12 + 16);
        let of = |moment: &Moment| -> (u64, Option<u64>) {
            let cpus = places.iter().filter_map(|place| moment.cpus.get(*place));
            let cpus: Vec<&Cpu> = cpus.collect();
            let sum: u64 = cpus.iter().map(|cpu| u64::from(cpu.busy)).sum();
            let p99 = cpus.iter().filter_map(|cpu| cpu.p99).max();
            (sum / (cpus.len() as u64).max(1), p99)
        };
        let first = (last + 1).saturating_sub(room);
        let moments = history.moments.range(first..=last);
        let offset = room - (last + 1 - first);
        for (at, moment) in moments.enumerate() {
            let height = (of(moment).0 * 8).div_ceil(1000) as usize;
            screen.put(left + offset + at, y, look.height(height), Style::Class(0));
        }
        let (busy, p99) = of(&history.moments[last]);
        let figures = format!("{:>4}% {:>8}", busy / 10, text(p99));
        screen.text(left + room, y, &figures, Style::Plain);
    }
    if shown < status.folds.len() {
        let more = format!(" ({} more)", status.folds.len() - shown);
        screen.text(4 + about.len(), top, &more, Style::Dim);
    }
}

/// The letters for [`CLASSES`].
const LETTERS: [char; 4] = ['o', 't', 'k', 'i'];

fn groups(screen: &mut Screen, moment: &Moment, status: &Status, (top, lines): (usize, usize)) {
    if lines < 2 {
        return;
    }
    screen.text(0, top, "Groups", Style::Bold);
    if status.rule.is_empty() {
        let text = "tasks are not grouped: schedhist ctl group_by cgroup";
        screen.text(0, top + 1, text, Style::Dim);
        return;
    }
    let about = format!(" by {}: who waits, because of", status.rule);
    let mut x = screen.text(6, top, &about, Style::Dim);
    for (class, name) in CLASSES.iter().enumerate() {
        let text = format!(" {}:{name}", LETTERS[class]);
        x = screen.text(x, top, &text, Style::Class(class as u8));
    }
    if moment.groups.is_empty() {
        screen.text(0, top + 1, "nobody waited", Style::Dim);
    }
    let name_width = (screen.width / 3).clamp(10, 60);
    let span = moment.span.unwrap_or(0).max(1);
    for (number, group) in moment.groups.iter().take(lines - 1).enumerate() {
        let y = top + 1 + number;
        // The end of a path says more than its beginning.
        let length = group.name.chars().count();
        let name = if length < name_width {
            group.name.clone()
        } else {
            let skip = length - (name_width - 3);
            "..".to_owned() + &group.name.chars().skip(skip).collect::<String>()
        };
        screen.text(0, y, &name, Style::Plain);
        let percent = |ns: u64| {
            if moment.span.is_some() {
                format!("{}%", u128::from(ns) * 100 / u128::from(span))
            } else {
                text(Some(ns))
            }
        };
        let ran = format!("ran {:>6}", percent(group.oncpu_ns));
        let mut x = screen.text(name_width, y, &ran, Style::Plain);
        let waited = format!("  waited {:>6}", percent(group.waits.1));
        x = screen.text(x, y, &waited, Style::Plain) + 1;
        let shares = shares(&group.ended_ns);
        for (class, share) in shares.iter().enumerate() {
            let text = format!(" {}{:>3}%", LETTERS[class], (share + 5) / 10);
            x = screen.text(x, y, &text, Style::Class(class as u8));
        }
        if let Some((most, ns)) = group.neighbours.first() {
            let text = format!("  most {most} {}", percent(*ns));
            screen.text(x, y, &text, Style::Plain);
        }
    }
}

fn list_outliers(
    screen: &mut Screen,
    in_progress: &[String],
    outliers: &[&(u64, schedhist_core::text::Outlier)],
    status: &Status,
    (top, lines): (usize, usize),
) {
    screen.text(0, top, "Outliers", Style::Bold);
    if outliers.is_empty() && in_progress.is_empty() {
        let text = match status.threshold.as_str() {
            "" | "none" => "there is no threshold: schedhist ctl threshold_ns/runq 10000000",
            _ => "none yet",
        };
        screen.text(0, top + 1, text, Style::Dim);
        return;
    }
    screen.text(
        8,
        top,
        ", the last ones: who waited, and who had the CPU",
        Style::Dim,
    );
    for (number, text) in in_progress.iter().take(lines - 1).enumerate() {
        let x = screen.text(0, top + 1 + number, "in progress: ", Style::Plain);
        screen.text(x, top + 1 + number, text, Style::Warn);
    }
    let first = 1 + in_progress.len();
    let rest = lines.saturating_sub(first);
    for (number, (time, outlier)) in outliers.iter().rev().take(rest).enumerate() {
        let y = top + first + number;
        let clock = sys::time_of_day(time / 1_000_000_000);
        let what = format!(
            "{clock} {:>7} {}:{} on {}",
            text(Some(outlier.duration_ns)),
            outlier.comm,
            outlier.pid,
            outlier.cpu
        );
        let mut x = screen.text(0, y, &what, Style::Plain);
        let mut culprits: Vec<_> = outlier.culprits.iter().collect();
        culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.ran_ns));
        for culprit in culprits.iter().take(3) {
            let share = u128::from(culprit.ran_ns) * 100 / u128::from(outlier.duration_ns.max(1));
            let text = format!("  {}:{} {share}%", culprit.comm, culprit.pid);
            x = screen.text(x, y, &text, Style::Warn);
        }
    }
}
