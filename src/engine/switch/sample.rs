// SPDX-License-Identifier: GPL-2.0

//! A single sample, for those who want to see each.

use crate::engine::{
    identity::Identity,
    metric::Metric,
    named::named,
    switch::switch_out::SwitchOut, //
};

named! {
    /// How the time that is measured came about, or how it ended.
    #[repr(u8)]
    pub enum Cause {
        /// The task was preempted, or it yielded.
        Preempted => "preempted";
        /// The task blocked in interruptible sleep (S).
        Interruptible => "interruptible";
        /// The task blocked in uninterruptible sleep (D), in an idle wait (I), or was frozen.
        Uninterruptible => "uninterruptible";
        /// The task stopped, was traced, or parked.
        Stopped => "stopped";
        /// The task exited.
        Dead => "dead";
        /// The task was woken.
        Wakeup => "wakeup";
        /// The task was just forked.
        Fork => "fork";
        /// The CPU had nothing to run.
        Idle => "idle";
    }
}

impl From<SwitchOut> for Cause {
    #[inline(always)]
    fn from(end: SwitchOut) -> Self {
        match end {
            SwitchOut::Preempted => Self::Preempted,
            SwitchOut::Interruptible => Self::Interruptible,
            SwitchOut::Uninterruptible => Self::Uninterruptible,
            SwitchOut::Stopped => Self::Stopped,
            SwitchOut::Dead => Self::Dead,
        }
    }
}

/// A sample, as it goes into a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What it is a sample of.
    pub metric: Metric,
    /// The sample, in nanoseconds.
    pub value: u64,
    /// When the time that was measured ended, in nanoseconds of the CPU's clock: now, but for a sleep,
    /// which ended when the task was woken.
    pub end: u64,
    /// How it came about, or how it ended.
    pub cause: Cause,
}

/// Which of the two tasks of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that leaves the CPU.
    Prev,
    /// The one that gets it.
    Next,
}

/// Who watches a switch.
///
/// What does nothing costs nothing: a switch is compiled for each kind of observer.
pub trait Observer: Copy {
    /// Names one of the two tasks.
    fn identify(self, side: Side) -> Identity;

    /// Returns what names one of the two tasks. Called when a sample is the worst so far, out of the way,
    /// and so best made of little.
    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        move || self.identify(side)
    }

    /// Is told of the stay on the CPU that ends now, before the samples, where its start was seen:
    /// since when it was, and now, in nanoseconds of the CPU's clock.
    #[inline(always)]
    fn stay(self, _since: u64, _now: u64) {}

    /// Is told of each sample of a metric that is on, in the order in which they are taken: that of
    /// the one who leaves the CPU first.
    #[inline(always)]
    fn sample(self, _sample: &Sample) {}
}

/// Only names the tasks.
impl<F: Fn(Side) -> Identity + Copy> Observer for F {
    #[inline(always)]
    fn identify(self, side: Side) -> Identity {
        self(side)
    }
}
