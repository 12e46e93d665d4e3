// SPDX-License-Identifier: GPL-2.0

//! What is kept about a task from its switch-out to its next switch-in.

#[cfg(doc)]
use crate::engine::metric::Metric;
use crate::engine::{
    cell::Cell,
    switch::switch_out::PrevState, //
};

/// A task as it leaves a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// Tells the task from any other that lives at the same time, such as its address. Not 0.
    pub id: u64,
    /// Whether it is on its way out, and may have given up its PID already.
    pub exiting: bool,
    /// How it leaves.
    pub state: PrevState,
    /// What the kernel has added up of its waits so far, in nanoseconds:
    /// `task_struct::sched_info.run_delay`.
    pub run_delay: u64,
}

/// A task as it gets a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Entering {
    /// As in [`Leaving`].
    pub id: u64,
    /// As in [`Leaving`].
    pub exiting: bool,
    /// Whether it never ran before: `sched_info.pcount` is 0.
    pub is_new: bool,
    /// As in [`Leaving`]; what the kernel has not added yet is the wait since `last_queued`.
    pub run_delay: u64,
    /// When the kernel put it on the run queue that it comes from, in nanoseconds of that CPU's
    /// clock: `sched_info.last_queued`. 0 for none, as with tasks that were preempted with their
    /// sleep state set.
    pub last_queued: u64,
}

impl Entering {
    /// Returns its waits up to `now`: what the kernel has added up, and what it is about to add.
    #[inline(always)]
    pub(in crate::engine) fn waited(&self, now: u64) -> u64 {
        self.run_delay
            .wrapping_add(now.saturating_sub(self.last_queued))
    }
}

/// A task as it is woken.
#[derive(Clone, Copy, Debug)]
pub struct Waking {
    /// As in [`Leaving`].
    pub id: u64,
    /// As in [`Leaving`].
    pub exiting: bool,
    /// Whether [`Entering::last_queued`] is set already.
    pub is_stamped: bool,
}

/// When a task was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Woken {
    /// In nanoseconds of the waker's clock.
    pub(in crate::engine) time: u64,
    /// [`Waking::is_stamped`].
    pub(in crate::engine) is_stamped: bool,
}

/// The state of a task, by PID.
///
/// Only the CPU that the task is on writes it, with one exception: a waker writes when it woke the
/// task, and writes nothing else; and the task is on no CPU then, about to leave it, or wakes itself.
/// Only the CPU that the task gets next reads it: the run queues' locks lie between that and the CPU
/// that it left.
///
/// An interrupt that comes while a task wakes itself may wake others, whose states are not this one; or
/// the same task, which does not sleep, so that it does not matter which of the two stamps stays.
///
/// It has a cache line of its own, so that two CPUs write the same line only for the same task.
#[repr(align(64))]
#[derive(Debug)]
pub struct TaskState {
    /// Whose state it is; 0: nobody's.
    owner: Cell,
    /// When the owner left a CPU, in nanoseconds; [`TaskState::NOT_OUT`] while it is on one.
    out: Cell,
    /// [`Leaving::run_delay`] at that time.
    run_delay: Cell,
    /// How it left: a [`PrevState`].
    state: Cell,
    /// Which CPU it left.
    cpu: Cell,
    /// When the owner was woken since it last got a CPU after a sleep, in nanoseconds, times 2; 1 is
    /// added where it was stamped already. 0: not noted. See [`TaskState::wake`].
    woken: Cell,
}

/// What is known of a task's last switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Left {
    pub(in crate::engine) out: u64,
    pub(in crate::engine) run_delay: u64,
    pub(in crate::engine) state: PrevState,
    pub(in crate::engine) cpu: u32,
    pub(in crate::engine) woken: Option<Woken>,
}

impl Left {
    /// Returns how long `task` waited for a CPU after a sleep, of the time `away` that it had none until
    /// `now`; `None` when that is not known. `unusual` is called where it is not told at one glance, as where
    /// the clock went back.
    #[inline(always)]
    pub(in crate::engine) fn wait(
        &self,
        now: u64,
        away: u64,
        task: &Entering,
        unusual: impl FnOnce(),
    ) -> Option<u64> {
        // `waited`, but for a clock that went backwards.
        let waited = task
            .run_delay
            .wrapping_add(now.wrapping_sub(task.last_queued));
        let wait = waited.wrapping_sub(self.run_delay);
        let is_usual = now >= task.last_queued
            // Without a stamp it is longer.
            && wait < away
            && !self.woken.is_some_and(|woken| woken.is_stamped);
        match is_usual {
            true => Some(wait),
            false => {
                unusual();
                self.unusual_wait(now, away, task)
            }
        }
    }

    /// The same where more is to be looked at.
    #[cold]
    fn unusual_wait(&self, now: u64, away: u64, task: &Entering) -> Option<u64> {
        if task.last_queued == 0 {
            return None;
        }
        let wait = match self.woken {
            // The kernel's stamp was there before the wakeup was: see `Task::wake`. A wakeup from
            // before is not of this sleep: see `Task::take_left`.
            Some(woken) if woken.is_stamped && woken.time >= self.out => {
                now.saturating_sub(woken.time)
            }
            _ => task.waited(now).wrapping_sub(self.run_delay),
        };
        // Clocks of two CPUs may differ by a little; a wait is no longer than the absence.
        Some(wait.min(away))
    }
}

impl TaskState {
    /// [`Left::out`] where a task gets a CPU, and was not seen to leave the one before: later than any
    /// time. The kernel does not tell of a switch on a CPU that is offline already: the one from the
    /// task that took it offline (`DECLARE_TRACE_EVENT` in `include/linux/tracepoint.h`).
    pub(in crate::engine) const NOT_OUT: u64 = u64::MAX;

    /// Creates the state of a PID that nothing is known of.
    pub const fn new() -> Self {
        Self {
            owner: Cell::new(0),
            out: Cell::new(0),
            run_delay: Cell::new(0),
            state: Cell::new(0),
            cpu: Cell::new(0),
            woken: Cell::new(0),
        }
    }

    /// Notes that `task`, of this PID, is being woken at `now`: the `sched_waking` event. Any CPU may
    /// call this, in any context; wakers of one task take turns, or it wakes itself.
    ///
    /// To be called for every wakeup while [`Metric::Wakeup`] is on. Otherwise it is enough to call
    /// it where [`Entering::last_queued`] is set already, although the task is asleep: the kernel
    /// stamps a task when it migrates it, even one whose dequeue it has put off, and which sleeps;
    /// and does not stamp it again when it wakes. The wait then begins here.
    ///
    /// What remains is a task that is migrated so, and whose dequeue is then completed by a change of
    /// its scheduling class, or for who waits until it is off the run queue (`wait_task_inactive()`: a
    /// tracer, a core dump); or that is migrated again just now, and has no stamp for a moment. The kernel
    /// adds its sleep to its `run_delay`.
    #[inline(always)]
    pub fn wake(&self, now: u64, task: &Waking) {
        if self.is_of(task.id, task.exiting) {
            self.woken.set((now << 1) | u64::from(task.is_stamped));
        }
    }

    /// Says whether this is the state of the task `id`. A task gives up its PID before it leaves the
    /// CPU for the last time, and by then the PID may be somebody else's.
    #[inline(always)]
    fn is_of(&self, id: u64, exiting: bool) -> bool {
        !exiting || self.owner.get() == id
    }

    /// Makes this the state of `task`, of whose last switch-out nothing is known, unless it may have
    /// given up its PID. The next switch-out is then noted even if it exits meanwhile.
    #[inline(always)]
    pub(in crate::engine) fn claim(&self, task: &Entering) {
        if !task.exiting {
            self.owner.set(task.id);
            self.out.set(Self::NOT_OUT);
            self.woken.set(0);
        }
    }

    /// Notes that a task left `cpu` at `now`.
    #[inline(always)]
    pub(in crate::engine) fn leave(&self, now: u64, cpu: u32, task: &Leaving) {
        if !self.is_of(task.id, task.exiting) {
            return;
        }
        self.owner.set(task.id);
        self.out.set(now);
        self.run_delay.set(task.run_delay);
        self.state.set(u64::from(task.state.bits()));
        self.cpu.set(u64::from(cpu));
    }

    /// Returns what is known of the switch-out before `task` enters, once: it is on a CPU then. Forgets
    /// the wakeup that ended its sleep, too.
    ///
    /// As a rule no waker comes in between, as the task is awake, and does not run yet. But a task that
    /// was preempted with its sleep state set is on a run queue and yet can be woken, just as it gets
    /// the CPU: the waker has not got the run queue's lock yet. Where the task blocks before the waker has
    /// it, that wakeup ends the sleep. So one that is noted before this is kept, as one that is noted after
    /// it is; other sleeps' wakeups overwrite it. [`Woken::is_stamped`] is the one that matters, as such
    /// wakeups may not be noted: it is of the past, and is forgotten.
    #[inline(always)]
    pub(in crate::engine) fn take_left(&self, task: &Entering) -> Option<Left> {
        if self.owner.get() != task.id {
            return None;
        }
        let woken = self.woken.get();
        let state = PrevState::from_bits(self.state.get() as u32);
        if woken != 0 {
            let kept = if state.is_runnable() { woken & !1 } else { 0 };
            // Not where it is the same: the waker may just write it anew.
            if kept != woken {
                self.woken.set(kept);
            }
        }
        let out = self.out.get();
        self.out.set(Self::NOT_OUT);
        Some(Left {
            out,
            run_delay: self.run_delay.get(),
            state,
            cpu: self.cpu.get() as u32,
            woken: (woken != 0).then_some(Woken {
                time: woken >> 1,
                is_stamped: woken & 1 != 0,
            }),
        })
    }
}

impl Default for TaskState {
    fn default() -> Self {
        Self::new()
    }
}
