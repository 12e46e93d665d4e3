// SPDX-License-Identifier: GPL-2.0

//! The OpenMetrics text of groups, read back.

mod grouped;
mod parser;

use grouped::{group, user, Groups};
use parser::Parser;
use proptest::{collection::vec, prelude::*};
use schedhist_engine::engine::{
    format::{
        group_openmetrics::{self as format, All, LabelValue},
        openmetrics,
    },
    group::{records::GroupMetric, totals::GroupTotals, verdict::Group},
    histogram::bucket::Scheme,
    metric::{Counter, Metric},
    switch::sample::Observer,
};

const ALL: All = All {
    groups: 3,
    left_out: 0,
    limit: 255,
    refused: 7,
    memory: 4096,
};

fn label(name: &[u8], repeated: Option<Group>) -> String {
    LabelValue { name, repeated }.to_string()
}

fn totals(groups: &Groups, number: u32) -> GroupTotals {
    let mut totals = GroupTotals::default();
    totals.add(groups.of(number), |group| group);
    totals
}

/// Writes a whole text, in which the groups from 0 on have `names`.
fn text(groups: &Groups, names: &[String]) -> String {
    let mut out = String::new();
    let totals: Vec<_> = (0..).zip(names).map(|(i, _)| totals(groups, i)).collect();
    let shown = || names.iter().map(String::as_str).zip(&totals);
    format::head(&mut out, "cgroup under /\"a\\x5cb\"", &ALL).expect("a String takes all");
    format::counters(&mut out, shown()).expect("a String takes all");
    let mut missing = vec![0; names.len()];
    for metric in GroupMetric::ALL {
        format::histogram_head(&mut out, metric).expect("a String takes all");
        for (i, (name, totals)) in shown().enumerate() {
            let histogram = &groups.histograms(i as u32)[metric as usize];
            let count = totals.samples(metric);
            missing[i] += count - histogram.count();
            format::histogram_samples(&mut out, metric, name, count, histogram)
                .expect("a String takes all");
        }
    }
    let missing = names.iter().map(String::as_str).zip(missing);
    format::not_in_histogram(&mut out, missing).expect("a String takes all");
    openmetrics::end(&mut out).expect("a String takes all");
    out
}

/// Two groups, in the second of which something of each kind happened.
fn example(groups: Groups) -> Groups {
    groups.example(1_000_000_900);
    groups
}

#[test]
fn golden() {
    let names = [label(b"other", None), label(b"/a \"b\"\\\n\xff", None)];
    let text = text(&example(Groups::new(3, Scheme::DEFAULT)), &names);
    let group = r#"group="/a \"b\"\\x5c\\x0a\\xff""#;
    for lines in [
        "# HELP schedhist_group_by_info What the tasks of a group have in common.\n\
         # TYPE schedhist_group_by_info gauge\n\
         schedhist_group_by_info{rule=\"cgroup under /\\\"a\\\\x5cb\\\"\"} 1\n\
         # HELP schedhist_groups "
            .into(),
        "\nschedhist_groups 3\n".into(),
        "\nschedhist_groups_left_out 0\n".into(),
        "\nschedhist_group_limit 255\n".into(),
        "# TYPE schedhist_group_refused counter\nschedhist_group_refused_total 7\n".into(),
        "# TYPE schedhist_group_memory_bytes gauge\n\
         # UNIT schedhist_group_memory_bytes bytes\n\
         schedhist_group_memory_bytes 4096\n"
            .into(),
        format!(
            "# TYPE schedhist_group_voluntary counter\n\
             schedhist_group_voluntary_total{{group=\"other\"}} 0\n\
             schedhist_group_voluntary_total{{{group}}} 2\n"
        ),
        format!("\nschedhist_group_involuntary_total{{{group}}} 1\n"),
        format!("\nschedhist_group_migrations_total{{{group}}} 1\n"),
        format!("\nschedhist_group_throttled_total{{{group}}} 1\n"),
        format!(
            "# TYPE schedhist_group_throttled_seconds counter\n\
             # UNIT schedhist_group_throttled_seconds seconds\n\
             schedhist_group_throttled_seconds_total{{group=\"other\"}} 0.000000000\n\
             schedhist_group_throttled_seconds_total{{{group}}} 1.000000900\n"
        ),
        format!(
            "schedhist_group_ended_by_total{{{group},culprit=\"own\"}} 1\n\
             schedhist_group_ended_by_total{{{group},culprit=\"other\"}} 1\n\
             schedhist_group_ended_by_total{{{group},culprit=\"kernel\"}} 1\n\
             schedhist_group_ended_by_total{{{group},culprit=\"idle\"}} 1\n\
             # HELP schedhist_group_ended_by_seconds Waits for a CPU that ended while the culprit \
             had the CPU: their sum.\n\
             # TYPE schedhist_group_ended_by_seconds counter\n\
             # UNIT schedhist_group_ended_by_seconds seconds\n"
        ),
        format!(
            "schedhist_group_ended_by_seconds_total{{{group},culprit=\"own\"}} 0.000001000\n\
             schedhist_group_ended_by_seconds_total{{{group},culprit=\"other\"}} 0.000030000\n\
             schedhist_group_ended_by_seconds_total{{{group},culprit=\"kernel\"}} 0.000002000\n\
             schedhist_group_ended_by_seconds_total{{{group},culprit=\"idle\"}} 0.000007000\n"
        ),
        format!("\nschedhist_group_preempted_by_total{{{group},culprit=\"kernel\"}} 1\n"),
        format!(
            "\nschedhist_group_preempted_by_seconds_total{{{group},culprit=\"kernel\"}} \
             0.000000300\n"
        ),
        "# HELP schedhist_group_runq_seconds Waits of tasks for a CPU.\n\
         # TYPE schedhist_group_runq_seconds histogram\n\
         # UNIT schedhist_group_runq_seconds seconds\n\
         schedhist_group_runq_seconds_bucket{group=\"other\",le=\"0.000000255\"} 0\n"
            .into(),
        format!(
            "schedhist_group_runq_seconds_bucket{{{group},le=\"0.000001023\"}} 1\n\
             schedhist_group_runq_seconds_bucket{{{group},le=\"0.000002047\"}} 2\n\
             schedhist_group_runq_seconds_bucket{{{group},le=\"0.000004095\"}} 2\n\
             schedhist_group_runq_seconds_bucket{{{group},le=\"0.000008191\"}} 3\n"
        ),
        format!(
            "schedhist_group_runq_seconds_bucket{{{group},le=\"1099.511627775\"}} 4\n\
             schedhist_group_runq_seconds_bucket{{{group},le=\"+Inf\"}} 4\n\
             schedhist_group_runq_seconds_count{{{group}}} 4\n\
             schedhist_group_runq_seconds_sum{{{group}}} 0.000040000\n"
        ),
        format!("\nschedhist_group_not_in_histogram{{{group}}} 0\n# EOF\n"),
    ] {
        assert!(text.contains(&lines), "{lines} is not in {text}");
    }
}

/// The counters of a group are described as those of a CPU.
#[test]
fn help() {
    let text = text(
        &example(Groups::new(2, Scheme::DEFAULT)),
        &[label(b"a", None)],
    );
    for (name, help) in [
        ("voluntary", Counter::Voluntary.help()),
        ("involuntary", Counter::Involuntary.help()),
        ("migrations", Counter::Migrations.help()),
        ("throttled", Counter::Throttled.help()),
        ("throttled_seconds", Metric::Throttled.help()),
    ] {
        let line = format!("# HELP schedhist_group_{name} {help}\n");
        assert!(text.contains(&line), "{line} is not in {text}");
    }
}

/// Without histograms, counts and sums are still those of all samples.
#[test]
fn what_is_in_no_histogram_is_in_the_last_bucket() {
    let names = [label(b"other", None), label(b"a", None)];
    let groups = example(Groups::without_histograms(3, Scheme::DEFAULT));
    let text = text(&groups, &names);
    for lines in [
        "schedhist_group_oncpu_seconds_bucket{group=\"a\",le=\"1099.511627775\"} 0\n\
         schedhist_group_oncpu_seconds_bucket{group=\"a\",le=\"+Inf\"} 2\n\
         schedhist_group_oncpu_seconds_count{group=\"a\"} 2\n\
         schedhist_group_oncpu_seconds_sum{group=\"a\"} 0.000002000\n",
        "\nschedhist_group_not_in_histogram{group=\"a\"} 6\n",
    ] {
        assert!(text.contains(lines), "{lines} is not in {text}");
    }
}

/// No two groups have the same label, whatever their names are.
#[test]
fn labels_differ() {
    assert_eq!(label(b"other", Some(group(5))), "other\\\\#5");
    // What another name can look like is escaped.
    assert_eq!(label(b"other\\#5", None), "other\\\\x5c#5");
}

/// What OpenMetrics allows in a label value, and its value.
fn unescape(label: &str) -> Option<String> {
    let (mut value, mut chars) = (String::new(), label.chars());
    while let Some(c) = chars.next() {
        value.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            },
            '"' | '\n' => return None,
            c => c,
        });
    }
    Some(value)
}

proptest! {
    #[test]
    fn labels_are_escaped(
        names in prop::array::uniform2(vec(any::<u8>(), 0..40)),
        number in 0..4096_u32,
    ) {
        let repeated = Some(group(number));
        let labels = [label(&names[0], None), label(&names[1], None), label(&names[0], repeated)];
        let values = labels.each_ref().map(|label| unescape(label).expect("it is escaped"));
        prop_assert_eq!(values[0] == values[1], names[0] == names[1]);
        prop_assert_ne!(&values[0], &values[2]);
        prop_assert_ne!(&values[1], &values[2]);
    }

    /// The text of a group is never longer than stated, however large the numbers are.
    #[test]
    fn length_is_bounded(
        name in vec(any::<u8>(), 0..200),
        values in vec(prop_oneof![any::<u64>(), Just(u64::MAX)], 1..20),
    ) {
        let groups = Groups::new(2, Scheme::DEFAULT);
        for value in values {
            let value = value.min((1 << 63) - 1);
            groups.wait(0, user(1), value);
            groups.observer().preempted(user(1), value);
            groups.observer().throttled(value);
            groups.sample(Metric::Oncpu, value, u64::MAX);
            groups.sample(Metric::Offcpu, value, u64::MAX);
        }
        let label = label(&name, Some(group(1_048_575)));
        let len = |names: &[String]| text(&groups, names).len();
        let head = len(&[]);
        prop_assert!(head <= format::HEAD_LEN);
        prop_assert!(len(&[label.clone()]) <= head + format::group_len(label.len()));
    }
}

/// Each line has room for the longest numbers.
#[test]
fn lines_are_bounded() {
    let (label, number) = ("LABEL", u64::MAX.to_string());
    let text = text(&Groups::new(1, Scheme::DEFAULT), &[label.into()]);
    let lines: Vec<_> = text.lines().filter(|line| line.contains(label)).collect();
    let room = format::group_len(label.len()) / lines.len();
    assert_eq!(format::group_len(label.len()) % lines.len(), 0);
    for line in lines {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        // A sum of times has 39 digits at most, but has no more than 29 in a million years.
        let value = match value.contains('.') {
            true => "12345678901234567890.123456789",
            false => &number,
        };
        assert!(name.len() + 1 + value.len() < room, "{line}: {room}");
    }
}

/// There is room for as many groups as stated.
#[test]
fn room_is_as_stated() {
    assert!(1500 * format::group_len(50) <= format::MAX_LEN);
    assert!(format::group_len(format::MAX_LABEL) * 200 <= format::MAX_LEN);
}

/// A published parser accepts the text. Runs only if `PYTHON` is a Python that has the parser.
#[test]
#[cfg_attr(miri, ignore)]
fn published_parser_takes_it() {
    let Some(parser) = Parser::find() else {
        return;
    };
    let names = [
        label(b"other", None),
        label(b"/a \"b\"\\\n\xff", None),
        label(b"other", Some(group(2))),
    ];
    for groups in [
        Groups::new(3, Scheme::DEFAULT),
        example(Groups::new(3, Scheme::DEFAULT)),
        example(Groups::without_histograms(3, Scheme::DEFAULT)),
    ] {
        let text = text(&groups, &names);
        parser.assert_accepts(&text);
    }
}
