// SPDX-License-Identifier: GPL-2.0

//! The engine's histograms beside those of two crates, with the same values.
//!
//! | subject | what a record does |
//! | --- | --- |
//! | [`Bucket`] | the bucket, as in the probe: no more than [`H2`] does |
//! | [`Engine`] | a whole slice: also sum, extremes, the maximum's task, a counter, a stamp |
//! | [`H2`] | the bucket; no sum, no extremes |
//! | [`Hdr`] | the bucket, the count and extremes; no sum |
//!
//! Engine and H2 have exactly the same buckets: 32 to a power of two, at most 3.13 % wide.
//! HdrHistogram supports only decimal digits: with two of them its buckets are at most 0.79 % wide,
//! with one 6.25 %.

use schedhist_engine::{
    engine::{
        cell::Cell,
        histogram::snapshot::{Baseline, Snapshot},
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

pub use schedhist_engine::engine::histogram::bucket::{Precision, Scheme, VALUE_BITS};

/// The number of values that a run records.
pub const VALUES: usize = 1 << 16;

/// The quantiles that the files show.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

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

/// A histogram that is measured.
pub trait Subject: Sized {
    /// Its name in tables.
    const NAME: &'static str;

    /// Creates an empty one.
    fn new() -> Self;

    /// Records all `values`.
    fn record(&mut self, values: &[u64]);

    /// Returns the upper bounds of the buckets of [`QUANTILES`]; `None` if it does not support
    /// them.
    fn quantiles(&self) -> Option<[u64; 5]>;

    /// Adds the recordings of `other`; `false` if it does not support merging.
    fn merge(&mut self, other: &Self) -> bool;
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

impl Subject for Bucket {
    const NAME: &'static str = "schedhist, the bucket alone";

    fn new() -> Self {
        Self {
            header: Header::new(0, Scheme::DEFAULT),
            buckets: cells(),
        }
    }

    fn record(&mut self, values: &[u64]) {
        let scheme = Defaults::scheme(Scheme::DEFAULT);
        for value in values {
            let index = scheme.index(*value);
            let bucket = Defaults::bucket(&self.header, &self.buckets, Metric::Idle, index);
            if let Some(bucket) = bucket {
                bucket.add(1);
            }
        }
    }

    fn quantiles(&self) -> Option<[u64; 5]> {
        None
    }

    fn merge(&mut self, _: &Self) -> bool {
        false
    }
}

/// The recordings of a CPU in the module, with the settings that the probe is compiled for.
pub struct Engine {
    cpu: Cpu<Vec<Cell>>,
    idle: TaskState,
    now: u64,
    snapshot: Snapshot<Vec<u64>>,
}

impl Subject for Engine {
    const NAME: &'static str = "schedhist, all of a slice";

    fn new() -> Self {
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

    fn record(&mut self, values: &[u64]) {
        for value in values {
            self.now = self.now.wrapping_add(*value);
            record_idle::<Defaults>(&self.cpu, self.now, &self.idle, whose);
        }
    }

    /// Like a reader: from the merged histogram.
    fn quantiles(&self) -> Option<[u64; 5]> {
        let mut uppers = [0; 5];
        for (upper, (_, bounds)) in uppers.iter_mut().zip(self.snapshot.quantiles()) {
            *upper = bounds?.upper;
        }
        Some(uppers)
    }

    /// Like a reader: into a copy, while the other one goes on.
    fn merge(&mut self, other: &Self) -> bool {
        let baseline: Option<&Baseline<Vec<u64>>> = None;
        self.snapshot.add(&other.cpu, baseline, Metric::Idle);
        true
    }
}

/// The crate `histogram`.
pub struct H2(histogram::Histogram);

impl Subject for H2 {
    const NAME: &'static str = "histogram (H2)";

    fn new() -> Self {
        let precision = Scheme::DEFAULT.precision().bits() as u8;
        Self(histogram::Histogram::new(precision, VALUE_BITS as u8).expect("a fine configuration"))
    }

    fn record(&mut self, values: &[u64]) {
        for value in values {
            // Fails if there is no bucket for the value.
            let _ = self.0.increment(*value);
        }
    }

    fn quantiles(&self) -> Option<[u64; 5]> {
        let mut found = [const { None }; 5];
        self.0.quantile_buckets_into(&QUANTILES, &mut found).ok()?;
        let mut uppers = [0; 5];
        for (upper, bucket) in uppers.iter_mut().zip(&found) {
            *upper = bucket.as_ref()?.end();
        }
        Some(uppers)
    }

    fn merge(&mut self, other: &Self) -> bool {
        self.0.checked_add_assign(&other.0).is_ok()
    }
}

/// The crate `hdrhistogram`, with two decimal digits.
pub struct Hdr(hdrhistogram::Histogram<u64>);

impl Subject for Hdr {
    const NAME: &'static str = "hdrhistogram, 2 digits";

    fn new() -> Self {
        let high = (1 << VALUE_BITS) - 1;
        Self(hdrhistogram::Histogram::new_with_bounds(1, high, 2).expect("fine bounds"))
    }

    fn record(&mut self, values: &[u64]) {
        for value in values {
            // Fails if there is no bucket for the value.
            let _ = self.0.record(*value);
        }
    }

    fn quantiles(&self) -> Option<[u64; 5]> {
        Some(QUANTILES.map(|quantile| self.0.value_at_quantile(quantile)))
    }

    fn merge(&mut self, other: &Self) -> bool {
        self.0.add(&other.0).is_ok()
    }
}
