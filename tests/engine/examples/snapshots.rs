// SPDX-License-Identifier: GPL-2.0

//! Writes some small binary snapshots into a directory, always the same: the initial corpus of a
//! fuzzer.

#[path = "../tests/filled/mod.rs"]
#[allow(dead_code, reason = "made for tests that need more of it")]
mod filled;

use std::{env, fs, path::Path};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use schedhist_engine::engine::{
    format::raw::{self, Info, Sink},
    histogram::bucket::{Precision, Scheme},
    metric::MetricSet,
};

struct Bytes(Vec<u8>);

impl Sink for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn main() {
    let folder = env::args().nth(1).expect("usage: snapshots FOLDER");
    let mut runner = TestRunner::deterministic();
    for (precision, cpus, steps) in [(1, 0, 0), (1, 1, 0), (1, 1, 8), (5, 2, 12)] {
        let scheme = Scheme::new(Precision::new(precision).expect("within bounds"));
        let records: Vec<_> = (0..cpus)
            .map(|cpu| filled::records(cpu, scheme, MetricSet::ALL))
            .collect();
        if cpus != 0 {
            let steps = prop::collection::vec(filled::step(cpus as usize), steps);
            filled::run(
                &records,
                &steps.new_tree(&mut runner).expect("a value").current(),
            );
        }
        let info = Info {
            time: 1,
            enabled: true,
            metrics: MetricSet::ALL,
            scheme,
            cpus,
        };
        let mut bytes = Bytes(Vec::new());
        raw::snapshot(&mut bytes, &info, filled::never_reset(&records));
        let path = Path::new(&folder).join(format!("snapshot-{precision}-{cpus}"));
        fs::write(path.with_extension(bytes.0.len().to_string()), bytes.0).expect("it is written");
    }
}
