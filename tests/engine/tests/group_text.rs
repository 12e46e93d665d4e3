// SPDX-License-Identifier: GPL-2.0

//! The text formats of groups: golden texts, and their limits.

mod grouped;

use grouped::{group, kernel, user, Groups};
use proptest::prelude::*;
use schedhist_engine::engine::{
    format::groups::{self, Head},
    group::{
        list::Shown,
        reading::{GroupReading, Members},
        records::GroupMetric,
        rule::Rule,
        slices::GroupSlices,
        task_group::TaskGroup,
        totals::GroupTotals,
    },
    histogram::bucket::Scheme,
    metric::Metric,
    switch::{in_progress::Waits, sample::Observer},
};
use schedhist_engine::testing::written;

const NAME: &[u8] = b"/a b\\\n\xff.slice";
const ESCAPED: &str = r"/a b\x5c\x0a\xff.slice";
const MEMBERS: Members = Members {
    tasks: 17,
    is_live: true,
};

/// Two groups, in the second of which something of each kind happened.
fn example() -> Groups {
    let groups = Groups::new(3, Scheme::DEFAULT);
    groups.example(900);
    groups
}

fn totals(groups: &Groups, number: u32) -> GroupTotals {
    let mut totals = GroupTotals::default();
    totals.add(groups.of(number), |group| group);
    totals.add_placement(groups.placement_of(number));
    totals
}

fn line(groups: &Groups, number: u32, name: &[u8]) -> String {
    let histograms = groups.histograms(number);
    let one = GroupReading {
        group: group(number),
        name,
        members: MEMBERS,
        totals: totals(groups, number),
        slices: GroupSlices {
            ended: histograms[0].sum(),
            count: 2,
            in_progress: 1_234,
        },
        histograms,
    };
    written(|out| groups::group(out, &one))
}

#[test]
fn golden_group() {
    assert_eq!(
        line(&example(), 1, NAME),
        format!(
            "group id 1 \
             oncpu_count 2 oncpu_sum_ns 2000 oncpu_p50_ns 511 oncpu_p99_ns 1500 oncpu_max_ns 1500 \
             runq_count 4 runq_sum_ns 40000 runq_p50_ns 2047 runq_p99_ns 30000 runq_max_ns 30000 \
             offcpu_count 0 offcpu_sum_ns 0 offcpu_p50_ns - offcpu_p99_ns - offcpu_max_ns - \
             voluntary 2 involuntary 1 migrations 10 throttled 1 throttled_ns 900 not_in_histogram 0 \
             ended_by_own 1 ended_by_own_ns 1000 ended_by_other 1 ended_by_other_ns 30000 \
             ended_by_kernel 1 ended_by_kernel_ns 2000 ended_by_idle 1 ended_by_idle_ns 7000 \
             preempted_by_own 1 preempted_by_own_ns 1 preempted_by_other 1 preempted_by_other_ns 20 \
             preempted_by_kernel 1 preempted_by_kernel_ns 300 \
             preempted_by_idle 1 preempted_by_idle_ns 4000 \
             migrations_core 1 migrations_llc 2 migrations_node 3 migrations_remote 4 \
             long_waits 2 long_wait_waited_ns 200 long_wait_own_idle_ns 20 \
             long_wait_llc_idle_ns 40 long_wait_remote_idle_ns 60 long_wait_unknown_ns 30 \
             long_wait_busy_ns 50 long_waits_moved 0 long_waits_moved_ns 0 \
             long_waits_forked 2 long_waits_forked_ns 200 long_waits_preempted 0 long_waits_preempted_ns 0 \
             long_waits_woken_idle 0 long_waits_woken_idle_ns 0 \
             long_waits_woken_busy 0 long_waits_woken_busy_ns 0 \
             oncpu_in_progress 2 oncpu_in_progress_ns 1234 tasks 17 live 1 name {ESCAPED}\n"
        )
    );
}

/// Without histograms there are no quantiles, but the rest is as it is.
#[test]
fn golden_group_without_histograms() {
    let groups = Groups::without_histograms(1, Scheme::DEFAULT);
    groups.observer().enter(user(0));
    groups.sample(Metric::Offcpu, 77, 100);
    let start = "group id 0 oncpu_count 0 oncpu_sum_ns 0 oncpu_p50_ns - oncpu_p99_ns - \
                 oncpu_max_ns - runq_count 0 runq_sum_ns 0 runq_p50_ns - runq_p99_ns - runq_max_ns \
                 - offcpu_count 1 offcpu_sum_ns 77 offcpu_p50_ns - offcpu_p99_ns - offcpu_max_ns 77 \
                 voluntary 0 involuntary 0 migrations 0 throttled 0 throttled_ns 0 not_in_histogram 1 \
                 ended_by_own 0 ";
    let text = line(&groups, 0, b"other");
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with(" oncpu_in_progress_ns 1234 tasks 17 live 1 name other\n"));
}

/// A group of which something is in progress has a line, and only such a group.
#[test]
fn golden_in_progress() {
    let mut out = String::new();
    let none = Waits::default();
    let some = Waits {
        count: 3,
        sum: 1 << 65,
    };
    for (number, waits, unseen) in [(1, &none, &none), (2, &some, &none), (3, &none, &some)] {
        groups::in_progress(&mut out, group(number), waits, unseen).expect("a String takes all");
    }
    assert_eq!(
        out,
        "in_progress id 2 runq_in_progress 3 runq_in_progress_ns 36893488147419103232 \
         oncpu_unseen 0 oncpu_unseen_ns 0\n\
         in_progress id 3 runq_in_progress 0 runq_in_progress_ns 0 \
         oncpu_unseen 3 oncpu_unseen_ns 36893488147419103232\n"
    );
}

#[test]
fn golden_head_and_neighbour() {
    let rule = Rule::parse(b"cgroup depth 2").expect("a rule");
    let head = Head {
        time: 1 << 63,
        limit: 255,
        refused: 7,
        memory: 4096,
        gone: 12,
        unfollowed: 3,
        late: 5,
        no_memory: 5,
    };
    let mut out = written(|out| groups::head(out, rule, &head));
    let waits = (3, u128::from(u64::MAX) + 1);
    out += &written(|out| groups::neighbour(out, group(2), group(17), waits, NAME));
    assert_eq!(
        out,
        format!(
            "# schedhist groups version 1\n\
             group_by cgroup depth 2\n\
             time 9223372036854775808\n\
             limit 255\n\
             refused 7\n\
             memory_bytes 4096\n\
             gone 12\n\
             unfollowed 3\n\
             late 5\n\
             no_memory 5\n\
             \x20 neighbour id 17 of 2 ended 3 ended_ns 18446744073709551616 name {ESCAPED}\n"
        )
    );
}

#[test]
fn golden_rules() {
    let mut out = written(groups::rules_head);
    let rule = Shown {
        name: b"web",
        text: b"comm a b*",
    };
    out += &written(|out| groups::rule(out, rule));
    assert_eq!(
        out,
        "# schedhist group rules version 1\nrule web comm a b*\n"
    );
}

#[test]
fn golden_histograms() {
    let example = example();
    let [oncpu, _, offcpu] = example.histograms(1);
    let out = written(|out| {
        groups::histogram(out, GroupMetric::Oncpu, group(1), NAME, &oncpu)?;
        groups::histogram(out, GroupMetric::Offcpu, group(1), NAME, &offcpu)
    });
    assert_eq!(
        out,
        format!(
            "# schedhist group histogram version 1\n\
             metric oncpu\n\
             group 1\n\
             name {ESCAPED}\n\
             unit ns\n\
             precision 3\n\
             count 2\n\
             sum 2000\n\
             max 1500\n\
             max_cpu 3\n\
             max_time 2000000\n\
             max_pid 1\n\
             max_prio 120\n\
             max_comm prev\n\
             p50 480 511\n\
             p90 1408 1535\n\
             p99 1408 1535\n\
             p99.9 1408 1535\n\
             p99.99 1408 1535\n\
             bucket 480 511 1\n\
             bucket 1408 1535 1\n\
             # schedhist group histogram version 1\n\
             metric offcpu\n\
             group 1\n\
             name {ESCAPED}\n\
             unit ns\n\
             precision 3\n\
             count 0\n\
             sum 0\n"
        )
    );
}

fn row(groups: &Groups, number: u32, neighbour: Option<&[u8]>) -> String {
    let (totals, histograms) = (totals(groups, number), groups.histograms(number));
    written(|out| groups::summary_row(out, NAME, &totals, &histograms, neighbour))
}

#[test]
fn golden_summary() {
    let mut out = written(|out| groups::summary_head(out, "comm", true));
    out += &written(|out| groups::summary_head(out, Rule::None, false));
    let example = example();
    out += &row(&example, 1, Some(b"the\tother"));
    out += &row(&example, 2, None);
    let expected = format!(
        "\
# schedhist group summary version 1, by comm, enabled
     oncpu     waits    waited       p50       p99       max    own other kernel  idle  group, most kept waiting by
# schedhist group summary version 1, by none, disabled
     oncpu     waits    waited       p50       p99       max    own other kernel  idle  group, most kept waiting by
    2.00us         4    40.0us    2.05us    30.0us    30.0us     2%   75%     5%   17%  {ESCAPED}, the\\x09other
       0ns         0       0ns         -         -         -     0%    0%     0%    0%  {ESCAPED}
"
    );
    assert_eq!(out, expected);
}

/// Returns the shares of own, other, kernel and idle in a row.
fn shares(waits: [u64; 4]) -> [u64; 4] {
    let groups = Groups::new(3, Scheme::DEFAULT);
    let culprits = [user(1), user(2), kernel(0), TaskGroup::IDLE];
    for (culprit, wait) in culprits.into_iter().zip(waits) {
        if wait != 0 {
            groups.wait(1, culprit, wait);
        }
    }
    let row = row(&groups, 1, None);
    let shares: Vec<u64> = row
        .split_whitespace()
        .filter_map(|word| word.strip_suffix('%'))
        .map(|word| word.parse().expect("a number"))
        .collect();
    shares.try_into().expect("there are four")
}

#[test]
fn shares_of_waits() {
    // The longest duration that a clock can measure.
    const HUGE: u64 = (1 << 63) - 1;

    for (waits, expected) in [
        ([0, 0, 0, 0], [0, 0, 0, 0]),
        ([1, 99_999, 0, 0], [0, 99, 0, 0]),
        ([HUGE, 0, 0, 0], [100, 0, 0, 0]),
        ([HUGE / 2, HUGE / 2, 0, 0], [50, 50, 0, 0]),
        ([HUGE / 3, HUGE / 3, HUGE / 3, 0], [33, 33, 33, 0]),
    ] {
        assert_eq!(shares(waits), expected, "{waits:?}");
    }
}

proptest! {
    /// Shares are rounded down, unless the sum is so large that no time that passes comes near it.
    #[test]
    fn shares_are_rounded_down(
        waits in prop::array::uniform4((0..u64::MAX / 400, 0..64_u32)),
    ) {
        let waits = waits.map(|(bits, shift)| bits >> shift);
        let sum: u64 = waits.iter().sum();
        let expected = waits.map(|wait| (wait * 100).checked_div(sum).unwrap_or(0));
        prop_assert_eq!(shares(waits), expected);
    }

    #[test]
    fn shares_never_overflow(waits in prop::array::uniform4(any::<u64>())) {
        let waits = waits.map(|wait| wait.min((1 << 63) - 1));
        prop_assert!(shares(waits).into_iter().all(|share| share <= 100));
    }
}

#[test]
fn golden_tasks() {
    let mut out = written(groups::tasks_head);
    out += &written(|out| groups::task(out, 42, group(3), b"a \\b\n\0rest"));
    assert_eq!(
        out,
        "# schedhist group tasks version 1\ntask pid 42 group 3 comm a \\x5cb\\x0a\n"
    );
}
