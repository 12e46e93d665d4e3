// SPDX-License-Identifier: GPL-2.0

//! A big machine: 256 CPUs and 1000 groups. Each verb takes 50 ms of CPU time and 100 MB at most,
//! as docs/tool.md says of the release build. This test runs another build on a busy machine, and
//! allows more time, but no more memory.

#![allow(missing_docs)]

use std::{fmt::Write, fs, process::Stdio};

use nix::sys::{
    resource::{getrusage, UsageWho},
    time::{TimeVal, TimeValLike},
};
use schedhist_core::engine;

mod support;

use support::{sim, Folder};

const CPUS: usize = 256;
const GROUPS: u64 = 1_000;

/// The greatest CPU time, in milliseconds: of this build, which is slower.
const MOST_MS: i64 = 1_000;

/// The greatest memory, in KiB.
const MOST_KIB: i64 = 100_000;

/// Returns groups that each have samples of all metrics.
fn groups() -> sim::Groups {
    let mut text = "# schedhist groups version 1\ngroup_by cgroup\nlimit 4095\nrefused 0\n\
        memory_bytes 7000000\n"
        .to_owned();
    let name = |id: u64| {
        format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{id:032x}.slice")
    };
    for id in 0..GROUPS {
        let _ = writeln!(
            text,
            "group id {id} oncpu_count 900000 oncpu_sum_ns {0} runq_count 900000 runq_sum_ns {1} \
             not_in_histogram 0 ended_by_own_ns {1} ended_by_other_ns {1} ended_by_kernel_ns {1} \
             ended_by_idle_ns {1} name {2}",
            id * 1_000_000_007,
            id * 100_000_007,
            name(id)
        );
        for other in 1..=4 {
            let other = (id + other) % GROUPS;
            let _ = writeln!(
                text,
                "  neighbour id {other} of {id} ended 5000 ended_ns 40000000 name {}",
                name(other)
            );
        }
    }
    let scheme = engine::histogram::bucket::Scheme::new(
        engine::histogram::bucket::Precision::new(3).expect("a precision"),
    );
    let mut histograms = String::new();
    for id in 0..GROUPS {
        let _ = writeln!(
            histograms,
            "# schedhist group histogram version 1\nmetric runq\ngroup {id}\nname {}\nunit ns\n\
             precision 3\ncount 900000\nsum 900000000\nmax 99999999",
            name(id)
        );
        for index in 80..200 {
            let _ = writeln!(histograms, "bucket {} 7500", scheme.bounds(index));
        }
    }
    let histograms = [histograms.clone(), histograms.clone(), histograms];
    sim::Groups {
        since: 1,
        text,
        histograms,
    }
}

/// Runs the command. Returns its CPU time in milliseconds, and in KiB the most memory that a child
/// has had, which is at least that of this test.
fn cost(folder: &Folder, words: &str) -> (i64, i64) {
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        let time: TimeVal = usage.user_time() + usage.system_time();
        (time.num_milliseconds(), usage.max_rss())
    };
    let (before, _) = used();
    let mut command = folder.command(words);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.unwrap().success(), "{words}");
    let (after, memory) = used();
    (after - before, memory)
}

#[test]
fn a_big_machine() {
    let folder = Folder::new("scale");
    fs::create_dir(folder.join("machine")).unwrap();
    let mut machine = sim::Machine::new(CPUS, 5, 1);
    machine.run(3_000);
    machine.groups = Some(groups());
    let raw = machine.raw();
    fs::write(folder.join("machine/raw"), &raw).unwrap();
    println!("raw has {} bytes", raw.len());
    // `record` takes two snapshots.
    for words in [
        "--dir machine hist",
        "--dir machine hist -C -j runq oncpu",
        "--dir machine",
        "--dir machine groups",
        "--dir machine groups -j -n 1000",
        "--dir machine record -I 10 -d 0.01 -o data",
        "report -i data",
    ] {
        let (ms, kib) = (0..3).map(|_| cost(&folder, words)).min().unwrap();
        println!("{words}: {ms} ms, {kib} KiB");
        assert!(ms <= MOST_MS, "{words}: {ms} ms");
        assert!(kib <= MOST_KIB, "{words}: {kib} KiB");
    }
    let size = fs::metadata(folder.join("data")).unwrap().len();
    println!("two snapshots are {size} bytes");
}
