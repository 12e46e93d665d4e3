// SPDX-License-Identifier: GPL-2.0

//! What has not ended yet: waits for a CPU, as a walk over all tasks finds them.

use crate::engine::{
    switch::Waiting,
    Identity,
    Metric, //
};

/// The number of waits that are named.
pub const LONGEST: usize = 16;

/// The metrics whose waits can be seen while they last.
pub const WAITS: [Metric; 3] = [Metric::RunqWakeup, Metric::RunqPreempt, Metric::Throttled];

/// A slice of a task on a CPU, or a wait, that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskInProgress {
    /// The metric of which it becomes a sample.
    pub metric: Metric,
    /// Whether it becomes a sample when it ends. If not, its beginning was not seen.
    pub is_sample: bool,
    /// The CPU that the task has, or on whose run queue it is.
    pub cpu: u32,
    /// The time at which it was found, in nanoseconds.
    pub now: u64,
    /// How long it had taken by then, in nanoseconds.
    pub duration: u64,
    /// The task.
    pub task: Identity,
}

/// Waits of a metric that have not ended, and will become samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many there are.
    pub count: u64,
    /// How long they have taken so far, in nanoseconds.
    pub sum: u128,
}

impl Waits {
    /// Adds a wait, if it is one that becomes a sample.
    pub fn add(&mut self, waiting: &Waiting) {
        if waiting.is_sample {
            self.count += 1;
            self.sum += u128::from(waiting.waited);
        }
    }
}

/// The waits in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiters {
    waits: [Waits; WAITS.len()],
    /// The longest waits, in no order.
    longest: [Option<TaskInProgress>; LONGEST],
}

impl Waiters {
    /// Adds a wait that was found at `now`. `task` is called if it is among the longest so far.
    pub fn add(&mut self, waiting: &Waiting, now: u64, cpu: u32, task: impl FnOnce() -> Identity) {
        let all = WAITS.into_iter().zip(&mut self.waits);
        for (_, waits) in all.filter(|(metric, _)| *metric == waiting.metric) {
            waits.add(waiting);
        }
        // An empty place comes first.
        let duration = |place: &&mut Option<TaskInProgress>| place.map(|known| known.duration);
        let Some(shortest) = self.longest.iter_mut().min_by_key(duration) else {
            return;
        };
        if shortest.is_none_or(|known| known.duration < waiting.waited) {
            *shortest = Some(TaskInProgress {
                metric: waiting.metric,
                is_sample: waiting.is_sample,
                cpu,
                now,
                duration: waiting.waited,
                task: task(),
            });
        }
    }

    /// Returns the waits of each of [`WAITS`].
    pub fn waits(&self) -> impl Iterator<Item = (Metric, Waits)> + '_ {
        WAITS.into_iter().zip(self.waits)
    }

    /// Returns the longest waits, in no order.
    pub fn longest(&self) -> impl Iterator<Item = &TaskInProgress> {
        self.longest.iter().flatten()
    }
}
