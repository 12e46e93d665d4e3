// SPDX-License-Identifier: GPL-2.0

//! The text files: golden texts, and texts that are parsed back.

mod common;

use common::{cpu_of, snapshot_of};
use proptest::prelude::*;
use schedhist_engine::engine::{
    format::{text, Quoted, Scope},
    group::task_group::Group,
    histogram::{bucket::Scheme, snapshot::Snapshot},
    identity::Identity,
    idle::{Distance, Longest},
    metric::{Counter, Metric, ShownMetric},
    outlier::log::{Culprit, Outlier, CULPRITS},
    switch::sample::{Cause, Sample},
};
use schedhist_engine::testing::{unescaped, written};

const ONCPU: ShownMetric = ShownMetric::ALL[0];
const IDLE: ShownMetric = ShownMetric::ALL[7];

/// One value, the sum of two, and one too large for the buckets.
fn example() -> Snapshot<Vec<u64>> {
    let scheme = Scheme::DEFAULT;
    let cpu = cpu_of(scheme, &[5, 1_000, 1_001, 1_500_000, 1 << 40]);
    snapshot_of(scheme, &[cpu])
}

fn histogram(shown: ShownMetric, scope: Scope, snapshot: &Snapshot<Vec<u64>>) -> String {
    written(|out| text::histogram(out, shown, scope, snapshot))
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
    let counter = |counter: Counter| match counter {
        Counter::Switches => 12,
        Counter::StartUnseen => 2,
        _ => 5,
    };
    let out = written(|out| {
        text::summary_head(out, Scope::All, true, counter)?;
        text::summary_row(out, ONCPU, &example())?;
        text::summary_row(out, IDLE, &snapshot_of(example().scheme(), &[]))
    });
    let expected = "\
# schedhist summary version 1, cpu all, enabled
switches 12  voluntary 5  involuntary 5  start_unseen 2  to_idle 5  wait_unseen 5  untracked 5  \
blocked_idle 5  blocked_stopped 5  blocked_traced 5  blocked_parked 5  blocked_frozen 5  \
blocked_other 5  wake_unseen 5  migrations 5  clock_backwards 5  throttled 5  migrations_core 5  \
migrations_llc 5  migrations_node 5  migrations_remote 5  resched_set 5  resched_idle 5  \
resched_unused 5

metric                         count      mean       p50       p90       p99     p99.9    p99.99       max  worst
oncpu                              5      220s    1.01us     1100s     1100s     1100s     1100s     1100s  a \\x5c\\x0a task:42 on 3
idle                               0         -         -         -         -         -         -         -
";
    assert_eq!(out, expected);
}

/// A CPU has counted a sample in its bucket, but has not yet stored it as the maximum.
#[test]
fn a_quantile_is_not_cut_to_an_older_maximum() {
    let scheme = example().scheme();
    let cpu = cpu_of(scheme, &[5]);
    cpu.buckets(Metric::Oncpu)[scheme.index(1_000_000)].add(1);
    let out = written(|out| text::summary_row(out, ONCPU, &snapshot_of(scheme, &[cpu])));
    let words: Vec<_> = out.split_whitespace().take(9).collect();
    // The upper bound of the bucket of a million ns.
    let expected = [
        "oncpu", "2", "2ns", "5ns", "1.02ms", "1.02ms", "1.02ms", "1.02ms", "5ns",
    ];
    assert_eq!(words, expected);
}

#[test]
fn golden_status() {
    let mut out = String::new();
    text::status_line(&mut out, Scope::All, "version", "1.2.3").expect("a String takes all");
    text::status_line(&mut out, Scope::Cpu(17), "switches", 4).expect("a String takes all");
    assert_eq!(out, "version 1.2.3\ncpu17 switches 4\n");
}

/// The head, and then the outlier.
fn outlier(cpu: u32, outlier: &Outlier, culprits: &[Culprit]) -> String {
    written(|out| {
        text::outliers_head(out)?;
        text::outlier(out, cpu, outlier, culprits)
    })
}

#[test]
fn golden_outlier() {
    let sample = Sample::new(Metric::RunqWakeup, 30_000, Cause::Wakeup, 1_030_007);
    let example = Outlier {
        id: 17,
        sample,
        task: common::TASK,
        culprits: 3,
        missing: 5,
        longest: None,
    };
    let culprit = |(pid, prio, group), comm, ran, slices| Culprit {
        task: Identity {
            pid,
            prio,
            comm,
            group: Group::new(group).expect("below the maximum"),
        },
        ran,
        slices,
    };
    let culprits = [
        culprit(
            (4_194_303, 98, 1_048_575),
            *b"k w/1:2 \\x\\ end\\",
            29_000,
            2,
        ),
        culprit((0, 120, 0), *b"swapper/3\0\0\0\0\0\0\0", 994, 12),
        culprit((7, -1, 12), *b"\x1b\t\x7f\xc3\xa9\xff\0hidden\0\0\0", 1, 1),
    ];
    assert_eq!(
        outlier(3, &example, &culprits),
        "# schedhist outliers version 1\n\
         outlier id 17 metric runq_wakeup cause wakeup cpu 3 duration_ns 30000 start_ns 1000007 \
         end_ns 1030007 missing_ns 5 culprits 3 pid 42 prio 120 group 0 comm a \\x5c\\x0a task\n  \
         culprit id 17 ran_ns 29000 slices 2 pid 4194303 prio 98 group 1048575 comm k w/1:2 \\x5cx\\x5c end\\x5c\n  \
         culprit id 17 ran_ns 994 slices 12 pid 0 prio 120 group 0 comm swapper/3\n  \
         culprit id 17 ran_ns 1 slices 1 pid 7 prio -1 group 12 comm \\x1b\\x09\\x7f\\xc3\\xa9\\xff\n"
    );
    assert_eq!(
        outlier(
            0,
            &Outlier {
                culprits: 0,
                ..example
            },
            &[]
        ),
        "# schedhist outliers version 1\n\
         outlier id 17 metric runq_wakeup cause wakeup cpu 0 duration_ns 30000 start_ns 1000007 \
         end_ns 1030007 missing_ns 5 culprits 0 pid 42 prio 120 group 0 comm a \\x5c\\x0a task\n"
    );
    let long = Outlier {
        culprits: 0,
        longest: Some(Longest {
            cpu: 5,
            idle: 320,
            distance: Distance::Node,
        }),
        ..example
    };
    assert!(outlier(0, &long, &[])
        .contains(" missing_ns 5 culprits 0 idle_cpu 5 idle_ns 320 distance node pid 42 "));
}

#[test]
fn what_is_refused_is_quoted() {
    let cut = format!("\"{}\"...", "1".repeat(64));
    for (input, expected) in [
        (&b"2"[..], "\"2\""),
        (b"", "\"\""),
        (b" ~", "\" ~\""),
        (
            b"a \"b\"\\\0\n\xff",
            "\"a \\x22b\\x22\\x5c\\x00\\x0a\\xff\"",
        ),
        (&[b'1'; 64], &cut[..66]),
        (&[b'1'; 65], &cut),
    ] {
        assert_eq!(Quoted(input).to_string(), expected);
    }
}

/// The longest possible text.
#[test]
fn an_outlier_is_not_too_long() {
    let task = Identity {
        pid: i32::MIN,
        prio: i32::MIN,
        comm: [0xff; 16],
        group: Group::new(Group::MAX as u32 - 1).expect("the greatest"),
    };
    let culprit = Culprit {
        task,
        ran: u64::MAX,
        slices: u32::MAX,
    };
    let mut most = 0;
    for metric in Metric::ALL {
        for cause in Cause::ALL {
            // The start has 19 digits: it cannot have 20 if the duration does. All other numbers
            // have their maximum number of digits.
            let sample = Sample::new(metric, 10_u64.pow(19), cause, u64::MAX);
            let longest = Outlier {
                id: u64::MAX,
                sample,
                task,
                culprits: CULPRITS as u32,
                missing: u64::MAX,
                longest: Some(Longest {
                    cpu: u32::MAX,
                    idle: u64::MAX,
                    distance: Distance::Remote,
                }),
            };
            assert_eq!(longest.sample.start().to_string().len(), 19);
            let text = outlier(u32::MAX, &longest, &[culprit; CULPRITS]);
            assert_eq!(text.lines().count(), 2 + CULPRITS);
            most = most.max(text.len());
        }
    }
    // A `seq_file` that is full to the last byte counts as too small. One that is far larger wastes
    // memory.
    assert!((most + 1..2 * most).contains(&text::OUTLIER_MAX), "{most}");
}

fn any_identity() -> impl Strategy<Value = Identity> {
    let byte = prop_oneof![1 => Just(0), 20 => any::<u8>(), 20 => proptest::char::range(' ', '~').prop_map(|char| char as u8)];
    let comm = proptest::collection::vec(byte, 16);
    let group = 0..Group::MAX as u32;
    (any::<i32>(), any::<i32>(), comm, group).prop_map(|(pid, prio, comm, group)| Identity {
        pid,
        prio,
        comm: comm.try_into().expect("16 bytes"),
        group: Group::new(group).expect("below the maximum"),
    })
}

proptest! {
    /// A name has any bytes, up to its NUL.
    #[test]
    fn a_name_parses_back(task in any_identity()) {
        let sample = Sample::new(Metric::Idle, 1, Cause::Idle, 2);
        let whole = Outlier { id: 1, sample, task, culprits: 0, missing: 0, longest: None };
        let text = outlier(0, &whole, &[]);
        let ids = format!(" pid {} prio {} group {} comm ", task.pid, task.prio, task.group.number());
        let (_, name) = text.trim_end_matches('\n').split_once(&ids).expect("a task");
        let named: Vec<u8> = task.comm.iter().copied().take_while(|byte| *byte != 0).collect();
        prop_assert_eq!(unescaped(name), named);
        prop_assert_eq!(text.lines().count(), 2);
    }
}
