// SPDX-License-Identifier: GPL-2.0

//! The text of outliers: with any task name, it can be read back, line by line and word by word,
//! and does not exceed its maximum length.

#![no_main]

use schedhist_engine::engine::{
    format::text,
    group::task_group::Group,
    identity::Identity,
    metric::Metric,
    outlier::log::{Culprit, Outlier, CULPRITS},
    switch::sample::{Cause, Sample},
};
use schedhist_fuzz::Input;

schedhist_fuzz::fuzz!(test);

fn identity(input: &mut Input<'_>) -> Identity {
    Identity {
        pid: i32::from_le_bytes(input.bytes()),
        prio: i32::from_le_bytes(input.bytes()),
        comm: input.bytes(),
        group: Group::new(u32::from_le_bytes(input.bytes()) % Group::MAX as u32).expect("below"),
    }
}

/// Splits a line into pairs of words, up to `comm`, whose value is the rest of the line.
fn pairs(line: &str) -> Vec<(&str, &str)> {
    let (words, comm) = line.split_once(" comm ").expect("the name comes last");
    let words: Vec<&str> = words.split(' ').collect();
    let mut pairs: Vec<_> = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.push(("comm", comm));
    pairs
}

/// Reads a task's name as it is written, up to its NUL.
fn name(shown: &str) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = shown;
    while let Some(first) = rest.chars().next() {
        if let Some(code) = rest.strip_prefix("\\x") {
            name.push(u8::from_str_radix(&code[..2], 16).expect("two digits"));
            rest = &code[2..];
        } else {
            assert!((' '..='~').contains(&first) && first != '\\');
            name.push(first as u8);
            rest = &rest[1..];
        }
    }
    name
}

fn check(line: &str, task: &Identity, expected: &[(&str, String)]) {
    let pairs = pairs(line);
    let (comm, others) = pairs.split_last().expect("there is the name");
    let until_nul = task.comm.split(|byte| *byte == 0).next().unwrap_or(&[]);
    assert_eq!(name(comm.1), until_nul);
    let expected: Vec<_> = expected
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    assert_eq!(others, expected);
}

fn test(data: &[u8]) {
    let mut input = Input(data);
    let count = input.below(CULPRITS + 1);
    let outlier = Outlier {
        id: input.number(),
        sample: Sample {
            metric: Metric::ALL[input.below(Metric::COUNT)],
            value: input.number(),
            end: input.number(),
            cause: Cause::ALL[input.below(Cause::COUNT)],
            moved: false,
        },
        task: identity(&mut input),
        culprits: count as u32,
        missing: input.number(),
        longest: None,
    };
    let cpu = u32::from_le_bytes(input.bytes());
    let culprits: Vec<Culprit> = (0..count)
        .map(|_| Culprit {
            task: identity(&mut input),
            ran: input.number(),
            slices: u32::from_le_bytes(input.bytes()),
        })
        .collect();

    let mut out = String::new();
    text::outliers_head(&mut out).expect("a String takes all");
    text::outlier(&mut out, cpu, &outlier, &culprits).expect("a String takes all");
    assert!(out.len() <= text::OUTLIER_MAX, "{}", out.len());
    assert!(out.ends_with('\n'));
    let mut lines = out.split_terminator('\n');
    assert_eq!(lines.next(), Some("# schedhist outliers version 1"));

    let line = lines.next().and_then(|line| line.strip_prefix("outlier "));
    let sample = outlier.sample;
    check(
        line.expect("the outlier comes first"),
        &outlier.task,
        &[
            ("id", outlier.id.to_string()),
            ("metric", sample.metric.name().to_string()),
            ("cause", sample.cause.name().to_string()),
            ("cpu", cpu.to_string()),
            ("duration_ns", sample.value.to_string()),
            ("start_ns", outlier.sample.start().to_string()),
            ("end_ns", sample.end.to_string()),
            ("missing_ns", outlier.missing.to_string()),
            ("culprits", count.to_string()),
            ("pid", outlier.task.pid.to_string()),
            ("prio", outlier.task.prio.to_string()),
            ("group", outlier.task.group.number().to_string()),
        ],
    );
    for culprit in &culprits {
        let line = lines
            .next()
            .and_then(|line| line.strip_prefix("  culprit "));
        check(
            line.expect("a culprit"),
            &culprit.task,
            &[
                ("id", outlier.id.to_string()),
                ("ran_ns", culprit.ran.to_string()),
                ("slices", culprit.slices.to_string()),
                ("pid", culprit.task.pid.to_string()),
                ("prio", culprit.task.prio.to_string()),
                ("group", culprit.task.group.number().to_string()),
            ],
        );
    }
    assert_eq!(lines.next(), None);
}
