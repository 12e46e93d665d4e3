// SPDX-License-Identifier: GPL-2.0

//! The part of a switch that is about the task that gets the CPU: what its absence was.

use super::{
    current_slice::OF_IDLE,
    unlikely,
    Cpu, //
};
use crate::engine::{
    chain::Start,
    group::TaskGroup,
    idle::Distance,
    switch::{
        task_state::{
            waited,
            LastSwitchOut,
            Woken, //
        },
        Cause,
        Observer,
        Sample,
        Settings,
        Switch,
        Task,
        TaskState, //
    },
    Cell,
    Counter,
    Metric, //
};

impl<B: AsRef<[Cell]> + ?Sized> Cpu<B> {
    /// Records the task that gets the CPU at `now`.
    #[inline(always)]
    pub(super) fn enter<S: Settings, O: Observer>(
        &self,
        now: u64,
        switch: &impl Switch,
        observer: O,
    ) {
        let task = switch.next();
        let pid = task.pid();
        if pid == 0 {
            observer.enter(TaskGroup::IDLE).idle_begins(now);
            // After the slice that has ended: see `Cpu::current_slice()`.
            self.header.since.publish(now | OF_IDLE);
            return self.count(Counter::ToIdle);
        }
        let needs_tasks = S::metrics(&self.header).needs_tasks();
        if !O::GROUPS && !needs_tasks {
            return;
        }
        let state = switch.state(pid);
        let observer = match O::GROUPS {
            true => observer.enter(state.task_group(task.id())),
            false => observer,
        };
        if !needs_tasks {
            return;
        }
        if !state.is_of(task) || !task.has_run() {
            return self.enter_unknown::<S, O>(now, task, state, observer);
        }
        let left = state.take();
        if now < left.out {
            begins(observer, now, (Start::Unknown, now), || 0);
            return self.unseen_wait(left.out);
        }
        let last_cpu = observer.cpu_of(left.last_slice);
        let has_migrated = last_cpu != self.header.number;
        if has_migrated {
            self.migrated(switch.distance(last_cpu), observer);
        }
        let away = now.wrapping_sub(left.out);
        if left.state.is_runnable() {
            let start = match left.state.is_throttled() {
                true => Start::Throttled,
                false => Start::Preempted,
            };
            begins(observer, now, (start, left.out), || left.last_slice);
            if left.state.is_throttled() {
                observer.throttled(away);
                return self.end_throttling::<S>(now, away, observer);
            }
            // The kernel's stamps do not help: it makes none for a task that was preempted with its
            // sleep state set.
            observer.preempted(state.preempter::<O>(), away);
            let wait = Sample {
                // The kernel adds to the sum at each move, such as away and back.
                moved: observer.wants_moved(away)
                    && (has_migrated || task.run_delay() != left.run_delay),
                ..Sample::new(Metric::RunqPreempt, away, Cause::Preempted, now)
            };
            return self.record_sample::<S>(&wait, now, observer);
        }
        self.end_absence::<S, O>(now, away, task, (left, state), observer);
    }

    /// Records that the task that gets the CPU last ran on another one.
    #[inline(always)]
    fn migrated(&self, distance: Distance, observer: impl Observer) {
        self.count(Counter::Migrations);
        self.count(Counter::of_migrations(distance));
        observer.migrated(distance);
    }

    /// Records the absence of `task`, which had left the CPU to block.
    #[inline(always)]
    fn end_absence<S: Settings, O: Observer>(
        &self,
        now: u64,
        away: u64,
        task: impl Task,
        (left, state): (LastSwitchOut, &TaskState),
        observer: O,
    ) {
        let mut known = (None, 0, 0);
        if O::CHAIN {
            // Before the first sample, which may be one that the chain is to explain.
            known = self.wait::<S>(now, away, task, left);
            let (Some(wait), ..) = known else {
                begins(observer, now, (Start::Unknown, now), || 0);
                return self.end_unknown_absence::<S>(now, away, left, observer);
            };
            let woken = now.wrapping_sub(wait);
            begins(observer, now, (Start::Woken, woken), || state.take_waker());
        }
        self.record_absence::<S>(now, away, left, observer);
        if !O::CHAIN {
            known = self.wait::<S>(now, away, task, left);
        }
        let (Some(wait), run_delay, last_queued) = known else {
            return self.wait_unseen();
        };
        let cause = left.state.cause();
        let sample = Sample {
            moved: observer.wants_moved(wait) && left.has_moved(now, away, run_delay, last_queued),
            ..Sample::new(Metric::RunqWakeup, wait, Cause::Wakeup, now)
        };
        self.record_sample::<S>(&sample, now, observer);
        let blocked = away.wrapping_sub(wait);
        let woken = now.wrapping_sub(wait);
        let record_sleep = |metric| {
            let sample = Sample::new(metric, blocked, cause, woken);
            self.record_sample::<S>(&sample, now, observer);
        };
        if left.state.is_interruptible() {
            record_sleep(Metric::BlockedInterruptible);
        } else if left.state.is_uninterruptible() {
            record_sleep(Metric::BlockedUninterruptible);
        } else {
            self.header.count_absence(left.state);
        }
    }

    /// Returns how long `task` waited after a sleep, if that is known, and the kernel's stamps.
    #[inline(always)]
    fn wait<S: Settings>(
        &self,
        now: u64,
        away: u64,
        task: impl Task,
        left: LastSwitchOut,
    ) -> (Option<u64>, u64, u64) {
        let (run_delay, last_queued) = (task.run_delay(), task.last_queued());
        let unusual = |woken| self.compare_stamps::<S>(now, last_queued, woken);
        let wait = left.wait(now, away, run_delay, last_queued, unusual);
        (wait, run_delay, last_queued)
    }

    /// Records how long a task was away from all CPUs, and the time since its wakeup.
    #[inline(always)]
    fn record_absence<S: Settings>(
        &self,
        now: u64,
        away: u64,
        left: LastSwitchOut,
        observer: impl Observer,
    ) {
        let cause = left.state.cause();
        self.record::<S>(Metric::Offcpu, away, cause, now, observer);
        if self.is_on::<S>(Metric::Wakeup) {
            match left.woken() {
                Some(woken) => {
                    self.compare(now, woken.time);
                    let passed = now.saturating_sub(woken.time);
                    self.record::<S>(Metric::Wakeup, passed, cause, now, observer);
                }
                None => self.count(Counter::WakeUnseen),
            }
        }
    }

    /// Records an absence of which it is not known when the wait at its end began.
    ///
    /// Inlined: an observer that a function takes would have to be in memory.
    #[inline(always)]
    fn end_unknown_absence<S: Settings>(
        &self,
        now: u64,
        away: u64,
        left: LastSwitchOut,
        observer: impl Observer,
    ) {
        unlikely();
        self.record_absence::<S>(now, away, left, observer);
        self.wait_unseen();
    }

    #[cold]
    fn wait_unseen(&self) {
        self.count(Counter::BlockedOther);
        self.count(Counter::WaitUnseen);
    }

    /// Records the absence of a task that was throttled. Inlined as [`Cpu::end_unknown_absence`].
    #[inline(always)]
    fn end_throttling<S: Settings>(&self, now: u64, away: u64, observer: impl Observer) {
        unlikely();
        self.count(Counter::Throttled);
        self.record::<S>(Metric::Throttled, away, Cause::Throttled, now, observer);
    }

    /// Records that `task` gets the CPU at `now`, if the task never had one, or if `state` is not
    /// known to be the task's.
    #[inline(always)]
    fn enter_unknown<S: Settings, O: Observer>(
        &self,
        now: u64,
        task: impl Task,
        state: &TaskState,
        observer: O,
    ) {
        state.claim(task);
        if !task.has_run() {
            if O::CHAIN {
                // As in `enter_new()`.
                let (start, waited) = match task.last_queued() {
                    0 => (Start::Unknown, 0),
                    last_queued => (Start::Forked, waited(now, task.run_delay(), last_queued)),
                };
                let since = now.saturating_sub(waited);
                begins(observer, now, (start, since), || {
                    match state.is_untracked() {
                        true => 0,
                        false => state.take_waker(),
                    }
                });
            }
            return self.enter_new::<S>(now, task, observer);
        }
        begins(observer, now, (Start::Unknown, now), || 0);
        self.count(match state.is_untracked() {
            true => Counter::Untracked,
            false => Counter::WaitUnseen,
        });
    }

    /// Records the wait of a task that runs for the first time, unless the wait began before
    /// measuring did.
    #[inline(always)]
    fn enter_new<S: Settings>(&self, now: u64, task: impl Task, observer: impl Observer) {
        let last_queued = task.last_queued();
        self.compare(now, last_queued);
        let waited = waited(now, task.run_delay(), last_queued);
        // The task was forked with a `run_delay` of 0, so this is the time at which its wait began.
        let since = now.saturating_sub(waited);
        if last_queued != 0 && since >= self.header.began.get() {
            let sample = Sample {
                moved: observer.wants_moved(waited) && task.run_delay() != 0,
                ..Sample::new(Metric::RunqWakeup, waited, Cause::Fork, now)
            };
            self.record_sample::<S>(&sample, now, observer);
        } else {
            self.count(Counter::WaitUnseen);
        }
    }

    /// Does the same as `compare()` for the stamps from which a wait after a sleep is computed. If
    /// `wakeup` is on, the waker's stamp has been compared for that metric already.
    #[cold]
    fn compare_stamps<S: Settings>(&self, now: u64, last_queued: u64, woken: Option<Woken>) {
        self.compare(now, last_queued);
        match woken {
            Some(woken) if woken.was_queued && !self.is_on::<S>(Metric::Wakeup) => {
                self.compare(now, woken.time);
            }
            _ => {}
        }
    }

    /// Counts a wait whose beginning is not known: `out` is later than the switch, since the clock
    /// went backwards, or it is [`TaskState::NOT_OUT`].
    #[cold]
    fn unseen_wait(&self, out: u64) {
        self.count(Counter::WaitUnseen);
        if out != TaskState::NOT_OUT {
            self.count(Counter::ClockBackwards);
        }
    }
}

/// Tells `observer` what led to the slice that begins at `now`: see [`Observer::begins`].
#[inline(always)]
fn begins(observer: impl Observer, now: u64, waited: (Start, u64), link: impl FnOnce() -> u64) {
    observer.begins(now, waited, || observer.entered().group(), link);
}
