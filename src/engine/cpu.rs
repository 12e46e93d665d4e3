// SPDX-License-Identifier: GPL-2.0

//! What one CPU records, switch by switch.

use core::ops::Deref;

use super::{
    bucket::Scheme,
    cell::Cell,
    metric::{
        Counter,
        Metric, //
    },
};

/// What a histogram holds besides its buckets.
#[derive(Debug)]
struct Totals {
    sum: Cell,
    min: Cell,
    max: Cell,
}

impl Totals {
    const fn new() -> Self {
        Self {
            sum: Cell::new(0),
            min: Cell::new(u64::MAX),
            max: Cell::new(0),
        }
    }

    #[inline(always)]
    fn record(&self, value: u64) {
        self.sum.add(value);
        if value < self.min.get() {
            self.min.set(value);
        }
        if value > self.max.get() {
            self.max.set(value);
        }
    }
}

/// Who leaves the CPU at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prev {
    /// The idle task.
    Idle,
    /// Any other task, which blocks.
    Blocked,
    /// Any other task, which stays runnable.
    Runnable,
}

/// The counters and histograms of one CPU.
///
/// Only that CPU writes them, in [`Cpu::switch`]; any CPU may read them meanwhile. `B` holds the
/// buckets of all metrics, one metric after the other.
///
/// It begins on a cache line of its own, so that two CPUs never write the same one.
///
/// # Invariants
///
/// `stride` is `scheme.buckets()`, and `buckets` has `Metric::COUNT` times as many cells.
#[repr(align(64))]
#[derive(Debug)]
pub struct Cpu<B> {
    /// When the running task got the CPU, in nanoseconds of the CPU's clock; 0: not seen.
    since: Cell,
    counters: [Cell; Counter::COUNT],
    totals: [Totals; Metric::COUNT],
    scheme: Scheme,
    /// How many buckets a metric has.
    stride: usize,
    buckets: B,
}

impl<B: Deref<Target = [Cell]>> Cpu<B> {
    /// Returns how many cells the buckets of a CPU take.
    pub const fn cells(scheme: Scheme) -> usize {
        Metric::COUNT * scheme.buckets()
    }

    /// Creates the records of a CPU over `buckets`, or gives up when those are not
    /// [`Cpu::cells`] many. They should be 0.
    pub fn new(scheme: Scheme, buckets: B) -> Option<Self> {
        if buckets.len() != Self::cells(scheme) {
            return None;
        }
        // INVARIANT: Just checked.
        Some(Self {
            since: Cell::new(0),
            counters: [const { Cell::new(0) }; Counter::COUNT],
            totals: [const { Totals::new() }; Metric::COUNT],
            scheme,
            stride: scheme.buckets(),
            buckets,
        })
    }

    /// Records a context switch at `now`, in nanoseconds, and returns how long the one who leaves
    /// had the CPU, if that is known.
    ///
    /// Only the CPU itself may call this, with interrupts off. Every switch ends in one histogram
    /// or in [`Counter::StartUnseen`].
    #[inline(always)]
    pub fn switch(&self, now: u64, prev: Prev) -> Option<u64> {
        self.count(Counter::Switches);
        let metric = match prev {
            Prev::Idle => Metric::Idle,
            Prev::Blocked => {
                self.count(Counter::Voluntary);
                Metric::Oncpu
            }
            Prev::Runnable => {
                self.count(Counter::Involuntary);
                Metric::Oncpu
            }
        };

        let since = self.since.get();
        self.since.set(now);
        if since == 0 || now < since {
            self.unseen(since);
            return None;
        }
        let duration = now - since;
        self.record(metric, duration);
        Some(duration)
    }

    /// Counts a stay whose start is not known.
    #[cold]
    fn unseen(&self, since: u64) {
        self.count(Counter::StartUnseen);
        if since != 0 {
            self.count(Counter::ClockBackwards);
        }
    }

    /// Forgets when the running task got the CPU, so that its stay does not become a sample.
    ///
    /// Must not run at the same time as [`Cpu::switch`] on the same `Cpu`.
    pub fn forget(&self) {
        self.since.set(0);
    }

    #[inline(always)]
    fn count(&self, counter: Counter) {
        self.counters[counter as usize].add(1);
    }

    #[inline(always)]
    fn record(&self, metric: Metric, value: u64) {
        let first = (metric as usize).wrapping_mul(self.stride);
        let index = first.wrapping_add(self.scheme.index(value));
        // By the invariant there always is such a bucket.
        if let Some(bucket) = self.buckets.get(index) {
            bucket.add(1);
        }
        self.totals[metric as usize].record(value);
    }

    /// Returns the scheme of the buckets.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Reads a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].get()
    }

    /// Returns the buckets of `metric`.
    pub fn buckets(&self, metric: Metric) -> &[Cell] {
        let first = metric as usize * self.stride;
        self.buckets.get(first..first + self.stride).unwrap_or(&[])
    }

    /// Reads the sum of all values of `metric`, in nanoseconds.
    pub fn sum(&self, metric: Metric) -> u64 {
        self.totals[metric as usize].sum.get()
    }

    /// Reads the least value of `metric`, in nanoseconds; `u64::MAX` when there is none.
    pub fn min(&self, metric: Metric) -> u64 {
        self.totals[metric as usize].min.get()
    }

    /// Reads the greatest value of `metric`, in nanoseconds; 0 when there is none.
    pub fn max(&self, metric: Metric) -> u64 {
        self.totals[metric as usize].max.get()
    }
}
