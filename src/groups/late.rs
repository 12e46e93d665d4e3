// SPDX-License-Identifier: GPL-2.0

//! Decides the groups of threads that could not be decided when they moved to another cgroup: a
//! process moves as a whole, with interrupts off, and may have any number of threads.

use core::{
    mem,
    pin::Pin, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    Groups,
    Sweeper, //
};
use crate::boundary::{
    abstractions::{
        for_each_task,
        for_each_thread_of,
        Job,
        Task,
        Work, //
    },
    TaskStates, //
};

impl Groups {
    /// Remembers that threads of the process of `task` have moved. They are decided when
    /// [`Latecomers`] runs. The context is that of [`Groups::decide`].
    pub(crate) fn defer(&self, task: Task<'_>) {
        self.registry.lock().late.add(task.tgid());
    }
}

/// Decides the threads that [`Groups::defer`] has deferred.
pub(crate) struct Latecomers {
    pub(crate) groups: Arc<Groups>,
    pub(crate) tasks: TaskStates,
    pub(crate) sweep: Arc<Pin<KBox<Work<Sweeper>>>>,
}

impl Job for Latecomers {
    fn run(&self) {
        let late = mem::take(&mut self.groups.registry.lock().late);
        let mut changed = 0;
        let mut decide = |task: Task<'_>| {
            let before = self.groups.task_group(task, &self.tasks);
            if let Some(delay) = self.groups.decide(task, None, &self.tasks) {
                self.sweep.queue_after(delay);
            }
            changed += u64::from(self.groups.task_group(task, &self.tasks) != before);
        };
        match late.is_all() {
            true => for_each_task(decide),
            false => late
                .pids()
                .for_each(|pid| for_each_thread_of(pid, &mut decide)),
        }
        self.groups.registry.lock().decided_late += changed;
    }
}
