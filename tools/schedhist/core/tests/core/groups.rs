// SPDX-License-Identifier: GPL-2.0

//! Tests of groups between two snapshots.

use super::*;

/// What a group is blamed for is what others say of it, and the rest is told.
#[test]
fn offenders_of_groups() {
    let row = |name: &str, other: u64, neighbours: &[(&str, u64)]| GroupRow {
        name: name.to_owned(),
        ended_ns: [7, other, 7, 7],
        neighbours: neighbours
            .iter()
            .map(|(name, ns)| (String::from(*name), *ns))
            .collect(),
        ..GroupRow::default()
    };
    let rows = [
        row("a", 100, &[("c", 60), ("b", 30)]),
        row("b", 50, &[("a", 50)]),
        row("c", 0, &[]),
        row("d", u64::MAX, &[("b", 40)]),
    ];
    let (found, unnamed) = offenders(&rows);
    let found: Vec<_> = found
        .iter()
        .map(|it| (&*it.name, it.kept_ns, &*it.waited))
        .collect();
    assert_eq!(
        found,
        [
            ("b", 70, &[(3, 40), (0, 30)][..]),
            ("c", 60, &[(0, 60)]),
            ("a", 50, &[(1, 50)]),
        ]
    );
    assert_eq!(unnamed, u64::MAX - 30);
    assert_eq!(offenders(&[]), (vec![], 0));
}

/// A number may be another group's by now, and a process may have another name.
#[test]
fn groups_of_two_times() {
    let by = |rule: &str| {
        let text = format!("# schedhist groups version 1\ngroup_by {rule}\nlimit 255\n");
        early(&text).unwrap()
    };
    for (rule, earlier, name, is_same) in [
        ("cgroup", "/a", "/a", true),
        ("cgroup depth 2", "/a", "/b", false),
        ("comm", "1:a", "1:b", false),
        ("process", "12:bash", "12:make", true),
        ("process 12 13", "12:bash", "13:bash", false),
        ("thread", "12:a:b", "12:c", true),
        ("process", "other", "other", true),
        ("process", "gone", "12:bash", false),
    ] {
        assert_eq!(
            by(rule).is_same(earlier, name),
            is_same,
            "{rule}: {earlier}, {name}"
        );
    }
    let groups = by("cgroup");
    assert!(groups.is_gone(256) && !groups.is_gone(255) && !groups.is_gone(0));
    let early = early("# schedhist groups version 1\ngroup_by comm\n").unwrap();
    assert!(!early.is_gone(1));
}

#[test]
fn groups_with_spaces_in_their_names() {
    let mut machine = Machine::new(1, 5, 1);
    machine.groups = Some(Groups::new(GROUPS, ""));
    let of_raw = raw::groups(&machine.raw()).unwrap().unwrap();
    let of_text = early(GROUPS).unwrap();
    assert_eq!(of_text.groups[1].runq_p99, Some(9));
    assert_eq!(of_text.groups[0].runq_p99, None);
    assert_eq!((of_raw.memory, of_raw.since), (Some(1000), Some(1)));
    for groups in [of_raw, of_text] {
        assert_eq!((groups.rule.as_str(), groups.refused), ("cgroup", 2));
        let group = &groups.groups[1];
        assert_eq!(&*group.name, "/a b");
        assert_eq!(group.samples[GroupMetric::Runq as usize].count, 3);
        assert_eq!(group.neighbours[0].ended, (2, 30));
        assert_eq!(&*group.neighbours[0].name, "other");
    }
}

/// A group with a number that another one had, or with counts that went back, is a new one.
#[test]
fn groups_of_an_interval() {
    // Each group has a number, the time on a CPU, waits, their sum, and that of those that idle
    // ended.
    let parse = |rule: &str, all: &[([u64; 5], &str)]| {
        let mut text =
            format!("# schedhist groups version 1\ngroup_by {rule}\nlimit 9\nrefused 0\n");
        for ([id, oncpu, waits, ns, idle], name) in all {
            text += &format!(
                "group id {id} oncpu_sum_ns {oncpu} runq_count {waits} runq_sum_ns {ns} \
                 runq_p99_ns 7 ended_by_idle_ns {idle} name {name}\n"
            );
        }
        early(&text).unwrap()
    };
    let between = |old: Option<&raw::Groups>, new: &raw::Groups| -> Vec<_> {
        let rows = GroupWindow::new(old, new).rows().into_iter();
        rows.map(|row| {
            assert_eq!(row.ended_ns[..3], [0, 0, 0]);
            assert_eq!(row.runq, (Some(7), None));
            let counts = [row.oncpu_ns, row.waits.0, row.waits.1, row.ended_ns[3]];
            (row.id, row.name, counts)
        })
        .collect()
    };
    let row = |id, name: &str, counts: [u64; 4]| (id, name.to_owned(), counts);
    let all = [
        ([0, 5, 9, 90, 80], "other"),
        ([1, 5, 2, 20, 20], "1:a"),
        ([3, 5, 2, 20, 20], "0:first by name"),
        ([4, 0, 0, 0, 0], "4:did nothing"),
        ([10, 5, 3, 40, 0], "gone"),
    ];
    let old = parse("process", &all);
    let whole = [
        row(0, "other", [5, 9, 90, 80]),
        row(10, "gone", [5, 3, 40, 0]),
        row(3, "0:first by name", [5, 2, 20, 20]),
        row(1, "1:a", [5, 2, 20, 20]),
    ];
    assert_eq!(between(None, &old), whole);
    let new = [
        ([0, 5, 9, 90, 80], "other"),
        ([1, 6, 5, 60, 30], "1:b"),
        ([2, 5, 1, 50, 50], "2:c"),
        ([10, 9, 8, 99, 20], "gone"),
    ];
    let since = [row(2, "2:c", [5, 1, 50, 50]), row(1, "1:b", [1, 3, 40, 10])];
    assert_eq!(between(Some(&old), &parse("process", &new)), since);
    // A cgroup with another name is another one, and another rule begins anew.
    let renamed = row(1, "1:b", [6, 5, 60, 30]);
    let cgroups = parse("cgroup", &new);
    assert_eq!(between(Some(&parse("cgroup", &all)), &cgroups)[0], renamed);
    let other = row(0, "other", [5, 9, 90, 80]);
    assert_eq!(between(Some(&old), &cgroups)[1], other);
    // One count went back.
    for place in 0..4 {
        let mut counts = [6, 3, 30, 30];
        counts[place] = [4, 1, 19, 19][place];
        let [oncpu, waits, ns, idle] = counts;
        let again = parse("process", &[([1, oncpu, waits, ns, idle], "1:a")]);
        assert_eq!(between(Some(&old), &again), [row(1, "1:a", counts)]);
    }
}

/// Of the neighbours of a group, only what they did between two texts counts.
#[test]
fn neighbours_of_an_interval() {
    let text = |other: u64, neighbours: &[(u32, u64, &str)]| {
        let mut text = format!(
            "# schedhist groups version 1\ngroup_by process\nlimit 255\nrefused 0\n\
             group id 1 runq_count {other} ended_by_other_ns {other} name 1:a\n"
        );
        for (id, ns, name) in neighbours {
            text += &format!("  neighbour id {id} of 1 ended 1 ended_ns {ns} name {name}\n");
        }
        early(&text).unwrap()
    };
    let between = |old, new| GroupWindow::new(old, new).rows()[0].neighbours.clone();
    let named = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
        all.iter()
            .map(|(name, ns)| ((*name).to_owned(), *ns))
            .collect()
    };
    // All are named, for 600 ns.
    let old = text(600, &[(2, 300, "2:b"), (3, 210, "3:c"), (256, 90, "gone")]);
    // One is renamed, one is new, and one is another process that has got the number.
    let new = text(
        1500,
        &[
            (2, 700, "2:exec"),
            (5, 60, "5:e"),
            (3, 250, "9:c"),
            (256, 400, "gone"),
        ],
    );
    let since = named(&[("2:exec", 400), ("9:c", 250), ("5:e", 60)]);
    assert_eq!(between(Some(&old), &new), since);
    let whole = [("2:exec", 700), ("gone", 400), ("9:c", 250), ("5:e", 60)];
    assert_eq!(between(None, &new), named(&whole));
    // For 4000 ns, no group was named: all of that may have been the one that is named now.
    let old = text(4600, &[(2, 300, "2:b"), (3, 300, "3:c")]);
    let new = text(
        8600,
        &[(20, 7100, "20:late"), (2, 390, "2:b"), (21, 3900, "21:may")],
    );
    assert_eq!(
        between(Some(&old), &new),
        named(&[("20:late", 3100), ("2:b", 90)])
    );
    // Nobody kept it waiting for longer than all together.
    let new = text(4610, &[(2, 390, "2:b")]);
    assert_eq!(between(Some(&old), &new), named(&[("2:b", 10)]));
    // Another group has the number: all of this is its.
    let new = text(4590, &[(2, 390, "2:b")]);
    assert_eq!(between(Some(&old), &new), named(&[("2:b", 390)]));
}

/// Returns one group with so many waits of 1 ns, of which so many are in its histogram.
fn one_group(name: &str, waits: u64, in_histogram: u64) -> raw::Groups {
    let mut group = raw::Group::new(1, name);
    group.samples[GroupMetric::Runq as usize] = raw::GroupSamples {
        count: waits,
        sum: waits.into(),
        max: 1,
        buckets: (in_histogram != 0)
            .then_some((1, in_histogram))
            .into_iter()
            .collect(),
    };
    raw::Groups {
        rule: "cgroup".to_owned(),
        time: Some(2),
        since: Some(1),
        limit: Some(9),
        refused: 0,
        memory: None,
        scheme: Scheme::new(Precision::new(3).unwrap()),
        groups: vec![group],
    }
}

#[test]
fn waits_of_a_group_in_an_interval() {
    let since = |old: Option<&raw::Groups>, new: &raw::Groups| {
        let between = GroupWindow::new(old, new);
        let samples = between.samples(&new.groups[0], &[GroupMetric::Runq]);
        let missing = between.not_in_histogram(&new.groups[0], &GroupMetric::ALL);
        let lost = between.lost().len();
        (between.rows()[0].waits.0, samples.count(), missing, lost)
    };
    let old = one_group("/a", 5, 5);
    assert_eq!(since(None, &old), (5, 5, 0, 0));
    assert_eq!(since(Some(&old), &one_group("/a", 7, 7)), (2, 2, 0, 0));
    // Some had no histogram.
    assert_eq!(since(Some(&old), &one_group("/a", 9, 7)), (4, 2, 2, 0));
    let none = one_group("/a", 5, 0);
    assert_eq!(since(Some(&none), &one_group("/a", 7, 2)), (2, 2, 0, 0));
    // The histogram may be ahead, as it is read later.
    assert_eq!(since(Some(&old), &one_group("/a", 6, 7)), (1, 2, 0, 0));
    // Another group has got the number: by its name, or as it went back.
    assert_eq!(since(Some(&old), &one_group("/b", 7, 7)), (7, 7, 0, 1));
    assert_eq!(since(Some(&old), &one_group("/a", 4, 4)), (4, 4, 0, 0));
    // It was grouped anew.
    let mut anew = one_group("/a", 7, 7);
    anew.since = Some(2);
    assert_eq!(since(Some(&old), &anew), (7, 7, 0, 0));
}

/// A wait that is in no histogram may be the longest of an interval.
#[test]
fn the_longest_wait_without_histogram() {
    let with_max = |waits, in_histogram, max| {
        let mut groups = one_group("/a", waits, in_histogram);
        groups.groups[0].samples[GroupMetric::Runq as usize].max = max;
        groups
    };
    let max = |old, new: &raw::Groups| {
        let between = GroupWindow::new(Some(old), new);
        let samples = between.samples(&new.groups[0], &[GroupMetric::Runq]);
        samples.max
    };
    let old = with_max(5, 5, 100);
    assert_eq!(max(&old, &with_max(7, 7, 100)), Max::AtMost(1));
    assert_eq!(max(&old, &with_max(8, 7, 100)), Max::AtMost(100));
    assert_eq!(max(&old, &with_max(8, 7, 500)), Max::Exact(500));
    assert_eq!(max(&old, &with_max(6, 5, 500)), Max::None);
}

/// Samples in no histogram may be longer than a limit, but not than the longest of all.
#[test]
fn a_limit_of_a_group_without_histogram() {
    let judged_since = |old, in_histogram, what: &str| {
        let mut groups = one_group("/a", 30, in_histogram);
        groups.groups[0].samples[GroupMetric::Runq as usize].max = 1_000_000;
        let limit = Limit::parse(&format!("runq.{what}")).unwrap();
        let of = Samples {
            windows: &[],
            groups: vec![(old, &groups)],
            are_recorded: false,
        };
        let judged = limit.judge(&of);
        (judged.is_kept, judged.about)
    };
    let judged = |in_histogram, what: &str| judged_since(None, in_histogram, what);
    let kept = (Some(true), "1ns".to_owned());
    assert_eq!(judged(30, "p50 of /a < 1us"), kept);
    let at_most = (Some(true), "at most 1ns".to_owned());
    assert_eq!(judged(28, "p50 of /a < 1us"), at_most);
    let missing = |count| (None, format!("{count} samples are in no histogram"));
    assert_eq!(judged(10, "p50 of /a < 1us"), missing(20));
    let at_most = (Some(true), "at most 1.00ms".to_owned());
    assert_eq!(judged(10, "p50 of /a < 2ms"), at_most);
    let at_least = (Some(false), "at least 1ns".to_owned());
    assert_eq!(judged(28, "p50 of /a < 1ns"), at_least);
    assert_eq!(judged(28, "max of /a < 2ms").0, Some(true));
    assert_eq!(judged(28, "max of /a < 1us").0, Some(false));
    let escaped = one_group(r"/a\x5cx2db", 30, 30);
    let of = Samples {
        windows: &[],
        groups: vec![(None, &escaped)],
        are_recorded: false,
    };
    for name in [r"a\x2db", r"/a\x5cx2db"] {
        let limit = Limit::parse(&format!("runq.p50 of {name} < 1us")).unwrap();
        assert_eq!(limit.judge(&of).is_kept, Some(true), "{name}");
    }
    // Of an interval, the maximum is a bound.
    let mut old = one_group("/a", 10, 10);
    old.groups[0].samples[GroupMetric::Runq as usize].max = 1_000_000;
    let bound = (Some(true), "<1ns".to_owned());
    assert_eq!(judged_since(Some(&old), 30, "max of /a < 1us"), bound);
    assert_eq!(judged_since(Some(&old), 28, "max of /a < 1us"), missing(2));
    let at_least = (Some(false), "at least 1ns".to_owned());
    assert_eq!(judged_since(Some(&old), 28, "max of /a < 1ns"), at_least);
    // Of two groups, the first has lost all samples, of up to 1 ms; the other's maximum is exact.
    let mut new = one_group("/a", 30, 10);
    new.groups[0].samples[GroupMetric::Runq as usize].max = 1_000_000;
    let other = one_group("/b/a", 30, 30);
    let of = Samples {
        windows: &[],
        groups: vec![(Some(&old), &new), (None, &other)],
        are_recorded: false,
    };
    let judged = |text| Limit::parse(text).unwrap().judge(&of).is_kept;
    assert_eq!(judged("runq.max of a < 1us"), None);
    assert_eq!(judged("runq.max of a < 2ms"), Some(true));
}

/// A name is sure from when it was seen first until it was seen last.
#[test]
fn names_that_are_sure() {
    let mut names = SureNames::default();
    names.see(10, Some(&one_group("/a", 1, 1)));
    names.see(20, Some(&one_group("/a", 2, 2)));
    let of = |names: &SureNames, time| names.of([1].into_iter(), time).remove(&1);
    assert_eq!(of(&names, (10, 20)).as_deref(), Some("/a"));
    assert_eq!(of(&names, (9, 20)), None);
    assert_eq!(of(&names, (10, 21)), None);
    names.see(30, Some(&one_group("/b", 3, 3)));
    assert_eq!(of(&names, (10, 20)), None);
    assert_eq!(of(&names, (30, 30)).as_deref(), Some("/b"));
}
