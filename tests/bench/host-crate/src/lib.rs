// SPDX-License-Identifier: GPL-2.0

//! The engine's work, to be counted: see tests/bench/host.

use schedhist_engine::{
    engine::{
        cell::Cell,
        histogram::{
            bucket::{Precision, Scheme},
            snapshot::{Baseline, Snapshot},
        },
        identity::Identity,
        metric::{Metric, MetricSet},
        switch::{
            cpu::{Cpu, Header},
            sample::Side,
            settings::{self, Settings},
            TaskState,
        },
    },
    testing::record_idle,
};

pub mod long_wait;

/// The number of values that a run records.
pub const VALUES: usize = 1 << 16;

/// Returns durations as in a scheduler, in nanoseconds: every power of two from 2^8 to 2^31 is
/// equally likely. Always the same ones.
pub fn values() -> Vec<u64> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut random = || {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..VALUES)
        .map(|_| {
            let power = 8 + random() % 24;
            (1 << power) | (random() & ((1 << power) - 1))
        })
        .collect()
}

type Defaults = settings::Fixed<{ Precision::DEFAULT }>;

fn cells() -> Vec<Cell> {
    let count = Cpu::<Vec<Cell>>::cells(Scheme::DEFAULT, MetricSet::DEFAULT);
    (0..count).map(|_| Cell::new(0)).collect()
}

fn whose(_: Side) -> Identity {
    Identity::default()
}

/// The engine's bucket alone.
pub struct Bucket {
    header: Header,
    buckets: Vec<Cell>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            header: Header::new(0, Scheme::DEFAULT),
            buckets: cells(),
        }
    }
}

impl Bucket {
    /// Records all `values`.
    pub fn record(&mut self, values: &[u64]) {
        let scheme = Defaults::scheme(Scheme::DEFAULT);
        for value in values {
            let index = scheme.index(*value);
            let bucket = Defaults::bucket(&self.header, &self.buckets, Metric::Idle, index);
            if let Some(bucket) = bucket {
                bucket.add(1);
            }
        }
    }
}

/// The recordings of a CPU in the module, with the settings that the probe is compiled for.
pub struct Engine {
    cpu: Cpu<Vec<Cell>>,
    idle: TaskState,
    now: u64,
    snapshot: Snapshot<Vec<u64>>,
}

impl Default for Engine {
    fn default() -> Self {
        let cpu = Cpu::new(0, Scheme::DEFAULT, cells()).expect("the number of cells is right");
        cpu.begin(0, MetricSet::DEFAULT);
        // The first slice has no beginning.
        let idle = TaskState::untracked();
        record_idle::<Defaults>(&cpu, 1, &idle, whose);
        let counts = vec![0; Scheme::DEFAULT.buckets()];
        Self {
            cpu,
            idle,
            now: 1,
            snapshot: Snapshot::new(Scheme::DEFAULT, counts).expect("and so it is here"),
        }
    }
}

impl Engine {
    /// Records all `values`, each as an idle period.
    pub fn record(&mut self, values: &[u64]) {
        for value in values {
            self.now = self.now.wrapping_add(*value);
            record_idle::<Defaults>(&self.cpu, self.now, &self.idle, whose);
        }
    }

    /// Returns the upper bounds of the quantiles that the files show, like a reader: from the
    /// merged histogram.
    pub fn quantiles(&self) -> Option<[u64; 5]> {
        let mut uppers = [0; 5];
        for (upper, (_, bounds)) in uppers.iter_mut().zip(self.snapshot.quantiles()) {
            *upper = bounds?.upper;
        }
        Some(uppers)
    }

    /// Adds the recordings of `other`, like a reader: into a copy, while the other one goes on.
    pub fn merge(&mut self, other: &Self) {
        let baseline: Option<&Baseline<Vec<u64>>> = None;
        self.snapshot.add(&other.cpu, baseline, Metric::Idle);
    }
}
