// SPDX-License-Identifier: GPL-2.0

//! The state of a task, kept from its switch-out to its next switch-in, and its group.

mod waiting;
mod wakeup;

pub use self::{
    waiting::Waiting,
    wakeup::{
        record_wakeup,
        AllWakeups,
        QueuedWakeups,
        WakeupFilter, //
    },
};

use crate::engine::{
    chain::Link,
    group::{
        Group,
        TaskGroup, //
    },
    switch::{
        Observer,
        PrevState,
        Task, //
    },
    Cell, //
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Woken {
    /// The time of the wakeup, in nanoseconds of the waker's clock.
    pub(in crate::engine) time: u64,
    /// Whether the task was on a run queue already: [`Task::is_queued`].
    pub(in crate::engine) was_queued: bool,
}

/// The state of a task, by PID.
///
/// Only the CPU that the task is on writes the state, with two exceptions. A waker writes `woken`
/// and, while chains are kept, `preempter_or_waker`: the task is then on no CPU, is about to leave
/// its CPU, or wakes itself; and `run_delay`, where `Wakeup::COUNTS_SLEEPS` is true, if the task
/// sleeps. And any CPU writes `task_group`, under the lock that [`TaskState::set_task_group`] asks
/// for, and any CPU reads it. The rest is read by the CPU that the task gets next, where the run
/// queues' locks order this read after the writes of the CPU that the task left, and by
/// [`TaskState::waiting`].
///
/// An interrupt may come while a task wakes itself, and may wake tasks, too. Other tasks have
/// states of their own. The interrupted task is not asleep, so it does not matter which of the two
/// stamps stays.
///
/// A state has a cache line of its own, so that two CPUs write the same line only for the same
/// task.
///
/// # Invariants
///
/// A state that was created with `owner` [`TaskState::UNTRACKED`] is never written.
#[repr(align(64))]
#[derive(Debug, Default)]
pub struct TaskState {
    /// The [`Task::id`] of the owner, the task whose state this is; 0 for none.
    owner: Cell,
    /// The time at which the owner left a CPU, in nanoseconds; [`TaskState::NOT_OUT`] while the
    /// owner is on one.
    out: Cell,
    /// [`Task::run_delay`] at that time, or at a later wakeup: see [`TaskState::forget_sleep`].
    run_delay: Cell,
    /// The state in which the owner left: a [`PrevState`].
    state: Cell,
    /// The CPU that the owner left, or its slice there: what [`Observer::last_slice`] returned.
    last_slice: Cell,
    /// The time of the owner's last wakeup since it last got a CPU after a sleep, in nanoseconds,
    /// times 2, plus 1 if the kernel had queued the owner already; 0 if no wakeup was noted. See
    /// [`record_wakeup`].
    woken: Cell,
    /// The group of a task, with the part of its [`Task::id`] that [`tag`] returns: the owner's,
    /// unless the PID was given to a new task that has not run yet.
    task_group: Cell,
    /// The group of the task that got the CPU when the owner was preempted; or, while chains are
    /// kept, who woke the owner last: a [`Link`]. What came later is there.
    preempter_or_waker: Cell,
}

/// Returns the part of a task's ID that is stored with its group, in the bits above it.
#[inline(always)]
fn tag(id: u64) -> u64 {
    /// The lower bits of an ID tell tasks apart, and the lowest are 0: see [`Task::id`].
    const BITS: u32 = 48;
    const ZEROS: u32 = 6;

    const { assert!(TaskGroup::BITS <= u64::BITS - BITS + ZEROS) };
    id << (u64::BITS - BITS)
}

/// The last switch-out of a task. Its methods are inlined: what a function borrows would have to be
/// in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct LastSwitchOut {
    pub(in crate::engine) out: u64,
    pub(in crate::engine) run_delay: u64,
    pub(in crate::engine) state: PrevState,
    /// As [`TaskState::last_slice`].
    pub(in crate::engine) last_slice: u64,
    /// As [`TaskState::woken`].
    woken: u64,
}

/// Returns the sum of a task's waits up to `now`: `run_delay`, which the kernel has accounted, and
/// the time since `last_queued`, which it is about to account.
#[inline(always)]
pub(in crate::engine) fn waited(now: u64, run_delay: u64, last_queued: u64) -> u64 {
    run_delay.wrapping_add(now.saturating_sub(last_queued))
}

impl LastSwitchOut {
    /// Returns the task's wakeup, if one was noted.
    #[inline(always)]
    pub(in crate::engine) fn woken(&self) -> Option<Woken> {
        (self.woken != 0).then_some(Woken {
            time: self.woken >> 1,
            was_queued: self.woken & 1 != 0,
        })
    }

    /// Returns whether the task was in the queues of several CPUs, one after the other, in the wait
    /// that [`LastSwitchOut::wait`] returns.
    #[inline(always)]
    pub(in crate::engine) fn has_moved(
        &self,
        now: u64,
        away: u64,
        run_delay: u64,
        last_queued: u64,
    ) -> bool {
        match self.woken_in_queue(now, away) {
            // It may have been moved before, while it slept there.
            Some(woken) => last_queued > woken,
            None => run_delay != self.run_delay,
        }
    }

    /// Returns the time of the wakeup, if the task was on a run queue already.
    #[inline(always)]
    fn woken_in_queue(&self, now: u64, away: u64) -> Option<u64> {
        // A wakeup from before the switch-out does not belong to this sleep: see
        // `TaskState::take()`.
        let woken = self.woken().filter(|woken| woken.was_queued)?.time;
        (now.saturating_sub(woken) <= away).then_some(woken)
    }

    /// Returns how long a task waited for a CPU after a sleep, or `None` if that is not known.
    /// `away` is the time without a CPU, from [`LastSwitchOut::out`] to `now`, of which the wait is
    /// the last part. `run_delay` and `last_queued` are the task's.
    ///
    /// Calls `unusual` if the usual case does not apply, for example after a step of the clock.
    #[inline(always)]
    pub(in crate::engine) fn wait(
        self,
        now: u64,
        away: u64,
        run_delay: u64,
        last_queued: u64,
        unusual: impl FnOnce(Option<Woken>),
    ) -> Option<u64> {
        // The same as `waited()`, unless the clock went backwards.
        let total = run_delay.wrapping_add(now.wrapping_sub(last_queued));
        let wait = total.wrapping_sub(self.run_delay);
        let is_usual = now >= last_queued
            // Without a stamp, `last_queued` is 0 and `wait` is at least `now`, so not less than
            // `away`.
            && wait < away
            && self.woken & 1 == 0;
        match is_usual {
            true => Some(wait),
            false => {
                unusual(self.woken());
                let waited = waited(now, run_delay, last_queued).wrapping_sub(self.run_delay);
                unusual_wait(
                    now,
                    away,
                    self.woken_in_queue(now, away),
                    last_queued,
                    waited,
                )
            }
        }
    }
}

/// Returns the wait as [`LastSwitchOut::wait`] does, for the cases that need further checks.
/// `waited` is what the kernel has counted.
#[cold]
fn unusual_wait(
    now: u64,
    away: u64,
    woken: Option<u64>,
    last_queued: u64,
    waited: u64,
) -> Option<u64> {
    let wait = match woken {
        // The kernel's stamp is older than the wakeup, or there is none: see `record_wakeup()`.
        Some(woken) => now.saturating_sub(woken),
        None if last_queued == 0 => return None,
        None => waited,
    };
    // The clocks of two CPUs may differ slightly, but a wait is no longer than the absence.
    Some(wait.min(away))
}

impl TaskState {
    /// The [`LastSwitchOut::out`] of a task that gets a CPU without having been seen to leave the
    /// previous one: later than any time. The kernel emits no `sched_switch` on a CPU that is
    /// offline already, and so not for the switch from the task that took the CPU offline
    /// (`DECLARE_TRACE_EVENT` in `include/linux/tracepoint.h`).
    pub(in crate::engine) const NOT_OUT: u64 = u64::MAX;

    /// The owner that stands for all untracked tasks. No task has this ID.
    const UNTRACKED: u64 = u64::MAX;

    /// Creates the state of a PID of which nothing is known.
    pub const fn new() -> Self {
        Self::of(0)
    }

    /// Creates the state that is shared by all tasks for which there is no room.
    pub const fn untracked() -> Self {
        // INVARIANT: No task has the ID `UNTRACKED`, and `is_free_for()` is false for this state.
        // Every write comes after a check by `is_of()`, `is_free_for()` or `is_untracked()`, for
        // `take()` and `take_waker()` by their callers; `forget_task_group()` writes only where a
        // group is stored.
        Self::of(Self::UNTRACKED)
    }

    const fn of(owner: u64) -> Self {
        Self {
            owner: Cell::new(owner),
            out: Cell::new(0),
            run_delay: Cell::new(0),
            state: Cell::new(0),
            last_slice: Cell::new(0),
            woken: Cell::new(0),
            task_group: Cell::new(0),
            preempter_or_waker: Cell::new(0),
        }
    }

    /// Stores the group of the task `id`, which has the PID of this state. Returns false if there
    /// is no room for the task.
    ///
    /// Any CPU may call this, while the task runs, too. The caller must ensure that the group is
    /// still right when it is stored, by a lock that every change of the task's group takes.
    ///
    /// A CPU that gets the group sees the records of its group as the caller does: empty, if the
    /// place had another group before.
    pub fn set_task_group(&self, id: u64, task_group: TaskGroup) -> bool {
        if self.is_untracked() {
            return false;
        }
        self.task_group.publish(tag(id) | task_group.bits());
        true
    }

    /// Forgets the group if `is_it` returns true for it, whichever task it is of. The context is
    /// that of [`TaskState::set_task_group`].
    pub fn forget_task_group(&self, is_it: impl FnOnce(Group) -> bool) {
        let bits = self.task_group.get();
        // The state of untracked tasks has no group.
        if bits != 0 && is_it(TaskGroup::from_bits(bits & ((1 << TaskGroup::BITS) - 1)).group()) {
            self.task_group.set(0);
        }
    }

    /// Returns whether the group of another task than `id` is stored: the PID was given to it
    /// before or after.
    pub fn has_task_group_of_another(&self, id: u64) -> bool {
        let bits = self.task_group.get();
        bits != 0 && (bits ^ tag(id)) >= 1 << TaskGroup::BITS
    }

    /// Returns the group of the task `id`; [`TaskGroup::UNKNOWN`] if none is stored, because there
    /// is no room for the task or because its PID was given to another task.
    #[inline(always)]
    pub fn task_group(&self, id: u64) -> TaskGroup {
        let bits = self.task_group.acquire() ^ tag(id);
        if bits < 1 << TaskGroup::BITS {
            TaskGroup::from_bits(bits)
        } else {
            TaskGroup::UNKNOWN
        }
    }

    /// Records which task got the CPU when `task` was preempted.
    #[inline(always)]
    pub(in crate::engine) fn preempted_by(&self, task: impl Task, task_group: TaskGroup) {
        if self.is_of(task) {
            self.preempter_or_waker.set(task_group.bits());
        }
    }

    /// Returns the group of the task that got the CPU when the owner was preempted;
    /// [`TaskGroup::UNKNOWN`] if the owner, whose sleep state was set, was woken since.
    #[inline(always)]
    pub(in crate::engine) fn preempter<O: Observer>(&self) -> TaskGroup {
        let bits = self.preempter_or_waker.get();
        match O::CHAIN && Link::is_link(bits) {
            true => TaskGroup::UNKNOWN,
            false => TaskGroup::from_bits(bits),
        }
    }

    /// Records who wakes `task`, or created it. The context is that of [`record_wakeup`].
    #[inline(always)]
    pub fn woken_by(&self, task: impl Task, waker: Link) {
        if self.is_of(task) || self.is_free_for(task) {
            self.preempter_or_waker.set(waker.bits());
        }
    }

    /// Returns the bits of who woke the owner, which gets a CPU now after a sleep, if it is known,
    /// and forgets it: the next sleep must not get it.
    #[inline(always)]
    pub(in crate::engine) fn take_waker(&self) -> u64 {
        let bits = self.preempter_or_waker.get();
        self.preempter_or_waker.set(0);
        bits
    }

    /// Takes what the kernel has added to the waits of `task`, which sleeps on no run queue and is
    /// being woken, for a part of its sleep. The context is that of [`record_wakeup`].
    fn forget_sleep(&self, task: impl Task) {
        if self.is_of(task) {
            self.run_delay.set(task.run_delay());
        }
    }

    /// Returns whether this is the state that is shared by all tasks for which there is no room.
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
    /// its PID before it leaves the CPU for the last time, and another task may have the PID by
    /// then.
    fn is_free_for(&self, task: impl Task) -> bool {
        !self.is_untracked() && !task.is_exiting()
    }

    /// Makes this the state of `task`, whose last switch-out is not known, unless the task may have
    /// given up its PID. The next switch-out is then recorded even if the task exits meanwhile.
    pub(in crate::engine) fn claim(&self, task: impl Task) {
        if self.is_free_for(task) {
            self.owner.set(task.id());
            self.out.set(Self::NOT_OUT);
            self.woken.set(0);
        }
    }

    /// Records that `task` left its CPU at `now` in the state `state`. `last_slice` is what
    /// [`Observer::last_slice`] returned.
    #[inline(always)]
    pub(in crate::engine) fn leave(
        &self,
        now: u64,
        last_slice: u64,
        task: impl Task,
        state: PrevState,
    ) {
        if !self.is_of(task) && !self.is_taken_over_by(task) {
            return;
        }
        self.out.set(now);
        self.run_delay.set(task.run_delay());
        self.state.set(state.bits());
        self.last_slice.set(last_slice);
    }

    /// Makes `task`, which is leaving its CPU, the owner if this state is free for it; returns
    /// whether it is.
    #[cold]
    fn is_taken_over_by(&self, task: impl Task) -> bool {
        let is_free = self.is_free_for(task);
        if is_free {
            self.owner.set(task.id());
        }
        is_free
    }

    /// Returns the last switch-out of the owner, which gets a CPU now, and marks the owner as being
    /// on one. Forgets the wakeup that ended the owner's sleep, too.
    ///
    /// Usually no waker runs at the same time, as the task is awake but does not run yet. The
    /// exception is a task that was preempted with its sleep state set: it is on a run queue, and
    /// can still be woken just as it gets the CPU, by a waker that does not have the run queue's
    /// lock yet. If the task blocks before the waker has the lock, that wakeup ends the sleep. A
    /// wakeup of such a task is therefore kept whether it is noted before or after this call; the
    /// wakeups of later sleeps overwrite it. [`Woken::was_queued`] is cleared, though: it belongs
    /// to the past, and would be taken for a later wakeup that is not noted.
    #[inline(always)]
    pub(in crate::engine) fn take(&self) -> LastSwitchOut {
        let woken = self.woken.get();
        let state = PrevState::from_bits(self.state.get());
        if woken != 0 {
            let kept = if state.is_runnable() { woken & !1 } else { 0 };
            // Do not store an unchanged value: the waker may be writing it anew just now.
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
            last_slice: self.last_slice.get(),
            woken,
        }
    }
}
