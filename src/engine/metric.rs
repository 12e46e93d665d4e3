// SPDX-License-Identifier: GPL-2.0

//! The metrics and the counters: their names and meanings.

use core::fmt;

use crate::engine::{
    format::input,
    idle::Distance,
    named::named, //
};

named! {
    /// A duration that is recorded; each has a histogram on every CPU. All are in nanoseconds.
    ///
    /// Let *out* be the time that a task left a CPU, *in* the time that it next gets one, and
    /// *wake* the time between at which it was put on a run queue.
    ///
    /// To add a metric:
    ///
    /// 1. a row here, those of the default set first: [`Metric::COUNT_OF_DEFAULT`] is the number of
    ///    the first other one. With one more of them the default set would exceed the 64 KiB for
    ///    each CPU that `boundary/cpu_memory.rs` asserts;
    /// 2. in `OF_CPUS` if it needs no state of tasks, or else in `others` of
    ///    [`MetricSet::needs_wakeups`] if it needs no wakeups. If it needs the time of every
    ///    wakeup, also where `src/probes.rs` chooses `AllWakeups`;
    /// 3. its samples: in `switch/cpu/enter.rs` if they are of the task that gets the CPU, or else
    ///    in `switch/cpu.rs`; [`pending::MAX`](crate::engine::switch::pending::MAX), if a switch
    ///    can then have more of the former; and `switch/in_progress.rs`, if it tells which are in
    ///    progress;
    /// 4. in [`ShownMetric::ALL`], [`Metric::side`] and `Totals::of`; and in `GroupMetric::of`, if
    ///    groups have histograms of it;
    /// 5. its event: see `src/events.rs`; and `sample_events!` in `src/delivery.rs`;
    /// 6. in the command, in `IN_PROGRESS` of `verbs/watch.rs`, if the module tells which are in
    ///    progress; and where `runq` is named, if it is a wait;
    /// 7. the tests and documents that CONTRIBUTING.md names.
    #[repr(usize)]
    pub enum Metric {
        /// *in* to *out*: a slice of a task on a CPU, however it ended.
        Oncpu => "oncpu", "Slices of tasks on a CPU.";
        /// *wake* to *in*: a task's wait for a CPU after it was woken, or after it was forked.
        RunqWakeup => "runq_wakeup", "Waits of tasks for a CPU after a wakeup or a fork.";
        /// *out* to *in*, when the task left the CPU runnable, unless it was throttled.
        RunqPreempt => "runq_preempt", "Waits of tasks for a CPU after a preemption or a yield.";
        /// *out* to *wake*, when the task blocked in interruptible sleep.
        BlockedInterruptible => "blocked_interruptible", "Interruptible sleeps, until the wakeup.";
        /// *out* to *wake*, when the task blocked in uninterruptible sleep, but not in an idle
        /// wait.
        BlockedUninterruptible =>
            "blocked_uninterruptible", "Uninterruptible sleeps, until the wakeup.";
        /// *out* to *in*, when the task left the CPU to block.
        Offcpu => "offcpu", "Off-CPU periods of tasks that blocked, until they run again.";
        /// A slice of the idle task of a CPU.
        Idle => "idle", "Idle periods of a CPU.";
        /// From the event `sched_waking` to *in*, when the task had blocked. It begins a
        /// little earlier than [`Metric::RunqWakeup`], when the waker starts.
        Wakeup => "wakeup", "Times from sched_waking until the task runs.";
        /// *out* to *in*, when the task left the CPU because its quota was spent: that of its
        /// cgroup (`cpu.max`), or the budget of a `SCHED_DEADLINE` task. The wait for a CPU after
        /// the quota has returned is part of it: the kernel does not stamp that return.
        Throttled =>
            "throttled", "Off-CPU periods of tasks whose quota was spent, until they run again.";
        /// From the event `sched_set_need_resched_tp` of a task that has a CPU to *out*: the delay
        /// of a preemption, or of a switch that came before it.
        Resched => "resched", "Times from need_resched until the task leaves its CPU.";
        /// The same for the lazy request, of `PREEMPT_LAZY`, which waits for the next tick or
        /// return to user space.
        ReschedLazy =>
            "resched_lazy", "Times from the lazy need_resched until the task leaves its CPU.";
    }
}

impl Metric {
    /// The number of metrics in [`MetricSet::DEFAULT`], which are the first.
    pub const COUNT_OF_DEFAULT: usize = Self::Wakeup as usize;

    /// Returns whether a sample is a wait for a CPU.
    #[inline(always)]
    pub const fn is_wait(self) -> bool {
        matches!(self, Self::RunqWakeup | Self::RunqPreempt)
    }

    /// Returns which task of a switch a sample belongs to.
    #[inline(always)]
    pub const fn side(self) -> Side {
        match self {
            Self::Oncpu | Self::Idle | Self::Resched | Self::ReschedLazy => Side::Prev,
            _ => Side::Next,
        }
    }
}

/// One of the two tasks of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The task that leaves the CPU.
    Prev,
    /// The task that gets the CPU.
    Next,
}

/// A metric as the files show it: a recorded metric, or the sum of several.
///
/// Sums are computed on read, so that each sample is written only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownMetric {
    /// The name that the files use.
    pub name: &'static str,
    /// The help text, as [`Metric::help`] returns it.
    pub help: &'static str,
    /// The metrics that it is the sum of.
    pub parts: &'static [Metric],
}

impl ShownMetric {
    /// All of them, in the order in which the files show them.
    pub const ALL: [Self; 12] = [
        Self::only(&[Metric::Oncpu]),
        Self {
            name: "runq",
            help: "Waits of runnable tasks for a CPU, after a wakeup or a preemption.",
            parts: &[Metric::RunqWakeup, Metric::RunqPreempt],
        },
        Self::only(&[Metric::RunqWakeup]),
        Self::only(&[Metric::RunqPreempt]),
        Self::only(&[Metric::BlockedInterruptible]),
        Self::only(&[Metric::BlockedUninterruptible]),
        Self::only(&[Metric::Offcpu]),
        Self::only(&[Metric::Idle]),
        Self::only(&[Metric::Wakeup]),
        Self::only(&[Metric::Throttled]),
        Self::only(&[Metric::Resched]),
        Self::only(&[Metric::ReschedLazy]),
    ];

    /// Shows one recorded metric.
    const fn only(metric: &'static [Metric; 1]) -> Self {
        Self {
            name: metric[0].name(),
            help: metric[0].help(),
            parts: metric,
        }
    }

    /// Returns the bits of its parts in a [`MetricSet`].
    pub(in crate::engine) fn bits(self) -> u32 {
        let bits = |bits, part: &Metric| bits | MetricSet::bit(*part);
        self.parts.iter().fold(0, bits)
    }
}

/// A set of metrics, such as those that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSet(u32);

impl MetricSet {
    /// No metrics.
    pub const NONE: Self = Self(0);
    /// All metrics.
    pub const ALL: Self = Self((1 << Metric::COUNT) - 1);
    /// The metrics that are recorded by default: all but [`Metric::Wakeup`], which measures the
    /// waits of [`Metric::RunqWakeup`] from slightly earlier, [`Metric::Throttled`], which is empty
    /// unless there are quotas, and [`MetricSet::RESCHED`], which needs more probes.
    pub const DEFAULT: Self = Self((1 << Metric::COUNT_OF_DEFAULT) - 1);

    /// The metrics of requests to reschedule a CPU. A kernel before 6.17 does not show these.
    pub const RESCHED: Self = Self(Self::bit(Metric::Resched) | Self::bit(Metric::ReschedLazy));

    /// All but [`MetricSet::RESCHED`].
    pub const WITHOUT_RESCHED: Self = Self(Self::ALL.0 & !Self::RESCHED.0);

    /// The metrics that need no per-task state.
    const OF_CPUS: u32 = Self::bit(Metric::Oncpu) | Self::bit(Metric::Idle) | Self::RESCHED.0;

    const fn bit(metric: Metric) -> u32 {
        1 << metric as u32
    }

    /// Returns whether `metric` is on.
    #[inline(always)]
    pub const fn contains(self, metric: Metric) -> bool {
        self.0 & Self::bit(metric) != 0
    }

    /// Returns whether all metrics of `other` are on.
    pub const fn contains_all(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Returns whether all parts of `shown` are on.
    pub fn shows(self, shown: ShownMetric) -> bool {
        shown.parts.iter().all(|part| self.contains(*part))
    }

    /// Returns whether any metric is on.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether any metric of requests to reschedule is on.
    pub const fn needs_resched(self) -> bool {
        self.0 & Self::RESCHED.0 != 0
    }

    /// Returns whether any metric is on that needs a task's last switch-out.
    pub const fn needs_tasks(self) -> bool {
        self.0 & !Self::OF_CPUS != 0
    }

    /// Returns whether any metric is on that depends on the time of a wakeup.
    pub const fn needs_wakeups(self) -> bool {
        let others = Self::OF_CPUS
            | Self::bit(Metric::RunqPreempt)
            | Self::bit(Metric::Offcpu)
            | Self::bit(Metric::Throttled);
        self.0 & !others != 0
    }

    /// Returns the set as a number, for [`MetricSet::from_bits`].
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Creates a set from a number. Ignores bits that belong to no metric.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Parses names of those [`ShownMetric`]s that are `offered`, separated by commas or white
    /// space. `all` and `default` are also names, and so is `none`, which must stand alone. Returns
    /// `None` if a word is no such name, or there is no word.
    pub fn parse(text: &[u8], offered: Self) -> Option<Self> {
        let shown = ShownMetric::ALL.into_iter();
        let shown = shown.filter(|shown| offered.shows(*shown));
        let names = shown.map(|shown| (shown.name, shown.bits()));
        let names = names.chain([("all", offered.0), ("default", Self::DEFAULT.0)]);
        input::read_set(text, names).map(Self)
    }
}

impl fmt::Display for MetricSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = Metric::ALL.into_iter();
        let names = metrics.map(|metric| (metric.name(), Self::bit(metric)));
        input::write_set(f, self.0, names)
    }
}

named! {
    /// An event that is counted on every CPU.
    ///
    /// With the name of a metric for the count of its histogram, these hold on every CPU, as long
    /// as the metrics in them are on:
    ///
    /// - `switches = oncpu + idle + start_unseen`
    /// - `switches = to_idle + runq + throttled + wait_unseen + untracked`: every switch leads to
    ///   the idle task, or ends a task's wait. The counter and the metric of this name agree.
    /// - `offcpu = blocked_interruptible + blocked_uninterruptible + blocked_idle +
    ///   blocked_stopped + blocked_traced + blocked_parked + blocked_frozen + blocked_other`
    /// - `offcpu = wakeup + wake_unseen`
    /// - `migrations = migrations_core + migrations_llc + migrations_node + migrations_remote`
    /// - `resched_set = resched + resched_lazy + resched_idle + resched_unused`
    ///
    /// To add a counter: a row here, and where it is counted, in `switch/cpu.rs` or `switch/cpu/`.
    /// If it is counted at each switch, also a field of its own in `Header`. If the events that it
    /// counts are in no histogram: `LOSSES` of the command, in `render.rs`. A law of it goes into
    /// this list, `docs/metrics.md`, the ABI document, the command's `core/src/laws.rs`,
    /// `tests/harness/names.py` and `tests/engine/tests/model/mod.rs`.
    #[repr(usize)]
    pub enum Counter {
        /// Context switches seen.
        Switches => "switches", "Context switches.";
        /// Switches by which a task left the CPU to block: not preempted, and no longer runnable.
        Voluntary => "voluntary", "Switches by which a task left the CPU to block.";
        /// Switches by which a task left the CPU runnable: preempted, by a yield, or throttled.
        ///
        /// The idle task is no task: its switches are in neither of the two.
        Involuntary => "involuntary", "Switches by which a task left the CPU runnable.";
        /// Switches that ended a slice whose start is not known, and that are in no histogram: the
        /// first on each CPU after measuring began or it came online, and those at which the clock
        /// was found to have gone backwards.
        StartUnseen => "start_unseen", "Switches that ended a slice whose start was not seen.";
        /// Switches to the idle task.
        ToIdle => "to_idle", "Switches to the idle task.";
        /// Switches to a task whose wait began at a time that is not known: before measuring did,
        /// as a rule. Or it is exiting, and the PID that it has given up is in use again.
        WaitUnseen => "wait_unseen", "Switches to a task whose wait has no known beginning.";
        /// Switches to a task that is not kept track of: there was no memory for it, or it is
        /// exiting, and its state was swept out with the PID that it has given up.
        Untracked => "untracked", "Switches to a task that is not kept track of.";
        /// Absences of a task that waited idly (I): a kernel thread without work, as a rule. These
        /// and the next ones are in [`Metric::Offcpu`], but not in a histogram of sleeps.
        BlockedIdle => "blocked_idle", "Idle waits, as of kernel threads that have nothing to do.";
        /// Absences of a task that stopped (T).
        BlockedStopped => "blocked_stopped", "Off-CPU periods of tasks that were stopped.";
        /// Absences of a task that stopped for its tracer (t).
        BlockedTraced =>
            "blocked_traced", "Off-CPU periods of tasks that stopped for their tracer.";
        /// Absences of a kernel thread that parked (P).
        BlockedParked => "blocked_parked", "Off-CPU periods of kernel threads that parked.";
        /// Absences of a task that entered the freezer: of a suspend, or of version 1 of cgroups.
        /// Version 2 freezes tasks in interruptible sleep.
        BlockedFrozen => "blocked_frozen", "Off-CPU periods of tasks that entered the freezer.";
        /// Absences of a task that left the CPU to block in a state that is not known here, or
        /// whose wakeup time is not known.
        BlockedOther =>
            "blocked_other", "Off-CPU periods in another state, or with an unknown wakeup time.";
        /// Absences of a task that had blocked whose `sched_waking` event was not seen. Counted
        /// while [`Metric::Wakeup`] is on.
        WakeUnseen =>
            "wake_unseen", "Off-CPU periods of tasks that blocked whose sched_waking was not seen.";
        /// Switches to a task that left another CPU when it last ran.
        Migrations => "migrations", "Switches to a task that last ran on another CPU.";
        /// Times that the clock read less than the stamp that it was compared with.
        ClockBackwards =>
            "clock_backwards", "Times that the clock was behind an earlier stamp of any CPU.";
        /// Switches to a task that had left its last CPU because its quota was spent. Counted while
        /// any metric is on that needs the task's last switch-out, whether or not
        /// [`Metric::Throttled`] is.
        Throttled => "throttled", "Switches to a task that had been throttled.";
        /// Those of [`Counter::Migrations`] that were from another thread of the same core.
        MigrationsCore =>
            "migrations_core", "Switches to a task that last ran on another thread of the same core.";
        /// Those from a CPU further away, of the same last-level cache.
        MigrationsLlc => "migrations_llc",
            "Switches to a task that last ran on another core of the same last-level cache.";
        /// Those from a CPU further away, on the same NUMA node.
        MigrationsNode => "migrations_node",
            "Switches to a task that last ran on another last-level cache of the same NUMA node.";
        /// Those from another node.
        MigrationsRemote =>
            "migrations_remote", "Switches to a task that last ran on another NUMA node.";
        /// Requests to reschedule a CPU, if the metric is on: [`Metric::Resched`] or
        /// [`Metric::ReschedLazy`]. Counted once it is known what became of the request, on the CPU
        /// that finds out. For the next two counters that may be the one which made the request.
        ReschedSet => "resched_set", "Requests to reschedule a CPU.";
        /// Those that found the CPU in its idle task. One that polls for requests is woken without
        /// this.
        ReschedIdle => "resched_idle", "Requests to reschedule a CPU that was idle.";
        /// Those that no switch is known to have followed: the task kept its CPU, as the scheduler
        /// chose it again, or measuring ended, or its CPU went offline.
        ReschedUnused => "resched_unused",
            "Requests to reschedule a CPU that no switch is known to have followed.";
    }
}

impl Counter {
    /// Returns the counter of migrations over a distance.
    #[inline(always)]
    pub const fn of_migrations(distance: Distance) -> Self {
        match distance {
            Distance::Own | Distance::Core => Self::MigrationsCore,
            Distance::Llc => Self::MigrationsLlc,
            Distance::Node => Self::MigrationsNode,
            Distance::Remote | Distance::None => Self::MigrationsRemote,
        }
    }
}
