// SPDX-License-Identifier: GPL-2.0

//! The lists below the heat map: CPUs, groups and outliers, sorted, filtered and scrolled.

use std::cmp::Reverse;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Style, Stylize},
    text::Line,
    widgets::Widget,
};
use schedhist_core::{
    culprits,
    groups::{GroupRow, CLASSES},
    text::Outlier,
    units::{percent, shares, tasks, tasks_on_average, tenths},
};

use super::{
    history::{Cpu, Ended, Moment, Part},
    screen::span,
    view::{fitting, text, Lines, Shown, View, UNFOLDED},
};
use crate::{sys, table::cut};

/// The least width of a CPU, or of several that are folded.
const CPU_WIDTH: usize = 40;

/// The least width with room for offenders, and for the worst one of each group.
const WIDE: usize = 96;

/// The width of how long a group ran, and how many of its tasks waited.
const FIGURES: usize = 20;

/// The width of the shares of the classes.
const SHARES: usize = 26;

/// Makes an enum of what a key goes through, in turn.
macro_rules! cycle {
    ($(#[$doc:meta])* $name:ident: $first:ident, $($other:ident),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            #[default]
            $first,
            $($other),+
        }

        impl $name {
            pub fn next(self) -> Self {
                let all = [Self::$first, $(Self::$other),+];
                all[(self as usize + 1) % all.len()]
            }
        }
    };
}

cycle! {
    /// The list that `j` and `k` go through.
    Focus: Metrics, Cpus, Groups, Outliers
}

cycle! {
    /// The order of CPUs and groups: as they are, by waits, by time on a CPU, by name.
    Order: Usual, Waiting, Busy, Name
}

cycle! {
    /// Which outliers are shown.
    Outliers: Last, Worst, ByCulprit
}

/// What a set of CPUs did: how busy the busiest was, how many tasks waited, and the greatest p99.
type Sums = (u16, f64, Option<u64>);

fn sums(moment: &Moment, places: &[usize]) -> Sums {
    let cpus = places.iter().filter_map(|place| moment.cpus.get(*place));
    let cpus: Vec<&Cpu> = cpus.collect();
    let waiting: u64 = cpus.iter().map(|cpu| u64::from(cpu.waiting)).sum();
    (
        // A mean would hide one that is full among many that are not.
        cpus.iter().map(|cpu| cpu.busy).max().unwrap_or_default(),
        waiting as f64 / 100.0,
        cpus.iter().filter_map(|cpu| cpu.p99).max(),
    )
}

/// Returns which of `count` lines are shown in `room`, so that `place` is among them.
pub fn scrolled(place: usize, count: usize, room: usize) -> usize {
    place
        .saturating_sub(room / 2)
        .min(count.saturating_sub(room))
}

/// Returns the widths of the names of groups, and of the one that each waits for most: 0 if there
/// is no room.
fn names_widths(groups: &[&GroupRow], width: usize) -> (usize, usize) {
    if width < WIDE {
        return ((width / 3).clamp(10, 60), 0);
    }
    // Two blanks, and how many tasks wait for it.
    let room = width - (1 + FIGURES + SHARES + 2 + " 12.34".len());
    let longest = groups.iter().map(|group| group.name.chars().count()).max();
    let title = "Groups (9 more) by cgroup".len();
    let name = (longest.unwrap_or(0) + 1).clamp(title, title.max(room / 2));
    (name, (room - name).min(60))
}

impl View<'_> {
    fn is_wanted(&self, name: &str) -> bool {
        let filter = &self.choice.filter;
        filter.is_empty() || name.to_lowercase().contains(&filter.to_lowercase())
    }

    /// Returns the places of the metrics that pass the filter, or else of all of them, in order.
    pub fn metrics_in_order(&self) -> Vec<usize> {
        let names = &self.history.names;
        let mut all: Vec<_> = (0..names.len()).collect();
        all.retain(|place| self.is_wanted(&names[*place]));
        if all.is_empty() {
            all = (0..names.len()).collect();
        }
        let rows = self.moment().map_or(&[][..], |moment| self.rows(moment));
        // By their p99, or by their samples.
        all.sort_by_cached_key(|place| {
            let row = rows.get(*place);
            match self.choice.order {
                Order::Usual => (Reverse(None), ""),
                Order::Waiting => (Reverse(row.and_then(|row| row.quantiles[2])), ""),
                Order::Busy => (Reverse(row.map(|row| row.count)), ""),
                Order::Name => (Reverse(None), names[*place].as_str()),
            }
        });
        all
    }

    /// Returns what is selected in the list that has the focus.
    pub fn selected(&self) -> Option<Part> {
        let places = self.choice.places;
        match self.choice.focus {
            Focus::Cpus => {
                let (name, places) = *self.cpus_in_order().get(places[0])?;
                let cpus = places.iter().map(|place| self.history.cpus[*place]);
                Some(Part::Cpus(name.clone(), cpus.collect()))
            }
            Focus::Groups => {
                let row = *self.groups_in_order().get(places[1])?;
                Some(Part::Group(row.name.clone()))
            }
            Focus::Metrics | Focus::Outliers => None,
        }
    }

    /// Returns the CPUs that pass the filter, sorted. A filter that no CPU passes is for groups.
    pub fn cpus_in_order(&self) -> Vec<&(String, Vec<usize>)> {
        let folds = self.status.folds.iter();
        let mut all: Vec<_> = folds
            .clone()
            .filter(|(name, _)| self.is_wanted(name))
            .collect();
        if all.is_empty() {
            all = folds.collect();
        }
        let Some(moment) = self.moment() else {
            return all;
        };
        match self.choice.order {
            Order::Usual | Order::Name => {}
            Order::Waiting => all
                .sort_by_cached_key(|(_, places)| Reverse((sums(moment, places).1 * 100.0) as u64)),
            Order::Busy => {
                all.sort_by_cached_key(|(_, places)| Reverse(sums(moment, places).0));
            }
        }
        all
    }

    /// Returns the groups that pass the filter, sorted: usually, who waited longest comes first.
    pub fn groups_in_order(&self) -> Vec<&GroupRow> {
        let groups = self.moment().map_or(&[][..], |moment| &moment.groups.rows);
        let mut all: Vec<_> = groups
            .iter()
            .filter(|it| self.is_wanted(&it.name))
            .collect();
        match self.choice.order {
            Order::Usual | Order::Waiting => {}
            Order::Busy => all.sort_by_cached_key(|row| Reverse(row.oncpu_ns)),
            Order::Name => all.sort_by_cached_key(|row| row.name.clone()),
        }
        all
    }

    /// Returns how many CPUs stand beside each other.
    pub fn cpu_columns(&self, width: usize) -> usize {
        (width / CPU_WIDTH).clamp(1, self.status.folds.len().max(1))
    }

    /// Returns what stands before an entry of a list.
    fn mark(&self, focus: Focus, is_it: bool) -> &'static str {
        match is_it && self.choice.focus == focus {
            true => ">",
            false => " ",
        }
    }

    pub fn cpus(
        &self,
        screen: &mut Buffer,
        area: Rect,
        last: usize,
        entries: &mut Vec<(Rect, Shown)>,
    ) {
        if area.height < 2 {
            return;
        }
        let (history, all) = (self.history, self.cpus_in_order());
        let columns = self.cpu_columns(area.width.into());
        let width = usize::from(area.width) / columns;
        let rows = usize::from(area.height) - 1;
        let shown = (rows * columns).min(all.len());
        let from = scrolled(self.choice.places[0], all.len(), shown);
        let folded = match history.cpus.len() > UNFOLDED {
            true => ", folded: the busiest over time and now",
            false => ": busy over time and now",
        };
        let more = match all.len() - shown {
            0 => String::new(),
            more => format!(" ({more} more)"),
        };
        let about = format!("{more}{folded}, tasks waiting, greatest p99 of the waits");
        let title = vec!["CPUs".bold(), span(&about, self.look.dim())];
        Line::from(title).render(area, screen);
        for (number, (name, places)) in all.iter().skip(from).take(shown).enumerate() {
            let x = area.x + (number / rows * width) as u16;
            let y = area.y + 1 + (number % rows) as u16;
            let mark = self.mark(Focus::Cpus, from + number == self.choice.places[0]);
            let entry = Shown::Entry(Focus::Cpus, Some(from + number));
            entries.push((Rect::new(x, y, width as u16, 1), entry));
            screen.set_span(
                x,
                y,
                &span(&format!("{mark}{name}"), Style::new()),
                area.width,
            );
            let left = x + 13;
            let room = width.saturating_sub(13 + 22);
            let first = (last + 1).saturating_sub(room);
            let moments = history.moments.range(first..=last);
            for (moment, x) in moments.rev().zip((left..left + room as u16).rev()) {
                let busy = usize::from(sums(moment, places).0);
                let height = self.look.height((busy * 8).div_ceil(1000));
                screen[(x, y)]
                    .set_char(height)
                    .set_style(self.look.class(0));
            }
            let (busy, waiting, p99) = sums(&history.moments[last], places);
            let waiting = tasks(Some(waiting));
            let figures = format!("{:>4}% {waiting:>5} {:>8}", busy / 10, text(p99));
            let figures = span(&figures, Style::new());
            screen.set_span(left + room as u16, y, &figures, area.width);
        }
        entries.push((area, Shown::Entry(Focus::Cpus, None)));
    }

    fn is_warned(&self, moment: &Moment, width: usize) -> bool {
        width >= WIDE && !moment.groups.offenders.is_empty()
    }

    /// Returns how many lines all groups take.
    pub fn group_lines(&self, moment: &Moment, width: usize) -> usize {
        match self.status.rule.is_empty() {
            true => 2,
            false => {
                1 + usize::from(self.is_warned(moment, width)) + self.groups_in_order().len().max(1)
            }
        }
    }

    /// Returns how many lines stand above the groups, and the first group of those that are shown.
    pub fn first_group(&self, moment: &Moment, width: usize, room: usize) -> (usize, usize) {
        let head = 1 + usize::from(self.is_warned(moment, width));
        let rows = room.saturating_sub(head);
        (
            head,
            scrolled(self.choice.places[1], self.groups_in_order().len(), rows),
        )
    }

    /// Returns the groups, in as many lines as there is room for.
    pub fn groups(&self, moment: &Moment, width: usize, room: usize) -> Lines {
        let look = self.look;
        let mut title = vec!["Groups".bold()];
        if self.status.rule.is_empty() {
            let text = "tasks are not grouped: schedhist ctl group_by cgroup";
            return vec![title.into(), span(text, look.dim()).into()];
        }
        let all = self.groups_in_order();
        let (head, from) = self.first_group(moment, width, room);
        let rows = room.saturating_sub(head).min(all.len());
        let more = match all.len() - rows {
            0 => String::new(),
            more => format!(" ({more} more)"),
        };
        let widths = names_widths(&all, width);
        let about = format!("{more} by {}", self.status.rule);
        let space = widths.0 + 1 - "Groups".len();
        let figures = format!("{about:<space$.space$}{:>6}{:>9}  for", "ran", "waiting");
        title.push(span(&figures, look.dim()));
        // The classes stand above their shares.
        let classes = CLASSES.iter().enumerate();
        title.extend(classes.map(|(class, name)| span(&format!("  {name}"), look.class(class))));
        if widths.1 != 0 {
            title.push(span("  most", look.dim()));
        }
        let mut lines = vec![Line::from(title)];
        if all.is_empty() {
            let none = match moment.groups.rows.is_empty() {
                // Recorded less often.
                true if moment.groups.span.is_none() => "not known",
                true => "nobody waited",
                false => "no group passes the filter",
            };
            lines.push(span(none, look.dim()).into());
        }
        if self.is_warned(moment, width) {
            let average = |ns: u64| tasks(tasks_on_average(ns.into(), moment.groups.span));
            const ABOUT: &str = "tasks kept waiting, at least:";
            let each = (width - ABOUT.len()) / moment.groups.offenders.len();
            let room = each.saturating_sub(" 0.12 by ,".len()).max(8);
            let offenders = moment
                .groups
                .offenders
                .iter()
                .map(|it| format!("{} by {}", average(it.kept_ns), cut(&it.name, room)));
            let offenders: Vec<_> = offenders.collect();
            let text = format!("{ABOUT} {}", offenders.join(", "));
            lines.push(span(&text, look.warn()).into());
        }
        let shown = all.iter().enumerate().skip(from).take(rows);
        lines.extend(shown.map(|(place, group)| {
            let mark = self.mark(Focus::Groups, place == self.choice.places[1]);
            self.group(group, moment, mark, widths)
        }));
        lines
    }

    fn group(
        &self,
        group: &GroupRow,
        moment: &Moment,
        mark: &str,
        (name_width, most_width): (usize, usize),
    ) -> Line<'static> {
        // Recordings have groups of longer intervals.
        let ran = match (moment.span, moment.groups.span) {
            (Some(_), Some(whole)) => format!("{}%", percent(group.oncpu_ns, whole)),
            (Some(_), None) => "-".to_owned(),
            (None, _) => text(Some(group.oncpu_ns)),
        };
        let average = |ns: u64| tasks(tasks_on_average(ns.into(), moment.groups.span));
        let name = cut(&group.name, name_width - 1);
        let waiting = average(group.waits.1);
        let first = format!("{mark}{name:<name_width$}{ran:>6}{waiting:>9}     ");
        let mut line = vec![span(&first, Style::new())];
        for (class, share) in shares(&group.ended_ns).iter().enumerate() {
            let width = CLASSES[class].len() + 1;
            let text = format!("{:>width$}%", (share + 5) / 10);
            line.push(span(&text, self.look.class(class)));
        }
        if let Some((most, ns)) = group.neighbours.first().filter(|_| most_width != 0) {
            let most = format!("  {} {}", cut(most, most_width), average(*ns));
            line.push(span(&most, Style::new()));
        }
        line.into()
    }

    /// Returns the outliers up to the interval that is shown.
    fn outliers_until(&self, moment: &Moment) -> impl DoubleEndedIterator<Item = &Ended> {
        let end = moment.end;
        let all = self.history.outliers.iter();
        // By who waited, on which CPU, and who had it meanwhile.
        all.filter(move |it| it.end <= end).filter(|it| {
            let outlier = &it.outlier;
            self.choice.filter.is_empty()
                || self.is_wanted(&format!("{}:{}", outlier.comm, outlier.pid))
                || self.is_wanted(&format!("CPU {}", outlier.cpu))
                || outlier.culprits.iter().any(|it| self.is_wanted(&it.comm))
        })
    }

    pub fn outlier_count(&self) -> usize {
        self.moment().map_or(0, |moment| {
            let others = moment.in_progress.len() + usize::from(moment.why.is_some());
            self.outliers_until(moment).count() + others
        })
    }

    /// Returns the outliers, in as many lines as there is room for.
    pub fn outliers(&self, moment: &Moment, width: usize, room: usize) -> Lines {
        let (look, title) = (self.look, "Outliers".bold());
        let in_progress = moment.in_progress.iter().map(|text| {
            let begin = span("in progress: ", Style::new());
            Line::from(vec![begin, span(text, look.warn())])
        });
        // Where there is little room, the outliers themselves matter more.
        let why = moment.why.iter().filter(|_| room > 3);
        let why = why.map(|text| fitting(text.split(", "), ", ", width));
        let why = why.map(|text| span(&text, Style::new()).into());
        let mut lines: Lines = why.chain(in_progress).collect();
        let all = self.outliers_until(moment);
        let one = |it: &Ended| self.outlier(it.unix_ns, &it.outlier);
        // Lines that do not fit need not be made.
        let most = self.choice.places[2] + room;
        let mut count = lines.len();
        let about = match self.choice.outliers {
            Outliers::Last => {
                count += self.outliers_until(moment).count();
                lines.extend(all.rev().take(most).map(one));
                "the last ones"
            }
            Outliers::Worst => {
                let mut all: Vec<_> = all.collect();
                count += all.len();
                all.sort_by_cached_key(|it| Reverse(it.outlier.duration_ns));
                lines.extend(all.into_iter().take(most).map(one));
                "the worst ones"
            }
            Outliers::ByCulprit => {
                let sums = self.by_culprit(moment);
                count += sums.len();
                lines.extend(sums);
                "waits by culprit"
            }
        };
        if lines.is_empty() {
            let (status, is_filtered) = (&self.status, !self.choice.filter.is_empty());
            let text = match status.thresholds.as_deref() {
                _ if status.is_recording && !is_filtered => "none",
                None if !status.is_recording => {
                    "the thresholds cannot be read: schedhist ctl says why"
                }
                Some([]) => "there is no threshold: schedhist ctl threshold_ns/runq 10000000",
                _ if is_filtered => "no outlier passes the filter",
                _ => "none yet",
            };
            return vec![title.into(), span(text, look.dim()).into()];
        }
        let rows = room.saturating_sub(1);
        let from = self.choice.places[2].min(count.saturating_sub(rows.max(1)));
        let more = match count.saturating_sub(from + rows) {
            0 => String::new(),
            more => format!(" ({more} more)"),
        };
        let about = format!("{more}, {about}: who waited, and who had the CPU");
        let mut lines = lines.split_off(from.min(lines.len()));
        lines.insert(0, vec![title, span(&about, look.dim())].into());
        lines
    }

    fn by_culprit(&self, moment: &Moment) -> Lines {
        let waits = self.outliers_until(moment).map(|it| &it.outlier);
        let sums = culprits::by(waits.filter(|it| culprits::is_wait(it)), culprits::comm);
        let times: Vec<_> = sums.iter().map(|(_, sum)| sum.ran_ns).collect();
        let line = |((name, sum), share): ((String, culprits::Sum), u32)| {
            let share = format!("{:>5} %", tenths(share));
            let about = format!(
                "  {:>8} in {} outliers, the worst of {}",
                text(Some(sum.ran_ns)),
                sum.outliers,
                text(Some(sum.worst.1))
            );
            Line::from(vec![
                span(&share, Style::new()),
                span(&about, Style::new()),
                span(&format!("  {name}"), self.look.warn()),
            ])
        };
        sums.into_iter().zip(shares(&times)).map(line).collect()
    }

    fn outlier(&self, time: u64, outlier: &Outlier) -> Line<'static> {
        let what = format!(
            "{} {:>7} {}:{} on {}",
            sys::time_of_day(time),
            text(Some(outlier.duration_ns)),
            outlier.comm,
            outlier.pid,
            outlier.cpu
        );
        let mut culprits: Vec<_> = outlier.culprits.iter().collect();
        culprits.sort_by_cached_key(|culprit| Reverse(culprit.ran_ns));
        let percent = |ns| percent(ns, outlier.duration_ns);
        let least = culprits
            .first()
            .map_or(0, |culprit| percent(culprit.ran_ns).min(1));
        let culprits = culprits.iter().take(3).map(|it| (it, percent(it.ran_ns)));
        let culprits = culprits.filter(|(_, share)| *share >= least);
        let culprits = culprits.map(|(culprit, share)| {
            let text = format!("  {}:{} {share}%", culprit.comm, culprit.pid);
            span(&text, self.look.warn())
        });
        let hops = outlier
            .chain
            .iter()
            .flat_map(|chain| chain.hops.iter().skip(1).take(3));
        let hops = hops.map(|hop| {
            let text = format!(" < {} {}%", hop.task(), percent(hop.sum_ns()));
            span(&text, self.look.class(0))
        });
        std::iter::once(span(&what, Style::new()))
            .chain(culprits)
            .chain(hops)
            .collect()
    }
}
