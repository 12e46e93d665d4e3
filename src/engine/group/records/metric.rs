// SPDX-License-Identifier: GPL-2.0

//! What is recorded for groups: metrics, counters, and kinds of culprits.

use crate::engine::{
    group::{
        Group,
        TaskGroup, //
    },
    histogram::{
        Precision,
        Scheme, //
    },
    named::named,
    Metric, //
};

named! {
    /// A duration that is recorded for groups.
    #[repr(usize)]
    pub enum GroupMetric {
        /// As [`Metric::Oncpu`].
        Oncpu => "oncpu";
        /// [`Metric::RunqWakeup`] and [`Metric::RunqPreempt`] together.
        Runq => "runq";
        /// As [`Metric::Offcpu`].
        Offcpu => "offcpu";
    }
}

impl GroupMetric {
    /// Returns the metric to which samples of `metric` belong; `None` if groups do not record them.
    #[inline(always)]
    pub const fn of(metric: Metric) -> Option<Self> {
        match metric {
            Metric::Oncpu => Some(Self::Oncpu),
            Metric::RunqWakeup | Metric::RunqPreempt => Some(Self::Runq),
            Metric::Offcpu => Some(Self::Offcpu),
            _ => None,
        }
    }
}

named! {
    /// An event that is counted for each group on each CPU.
    #[repr(usize)]
    pub enum GroupCounter {
        /// Switches by which a task left the CPU to block.
        Voluntary => "voluntary";
        /// Switches by which a task left the CPU runnable.
        Involuntary => "involuntary";
        /// Switches to a task that last ran on another CPU.
        Migrations => "migrations";
        /// As [`Counter::Throttled`](crate::engine::metric::Counter::Throttled).
        Throttled => "throttled";
        /// How long these periods took, in nanoseconds.
        ThrottledNs => "throttled_ns";
    }
}

named! {
    /// The class of the task that kept another one from a CPU.
    #[repr(usize)]
    pub enum CulpritKind {
        /// A task of the same group.
        Own => "own";
        /// A task of another group.
        Other => "other";
        /// A kernel thread.
        Kernel => "kernel";
        /// Nobody: the CPU was idle.
        Idle => "idle";
    }
}

impl CulpritKind {
    /// Returns what a task with the group `culprit` is to a task of `group`.
    #[inline(always)]
    pub fn new(group: Group, culprit: TaskGroup) -> Self {
        match culprit.user_group() {
            Some(other) if other == group => Self::Own,
            Some(_) => Self::Other,
            None if culprit.is_idle() => Self::Idle,
            None => Self::Kernel,
        }
    }
}

/// The scheme of the histograms of groups, on a CPU whose own histograms have `scheme`.
///
/// Groups are many, so a bucket is up to 12.5 % of its value wide: their histograms have a quarter
/// of the buckets that the default precision has.
pub const fn group_scheme(scheme: Scheme) -> Scheme {
    match Precision::new(GROUP_PRECISION) {
        Some(precision) if scheme.precision().bits() > GROUP_PRECISION => Scheme::new(precision),
        _ => scheme,
    }
}

/// The finest precision of groups' histograms.
const GROUP_PRECISION: u32 = 3;
