// SPDX-License-Identifier: GPL-2.0

//! How a stay on a CPU ended.

/// How a task's stay on a CPU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SwitchOut {
    /// The task stayed runnable: it was preempted, or it yielded.
    Preempted,
    /// It blocked in interruptible sleep (S).
    Interruptible,
    /// It blocked in uninterruptible sleep (D), in an idle wait (I), or was frozen.
    Uninterruptible,
    /// It stopped, was traced, or parked.
    Stopped,
    /// It exited.
    Dead,
}

// The bits of `task_struct::__state` that matter here: `include/linux/sched.h`.
const TASK_INTERRUPTIBLE: u32 = 0x1;
const TASK_UNINTERRUPTIBLE: u32 = 0x2;
const TASK_DEAD: u32 = 0x80;
const TASK_RTLOCK_WAIT: u32 = 0x1000;
const TASK_FROZEN: u32 = 0x8000;

// What the kernel itself shows as uninterruptible: `__task_state_index()`.
const UNINTERRUPTIBLE: u32 = TASK_UNINTERRUPTIBLE | TASK_RTLOCK_WAIT | TASK_FROZEN;

impl SwitchOut {
    /// Says whether a task that left the CPU is still runnable.
    ///
    /// `preempt` and `prev_state` are the arguments of the `sched_switch` tracepoint. A task that
    /// was preempted after it had set its sleep state (`preempt` true, `prev_state` not 0) has not
    /// blocked: `__schedule()` leaves it on the run queue.
    #[inline(always)]
    pub const fn is_runnable(preempt: bool, prev_state: u32) -> bool {
        preempt || prev_state == 0
    }

    /// Tells the end of a stay from the arguments of the `sched_switch` tracepoint.
    pub const fn new(preempt: bool, prev_state: u32) -> Self {
        if Self::is_runnable(preempt, prev_state) {
            Self::Preempted
        } else if prev_state & TASK_DEAD != 0 {
            Self::Dead
        } else if prev_state & TASK_INTERRUPTIBLE != 0 {
            Self::Interruptible
        } else if prev_state & UNINTERRUPTIBLE != 0 {
            Self::Uninterruptible
        } else {
            Self::Stopped
        }
    }
}

/// How a task left a CPU, as a switch tells it; [`SwitchOut`] is what that means.
///
/// Working that out is for the task's next switch-in, where it is needed, and where only one case is
/// of interest at a time.
///
/// It has as many bits as the cell that keeps it: extending it there would take an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrevState(u64);

impl PrevState {
    /// From the arguments of the `sched_switch` tracepoint.
    #[inline(always)]
    pub const fn new(preempt: bool, prev_state: u32) -> Self {
        Self(if preempt { 0 } else { prev_state as u64 })
    }

    /// Returns it as a number, for [`PrevState::from_bits`].
    #[inline(always)]
    pub(in crate::engine) const fn bits(self) -> u64 {
        self.0
    }

    /// Reads it back.
    #[inline(always)]
    pub(in crate::engine) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Says whether the task stayed runnable.
    #[inline(always)]
    pub const fn is_runnable(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a task that gets a CPU again had blocked in interruptible sleep. A dead task,
    /// whose other bits mean nothing, does not get one.
    #[inline(always)]
    pub const fn is_interruptible(self) -> bool {
        self.0 & TASK_INTERRUPTIBLE as u64 != 0
    }

    /// Returns what it means.
    #[inline(always)]
    pub const fn switch_out(self) -> SwitchOut {
        SwitchOut::new(false, self.0 as u32)
    }
}
