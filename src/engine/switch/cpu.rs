// SPDX-License-Identifier: GPL-2.0

//! The records of one CPU, updated at each switch.

mod current_slice;
mod enter;
mod header;
mod reading;
mod resched;

pub use self::{
    current_slice::{
        CurrentSlice,
        Occupancy, //
    },
    header::Header,
    resched::Requested, //
};

use crate::engine::{
    histogram::{
        totals::{
            Sum,
            Totals, //
        },
        Scheme, //
    },
    switch::{
        Cause,
        Observer,
        PrevState,
        Sample,
        Settings,
        Switch,
        Task, //
    },
    Cell,
    Counter,
    Metric,
    MetricSet, //
};

/// The counters and histograms of one CPU.
///
/// Only that CPU writes them, in [`Cpu::switch`]; other functions write only while no switch can be
/// in progress. Any CPU may read them meanwhile. `B` holds the buckets of all metrics, one metric
/// after the other. It may be `[Cell]`: header and cells then share one piece of memory, the header
/// first.
///
/// A `Cpu` begins on a cache line of its own, so that two CPUs never write the same line.
///
/// # Invariants
///
/// `buckets` has as many cells as [`Cpu::cells`] returns for the scheme of `header` and for either
/// all metrics or [`MetricSet::DEFAULT`].
#[repr(C)]
#[derive(Debug)]
pub struct Cpu<B: ?Sized> {
    header: Header,
    buckets: B,
}

impl<B: AsRef<[Cell]> + ?Sized> Cpu<B> {
    /// Returns the number of cells for the buckets of a CPU on which `metrics` can be on.
    pub const fn cells(scheme: Scheme, metrics: MetricSet) -> usize {
        let count = if MetricSet::DEFAULT.contains_all(metrics) {
            Metric::COUNT_OF_DEFAULT
        } else {
            Metric::COUNT
        };
        count * scheme.buckets()
    }

    /// Returns whether `number` is what [`Cpu::cells`] returns for all metrics or for
    /// [`MetricSet::DEFAULT`].
    pub(in crate::engine) fn is_number_of_cells(scheme: Scheme, number: usize) -> bool {
        [MetricSet::DEFAULT, MetricSet::ALL]
            .into_iter()
            .any(|metrics| number == Self::cells(scheme, metrics))
    }

    /// Creates the records of the CPU `number` with `buckets`, which should be 0; returns `None`
    /// unless there are as many of them as [`Cpu::cells`] returns.
    pub fn new(number: u32, scheme: Scheme, buckets: B) -> Option<Self>
    where
        B: Sized,
    {
        if !Self::is_number_of_cells(scheme, buckets.as_ref().len()) {
            return None;
        }
        // INVARIANT: The number of cells was just checked.
        Some(Self {
            header: Header::new(number, scheme),
            buckets,
        })
    }

    /// Records a context switch, with the settings `S`, which must be those of this CPU.
    ///
    /// Only the CPU itself may call this, with interrupts off. Every switch is counted as
    /// [`Counter`] documents.
    #[inline(always)]
    pub fn switch<S: Settings>(&self, switch: &impl Switch, observer: impl Observer) {
        // Cannot fail; checked once so that the bounds checks below fold away.
        if self.buckets.as_ref().len() < S::CELLS {
            return;
        }
        // Read the state before the clock, which takes a call: one value less then stays live
        // across it.
        let prev_state = switch.prev_state();
        let now = switch.now();
        self.leave::<S>(now, switch, prev_state, observer);
        self.enter::<S, _>(now, switch, observer);
        if is_preemption(switch, prev_state, observer) {
            let prev = switch.prev();
            let preempter = observer.entered();
            switch.state(prev.pid()).preempted_by(prev, preempter);
        }
    }

    /// Records the task that leaves the CPU at `now`.
    #[inline(always)]
    fn leave<S: Settings>(
        &self,
        now: u64,
        switch: &impl Switch,
        state: PrevState,
        observer: impl Observer,
    ) {
        let task = switch.prev();
        self.count_switch(observer);
        // The idle task is always runnable: `schedule_idle()`.
        if state.is_runnable() && task.pid() == 0 {
            observer.idle_ends(now);
            return self.end_slice::<S>(Metric::Idle, Cause::Idle, now, observer);
        }
        let state = match state.is_runnable() {
            true => {
                unlikely();
                self.count(Counter::Involuntary);
                match task.is_throttled() {
                    true => PrevState::THROTTLED,
                    false => state,
                }
            }
            false => {
                self.count(Counter::Voluntary);
                state
            }
        };
        observer.leave(state);
        if S::metrics(&self.header).needs_tasks() {
            let kept = switch.state(task.pid());
            kept.leave(now, observer.last_slice(self.header.number), task, state);
        }
        self.end_slice::<S>(Metric::Oncpu, state.cause(), now, observer);
        if S::RESCHED && self.has_requests() {
            self.end_requests::<S>(now, state.cause(), observer);
        }
    }

    #[inline(always)]
    fn end_slice<S: Settings>(
        &self,
        metric: Metric,
        cause: Cause,
        now: u64,
        observer: impl Observer,
    ) {
        let since = match metric {
            Metric::Idle => self.since(),
            _ => self.header.since.get(),
        };
        self.header.since.set(now);
        let slice = now.wrapping_sub(since);
        // True if `since` is 0 or later than `now`, and only then.
        if slice >= now {
            return self.unseen(since);
        }
        observer.slice(since, now);
        self.record::<S>(metric, slice, cause, now, observer);
    }

    /// Counts a slice whose start is not known. From here on the slices are seen, and follow one
    /// another.
    #[cold]
    fn unseen(&self, since: u64) {
        self.count(Counter::StartUnseen);
        if since != 0 {
            self.count(Counter::ClockBackwards);
        }
        self.begin_slices();
    }

    /// Starts to measure `metrics` at `now`. Durations that began before `now` do not become
    /// samples.
    ///
    /// Must not run at the same time as [`Cpu::switch`] on the same `Cpu`.
    pub fn begin(&self, now: u64, metrics: MetricSet) {
        self.forget();
        self.header.began.set(now);
        self.header.on.set(u64::from(metrics.bits()));
    }

    /// Copies the records of `other`, which may have fewer metrics.
    ///
    /// Must not run at the same time as [`Cpu::switch`] on either.
    pub fn take_over(&self, other: &Self) {
        other.forget_requests();
        for counter in Counter::ALL {
            self.header.counter(counter).set(other.counter(counter));
        }
        let buckets = self.buckets.as_ref().iter();
        for (mine, theirs) in buckets.zip(other.buckets.as_ref()) {
            mine.set(theirs.get());
        }
        self.header.totals.take_over(&other.header.totals);
    }

    /// Forgets the time at which the running task got the CPU, so that its slice does not become a
    /// sample. Meant for a CPU that comes online: the time offline is not idle time.
    ///
    /// Must not run at the same time as [`Cpu::switch`] on the same `Cpu`.
    pub fn forget(&self) {
        self.header.since.set(0);
        self.forget_requests();
    }

    /// Begins new minima and maxima of all metrics.
    ///
    /// Must not run at the same time as [`Cpu::switch`] on the same `Cpu`.
    pub fn restart_extremes(&self) {
        self.header.totals.restart_extremes();
    }

    #[inline(always)]
    fn is_on<S: Settings>(&self, metric: Metric) -> bool {
        S::metrics(&self.header).contains(metric)
    }

    #[inline(always)]
    fn count(&self, counter: Counter) {
        self.header.counter(counter).add(1);
    }

    /// Counts [`Counter::ClockBackwards`] if `stamp`, possibly of another CPU's clock, is later
    /// than `now`.
    #[inline(always)]
    fn compare(&self, now: u64, stamp: u64) {
        if now < stamp {
            self.count(Counter::ClockBackwards);
        }
    }

    #[inline(always)]
    fn count_switch<O: Observer>(&self, observer: O) {
        self.count(Counter::Switches);
        let switches = self.counter(Counter::Switches);
        if switches % O::CARRY_EVERY == 0 {
            if switches % Totals::CARRY_EVERY == 0 {
                self.header.totals.carry();
            }
            observer.carry(switches / O::CARRY_EVERY);
        }
    }

    #[inline(always)]
    fn record<S: Settings>(
        &self,
        metric: Metric,
        value: u64,
        cause: Cause,
        now: u64,
        observer: impl Observer,
    ) {
        let sample = Sample::new(metric, value, cause, now);
        self.record_sample::<S>(&sample, now, observer);
    }

    /// Records a sample of a duration that ended at `now`, or earlier.
    #[inline(always)]
    fn record_sample<S: Settings>(&self, sample: &Sample, now: u64, observer: impl Observer) {
        let (metric, value) = (sample.metric, sample.value);
        if !self.is_on::<S>(metric) {
            return;
        }
        let totals = &self.header.totals;
        let scheme = S::scheme(self.header.scheme);
        let bucket = |index| S::bucket(&self.header, self.buckets.as_ref(), metric, index);
        match scheme.finite_index(value) {
            Some(index) => {
                if let Some(bucket) = bucket(index) {
                    bucket.add(1);
                }
                // First the group's: see `GroupSlices::add()`.
                observer.add(metric, value, scheme, index);
                totals.add(metric, value);
            }
            None => {
                let last = scheme.buckets().wrapping_sub(1);
                observer.add_large(metric, value, scheme);
                overflow(bucket(last), totals.whole(metric), value);
            }
        }
        totals.compare(metric, value, now, observer.namer(metric.side()));
        observer.sample(sample);
    }
}

/// Returns whether the task that leaves the CPU stays runnable, and the observer wants to know.
#[inline(always)]
fn is_preemption<O: Observer>(switch: &impl Switch, state: PrevState, _: O) -> bool {
    O::GROUPS && state.is_runnable() && switch.prev().pid() != 0
}

/// Keeps the path that calls this out of the way of the other one, which then takes no jump.
#[cold]
#[inline]
fn unlikely() {}

/// Counts a value that is too large for all buckets but the last. Kept out of line.
#[cold]
#[inline(never)]
fn overflow(last: Option<&Cell>, sum: Sum<'_>, value: u64) {
    if let Some(bucket) = last {
        bucket.add(1);
    }
    sum.add_large(value);
}
