// SPDX-License-Identifier: GPL-2.0

//! The OpenMetrics text, read back.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree};

use schedhist_engine::engine::{
    format::{openmetrics, text::Scope},
    histogram::bucket::{Precision, Scheme},
    metric::{Counter, MetricSet, ShownMetric},
};
use schedhist_engine::testing::{records, written, Records};

mod common;
mod filled;
mod parser;

use common::{any_scheme, parts_of};
use parser::Parser;

/// Writes a whole text, of all CPUs, or of each.
fn text(scheme: Scheme, cpus: &[Records], each: bool) -> String {
    let scopes: Vec<(Scope, &[Records])> = if each {
        let each = |cpu: &Records| Scope::Cpu(cpu.number());
        cpus.iter()
            .map(|cpu| (each(cpu), std::slice::from_ref(cpu)))
            .collect()
    } else {
        vec![(Scope::All, cpus)]
    };
    let (precision, on) = (scheme.precision(), MetricSet::DEFAULT);
    written(|out| {
        openmetrics::head(out, "0.1.0-\"test\\", precision, true, on)?;
        for counter in Counter::ALL {
            openmetrics::counter_head(out, counter)?;
            for (scope, cpus) in &scopes {
                let value = cpus.iter().map(|cpu| cpu.counter(counter)).sum();
                openmetrics::counter_sample(out, counter, *scope, value)?;
            }
        }
        openmetrics::outliers(out, u64::MAX, 7)?;
        for shown in ShownMetric::ALL {
            openmetrics::histogram_head(out, shown)?;
            for (scope, cpus) in &scopes {
                let snapshot = parts_of(scheme, *cpus, shown.parts);
                openmetrics::histogram_samples(out, shown, *scope, &snapshot)?;
            }
        }
        openmetrics::end(out)
    })
}

/// Parses the samples of a text: the name with the labels, and the value.
fn samples(text: &str) -> BTreeMap<&str, &str> {
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert_eq!(samples.insert(name, value), None, "{name} twice");
    }
    samples
}

/// Parses seconds with nine decimals into nanoseconds.
fn nanoseconds(seconds: &str) -> u128 {
    let (whole, fraction) = seconds.split_once('.').expect("a decimal point");
    assert_eq!(fraction.len(), 9);
    format!("{whole}{fraction}").parse().expect("digits")
}

/// Creates two CPUs that have seen `steps`.
fn two_cpus(scheme: Scheme, steps: &[filled::Step]) -> Vec<Records> {
    let cpus = vec![
        records(0, scheme, MetricSet::ALL),
        records(4_294_967_294, scheme, MetricSet::ALL),
    ];
    filled::run(&cpus, steps);
    cpus
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each `le` bucket has exactly the samples of the histogram's buckets that end at or below it,
    /// no bucket straddles it, and `+Inf`, `_count` and `_sum` are those of the histogram.
    #[test]
    fn le_buckets_are_sums_of_buckets(
        scheme in any_scheme(),
        steps in prop::collection::vec(filled::step(2), 0..200),
        each in any::<bool>(),
    ) {
        let cpus = two_cpus(scheme, &steps);
        let text = text(scheme, &cpus, each);
        prop_assert!(text.ends_with("\n# EOF\n"));
        let texts = if each { 2 } else { 1 };
        prop_assert!(text.len() <= openmetrics::MAX_LEN * texts);
        let samples = samples(&text);
        for shown in ShownMetric::ALL {
            let name = format!("schedhist_{}_seconds", shown.name);
            let scopes = if each { cpus.chunks(1) } else { cpus.chunks(2) };
            for cpus in scopes {
                let snapshot = parts_of(scheme, cpus, shown.parts);
                let (cpu, comma) = match each {
                    true => (format!("cpu=\"{}\"", cpus[0].number()), ","),
                    false => (String::new(), ""),
                };
                let bucket = format!("{name}_bucket{{{cpu}{comma}le=\"");
                let mut les = 0;
                for (key, value) in &samples {
                    let Some(le) = key.strip_prefix(&bucket) else { continue };
                    let le = le.strip_suffix("\"}").expect("no label after le");
                    let expected = if le == "+Inf" {
                        snapshot.count()
                    } else {
                        let le = nanoseconds(le) as u64;
                        prop_assert_eq!(scheme.bounds(scheme.index(le)).upper, le);
                        snapshot.buckets()
                            .filter(|(bounds, _)| bounds.upper <= le)
                            .map(|(_, count)| count)
                            .sum()
                    };
                    prop_assert_eq!(value.parse(), Ok(expected));
                    les += 1;
                }
                prop_assert_eq!(les, openmetrics::BUCKETS);
                let labels = if each { format!("{{{cpu}}}") } else { String::new() };
                let count = samples[format!("{name}_count{labels}").as_str()];
                prop_assert_eq!(count.parse(), Ok(snapshot.count()));
                let sum = samples[format!("{name}_sum{labels}").as_str()];
                prop_assert_eq!(nanoseconds(sum), snapshot.sum());
            }
        }
    }
}

#[test]
fn looks_like_this() {
    let scheme = Scheme::DEFAULT;
    let text = text(scheme, &[records(3, scheme, MetricSet::DEFAULT)], true);
    for lines in [
        "# HELP schedhist_build_info The version of schedhist.\n\
         # TYPE schedhist_build_info gauge\n\
         schedhist_build_info{version=\"0.1.0-\\\"test\\\\\"} 1\n",
        "# TYPE schedhist_switches counter\nschedhist_switches_total{cpu=\"3\"} 0\n",
        "# TYPE schedhist_outliers counter\nschedhist_outliers_total 18446744073709551615\n",
        "# TYPE schedhist_outliers_suppressed counter\nschedhist_outliers_suppressed_total 7\n",
        "schedhist_metric_enabled{metric=\"offcpu\"} 1\n",
        "schedhist_metric_enabled{metric=\"wakeup\"} 0\n",
        "# TYPE schedhist_runq_wakeup_seconds histogram\n\
         # UNIT schedhist_runq_wakeup_seconds seconds\n\
         schedhist_runq_wakeup_seconds_bucket{cpu=\"3\",le=\"0.000000255\"} 0\n\
         schedhist_runq_wakeup_seconds_bucket{cpu=\"3\",le=\"0.000000511\"} 0\n",
        "schedhist_idle_seconds_bucket{cpu=\"3\",le=\"1099.511627775\"} 0\n\
         schedhist_idle_seconds_bucket{cpu=\"3\",le=\"+Inf\"} 0\n\
         schedhist_idle_seconds_count{cpu=\"3\"} 0\n\
         schedhist_idle_seconds_sum{cpu=\"3\"} 0.000000000\n",
    ] {
        assert!(text.contains(lines), "{lines} is not in {text}");
    }
}

/// The longest possible text fits into the documented maximum, which is not far more.
#[test]
fn length_is_bounded() {
    let mut longest = String::new();
    let name = "blocked_uninterruptible";
    for _ in 0..ShownMetric::ALL.len() * (openmetrics::BUCKETS + 2) {
        longest += "schedhist_";
        longest += name;
        longest +=
            "_seconds_bucket{cpu=\"4294967295\",le=\"1099.511627775\"} 18446744073709551615\n";
    }
    assert!(ShownMetric::ALL
        .iter()
        .all(|shown| shown.name.len() <= name.len()));
    let scheme = Scheme::new(Precision::new(Precision::MIN).expect("within bounds"));
    let rest = text(scheme, &[records(u32::MAX, scheme, MetricSet::ALL)], true)
        .lines()
        .filter(|line| line.starts_with('#') || !line.contains("_seconds_"))
        .fold(0, |len, line| len + line.len() + 21);
    let needed = longest.len() + rest;
    assert!(
        (needed..2 * needed).contains(&openmetrics::MAX_LEN),
        "{needed}"
    );
}

/// A published parser accepts the text. Runs only if `PYTHON` is a Python that has the parser.
#[test]
fn published_parser_takes_it() {
    let Some(parser) = Parser::find() else {
        return;
    };
    let scheme = Scheme::DEFAULT;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for (steps, each) in [(0, false), (500, false), (0, true), (500, true)] {
        let steps = prop::collection::vec(filled::step(2), steps)
            .new_tree(&mut runner)
            .expect("a value")
            .current();
        let cpus = two_cpus(scheme, &steps);
        let text = text(scheme, &cpus, each);
        parser.assert_accepts(&text);
    }
}
