// SPDX-License-Identifier: GPL-2.0

//! What tasks are in the middle of: slices on a CPU, and waits for one.

use kernel::{
    prelude::*,
    sync::rcu, //
};

use crate::{
    boundary::abstractions::{
        for_each_queued_task,
        local_clock, //
    },
    engine::{
        group::Group,
        switch::{
            TaskInProgress,
            Waiters,
            Waiting,
            Waits, //
        },
        Metric, //
    },
    observer::identify,
    reading::Reading, //
};

/// Waits in progress of each group.
pub(crate) struct InProgress {
    /// The waits for a CPU, and the slices whose beginning was not seen, by the group's number.
    groups: KVVec<(Waits, Waits)>,
}

impl InProgress {
    /// Prepares for the groups of `reading`, if tasks are grouped. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(reading: &Reading) -> Result<Self> {
        let len = match (&reading.setup.groups, &reading.recorder) {
            (Some(groups), Some(_)) => groups.numbers().count(),
            _ => 0,
        };
        let groups = KVVec::from_elem(Default::default(), len, GFP_KERNEL)?;
        Ok(Self { groups })
    }

    /// Finds all waits in progress, and adds them to `waiters` and to their groups. Calls `slice`
    /// with each slice of a task in progress. It must not sleep.
    ///
    /// Looks at each task once, and takes longer only for those that are on a run queue.
    pub(crate) fn find(
        mut self,
        reading: &Reading,
        mut slice: impl FnMut(&TaskInProgress),
        waiters: &mut Waiters,
    ) -> Self {
        let Some(recorder) = &reading.recorder else {
            return self;
        };
        for_each_queued_task(|task| {
            let rcu = rcu::read_lock();
            let state = recorder.tasks().pages(&rcu).get(task.pid());
            let group = match self.groups.is_empty() {
                true => Group::OTHER,
                false => state.task_group(task.id()).group(),
            };
            let of_group = self.groups.get_mut(group.number() as usize);
            let cpu = task.cpu();
            let Some(records) = recorder.records(cpu) else {
                return;
            };
            let began = records.began();
            if !task.is_on_cpu() {
                let now = local_clock();
                let waiting = state.waiting(now, began, task.is_awake(), task);
                // One of a metric that is off goes to no sum when it ends.
                let is_on = |waiting: &Waiting| reading.setup.metrics.contains(waiting.metric);
                if let Some(waiting) = waiting.filter(is_on) {
                    waiters.add(&waiting, now, cpu, || identify(task, group));
                    match waiting.metric {
                        Metric::Throttled => {}
                        _ => of_group
                            .into_iter()
                            .for_each(|(waits, _)| waits.add(&waiting)),
                    }
                }
                return;
            }
            let since = records.since();
            let now = local_clock();
            // The task has the CPU in this slice, and is not about to leave it.
            let is_there = task.is_on_cpu() && task.cpu() == cpu && records.since() == since;
            if !is_there || state.is_out(task) {
                return;
            }
            let duration = now.saturating_sub(if since == 0 { began } else { since });
            slice(&TaskInProgress {
                metric: Metric::Oncpu,
                is_sample: since != 0,
                cpu,
                now,
                duration,
                task: identify(task, group),
            });
            if let (0, Some((_, unseen))) = (since, of_group) {
                unseen.add(&Waiting {
                    metric: Metric::Oncpu,
                    waited: duration,
                    is_sample: true,
                });
            }
        });
        self
    }

    /// Calls `show` with what is in progress of each group, waits and slices.
    pub(crate) fn for_each_group(
        &self,
        mut show: impl FnMut(Group, &Waits, &Waits) -> Result,
    ) -> Result {
        for (group, (waits, unseen)) in (0..).filter_map(Group::new).zip(&self.groups) {
            show(group, waits, unseen)?;
        }
        Ok(())
    }
}
