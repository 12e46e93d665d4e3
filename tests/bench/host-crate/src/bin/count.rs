// SPDX-License-Identifier: GPL-2.0

//! One operation of one subject, for a tool that counts the instructions within [`measured`].
//!
//! usage: count SUBJECT OPERATION
//!
//! SUBJECT may be `long wait`, and OPERATION one of its cases.
//!
//! Without arguments it checks that all subjects agree, and prints each subject, each operation and
//! its number of repetitions.

use std::{env::args, hint::black_box, process::ExitCode};

use schedhist_bench::{long_wait::Long, values, Bucket, Engine, Hdr, Subject, H2, VALUES};

/// The function whose instructions the tool counts.
#[inline(never)]
fn measured<R>(what: impl FnOnce() -> R) -> R {
    black_box(what())
}

/// Runs `operation`, after an uncounted record and merge.
fn run<S: Subject>(operation: &str) {
    let values = values();
    let mut subject = S::new();
    subject.record(&values);
    let mut sum = S::new();
    sum.merge(&subject);
    match operation {
        "record" => measured(|| subject.record(black_box(&values))),
        "merge" => assert!(measured(|| sum.merge(black_box(&subject)))),
        "quantiles" => {
            measured(|| black_box(&sum).quantiles());
        }
        _ => panic!("no operation: {operation}"),
    }
}

/// Returns the quantiles of all values, after a merge.
fn quantiles<S: Subject>() -> [u64; 5] {
    let mut subject = S::new();
    subject.record(&values());
    let mut sum = S::new();
    assert!(sum.merge(&subject));
    sum.quantiles().expect("there are values")
}

/// The same buckets give the same quantiles; other buckets differ by at most one of ours.
fn check() {
    let ours = quantiles::<Engine>();
    assert_eq!(ours, quantiles::<H2>());
    for (ours, theirs) in ours.into_iter().zip(quantiles::<Hdr>()) {
        assert!(
            ours.abs_diff(theirs) <= ours / 32 + 1,
            "{ours} and {theirs}"
        );
    }
}

fn list<S: Subject>(operations: &[&str]) {
    for operation in operations {
        let times = if *operation == "record" { VALUES } else { 1 };
        println!("{}\t{}\t{}", S::NAME, operation, times);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            check();
            list::<Bucket>(&["record"]);
            list::<Engine>(&["record", "merge", "quantiles"]);
            list::<H2>(&["record", "merge", "quantiles"]);
            list::<Hdr>(&["record", "merge", "quantiles"]);
        }
        [subject, operation] => match subject.as_str() {
            Bucket::NAME => run::<Bucket>(operation),
            Engine::NAME => run::<Engine>(operation),
            H2::NAME => run::<H2>(operation),
            Hdr::NAME => run::<Hdr>(operation),
            "long wait" => {
                let long = Long::new(operation);
                measured(|| black_box(&long).split());
            }
            _ => return ExitCode::FAILURE,
        },
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}
