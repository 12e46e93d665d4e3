// SPDX-License-Identifier: GPL-2.0

//! How a slice on a CPU ended.

use crate::engine::{
    switch::sample::Cause,
    Counter, //
};

// The bits of `task_struct::__state` that matter here: `include/linux/sched.h`.
const TASK_INTERRUPTIBLE: u32 = 0x1;
const TASK_UNINTERRUPTIBLE: u32 = 0x2;
const TASK_STOPPED: u32 = 0x4;
const TASK_TRACED: u32 = 0x8;
const TASK_PARKED: u32 = 0x40;
const TASK_DEAD: u32 = 0x80;
const TASK_NOLOAD: u32 = 0x400;
const TASK_RTLOCK_WAIT: u32 = 0x1000;
const TASK_FROZEN: u32 = 0x8000;

const TASK_IDLE: u32 = TASK_UNINTERRUPTIBLE | TASK_NOLOAD;

const fn has(state: u32, bits: u32) -> bool {
    state & bits != 0
}

/// Returns whether a state is uninterruptible sleep, and not an idle wait.
#[inline(always)]
const fn is_uninterruptible(state: u32) -> bool {
    has(state, TASK_UNINTERRUPTIBLE | TASK_RTLOCK_WAIT) && !has(state, TASK_NOLOAD | TASK_FROZEN)
}

/// How a task's slice on a CPU ended is the cause of that slice, and of the absence that follows.
impl Cause {
    /// Classifies the end of a slice by the state of its task, the usual sleeps first; 0 stands for
    /// a task that is still runnable. No task combines two of these states, but for those in
    /// `TASK_IDLE`.
    const fn of_state(state: u32) -> Self {
        if state == 0 {
            Self::Preempted
        } else if has(state, TASK_INTERRUPTIBLE) {
            Self::Interruptible
        } else if is_uninterruptible(state) {
            Self::Uninterruptible
        } else if has(state, TASK_FROZEN) {
            Self::Frozen
        } else if state & TASK_IDLE == TASK_IDLE {
            Self::IdleWait
        } else if has(state, TASK_STOPPED) {
            Self::Stopped
        } else if has(state, TASK_TRACED) {
            Self::Traced
        } else if has(state, TASK_PARKED) {
            Self::Parked
        } else if has(state, TASK_DEAD) {
            Self::Dead
        } else {
            Self::Other
        }
    }

    /// Returns the counter of the off-CPU periods of tasks that left the CPU like this, if they
    /// have no histogram of their own.
    pub(in crate::engine) const fn counter(self) -> Counter {
        match self {
            Self::IdleWait => Counter::BlockedIdle,
            Self::Stopped => Counter::BlockedStopped,
            Self::Traced => Counter::BlockedTraced,
            Self::Parked => Counter::BlockedParked,
            Self::Frozen => Counter::BlockedFrozen,
            _ => Counter::BlockedOther,
        }
    }
}

/// The state in which a task left a CPU, as the switch passes it; a [`Cause`] is its meaning.
///
/// The meaning is worked out at the task's next switch-in, where it is needed and only one case
/// matters at a time.
///
/// A `PrevState` is as wide as the cell that stores it: extending it there would take an
/// instruction. Read as a signed number, it is positive if the task blocked, 0 if the task was
/// preempted, and negative if the task was throttled: one comparison finds the usual case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrevState(u64);

impl PrevState {
    /// The state of a task that is runnable, but has spent its quota.
    pub const THROTTLED: Self = Self(1 << 63);

    /// Creates the state from the arguments of the `sched_switch` tracepoint. A task that was
    /// preempted after it had set its sleep state (`preempt` true, `prev_state` not 0) has not
    /// blocked: `__schedule()` leaves it on the run queue.
    #[inline(always)]
    pub const fn new(preempt: bool, prev_state: u32) -> Self {
        Self(if preempt { 0 } else { prev_state as u64 })
    }

    /// Returns the state as a number, for [`PrevState::from_bits`].
    #[inline(always)]
    pub(in crate::engine) const fn bits(self) -> u64 {
        self.0
    }

    /// Creates the state from a number that [`PrevState::bits`] returned.
    #[inline(always)]
    pub(in crate::engine) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns whether the task stayed runnable, even if it was throttled.
    #[inline(always)]
    pub const fn is_runnable(self) -> bool {
        self.0 as i64 <= 0
    }

    /// Returns whether the task was throttled.
    #[inline(always)]
    pub const fn is_throttled(self) -> bool {
        (self.0 as i64) < 0
    }

    /// Returns whether the task had blocked in interruptible sleep.
    #[inline(always)]
    pub const fn is_interruptible(self) -> bool {
        self.0 & TASK_INTERRUPTIBLE as u64 != 0
    }

    /// Returns whether the task had blocked in uninterruptible sleep. Valid if it had not in
    /// interruptible sleep.
    #[inline(always)]
    pub(in crate::engine) const fn is_uninterruptible(self) -> bool {
        is_uninterruptible(self.0 as u32)
    }

    /// Returns the meaning of the state.
    #[inline(always)]
    pub const fn cause(self) -> Cause {
        if self.is_throttled() {
            return Cause::Throttled;
        }
        Cause::of_state(self.0 as u32)
    }
}
