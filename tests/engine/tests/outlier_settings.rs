// SPDX-License-Identifier: GPL-2.0

//! Thresholds, the limit, and which outliers are still awaited.

use proptest::{collection::vec, prelude::*};

use schedhist_engine::engine::{
    metric::{Metric, MetricSet, ShownMetric},
    outlier::{Limit, Thresholds},
    switch::sample::{Cause, Sample},
};

proptest! {
    #[test]
    fn a_sample_must_exceed_a_threshold(
        settings in vec((0..ShownMetric::ALL.len(), any_threshold()), 0..30),
    ) {
        let thresholds = Thresholds::default();
        let mut naive = [0; ShownMetric::ALL.len()];
        for (index, nanoseconds) in settings {
            thresholds.set(ShownMetric::ALL[index], nanoseconds);
            naive[index] = nanoseconds;

            prop_assert_eq!(ShownMetric::ALL.map(|shown| thresholds.get(shown)), naive);
            prop_assert_eq!(thresholds.is_any_set(), naive.iter().any(|it| *it != 0));
            for bits in 0..1 << Metric::COUNT {
                let metrics = MetricSet::from_bits(bits);
                let applies = |(shown, threshold): (ShownMetric, u64)| {
                    let is_on = shown.parts.iter().any(|part| metrics.contains(*part));
                    threshold != 0 && is_on
                };
                let is_any = ShownMetric::ALL.into_iter().zip(naive).any(applies);
                prop_assert_eq!(thresholds.is_any_set_of(metrics), is_any);
            }
            let near = naive.iter().flat_map(|it| [it.saturating_sub(1), *it, it.saturating_add(1)]);
            for value in near.chain([0, u64::MAX]) {
                for metric in Metric::ALL {
                    // Above any of the thresholds, and so above the least.
                    let is_above = ShownMetric::ALL.into_iter().zip(naive).any(|(shown, threshold)| {
                        shown.parts.contains(&metric) && threshold != 0 && value > threshold
                    });
                    let sample = Sample::new(metric, value, Cause::Idle, 1);
                    prop_assert_eq!(thresholds.is_exceeded_by(&sample), is_above);
                }
            }
        }
    }

    #[test]
    fn a_limit_is_what_was_last_set(
        limit in any_limit(),
        steps in vec(prop_oneof![1 => any_limit().prop_map(Some), 9 => Just(None)], 0..100),
    ) {
        let counter = Limit::new(limit);
        let mut naive = (limit, (limit != 0).then_some(limit));
        let (mut last, mut done) = (0, 0);
        prop_assert_eq!(counter.last(), 0);
        for step in steps {
            match step {
                Some(limit) => {
                    counter.set(limit);
                    naive = (limit, (limit != 0).then_some(limit));
                }
                None => {
                    let may = naive.1 != Some(0);
                    naive.1 = naive.1.map(|left| left.saturating_sub(1));
                    last += u64::from(may);
                    prop_assert_eq!(counter.take(), may.then_some(last));
                }
            }
            prop_assert_eq!((counter.get(), counter.last()), (naive.0, last));
            prop_assert_eq!(counter.is_used_up(), naive.1 == Some(0));
            // All outliers but the last are done.
            prop_assert_eq!(counter.has_ended(), naive.1 == Some(0) && done == last);
            while done < last {
                counter.done();
                done += 1;
            }
            prop_assert_eq!(counter.has_ended(), naive.1 == Some(0));
        }
    }
}

fn any_threshold() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 4 => 1..10u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn any_limit() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 6 => 1..10u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}
