// SPDX-License-Identifier: GPL-2.0

//! The input of the controls: lists of words that are mostly valid. The fuzzer of words makes the
//! same checks with any input.

mod words;

use proptest::{collection::vec, prelude::*};
use schedhist_engine::engine::{
    format::input::Actions,
    metric::{Metric, MetricSet},
};

use words::{check, ACTIONS, METRICS};

fn any_word() -> impl Strategy<Value = String> {
    let names = METRICS.iter().chain(&ACTIONS);
    let names: Vec<&str> = names.map(|(name, _)| *name).collect();
    prop_oneof![
        20 => proptest::sample::select(names).prop_map(String::from),
        5 => any::<u64>().prop_map(|number| number.to_string()),
        1 => "[a-z_0-9+\"-]{0,70}",
    ]
}

fn any_separator() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![" ", ",", "\n", "\t", ", ", ";", "\x0b"])
}

proptest! {
    #[test]
    fn as_a_slower_reader(words in vec((any_word(), any_separator()), 0..4), ends: bool) {
        let mut text: String = words.iter().flat_map(|(word, space)| [word, *space]).collect();
        if !ends {
            text.pop();
        }
        check(text.as_bytes());
    }

    #[test]
    fn any_bytes(text: Vec<u8>) {
        check(&text);
    }
}

#[test]
fn single_words() {
    for (name, _) in METRICS.iter().chain(&ACTIONS) {
        check(name.as_bytes());
    }
    for text in "0 1 2 +1 -1 01 1000000000 1000000001 ".split(' ') {
        check(text.as_bytes());
    }
    for number in [u128::from(u64::MAX), 1 << 64] {
        check(number.to_string().as_bytes());
    }
}

/// Bits that mean nothing are ignored.
#[test]
fn sets_of_any_bits() {
    for bits in (0..1024).chain([u32::MAX]) {
        assert_eq!(Actions::from_bits(bits).bits(), bits & 3);
        let known = bits & ((1 << Metric::COUNT) - 1);
        assert_eq!(MetricSet::from_bits(bits).bits(), known);
        assert_eq!(MetricSet::from_bits(bits).is_empty(), known == 0);
    }
    assert_eq!(Actions::NONE.bits(), 0);
    assert_eq!(MetricSet::NONE.bits(), 0);
}

/// The probes follow from the metrics: `oncpu`, `idle` and requests to reschedule need no state of
/// tasks, and only a wait or a sleep needs the wakeup.
#[test]
fn what_metrics_need() {
    let of_cpus = [
        Metric::Oncpu,
        Metric::Idle,
        Metric::Resched,
        Metric::ReschedLazy,
    ];
    let of_tasks = [Metric::RunqPreempt, Metric::Offcpu, Metric::Throttled];
    for bits in 0..1 << Metric::COUNT {
        let metrics = MetricSet::from_bits(bits);
        let has_others = |known: &[Metric]| {
            let mut all = Metric::ALL.into_iter();
            all.any(|metric| metrics.contains(metric) && !known.contains(&metric))
        };
        assert_eq!(metrics.needs_tasks(), has_others(&of_cpus), "{metrics}");
        let without_wakeups = [&of_cpus[..], &of_tasks].concat();
        let needs_wakeups = has_others(&without_wakeups);
        assert_eq!(metrics.needs_wakeups(), needs_wakeups, "{metrics}");
        let resched = bits & MetricSet::RESCHED.bits() != 0;
        assert_eq!(metrics.needs_resched(), resched, "{metrics}");
    }
}
