// SPDX-License-Identifier: GPL-2.0

//! `watch --summary`: outliers added up, by who had the CPU, who waited, and where.

use std::{cmp::Reverse, fmt::Write};

use schedhist_core::{
    culprits::{self, Sums},
    text::Outlier,
    units::{shares, tenths, Unit},
};

use crate::{
    outliers::dependence::{self, Dependence},
    output::{share_line, wrap},
    table::Cell,
};

/// The most lines of a part.
const MAX_ROWS: usize = 10;

/// The most frames of a stack.
const FRAMES: usize = 6;

/// The parts of a summary, in their order: the field of JSON, and the heading.
const PARTS: [(&str, &str); 4] = [
    ("culprits", "who had the CPU meanwhile"),
    ("culprit_groups", "which group had the CPU meanwhile"),
    ("waiting", "who waited"),
    (
        "stacks",
        "where they had left the CPU, innermost frame first",
    ),
];

#[derive(Debug, Default)]
pub struct Summary {
    pub count: u64,
    pub sum_ns: u64,
    worst: Option<Outlier>,
    /// As in [`PARTS`].
    parts: [Sums; 4],
    has_groups: bool,
    /// What each group, or name, depended on.
    chains: Vec<(String, Dependence)>,
}

impl Summary {
    /// Adds an outlier, with the names of groups, and its stack.
    pub fn add(
        &mut self,
        outlier: &Outlier,
        name: &dyn Fn(u32) -> Option<String>,
        stack: Option<&[String]>,
    ) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(outlier.duration_ns);
        if self
            .worst
            .as_ref()
            .is_none_or(|it| it.duration_ns < outlier.duration_ns)
        {
            self.worst = Some(outlier.clone());
        }
        dependence::add(&mut self.chains, outlier, name);
        let [culprits, groups, waiting, stacks] = &mut self.parts;
        culprits.add(outlier, &culprits::comm);
        let none = || "(no group)".to_owned();
        groups.add(outlier, &|culprit| name(culprit.group).unwrap_or_else(none));
        self.has_groups |= outlier.culprits.iter().any(|culprit| culprit.group != 0);
        let comm = culprits::pool(&outlier.comm);
        waiting.add_whole(
            outlier,
            match name(outlier.group) {
                Some(group) => format!("{comm} ({group})"),
                None => comm,
            },
        );
        if let Some(stack) = stack {
            // Without the offsets in the functions.
            let frames = stack.iter().take(FRAMES);
            let frames = frames.map(|frame| frame.split('+').next().unwrap_or_default());
            stacks.add_whole(outlier, frames.collect::<Vec<_>>().join(" < "));
        }
    }

    /// Returns the parts that say something, each with its heading and the place of it.
    fn parts(&self) -> impl Iterator<Item = (usize, Vec<(String, culprits::Sum)>)> + '_ {
        let all = self.parts.iter().map(Sums::sorted).enumerate();
        all.filter(|(place, sums)| !sums.is_empty() && (*place != 1 || self.has_groups))
    }

    /// Returns of how many of those that were seen the end was not: it may have been missed.
    fn ongoing(&self, seen: u64) -> u64 {
        seen.saturating_sub(self.count)
    }

    pub fn text(&self, metric: &str, threshold: u64, (seen, missed): (u64, u64)) -> String {
        let time = |ns| Unit::Fitting.text(Some(ns));
        let mut out = String::new();
        let s = if self.count == 1 { "" } else { "s" };
        let mut head = format!(
            "## {} outlier{s} of {metric} above {}",
            self.count,
            time(threshold)
        );
        if let Some(worst) = &self.worst {
            let _ = write!(
                head,
                ": {} in all, the worst {} of {}:{} on CPU {}",
                time(self.sum_ns),
                time(worst.duration_ns),
                worst.comm,
                worst.pid,
                worst.cpu
            );
        }
        match self.ongoing(seen) {
            0 => {}
            1 => head += "; 1 more whose end was not seen",
            more => _ = write!(head, "; {more} more whose end was not seen"),
        }
        if missed != 0 {
            let _ = write!(head, "; {missed} more (of all metrics) were missed");
        }
        wrap(&mut out, &head);
        out + &self.parts_text()
    }

    /// Returns the sums of each part.
    pub fn parts_text(&self) -> String {
        let time = |ns| Unit::Fitting.text(Some(ns));
        let mut out = String::new();
        for (place, sums) in self.parts() {
            let _ = writeln!(out, "{}:", PARTS[place].1);
            let times: Vec<_> = sums.iter().map(|(_, sum)| sum.ran_ns).collect();
            for ((name, sum), share) in sums.iter().zip(shares(&times)).take(MAX_ROWS) {
                let (share, ran) = (tenths(share), time(sum.ran_ns));
                let count = sum.outliers;
                let _ = writeln!(out, "  {share:>5}% {ran:>8} in {count:>4}  {name}");
            }
            if sums.len() > MAX_ROWS {
                let _ = writeln!(out, "  and {} more", sums.len() - MAX_ROWS);
            }
        }
        let all = self.chains();
        for (name, it) in all.iter().take(MAX_ROWS) {
            let s = if it.chains == 1 { "" } else { "s" };
            let (chains, sum) = (it.chains, time(it.sum_ns));
            let head = format!("what {name} depended on, by {chains} chain{s}, {sum}:");
            wrap(&mut out, &head);
            let parts = it.parts(&time);
            let times: Vec<_> = parts.iter().map(|(_, ns)| *ns).collect();
            for ((what, ns), share) in parts.iter().zip(shares(&times)).take(MAX_ROWS) {
                share_line(&mut out, share, *ns, what);
            }
            if parts.len() > MAX_ROWS {
                let _ = writeln!(out, "  and {} more", parts.len() - MAX_ROWS);
            }
            wrap(&mut out, &format!("  {}", it.law()));
        }
        if all.len() > MAX_ROWS {
            let _ = writeln!(out, "and what {} more depended on", all.len() - MAX_ROWS);
        }
        out
    }

    /// Returns what whose tasks depended on, the longest time first.
    fn chains(&self) -> Vec<&(String, Dependence)> {
        let mut all: Vec<_> = self.chains.iter().collect();
        all.sort_by_cached_key(|(_, it)| Reverse(it.sum_ns));
        all
    }

    pub fn json(&self, metric: &str, threshold: u64, (seen, missed): (u64, u64)) -> String {
        let worst = self.worst.as_ref();
        let mut fields = vec![
            ("schema", Cell::from("schedhist.outliers.v1")),
            ("metric", Cell::from(metric)),
            ("threshold_ns", Cell::Time(threshold)),
            ("count", self.count.into()),
            ("ongoing", self.ongoing(seen).into()),
            ("missed", missed.into()),
            ("sum_ns", Cell::Time(self.sum_ns)),
            ("worst_ns", Cell::time(worst.map(|it| it.duration_ns))),
            ("worst_id", Cell::number(worst.map(|it| it.id))),
        ];
        for (place, sums) in self.parts() {
            let object = |(name, sum): &(String, culprits::Sum)| {
                Cell::object([
                    ("name", Cell::from(name)),
                    ("outliers", sum.outliers.into()),
                    ("sum_ns", Cell::Time(sum.ran_ns)),
                    ("worst_ns", Cell::Time(sum.worst.1)),
                ])
            };
            fields.push((PARTS[place].0, sums.iter().map(object).collect()));
        }
        let chains = self.chains();
        if !chains.is_empty() {
            let list = chains.into_iter().map(dependence::json).collect();
            fields.push(("chains", list));
        }
        Cell::object(fields).line()
    }
}

#[cfg(test)]
mod tests {
    use schedhist_core::{chains, text::OutlierParser};

    use super::*;

    #[test]
    fn sums_of_outliers() {
        let text_of_module =
            "outlier id 4 metric runq_wakeup cause wakeup cpu 2 duration_ns 30000000 missing_ns 0 \
             culprits 2 pid 7 prio 120 group 1 comm web/1\n  \
             culprit id 4 ran_ns 20000000 slices 1 pid 8 prio 120 group 2 comm hog\n  \
             culprit id 4 ran_ns 10000000 slices 1 pid 0 prio 120 group 0 comm swapper/2\n\
             outlier id 5 metric runq_wakeup cause wakeup cpu 3 duration_ns 10000000 missing_ns \
             10000000 culprits 0 pid 9 prio 120 group 1 comm web/2\n";
        let mut summary = Summary::default();
        let name = |group| (group != 0).then(|| format!("/g{group}"));
        let stack = [
            "__schedule+0x1/0x2".to_owned(),
            "futex_wait+0x3/0x4".to_owned(),
        ];
        let mut outliers = OutlierParser::default().feed(text_of_module);
        let of_module = "chain id 4 metric runq_wakeup cpu 2 duration_ns 30000000 end interrupt \
             blocked_ns 4000000 missing_ns 0 hops 3\n  \
             hop id 4 via - ran_ns 0 waited_ns 1000000 preempted_ns 0 throttled_ns 0 slices 1 cpu \
             2 group 1 pid 7 comm web/1\n  \
             hop id 4 via task ran_ns 10000000 waited_ns 3000000 preempted_ns 0 throttled_ns 0 \
             slices 1 cpu 0 group 2 pid 8 comm db\n  \
             hop id 4 via task ran_ns 12000000 waited_ns 0 preempted_ns 0 throttled_ns 0 slices 1 \
             cpu 0 group 0 pid 9 comm sh/9\n\
             chain id 5 metric runq_wakeup cpu 3 duration_ns 10000000 end overwritten blocked_ns 0 \
             missing_ns 9000000 hops 2\n  \
             hop id 5 via - ran_ns 0 waited_ns 0 preempted_ns 0 throttled_ns 0 slices 1 cpu 3 \
             group 1 pid 9 comm web/2\n  \
             hop id 5 via task ran_ns 1000000 waited_ns 0 preempted_ns 0 throttled_ns 0 slices 1 \
             cpu 3 group 2 pid 9 comm db/1\n";
        chains::attach(&mut outliers, of_module);
        for outlier in outliers {
            summary.add(&outlier, &name, Some(&stack));
        }
        assert_eq!(
            summary.text("runq", 5_000_000, (3, 1)),
            "## 2 outliers of runq above 5.00ms: 40.0ms in all, the worst 30.0ms of web/1:7\n  \
             on CPU 2; 1 more whose end was not seen; 1 more (of all metrics) were missed\n\
             who had the CPU meanwhile:\n   \
             50.0%   20.0ms in    1  hog\n   \
             25.0%   10.0ms in    1  (idle)\n   \
             25.0%   10.0ms in    1  (not named)\n\
             which group had the CPU meanwhile:\n   \
             50.0%   20.0ms in    1  /g2\n   \
             25.0%   10.0ms in    1  (no group)\n   \
             25.0%   10.0ms in    1  (not named)\n\
             who waited:\n  \
             100.0%   40.0ms in    2  web/* (/g1)\n\
             where they had left the CPU, innermost frame first:\n  \
             100.0%   40.0ms in    2  __schedule < futex_wait\n\
             what /g1 depended on, by 2 chains, 40.0ms:\n   \
             35.0%   14.0ms  /g2: ran 11.0ms, waited 3.00ms\n   \
             30.0%   12.0ms  sh/*: ran 12.0ms\n   \
             22.5%   9.00ms  not known (overwritten)\n   \
             10.0%   4.00ms  blocked until an interrupt woke it\n    \
             2.5%   1.00ms  itself: waited 1.00ms\n  \
             in ns: ran 23000000 + waited 4000000 + blocked 4000000 + not known 9000000 =\n  \
             40000000\n"
        );
        let json = summary.json("runq", 5_000_000, (2, 1));
        let begin = "{\"schema\":\"schedhist.outliers.v1\",\"metric\":\"runq\",\
                     \"threshold_ns\":5000000,\"count\":2,\"ongoing\":0,\"missed\":1,\"sum_ns\":40000000,\
                     \"worst_ns\":30000000,\"worst_id\":4,\"culprits\":[{\"name\":\"hog\",\
                     \"outliers\":1,\"sum_ns\":20000000,\"worst_ns\":30000000},";
        assert!(json.starts_with(begin), "{json}");
        let end = "\"chains\":[{\"name\":\"/g1\",\"chains\":2,\"sum_ns\":40000000,\
                   \"blocked_ns\":4000000,\"missing_ns\":9000000,\"hops\":[{\"name\":\"itself\",\
                   \"ran_ns\":0,\"waited_ns\":1000000,\"preempted_ns\":0,\"throttled_ns\":0},";
        assert!(json.contains(end), "{json}");
    }
}
