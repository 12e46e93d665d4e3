// SPDX-License-Identifier: GPL-2.0

//! A big machine: 256 CPUs and 1000 groups. Each verb takes 50 ms of CPU time and 100 MB at most,
//! as docs/tool.md says of the release build. This test runs another build on a busy machine: it
//! prints the time, and fails for the memory.

use std::{fs, process::Stdio};

use schedhist_core::engine;

mod support;

use support::{sim, used, Folder};

const CPUS: usize = 256;
const GROUPS: u64 = 1_000;

/// The greatest memory, in KiB.
const MAX_KIB: i64 = 100_000;

/// Runs the command. Returns its CPU time in milliseconds, and in KiB the most memory that a child
/// has had.
fn cost(folder: &Folder, words: &str) -> (i64, i64) {
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
    machine.groups = Some(sim::Groups::many(GROUPS));
    let raw = machine.raw();
    fs::write(folder.join("machine/raw"), &raw).unwrap();
    println!("raw has {} bytes", raw.len());
    let mut recorder = support::recorder(&folder.join("hour"), "host web1\n");
    let mut machine = sim::Machine::new(16, 5, 2);
    for second in 1..=3_600 {
        machine.run(20);
        machine.now = second * 1_000_000_000;
        support::record(&mut recorder, &machine.raw(), machine.now);
        if second % 10 == 0 {
            let mut text = "# schedhist groups version 1\ngroup_by cgroup\nrefused 0\n".to_owned();
            for id in 0..100 {
                let ns = second * 1_000_000;
                text += &format!(
                    "group id {id} oncpu_sum_ns {ns} runq_count {second} runq_sum_ns {ns} \
                     ended_by_own_ns {ns} name /kubepods.slice/pod{id:055x}.slice\n"
                );
            }
            machine.groups = Some(sim::Groups::new(&text, ""));
            recorder.groups(&machine.raw()).unwrap();
            machine.groups = None;
        }
    }
    // `record` takes two snapshots.
    for words in [
        "--dir machine hist",
        "--dir machine hist -C -j runq oncpu",
        "--dir machine",
        "--dir machine groups",
        "--dir machine groups -j -n 1000",
        "--dir machine record -I 10 -d 0.01 -o data",
        "report -i data",
        "report -i hour --html page",
        "top -i hour",
        "--dir machine run -A -r 6 -o runs true",
        "diff runs runs",
        "report -i runs",
    ] {
        let (ms, kib) = cost(&folder, words);
        println!("{words}: {ms} ms, {kib} KiB");
        assert!(kib <= MAX_KIB, "{words}: {kib} KiB");
    }
    let size = fs::metadata(folder.join("data")).unwrap().len();
    println!("two snapshots are {size} bytes");
}
