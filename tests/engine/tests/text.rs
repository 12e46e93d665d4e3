// SPDX-License-Identifier: GPL-2.0

//! The texts: golden ones, and ones that are parsed back.

mod common;

use common::{any_duration, any_scheme, cpu_of, snapshot_of};
use proptest::prelude::*;
use schedhist_engine::engine::{
    bucket::{Precision, Scheme},
    metric::{Counter, Shown},
    snapshot::{Quantile, Snapshot},
    text::{self, Scope},
};

const ONCPU: Shown = Shown::ALL[0];
const IDLE: Shown = Shown::ALL[7];

/// One value, the sum of two, and one too large for the buckets.
fn example() -> Snapshot<Vec<u64>> {
    let scheme = Scheme::new(Precision::new(Precision::DEFAULT).expect("a good precision"));
    let cpu = cpu_of(scheme, &[5, 1_000, 1_001, 1_500_000, 1 << 40]);
    snapshot_of(scheme, &[cpu])
}

fn histogram(metric: Shown, scope: Scope, snapshot: &Snapshot<Vec<u64>>) -> String {
    let mut out = String::new();
    text::histogram(&mut out, metric, scope, snapshot).expect("a String takes all");
    out
}

#[test]
fn golden_histogram() {
    assert_eq!(
        histogram(ONCPU, Scope::Cpu(3), &example()),
        "# schedhist histogram version 1\n\
         metric oncpu\n\
         cpu 3\n\
         unit ns\n\
         precision 5\n\
         count 5\n\
         sum 1099513129782\n\
         min 5\n\
         max 1099511627776\n\
         max_cpu 3\n\
         max_time 1099511627777\n\
         max_pid 42\n\
         max_prio 120\n\
         max_comm a \\x5c\\x0a task\n\
         p50 992 1007\n\
         p90 1099511627776 inf\n\
         p99 1099511627776 inf\n\
         p99.9 1099511627776 inf\n\
         p99.99 1099511627776 inf\n\
         bucket 5 5 1\n\
         bucket 992 1007 2\n\
         bucket 1474560 1507327 1\n\
         bucket 1099511627776 inf 1\n"
    );
}

#[test]
fn golden_empty_histogram() {
    let snapshot = snapshot_of(example().scheme(), &[]);
    assert_eq!(
        histogram(IDLE, Scope::All, &snapshot),
        "# schedhist histogram version 1\n\
         metric idle\n\
         cpu all\n\
         unit ns\n\
         precision 5\n\
         count 0\n\
         sum 0\n"
    );
}

#[test]
fn golden_summary() {
    let mut out = String::new();
    let counter = |counter: Counter| match counter {
        Counter::Switches => 12,
        Counter::StartUnseen => 2,
        _ => 5,
    };
    text::summary_head(&mut out, Scope::All, true, counter).expect("a String takes all");
    text::summary_row(&mut out, ONCPU, &example()).expect("a String takes all");
    let empty = snapshot_of(example().scheme(), &[]);
    text::summary_row(&mut out, IDLE, &empty).expect("a String takes all");
    let expected = "\
# schedhist summary version 1, cpu all, enabled
switches 12  voluntary 5  involuntary 5  start_unseen 2  to_idle 5  wait_unseen 5  untracked 5  \
blocked_other 5  wake_unseen 5  migrations 5  clock_backwards 5

metric                         count      mean       p50       p90       p99     p99.9    p99.99       max  worst
oncpu                              5      220s    1.01us     1100s     1100s     1100s     1100s     1100s  a \\x5c\\x0a task:42 on 3
idle                               0         -         -         -         -         -         -         -
";
    assert_eq!(out, expected);
}

#[test]
fn golden_status() {
    let mut out = String::new();
    text::status_line(&mut out, Scope::All, "version", "1.2.3").expect("a String takes all");
    text::status_line(&mut out, Scope::Cpu(17), "switches", 4).expect("a String takes all");
    assert_eq!(out, "version 1.2.3\ncpu17 switches 4\n");
}

/// The words of the one line that begins with `key`.
fn words<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let mut lines = text
        .lines()
        .filter(|line| line.split(' ').next() == Some(key));
    let line = lines.next().unwrap_or_default();
    assert_eq!(lines.next(), None, "{key} is there twice");
    line.split(' ').skip(1).collect()
}

fn bound(word: &str) -> u64 {
    if word == "inf" {
        u64::MAX
    } else {
        word.parse().expect("a number")
    }
}

proptest! {
    /// A reader gets back all that the snapshot holds.
    #[test]
    fn parses_back(
        scheme in any_scheme(),
        durations in proptest::collection::vec(any_duration(), 0..100),
    ) {
        let snapshot = snapshot_of(scheme, &[cpu_of(scheme, &durations)]);
        let text = histogram(ONCPU, Scope::Cpu(0), &snapshot);

        prop_assert_eq!(text.lines().next(), Some("# schedhist histogram version 1"));
        prop_assert_eq!(words(&text, "precision"), [scheme.precision().bits().to_string()]);
        prop_assert_eq!(words(&text, "count"), [snapshot.count().to_string()]);
        prop_assert_eq!(words(&text, "sum"), [snapshot.sum().to_string()]);
        let (min, max) = (words(&text, "min").concat(), words(&text, "max").concat());
        prop_assert_eq!(
            snapshot.min().zip(snapshot.max()).map_or_else(Default::default, |(min, max)| (min.to_string(), max.to_string())),
            (min, max)
        );
        for quantile in Quantile::ALL {
            let found: Vec<u64> = words(&text, quantile.name).into_iter().map(bound).collect();
            let bounds = snapshot.quantile(quantile);
            prop_assert_eq!(found, bounds.map_or_else(Vec::new, |it| vec![it.lower, it.upper]));
        }
        let mut buckets = text.lines().filter_map(|line| line.strip_prefix("bucket "));
        for (bounds, count) in snapshot.buckets() {
            let found: Vec<u64> = buckets.next().unwrap_or_default().split(' ').map(bound).collect();
            prop_assert_eq!(found, [bounds.lower, bounds.upper, count]);
        }
        prop_assert_eq!(buckets.next(), None);
    }
}
