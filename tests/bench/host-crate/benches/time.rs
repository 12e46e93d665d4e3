// SPDX-License-Identifier: GPL-2.0

//! The time of each operation, by Criterion.

#![allow(missing_docs, reason = "Criterion's macros document nothing")]

use std::{hint::black_box, time::Duration};

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use schedhist_bench::{values, Bucket, Engine, Hdr, Subject, H2};

fn measure<S: Subject>(criterion: &mut Criterion) {
    let values = values();
    let mut subject = S::new();
    subject.record(&values);

    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(values.len() as u64));
    group.bench_function(S::NAME, |bench| {
        bench.iter(|| subject.record(black_box(&values)));
    });
    group.finish();

    let mut sum = S::new();
    if sum.merge(&subject) {
        criterion
            .benchmark_group("merge")
            .bench_function(S::NAME, |bench| {
                bench.iter(|| sum.merge(black_box(&subject)))
            });
    }
    if sum.quantiles().is_some() {
        criterion
            .benchmark_group("quantiles")
            .bench_function(S::NAME, |bench| bench.iter(|| black_box(&sum).quantiles()));
    }
}

criterion_group! {
    name = all;
    config = Criterion::default()
        .without_plots()
        .nresamples(1000)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = measure::<Bucket>, measure::<Engine>, measure::<H2>, measure::<Hdr>
}
criterion_main!(all);
