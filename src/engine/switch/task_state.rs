// SPDX-License-Identifier: GPL-2.0

//! What is kept about a task from its switch-out to its next switch-in.

#[cfg(doc)]
use crate::engine::metric::Metric;
use crate::engine::{
    cell::Cell,
    switch::{
        switch_out::PrevState,
        view::{
            Task,
            Wakeup, //
        },
    },
};

/// When a task was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Woken {
    /// In nanoseconds of the waker's clock.
    pub(in crate::engine) time: u64,
    /// Whether the kernel had put the task on a run queue already: [`Task::last_queued`] was not 0.
    pub(in crate::engine) was_queued: bool,
}

/// The state of a task, by PID.
///
/// Only the CPU that the task is on writes it, with one exception: a waker writes when it woke the
/// task, and writes nothing else; and the task is on no CPU then, about to leave it, or wakes itself.
/// Only the CPU that the task gets next reads it: the run queues' locks lie between that and the CPU
/// that it left.
///
/// An interrupt that comes while a task wakes itself may wake others, whose states are not this one;
/// or the same task, which does not sleep, so that it does not matter which of the two stamps stays.
///
/// It has a cache line of its own, so that two CPUs write the same line only for the same task.
///
/// # Invariants
///
/// A state that was created with `owner` [`TaskState::UNTRACKED`] is never written.
#[repr(align(64))]
#[derive(Debug)]
pub struct TaskState {
    /// The [`Task::id`] of the task whose state it is; 0: nobody's.
    owner: Cell,
    /// When the owner left a CPU, in nanoseconds; [`TaskState::NOT_OUT`] while it is on one.
    out: Cell,
    /// [`Task::run_delay`] at that time.
    run_delay: Cell,
    /// How it left: a [`PrevState`].
    state: Cell,
    /// Which CPU it left.
    cpu: Cell,
    /// When the owner was woken since it last got a CPU after a sleep, in nanoseconds, times 2; 1 is
    /// added if the kernel had queued it already. 0: not noted. See [`record_wakeup`].
    woken: Cell,
}

/// What is known of a task's last switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct LastSwitchOut {
    pub(in crate::engine) out: u64,
    pub(in crate::engine) run_delay: u64,
    pub(in crate::engine) state: PrevState,
    pub(in crate::engine) cpu: u32,
    /// As [`TaskState::woken`].
    woken: u64,
}

/// Returns the waits of `task` up to `now`: what the kernel has accounted, and what it is about to.
#[inline(always)]
pub(in crate::engine) fn waited(now: u64, run_delay: u64, last_queued: u64) -> u64 {
    run_delay.wrapping_add(now.saturating_sub(last_queued))
}

impl LastSwitchOut {
    /// Returns when the task was woken, if that was noted.
    #[inline(always)]
    pub(in crate::engine) fn woken(&self) -> Option<Woken> {
        (self.woken != 0).then_some(Woken {
            time: self.woken >> 1,
            was_queued: self.woken & 1 != 0,
        })
    }

    /// Returns how long a task waited for a CPU after a sleep, of the time `away` that it had none
    /// until `now`; `None` if that is not known. `run_delay` and `last_queued` are the task's.
    ///
    /// `unusual` is called if it cannot be told at one glance, as after a step of the clock.
    #[inline(always)]
    pub(in crate::engine) fn wait(
        &self,
        now: u64,
        away: u64,
        run_delay: u64,
        last_queued: u64,
        unusual: impl FnOnce(),
    ) -> Option<u64> {
        // `waited()`, but for a clock that went backwards.
        let waited = run_delay.wrapping_add(now.wrapping_sub(last_queued));
        let wait = waited.wrapping_sub(self.run_delay);
        let is_usual = now >= last_queued
            // If the task has no stamp it is longer.
            && wait < away
            && self.woken & 1 == 0;
        match is_usual {
            true => Some(wait),
            false => {
                unusual();
                self.unusual_wait(now, away, run_delay, last_queued)
            }
        }
    }

    /// As [`LastSwitchOut::wait`], if more has to be looked at.
    #[cold]
    fn unusual_wait(&self, now: u64, away: u64, run_delay: u64, last_queued: u64) -> Option<u64> {
        if last_queued == 0 {
            return None;
        }
        let wait = match self.woken() {
            // The kernel's stamp was there before the wakeup was: see `record_wakeup()`. A wakeup
            // from before is not of this sleep: see `TaskState::take()`.
            Some(woken) if woken.was_queued && woken.time >= self.out => {
                now.saturating_sub(woken.time)
            }
            _ => waited(now, run_delay, last_queued).wrapping_sub(self.run_delay),
        };
        // Clocks of two CPUs may differ by a little; a wait is no longer than the absence.
        Some(wait.min(away))
    }
}

impl TaskState {
    /// [`LastSwitchOut::out`] of a task that gets a CPU and was not seen to leave the one before:
    /// later than any time. The kernel does not tell of a switch on a CPU that is offline already:
    /// the one from the task that took it offline (`DECLARE_TRACE_EVENT` in
    /// `include/linux/tracepoint.h`).
    pub(in crate::engine) const NOT_OUT: u64 = u64::MAX;

    /// The owner that stands for all tasks that nothing can be kept of. It is nobody's ID.
    const UNTRACKED: u64 = u64::MAX;

    /// Creates the state of a PID that nothing is known of.
    pub const fn new() -> Self {
        Self::of(0)
    }

    /// Creates the state that stands for those of all tasks for which there is no room.
    pub const fn untracked() -> Self {
        // INVARIANT: All functions that write return before that if `is_untracked()`.
        Self::of(Self::UNTRACKED)
    }

    const fn of(owner: u64) -> Self {
        Self {
            owner: Cell::new(owner),
            out: Cell::new(0),
            run_delay: Cell::new(0),
            state: Cell::new(0),
            cpu: Cell::new(0),
            woken: Cell::new(0),
        }
    }

    /// Returns whether this stands for the state of a task for which there is no room.
    #[inline(always)]
    pub(in crate::engine) fn is_untracked(&self) -> bool {
        self.owner.get() == Self::UNTRACKED
    }

    /// Returns whether this is known to be the state of `task`.
    #[inline(always)]
    pub(in crate::engine) fn is_of(&self, task: impl Task) -> bool {
        self.owner.get() == task.id()
    }

    /// Returns whether this may become the state of `task`, which is not its owner. A task gives up
    /// its PID before it leaves the CPU for the last time, and by then the PID may be another's.
    fn is_free_for(&self, task: impl Task) -> bool {
        !self.is_untracked() && !task.is_exiting()
    }

    /// Makes this the state of `task`, of whose last switch-out nothing is known, unless the task
    /// may have given up its PID. The next switch-out is then noted even if it exits meanwhile.
    pub(in crate::engine) fn claim(&self, task: impl Task) {
        if self.is_free_for(task) {
            self.owner.set(task.id());
            self.out.set(Self::NOT_OUT);
            self.woken.set(0);
        }
    }

    /// Notes that `task` left `cpu` at `now` as `state` tells.
    #[inline(always)]
    pub(in crate::engine) fn leave(&self, now: u64, cpu: u32, task: impl Task, state: PrevState) {
        if !self.is_of(task) && !self.is_taken_over_by(task) {
            return;
        }
        self.out.set(now);
        self.run_delay.set(task.run_delay());
        self.state.set(state.bits());
        self.cpu.set(u64::from(cpu));
    }

    /// Makes `task`, which leaves its CPU, the owner; returns whether it may be.
    #[cold]
    fn is_taken_over_by(&self, task: impl Task) -> bool {
        let is_free = self.is_free_for(task);
        if is_free {
            self.owner.set(task.id());
        }
        is_free
    }

    /// Returns what is known of the last switch-out of the owner, which gets a CPU now; after this
    /// it is on one. Forgets the wakeup that ended its sleep, too.
    ///
    /// As a rule no waker comes in between, as the task is awake, and does not run yet. But a task
    /// that was preempted with its sleep state set is on a run queue and yet can be woken, just as it
    /// gets the CPU: the waker has not got the run queue's lock yet. If the task blocks before the
    /// waker has it, that wakeup ends the sleep. So one that is noted before this is kept, as one
    /// that is noted after it is; other sleeps' wakeups overwrite it. [`Woken::was_queued`] is the
    /// one that matters, as such wakeups may not be noted: it is of the past, and is forgotten.
    #[inline(always)]
    pub(in crate::engine) fn take(&self) -> LastSwitchOut {
        let woken = self.woken.get();
        let state = PrevState::from_bits(self.state.get());
        if woken != 0 {
            let kept = if state.is_runnable() { woken & !1 } else { 0 };
            // Not if it is the same: the waker may just write it anew.
            if kept != woken {
                self.woken.set(kept);
            }
        }
        let out = self.out.get();
        self.out.set(Self::NOT_OUT);
        LastSwitchOut {
            out,
            run_delay: self.run_delay.get(),
            state,
            cpu: self.cpu.get() as u32,
            woken,
        }
    }
}

impl Default for TaskState {
    fn default() -> Self {
        Self::new()
    }
}

/// Which wakeups are noted.
pub trait Notes: 'static {
    /// Whether all are, and not only those of tasks that the kernel has queued already.
    const ALL: bool;
}

/// All wakeups are noted.
#[derive(Clone, Copy, Debug)]
pub struct AllWakeups;

impl Notes for AllWakeups {
    const ALL: bool = true;
}

/// The wakeups of tasks are noted that the kernel has queued already.
#[derive(Clone, Copy, Debug)]
pub struct QueuedWakeups;

impl Notes for QueuedWakeups {
    const ALL: bool = false;
}

/// Records that a task is being woken: the `sched_waking` event. Any CPU may call this, in any
/// context; wakers of one task take turns, or it wakes itself.
///
/// With [`AllWakeups`], each is noted, as [`Metric::Wakeup`] needs it. With [`QueuedWakeups`], only that
/// of a task whose [`Task::last_queued`] is set already, although the task is asleep: the kernel stamps
/// a task when it migrates it, even one whose dequeue it has put off, and which sleeps; and does not
/// stamp it again when it wakes. The wait then begins here.
///
/// What remains is a task that is migrated so, and whose dequeue is then completed by a change of its
/// scheduling class, or for a task that waits until it is off the run queue
/// (`wait_task_inactive()`: a tracer, a core dump); or that is migrated again just now, and has no
/// stamp for a moment. The kernel adds its sleep to its `run_delay`.
#[inline(always)]
pub fn record_wakeup<N: Notes>(wakeup: impl Wakeup) {
    // Read once: while the task is moved, there may be no stamp for a moment.
    let was_queued = wakeup.task().last_queued() != 0;
    if N::ALL || was_queued {
        note_wakeup(wakeup, was_queued);
    }
}

/// Not inlined: most wakeups are not noted, and those save no register for this.
#[inline(never)]
fn note_wakeup(wakeup: impl Wakeup, was_queued: bool) {
    let task = wakeup.task();
    let state = wakeup.state(task.pid());
    // A task without a state is counted as untracked when it runs.
    if state.is_of(task) || state.is_free_for(task) {
        state.woken.set((wakeup.now() << 1) | u64::from(was_queued));
    }
}
