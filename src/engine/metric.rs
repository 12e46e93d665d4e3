// SPDX-License-Identifier: GPL-2.0

//! The metrics and the counters: their names and what they mean.

/// A duration that is measured; each has a histogram on every CPU. All are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Metric {
    /// A stay of a task on a CPU, from switch-in to switch-out, however it ended.
    Oncpu,
    /// A stay of a CPU in its idle task.
    Idle,
}

impl Metric {
    /// How many metrics there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All metrics, in the order in which they are shown.
    pub const ALL: [Self; 2] = [Self::Oncpu, Self::Idle];

    /// Returns the name that the files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oncpu => "oncpu",
            Self::Idle => "idle",
        }
    }
}

/// An event that is counted on every CPU.
///
/// For every CPU, `switches = oncpu + idle + start_unseen`, where a metric stands for the count of
/// its histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Context switches seen.
    Switches,
    /// Switches by which a task left the CPU to block: not preempted, and no longer runnable.
    Voluntary,
    /// Switches by which a task left the CPU runnable: preempted, or by a yield.
    ///
    /// The idle task is no task: its switches are in neither of the two.
    Involuntary,
    /// Switches that ended a stay whose start is not known, and that are in no histogram: the first
    /// on each CPU after measuring began, and those of [`Counter::ClockBackwards`].
    StartUnseen,
    /// Switches at which the CPU's clock read less than at the switch before.
    ClockBackwards,
}

impl Counter {
    /// How many counters there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All counters, in the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Switches,
        Self::Voluntary,
        Self::Involuntary,
        Self::StartUnseen,
        Self::ClockBackwards,
    ];

    /// Returns the name that the files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switches => "switches",
            Self::Voluntary => "voluntary",
            Self::Involuntary => "involuntary",
            Self::StartUnseen => "start_unseen",
            Self::ClockBackwards => "clock_backwards",
        }
    }
}
