// SPDX-License-Identifier: GPL-2.0

//! Single samples, and the observer that receives them.

pub use crate::engine::metric::Side;

use crate::engine::{
    chain::Start,
    group::{
        Group,
        TaskGroup, //
    },
    histogram::{
        totals::Totals,
        Scheme, //
    },
    idle::Distance,
    named::named,
    switch::PrevState,
    Cell,
    Identity,
    Metric, //
};

named! {
    /// The cause of the measured time, or of its end.
    #[repr(u8)]
    pub enum Cause {
        /// The task was preempted, or it yielded.
        Preempted => "preempted";
        /// The task blocked in interruptible sleep (S).
        Interruptible => "interruptible";
        /// The task blocked in uninterruptible sleep (D), or for a lock of `PREEMPT_RT`.
        Uninterruptible => "uninterruptible";
        /// The task stopped (T).
        Stopped => "stopped";
        /// The task exited.
        Dead => "dead";
        /// The task was woken.
        Wakeup => "wakeup";
        /// The task was just forked.
        Fork => "fork";
        /// The CPU had nothing to run.
        Idle => "idle";
        /// The task's quota was spent: `cpu.max`, or the budget of a `SCHED_DEADLINE` task.
        Throttled => "throttled";
        /// The task waited idly (I): a kernel thread that had nothing to do, as a rule.
        IdleWait => "idle_wait";
        /// The task stopped for its tracer (t).
        Traced => "traced";
        /// The kernel thread parked (P).
        Parked => "parked";
        /// The task was in the freezer.
        Frozen => "frozen";
        /// The task blocked in a state that is not known here.
        Other => "other";
    }
}

/// A sample, as it goes into a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The metric that was measured.
    pub metric: Metric,
    /// The sample, in nanoseconds.
    pub value: u64,
    /// The end of the duration, in nanoseconds of the CPU's clock: the time of the switch, or for a
    /// sleep the time at which the task was woken.
    pub end: u64,
    /// The cause of the duration, or of its end.
    pub cause: Cause,
    /// Whether it is a wait in which the task was in the queues of several CPUs, one after the
    /// other, if the observer [wants](Observer::wants_moved) to know.
    pub moved: bool,
}

impl Sample {
    /// Creates a sample of a task that stayed where it was.
    #[inline(always)]
    pub fn new(metric: Metric, value: u64, cause: Cause, end: u64) -> Self {
        Self {
            metric,
            value,
            end,
            cause,
            moved: false,
        }
    }

    /// Returns the time at which the duration began, in nanoseconds of the CPU's clock.
    pub fn start(&self) -> u64 {
        self.end.saturating_sub(self.value)
    }
}

/// Storage for a sample that one CPU writes and any CPU reads. A read may be torn.
#[derive(Debug, Default)]
pub(in crate::engine) struct SampleCells {
    metric_and_cause: Cell,
    value: Cell,
    end: Cell,
}

impl SampleCells {
    pub(in crate::engine) fn set(&self, sample: &Sample) {
        self.metric_and_cause.set(
            (u64::from(sample.moved) << 16) | ((sample.metric as u64) << 8) | sample.cause as u64,
        );
        self.value.set(sample.value);
        self.end.set(sample.end);
    }

    /// Returns the sample. Cannot fail: metric and cause are in one cell, so even a read that is
    /// torn finds a pair that was stored.
    pub(in crate::engine) fn get(&self) -> Option<Sample> {
        let kind = self.metric_and_cause.get();
        Some(Sample {
            metric: *Metric::ALL.get((kind >> 8) as u8 as usize)?,
            value: self.value.get(),
            end: self.end.get(),
            cause: *Cause::ALL.get((kind & 0xff) as usize)?,
            moved: kind >> 16 != 0,
        })
    }
}

/// Receives the slices and samples of a switch.
///
/// A switch is compiled for each type of observer, so a method that does nothing costs nothing.
pub trait Observer: Copy {
    /// Whether the observer needs the groups of tasks. If not, the groups that it receives mean
    /// nothing.
    const GROUPS: bool = false;

    /// Whether the observer needs to know what led to each slice: see [`Observer::begins`].
    const CHAIN: bool = false;

    /// The number of switches from one call of [`Observer::carry`] to the next: a power of two, and
    /// at most [`Totals::CARRY_EVERY`].
    const CARRY_EVERY: u64 = Totals::CARRY_EVERY;

    /// Returns a function that identifies one of the two tasks. The function is called out of line,
    /// when a sample is the worst so far, so it should capture little.
    fn namer(self, side: Side) -> impl FnOnce() -> Identity;

    /// Receives the start and the end of the slice on the CPU that ends now, in nanoseconds of the
    /// CPU's clock. Called before the samples of the switch, and only if the start was seen.
    #[inline(always)]
    fn slice(self, _since: u64, _now: u64) {}

    /// Receives the state in which a task leaves the CPU, before the samples of the switch.
    #[inline(always)]
    fn leave(self, _state: PrevState) {}

    /// Receives the group of the task that gets the CPU, or that of the idle task, after the
    /// samples of the task that leaves. Returns the observer of what follows.
    #[inline(always)]
    fn enter(self, _task_group: TaskGroup) -> Self {
        self
    }

    /// Returns the group that [`Observer::enter`] received last.
    #[inline(always)]
    fn entered(self) -> TaskGroup {
        TaskGroup::UNKNOWN
    }

    /// Learns that the idle task gets the CPU.
    #[inline(always)]
    fn idle_begins(self, _now: u64) {}

    /// Learns that the idle task leaves the CPU.
    #[inline(always)]
    fn idle_ends(self, _now: u64) {}

    /// Learns what led to the slice of the task that gets the CPU at `now`, and since when it had
    /// waited. `group` returns its group, and `link` what is kept of who woke it or, if nobody
    /// did, what [`Observer::last_slice`] had returned for it. Called before the samples of that
    /// task.
    #[inline(always)]
    fn begins(
        self,
        _now: u64,
        _waited: (Start, u64),
        _group: impl FnOnce() -> Group,
        _link: impl FnOnce() -> u64,
    ) {
    }

    /// Returns what is kept of the task that leaves `cpu`, before [`Observer::begins`] of the next
    /// one.
    #[inline(always)]
    fn last_slice(self, cpu: u32) -> u64 {
        u64::from(cpu)
    }

    /// Returns the CPU for which [`Observer::last_slice`] returned this.
    #[inline(always)]
    fn cpu_of(self, last_slice: u64) -> u32 {
        last_slice as u32
    }

    /// Learns that the task that gets the CPU last ran on another one, and how far that is.
    #[inline(always)]
    fn migrated(self, _distance: Distance) {}

    /// Receives the group of the task that had preempted the one that gets the CPU now, and how
    /// long the latter waited since, in nanoseconds. Called before that wait's sample.
    #[inline(always)]
    fn preempted(self, _culprit: TaskGroup, _wait: u64) {}

    /// Learns that the task that gets the CPU was throttled, and how long it was away, in
    /// nanoseconds.
    #[inline(always)]
    fn throttled(self, _away: u64) {}

    /// Receives the next sample that [`Observer::sample`] receives, and `index`, that of its bucket
    /// in `scheme`. The bucket is not the last one.
    #[inline(always)]
    fn add(self, _metric: Metric, _value: u64, _scheme: Scheme, _index: usize) {}

    /// Receives the next sample instead of [`Observer::add`] if its bucket is the last.
    #[inline(always)]
    fn add_large(self, _metric: Metric, _value: u64, _scheme: Scheme) {}

    /// Called at each [`Observer::CARRY_EVERY`]th switch, so that sums modulo 2^64 can be followed
    /// for a wrap. `turn` counts the calls.
    #[inline(always)]
    fn carry(self, _turn: u64) {}

    /// Returns whether [`Sample::moved`] matters for a wait of `value` nanoseconds. Otherwise it is
    /// false.
    #[inline(always)]
    fn wants_moved(self, _value: u64) -> bool {
        true
    }

    /// Receives each sample of a metric that is on, in the order in which they are taken: those of
    /// the task that leaves the CPU come first.
    #[inline(always)]
    fn sample(self, _sample: &Sample) {}
}

/// A function that identifies tasks is an observer that does nothing else.
impl<F: Fn(Side) -> Identity + Copy> Observer for F {
    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        move || self(side)
    }
}
