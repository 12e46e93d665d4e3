// SPDX-License-Identifier: GPL-2.0

//! `check`: limits that are kept, broken, and neither; and as rules that promtool accepts.

use std::{fs, process::Command};

use schedhist_core::engine::{self, metric::MetricSet};

mod support;

use support::{
    has, said,
    sim::{Groups, Machine, GROUP_RUNQ},
    Folder,
};

const GROUPS: &str = "# schedhist groups version 1
group_by cgroup
refused 0
group id 0 oncpu_sum_ns 0 runq_count 0 runq_sum_ns 0 name other
group id 1 oncpu_sum_ns 5000 runq_count 578 runq_sum_ns 701000000 runq_max_ns 37000000 name /web.service
";

#[test]
fn limits() {
    let folder = Folder::new("check");
    fs::create_dir_all(folder.join("m")).unwrap();
    let mut machine = Machine::new(2, 5, 3);
    machine.run(3_000);
    machine.groups = Some(Groups::new(GROUPS, GROUP_RUNQ));
    folder.put("m/raw", machine.raw());
    let check = |limits: &str, words: &str| {
        folder.put("limits", limits);
        let output = folder.run(&format!("--dir m check limits {words}"));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (text, output.status.code().unwrap(), said(&output))
    };
    // Half a millisecond is in the bucket of the median, so that cannot be told.
    let kept =
        "runq.p50 of web.service < 1ms  # as systemctl names it\n\nrunq.p99 of /web.service<1s\n";
    let (text, status, _) = check(kept, "");
    let lines = "kept    runq.p50 of web.service < 1ms: 590us\n\
                 kept    runq.p99 of /web.service<1s: too few";
    let first = lines.lines().next().unwrap();
    assert!(text.contains(first), "{text}");
    assert_eq!(status, 2, "there are too few samples beyond p99: {text}");
    assert!(
        text.contains("unknown runq.p99 of /web.service<1s: too few samples: 578\n"),
        "{text}"
    );
    let (text, status, _) = check("runq.p90 of web.service < 5ms\noffcpu.p99 of x < 1ms\n", "");
    assert!(
        text.contains("BROKEN  runq.p90 of web.service < 5ms: 37.0ms\n"),
        "{text}"
    );
    assert!(
        text.contains("unknown offcpu.p99 of x < 1ms: there is no such group\n"),
        "{text}"
    );
    assert_eq!(status, 1, "what is broken is worse than what is not known");
    let (text, status, _) = check("runq.p50 < 1d\noncpu.max < 1d\n", "");
    assert_eq!((text.matches("kept").count(), status), (2, 0), "{text}");
    let (text, status, _) = check("runq.p50 of web.service < 550us\n", "");
    assert!(
        text.contains(": it is from 524us to 590us\n") && status == 2,
        "{text}"
    );
    let (text, status, _) = check("runq.p50 < 1d\n", "0.01");
    assert!(
        text.contains("unknown runq.p50 < 1d: too few samples: 0\n") && status == 2,
        "{text}"
    );
    // `#` and `<` are no syntax within a name.
    let (text, ..) = check("#\nrunq.p50 of a<b#c < 1d# not a comment\n", "");
    assert!(text.is_empty(), "{text}");
    let (text, ..) = check("#\nrunq.p50 of a<b#c < 1d\t# a comment\n", "");
    let wanted = "unknown runq.p50 of a<b#c < 1d: there is no such group\n";
    assert!(text.contains(wanted), "{text}");
    for (wrong, part) in [
        ("runq.p50 < 5", "line 1: 'runq.p50 < 5' is not"),
        ("# none\n", "no limits"),
    ] {
        let (text, status, said) = check(wrong, "");
        assert!(
            text.is_empty() && status == 2 && said.contains(part),
            "{said}"
        );
    }
}

/// It is said if a metric was switched on within a recording, or measuring is off.
#[test]
fn switched_on() {
    let folder = Folder::new("check-switched");
    folder.put("limits", "wakeup.p50 < 1d\n");
    let mut recorder = support::recorder(&folder.join("data"), "");
    let mut machine = Machine::new(2, 5, 3);
    let of_last = machine.metrics;
    machine.metrics = MetricSet::DEFAULT;
    for unix_ns in [1, 2] {
        machine.run(500);
        support::record(&mut recorder, &machine.raw(), unix_ns);
        machine.metrics = of_last;
    }
    let text = String::from_utf8(folder.run("check -i data limits").stdout).unwrap();
    let notes = "note: measuring is off: schedhist ctl enable 1\n\
                 note: measuring or a metric was switched on or off\n\
                 note: wakeup was off at the beginning\n";
    assert!(text.starts_with(notes), "{text}");
}

/// If `group_by` is written meanwhile, what is told of groups is since then.
#[test]
fn grouped_anew() {
    let folder = Folder::new("check-anew");
    fs::create_dir_all(folder.join("m")).unwrap();
    folder.put("limits", "runq.p50 of web.service < 1ms\n");
    let mut machine = Machine::new(2, 5, 3);
    for name in ["first", "last"] {
        machine.run(100);
        let mut groups = Groups::new(GROUPS, GROUP_RUNQ);
        groups.since = machine.now - 5_000;
        machine.groups = Some(groups);
        folder.put(name, machine.raw());
    }
    for (words, wanted) in [
        ("check limits 0.01", "1ms: 590us\n"),
        ("groups 0.01 1", "in 5.00us\n"),
        ("groups 0.01 1 -j", "\"span_ns\":5000,"),
    ] {
        // Who reads the FIFO has opened it before it is replaced.
        let script = format!(
            "mkfifo m/raw; \"$0\" --dir m {words} & exec 3> m/raw; cp last l; mv l m/raw; \
             cat first >&3; exec 3>&-; wait; rm m/raw"
        );
        let output = folder.shell(&script).output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(text.contains(wanted), "{words}: {text}");
        let note = "tasks were grouped anew: since then";
        assert!((text + &said(&output)).contains(note), "{words}");
    }
}

/// No trouble has the status of a limit that is broken.
#[test]
fn trouble() {
    let folder = Folder::new("check-trouble");
    folder.put("limits", "runk.p99 < 5ms\n");
    for words in [
        "check none",
        "--dir none check limits",
        "check limits --prometheus",
    ] {
        assert_eq!(folder.run(words).status.code(), Some(2), "{words}");
    }
    let mut machine = Machine::new(2, 5, 1);
    machine.run(100);
    folder.put("raw", machine.raw());
    for (limit, words, status) in [
        ("oncpu.max < 1d", "--dir .", 2),
        ("oncpu.max < 1d", "--prometheus", 2),
        ("oncpu.max < 1ns", "--dir .", 1),
    ] {
        folder.put("limits", limit);
        let script = format!("\"$0\" check limits {words} > /dev/full");
        let output = folder.shell(&script).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{limit} {words}");
        assert!(
            said(&output).contains("cannot write the output"),
            "{output:?}"
        );
    }
}

#[test]
fn rules_of_prometheus() {
    let folder = Folder::new("check-rules");
    folder.put(
        "limits",
        "runq.p99 of a\"b\\c.service < 5ms\nrunq.max < 1s\n",
    );
    let rules = folder.text("check limits --prometheus");
    // A sample of 0.9 s is in a bucket that ends above 1 s.
    for expression in [
        "histogram_quantile(1, sum by (instance) (rate(schedhist_runq_seconds[5m]))) >= 1.09",
        " or (histogram_quantile(1, sum by (instance, le) \
         (rate(schedhist_runq_seconds_bucket[5m]))) >= 1.073741824 \
         unless histogram_quantile(1, sum by (instance) (rate(schedhist_runq_seconds[5m]))))\"\n",
    ] {
        assert!(rules.contains(expression), "{rules}");
    }
    folder.put("rules.yml", &rules);
    if has("promtool") {
        let mut promtool = Command::new("promtool");
        let output = promtool
            .args(["check", "rules", "rules.yml"])
            .current_dir(&*folder)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}\n{rules}");
    }
}
