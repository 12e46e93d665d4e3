// SPDX-License-Identifier: GPL-2.0

//! The work of a row, for a tool that counts the instructions within [`measured`].
//!
//! usage: count [ROW]
//!
//! Without arguments it prints each row and its number of repetitions.

use std::{env::args, hint::black_box};

use schedhist_bench::{long_wait::Long, values, Bucket, Engine, VALUES};

/// A name, a number of repetitions, and the work.
type Row = (&'static str, usize, fn());

const ROWS: [Row; 6] = [
    ("record: schedhist, the bucket alone", VALUES, record_bucket),
    ("record: schedhist, all of a slice", VALUES, record),
    ("merge: schedhist, all of a slice", 1, merge),
    ("quantiles: schedhist, all of a slice", 1, quantiles),
    ("long wait: 256 busy CPUs", 1, || split(&Long::busy())),
    ("long wait: the most", 1, || split(&Long::most())),
];

/// The function whose instructions the tool counts.
#[inline(never)]
fn measured<R>(what: impl FnOnce() -> R) -> R {
    black_box(what())
}

fn record_bucket() {
    let values = values();
    let mut bucket = Bucket::default();
    bucket.record(&values);
    measured(|| bucket.record(black_box(&values)));
}

fn record() {
    let values = values();
    let mut engine = Engine::default();
    engine.record(&values);
    measured(|| engine.record(black_box(&values)));
}

/// Returns an engine, and another one that it was merged into.
fn merged() -> (Engine, Engine) {
    let (mut engine, mut sum) = (Engine::default(), Engine::default());
    engine.record(&values());
    sum.merge(&engine);
    (engine, sum)
}

fn merge() {
    let (engine, mut sum) = merged();
    measured(|| sum.merge(black_box(&engine)));
}

fn quantiles() {
    let (_, sum) = merged();
    measured(|| black_box(&sum).quantiles()).expect("there are values");
}

fn split(long: &Long) {
    measured(|| black_box(long).split());
}

fn main() {
    let Some(wanted) = args().nth(1) else {
        for (row, times, _) in ROWS {
            println!("{row}\t{times}");
        }
        return;
    };
    let (_, _, run) = ROWS
        .into_iter()
        .find(|(row, ..)| *row == wanted)
        .expect("a row");
    run();
}
