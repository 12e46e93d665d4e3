// SPDX-License-Identifier: GPL-2.0

//! Helpers that the tests of outliers share.

#![allow(dead_code, reason = "not every test needs all of it")]

use proptest::prelude::*;

use schedhist_engine::engine::{
    group::task_group::Group,
    identity::Identity,
    metric::Metric,
    outlier::log::{Culprit, Log, Outlier, CULPRITS},
    switch::sample::Cause,
};

/// Generates a time span: often none or little, sometimes huge.
pub(crate) fn any_span() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 0..3u64,
        6 => 0..1_000u64,
        1 => (24..64u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift),
    ]
}

/// Returns a task with this PID. It may have another name and priority each time.
pub(crate) fn identity(pid: i32, name: u8) -> Identity {
    let mut comm = [0; 16];
    comm[0] = b'a' + name;
    Identity {
        pid,
        prio: 100 + i32::from(name),
        comm,
        group: Group::new((pid as u32).wrapping_mul(7) % 5000).expect("not too many"),
    }
}

pub(crate) fn any_metric() -> impl Strategy<Value = Metric> {
    proptest::sample::select(Metric::ALL.to_vec())
}

pub(crate) fn any_cause() -> impl Strategy<Value = Cause> {
    proptest::sample::select(Cause::ALL.to_vec())
}

/// Reads the outlier `id`.
pub(crate) fn read(log: &Log, id: u64) -> Option<(Outlier, Vec<Culprit>)> {
    // The previous contents must not show.
    let junk = Culprit {
        task: identity(-1, 25),
        ran: 7,
        slices: 7,
    };
    let mut culprits = [junk; CULPRITS];
    let outlier = log.read(id, &mut culprits)?;
    Some((outlier, culprits[..outlier.culprits as usize].to_vec()))
}
