// SPDX-License-Identifier: GPL-2.0

//! How long a task has been waiting.

use super::{
    waited,
    LastSwitchOut,
    TaskState, //
};
use crate::engine::{
    atomic::{
        fence,
        Ordering::Acquire, //
    },
    switch::{
        PrevState,
        Task, //
    },
    Metric, //
};

impl TaskState {
    /// Returns how long `task` has been waiting, or its quota has been spent, up to `now`; `None`
    /// if it does neither, or if it is being switched. `is_awake` is whether the task is runnable
    /// by its own state; `began` is the time at which measuring began.
    ///
    /// Any CPU may call this, for a task on a run queue, on no CPU. What the answer is about may
    /// end at any time.
    pub fn waiting(
        &self,
        now: u64,
        began: u64,
        is_awake: bool,
        task: impl Task,
    ) -> Option<Waiting> {
        let out = self.out.get();
        fence(Acquire);
        let is_known = self.is_of(task);
        let left = LastSwitchOut {
            out,
            run_delay: self.run_delay.get(),
            state: PrevState::from_bits(self.state.get()),
            last_slice: 0,
            woken: self.woken.get(),
        };
        // The kernel moves the time since the stamp to the sum when the task migrates.
        let last_queued = task.last_queued();
        let run_delay = task.run_delay();
        let has_run = task.has_run();
        if task.last_queued() != last_queued {
            return None;
        }
        fence(Acquire);
        // The task got a CPU meanwhile, or its PID has another owner.
        if self.out.get() != out || self.is_of(task) != is_known {
            return None;
        }
        if !is_known || !has_run {
            if last_queued == 0 || !is_awake {
                return None;
            }
            // As in `Cpu::enter_new()`.
            let before = if has_run { 0 } else { run_delay };
            let waited = waited(now, before, last_queued);
            return Some(Waiting {
                metric: Metric::RunqWakeup,
                waited,
                is_sample: !has_run && now.saturating_sub(waited) >= began,
            });
        }
        if out == Self::NOT_OUT {
            return None;
        }
        let away = now.saturating_sub(out);
        let (metric, waited) = if left.state.is_throttled() {
            (Metric::Throttled, away)
        } else if left.state.is_runnable() {
            (Metric::RunqPreempt, away)
        } else if is_awake {
            let wait = left.wait(now, away, run_delay, last_queued, |_| ());
            (Metric::RunqWakeup, wait?)
        } else {
            return None;
        };
        Some(Waiting {
            metric,
            waited,
            is_sample: true,
        })
    }

    /// Returns whether this is the state of `task`, and the task has left its last CPU.
    pub fn is_out(&self, task: impl Task) -> bool {
        self.is_of(task) && self.out.get() != Self::NOT_OUT
    }
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The metric of which it becomes a sample: [`Metric::RunqWakeup`], [`Metric::RunqPreempt`] or
    /// [`Metric::Throttled`].
    pub metric: Metric,
    /// How long it has taken so far, in nanoseconds.
    pub waited: u64,
    /// Whether it becomes a sample when it ends. If not, its beginning was not seen, and it may
    /// have begun earlier.
    pub is_sample: bool,
}
