// SPDX-License-Identifier: GPL-2.0

//! Makes what the command reads in the benchmark.
//!
//! usage: machine FOLDER
//!
//! `FOLDER/big/raw` is of 256 CPUs, `FOLDER/grouped/raw` of 1000 groups. `FOLDER/a` and `FOLDER/b`
//! are recordings of 1000 reads.

use std::{env, fs, io::BufWriter, path::Path};

use schedhist_core::{
    engine, raw,
    recording::file::{Recorder, TimedSnapshot},
};

#[path = "../../../../../tools/schedhist/core/tests/sim/mod.rs"]
#[allow(unreachable_pub, reason = "the command's tests use it, too")]
mod sim;

const SECOND: u64 = 1_000_000_000;

fn write(folder: &Path, machine: &sim::Machine) {
    fs::create_dir_all(folder).expect("it is created");
    fs::write(folder.join("raw"), machine.raw()).expect("it is written");
}

fn record(path: &Path, seed: u64) {
    let mut machine = sim::Machine::new(8, 5, seed);
    machine.tells_progress = true;
    let file = fs::File::create(path).expect("it is created");
    let mut recorder = Recorder::new(BufWriter::new(file)).expect("it is written");
    for second in 1..=1_000 {
        machine.run(20);
        machine.now = second * SECOND;
        let bytes = machine.raw();
        let taken = TimedSnapshot {
            unix_ns: second * SECOND,
            read_ns: 0,
            snapshot: raw::decode(&bytes).expect("a snapshot"),
        };
        recorder.snapshot(&taken, &bytes).expect("it is written");
    }
}

fn main() {
    let folder = env::args().nth(1).expect("usage: machine FOLDER");
    let folder = Path::new(&folder);
    let mut machine = sim::Machine::new(256, 5, 1);
    machine.run(3_000);
    write(&folder.join("big"), &machine);
    let mut machine = sim::Machine::new(8, 5, 1);
    machine.run(3_000);
    machine.groups = Some(sim::Groups::many(1_000));
    write(&folder.join("grouped"), &machine);
    record(&folder.join("a"), 1);
    record(&folder.join("b"), 2);
}
