// SPDX-License-Identifier: GPL-2.0

//! Writes some small binary snapshots into a directory, always the same: the initial corpus of a
//! fuzzer.

#[path = "../../../tools/schedhist/core/tests/sim/mod.rs"]
#[allow(unreachable_pub, reason = "the command's tests use it, too")]
mod sim;

use std::{env, fs, path::Path};

use schedhist_engine::engine::{
    self,
    chain::{Chain, ChainSlice, Context, End, Hop, KeptSlice, Link, Start, Walked},
    format::raw,
    group::Group,
    idle::WaitSums,
    metric::Metric,
    switch::{sample::Cause, Sample},
};
use schedhist_engine::testing::Bytes;

const GROUPS: &str = "# schedhist groups version 1
group_by comm
limit 255
memory_bytes 1000
group id 0 oncpu_count 1 oncpu_sum_ns 5 oncpu_in_progress 1 oncpu_in_progress_ns 9 name other
group id 1 tasks 2 oncpu_count 7 oncpu_sum_ns 50 runq_count 3 runq_sum_ns 70 name a b
  neighbour id 0 of 1 ended 2 ended_ns 30 name other
in_progress id 1 runq_in_progress 1 runq_in_progress_ns 4 oncpu_unseen 1 oncpu_unseen_ns 8
";

/// Writes what there is while long waits are looked at and chains are kept.
fn outliers(out: &mut Bytes) {
    let (pid, comm) = (7, *b"waker\0\0\0\0\0\0\0\0\0\0\0");
    raw::long_waits(out, 0, 5, &WaitSums::default());
    let chain = Chain {
        id: 1,
        sample: Sample::new(Metric::Offcpu, 9, Cause::Interruptible, 20),
        walked: Walked {
            end: End::Start,
            hops: 1,
            blocked: 0,
            missing: 1,
        },
    };
    let hop = Hop {
        pid,
        comm,
        group: Group::OTHER,
        cpu: 0,
        via: Context::Task,
        slices: 1,
        ran: 5,
        waited: 2,
        preempted: 1,
        throttled: 0,
    };
    raw::chain(out, 0, &chain, &[hop]);
    let slice = ChainSlice {
        pid,
        comm,
        group: Group::OTHER,
        start: Start::Woken,
        since: 13,
        waiting: 11,
        link: Link::new(0, 1),
    };
    let (number, idle) = (2, 20);
    let kept = KeptSlice {
        number,
        slice,
        idle,
    };
    raw::kept_cpu(out, 0, 1);
    raw::kept_slice(out, 0, &kept);
}

fn main() {
    let folder = env::args().nth(1).expect("usage: snapshots FOLDER");
    for (precision, cpus, switches, groups) in [
        (1, 0, 0, ""),
        (1, 1, 0, ""),
        (1, 1, 8, GROUPS),
        (5, 2, 6, ""),
        (1, 2, 4, GROUPS),
    ] {
        let mut machine = sim::Machine::new(cpus, precision, 1);
        machine.tells_progress = true;
        machine.run(switches);
        machine.groups = (!groups.is_empty()).then(|| sim::Groups::new(groups, ""));
        let mut bytes = Bytes(machine.raw());
        // Before the end.
        bytes.0.truncate(bytes.0.len() - 8);
        raw::offline(&mut bytes, 0);
        outliers(&mut bytes);
        raw::end(&mut bytes);
        let name = format!("snapshot-{precision}-{cpus}.{}", bytes.0.len());
        fs::write(Path::new(&folder).join(name), bytes.0).expect("it is written");
    }
}
