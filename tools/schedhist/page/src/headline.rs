// SPDX-License-Identifier: GPL-2.0

//! What the page begins with: where and when it was, and the waits in a sentence.

use chrono::DateTime;

use super::{chart::text, quantile, Recording};
use schedhist_core::{
    culprits,
    distribution::Max,
    groups::GroupNames,
    text::{Culprit, Outlier},
    timeline::{Column, CPU_METRIC},
    window,
};

/// Returns a time of the local clock, in nanoseconds since 1970, as chrono formats it.
pub fn local(ns: u64, format: &str) -> String {
    let time = DateTime::from_timestamp_nanos(i64::try_from(ns).unwrap_or(i64::MAX));
    time.format(format).to_string()
}

/// Returns a length of time as people say it.
fn length(ns: u64) -> String {
    let seconds = (ns + 500_000_000) / 1_000_000_000;
    match seconds {
        0..=9 => text(ns),
        10..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

impl Recording {
    fn fact(&self, key: &str) -> Option<&str> {
        let found = self.facts.iter().find(|(known, _)| known == key);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns the host, or else the name of the file.
    pub(super) fn host(&self) -> &str {
        self.fact("host").unwrap_or(&self.name)
    }

    /// Returns when it was, on which machine, and for how long.
    pub(super) fn place(&self) -> String {
        let columns = &self.timeline.columns;
        let (Some(first), Some(last)) = (columns.first(), columns.last()) else {
            return String::new();
        };
        let end = self.timeline.clock(last.end);
        let day = |ns| local(ns, "%Y-%m-%d");
        let until = match day(first.clock) == day(end) {
            true => local(end, "%H:%M:%S"),
            false => local(end, "%Y-%m-%d %H:%M:%S"),
        };
        let kernel = self
            .fact("kernel")
            .map_or(String::new(), |it| format!("Linux {it}, "));
        let cpus = match self.timeline.cpus.len() {
            1 => "1 CPU".to_owned(),
            n => format!("{n} CPUs"),
        };
        format!(
            "{} to {until} {} ({}): {kernel}{cpus}",
            local(first.clock, "%A, %Y-%m-%d, %H:%M:%S"),
            self.zones.join(", then "),
            length(last.end - first.begin),
        )
    }

    /// Returns the name of a culprit of an outlier: that of its group, if that is sure.
    fn name_of(&self, culprit: &Culprit, (end, outlier): &(u64, Outlier)) -> String {
        let begin = end.checked_sub(outlier.duration_ns);
        let number = |begin| GroupNames::name(&self.numbers, (begin, *end), culprit.group);
        let group = begin.and_then(number);
        // Where nearly all tasks are is no answer.
        let group = group.filter(|name| !matches!(*name, "/" | "other"));
        group.map_or_else(
            || format!("{}:{}", culprit.comm, culprit.pid),
            str::to_owned,
        )
    }

    /// Returns the CPU and the column of a wait of at least this length. If there may be several,
    /// `is_only` asks that there is one.
    fn column_of<'a>(&'a self, least: u64, is_only: bool) -> Option<(u32, &'a Column)> {
        let of_column = |column: &'a Column| {
            let cpus = self.timeline.cpus.iter().copied().zip(&column.cpus);
            let long = cpus.filter(move |(_, ns)| **ns >= least);
            long.map(move |(cpu, _)| (cpu, column))
        };
        let mut found = self.timeline.columns.iter().flat_map(of_column);
        let first = found.next();
        first.filter(|_| !is_only || found.next().is_none())
    }

    /// Returns the longest wait in words: how long, when, where, and behind whom.
    fn longest(&self, max: Max) -> String {
        let scheme = self.timeline.scheme;
        // Of a bound, only the bucket is known.
        let (bound, max, least) = match max {
            Max::AtMost(ns) => ("at most ", ns, scheme.bounds(scheme.index(ns)).lower),
            max => {
                let ns = max.value().unwrap_or_default();
                ("", ns, ns)
            }
        };
        let waits = self
            .outliers
            .listed
            .iter()
            .filter(|(_, it)| culprits::is_wait(it));
        let outlier = waits.max_by_key(|(_, it)| it.duration_ns);
        // It may have come before the threshold was set.
        let outlier = outlier.filter(|(_, it)| it.duration_ns >= least);
        if let Some(outlier @ (at, it)) = outlier {
            let behind = culprits::most(it).map(|culprit| match culprit.pid {
                0 => ", while the CPU was idle".to_owned(),
                _ => format!(", behind {}", self.name_of(culprit, outlier)),
            });
            return format!(
                "the longest {} at {} on CPU {}, of {}:{}{}",
                text(it.duration_ns),
                local(self.timeline.clock(*at), "%H:%M:%S"),
                it.cpu,
                it.comm,
                it.pid,
                behind.unwrap_or_default()
            );
        }
        let column = self.column_of(least, !bound.is_empty());
        let when = column.map_or(String::new(), |(cpu, column)| {
            let from = local(column.clock, "%H:%M:%S");
            format!(
                " within {} from {from} on, on CPU {cpu}",
                length(column.span)
            )
        });
        format!("the longest {bound}{}{when}", text(max))
    }

    /// Returns what the recording says of the waits for a CPU, in a sentence.
    pub(super) fn sentence(&self) -> String {
        let place = self.timeline.position(CPU_METRIC);
        let all = place.map(|place| self.timeline.total(place));
        let Some(all) = all.filter(|all| all.count() != 0) else {
            return "No wait for a CPU was recorded.".to_owned();
        };
        let p99 = quantile(&all, "99").map(|ns| format!("99 % took at most {}; ", text(ns)));
        let longest = match all.max {
            Max::AtMost(u64::MAX) => "the longest is not known".to_owned(),
            max => self.longest(max),
        };
        let why = self.long_waits.as_ref().and_then(window::why);
        let idle = why.map_or(String::new(), |why| format!("; {why}"));
        format!(
            "Of {} waits for a CPU, {}{longest}{idle}.",
            all.count(),
            p99.unwrap_or_default()
        )
    }
}
