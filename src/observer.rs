// SPDX-License-Identifier: GPL-2.0

//! The observers of a context switch.
//!
//! One only identifies the tasks of the switch. The other also emits trace events and reports
//! outliers.

use crate::{
    boundary::abstractions::{
        per_cpu::ThisCpu,
        sched_switch::Switch,
        task::Task, //
    },
    engine::{
        identity::Identity,
        metric::Metric,
        outlier::{
            history::Stay,
            log::Log, //
        },
        switch::sample::{
            Observer,
            Sample,
            Side, //
        },
    },
    events,
    outliers::Outliers, //
};

/// Identifies the tasks of a switch, and ignores its samples.
#[derive(Clone, Copy)]
pub(crate) struct SilentObserver<'a> {
    prev: Task<'a>,
    next: Task<'a>,
}

impl<'a> SilentObserver<'a> {
    #[inline(always)]
    pub(crate) fn new(switch: &Switch<'a>) -> Self {
        Self {
            prev: switch.prev,
            next: switch.next,
        }
    }

    #[inline(always)]
    fn task(self, side: Side) -> Task<'a> {
        match side {
            Side::Prev => self.prev,
            Side::Next => self.next,
        }
    }
}

impl Observer for SilentObserver<'_> {
    #[inline(always)]
    fn identify(self, side: Side) -> Identity {
        identify(self.task(side))
    }

    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        let task = self.task(side);
        move || identify(task)
    }
}

/// Emits an event for each sample, and checks each for an outlier.
pub(crate) struct TracingObserver<'a> {
    names: SilentObserver<'a>,
    cpu: u32,
    outliers: &'a Outliers,
    /// `None` while no threshold is set.
    log: Option<&'a Log>,
}

impl<'a> TracingObserver<'a> {
    /// Creates an observer of `switch`, which is in progress on this CPU.
    pub(crate) fn new(switch: &'a Switch<'a>, outliers: &'a Outliers) -> Self {
        let cpu = switch.cpu();
        Self {
            names: SilentObserver::new(switch),
            cpu,
            outliers,
            log: outliers.watched_log(cpu),
        }
    }

    /// Emits the event of a sample if the event is enabled.
    fn emit(&self, sample: &Sample) {
        let is_enabled = match sample.metric {
            Metric::Oncpu => events::trace_oncpu_enabled(),
            Metric::RunqWakeup | Metric::RunqPreempt => events::trace_runq_enabled(),
            Metric::BlockedInterruptible | Metric::BlockedUninterruptible => {
                events::trace_blocked_enabled()
            }
            Metric::Offcpu => events::trace_offcpu_enabled(),
            Metric::Wakeup => events::trace_wakeup_enabled(),
            Metric::Throttled => events::trace_throttled_enabled(),
            Metric::Idle => events::trace_idle_enabled(),
        };
        if !is_enabled {
            return;
        }
        let task = self.names.identify(sample.metric.side());
        let (pid, comm, prio) = (task.pid, &task.comm, task.prio);
        let (cpu, duration, cause) = (self.cpu, sample.value, sample.cause);
        match sample.metric {
            Metric::Oncpu => events::trace_oncpu(pid, comm, prio, cpu, duration, cause),
            Metric::RunqWakeup | Metric::RunqPreempt => {
                events::trace_runq(pid, comm, prio, cpu, duration, cause);
            }
            Metric::BlockedInterruptible | Metric::BlockedUninterruptible => {
                events::trace_blocked(pid, comm, prio, cpu, duration, cause);
            }
            Metric::Offcpu => events::trace_offcpu(pid, comm, prio, cpu, duration, cause),
            Metric::Wakeup => events::trace_wakeup(pid, comm, prio, cpu, duration, cause),
            Metric::Throttled => events::trace_throttled(pid, comm, prio, cpu, duration, cause),
            Metric::Idle => {
                let next = self.names.identify(Side::Next);
                events::trace_idle(cpu, duration, next.pid, &next.comm, next.prio);
            }
        }
    }
}

impl Observer for &TracingObserver<'_> {
    fn identify(self, side: Side) -> Identity {
        self.names.identify(side)
    }

    fn stay(self, since: u64, now: u64) {
        if let Some(log) = self.log {
            log.stay(&Stay {
                task: self.identify(Side::Prev),
                since,
                until: now,
            });
        }
    }

    fn sample(self, sample: &Sample) {
        self.emit(sample);
        if let Some(log) = self.log {
            let task = || self.identify(sample.metric.side());
            self.outliers.check(log, self.cpu, sample, task);
        }
    }
}

/// Copies a task's PID, priority and name. Out of line, as it is rarely called.
#[cold]
#[inline(never)]
fn identify(task: Task<'_>) -> Identity {
    Identity {
        pid: task.pid(),
        prio: task.prio(),
        comm: task.comm(),
    }
}
