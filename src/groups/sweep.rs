// SPDX-License-Identifier: GPL-2.0

//! Makes room for new groups: dead ones give up their places.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    directory::Directory,
    Groups, //
};
use crate::{
    boundary::{
        abstractions::{
            clock::local_clock,
            task::for_each_task,
            work::Job, //
        },
        task_table::TaskStates, //
    },
    engine::group::set::GroupSet,
};

/// The maximum number of groups that one sweep retires.
const RETIRED_AT_ONCE: usize = 64;

/// The least time between sweeps, in nanoseconds.
const SWEEP_EVERY: u64 = 10_000_000;

/// The least time after a sweep that found no dead group, in nanoseconds.
const IN_VAIN_EVERY: u64 = 200_000_000;

impl Groups {
    /// Makes room for new groups: those that are dead, as nothing is left of what their tasks had
    /// in common, give up their places, and what they recorded is added up as gone. Returns how
    /// many did so. `tasks` has the verdicts of tasks; `None` if no probe is registered.
    ///
    /// Sleeps; fails with `ENOMEM`.
    pub(crate) fn sweep(&self, tasks: Option<&TaskStates>) -> Result<usize> {
        let _sweeping = self.sweeping.lock();
        let words = GroupSet::<KVVec<u64>>::words(self.limits.groups as usize + 2);
        let mut live = GroupSet::new(KVVec::from_elem(0, words, GFP_KERNEL)?);
        let mut retired = GroupSet::new(KVVec::from_elem(0, words, GFP_KERNEL)?);
        // Whatever gets a task from here on is not retired.
        let since = self.directory.lock().places.now();
        for_each_task(|task| {
            live.insert(self.peek(task));
            if let Some(tasks) = tasks {
                live.insert(self.verdict(task, tasks).group());
            }
        });
        for group in self.numbers() {
            if !live.contains(group) && self.is_kept(group) {
                live.insert(group);
            }
        }
        {
            let mut directory = self.directory.lock();
            directory.was_refused = false;
            let Directory { places, .. } = &mut *directory;
            // These could not be folded in an earlier sweep.
            places.for_each_retired(|group| retired.insert(group));
            let wanted = (self.limits.groups as usize / 4).max(1);
            let wanted = wanted.saturating_sub(places.vacant());
            places.retire(
                since,
                wanted.min(RETIRED_AT_ONCE),
                |group| !live.contains(group),
                |group| retired.insert(group),
            );
        }
        let freed = self.fold(&mut retired, tasks)?;
        let pause = if freed == 0 {
            IN_VAIN_EVERY
        } else {
            SWEEP_EVERY
        };
        self.directory.lock().next_sweep = local_clock() + pause;
        Ok(freed)
    }

    /// Adds up what the `retired` groups recorded as gone, and makes their places vacant. Returns
    /// how many there were.
    fn fold(
        &self,
        retired: &mut GroupSet<KVVec<u64>>,
        tasks: Option<&TaskStates>,
    ) -> Result<usize> {
        if retired.is_empty() {
            return Ok(0);
        }
        // A task that no walk finds any more may still get a CPU: it has released its PID, but not
        // yet left for the last time. It then counts as one of no group.
        match tasks {
            Some(tasks) => tasks.table().for_each_page(|states| {
                // A place may have got a group again meanwhile.
                let directory = self.directory.lock();
                let is_it = |group| retired.contains(group) && directory.places.is_retired(group);
                states.iter().for_each(|state| state.forget_verdict(is_it));
            }),
            None => self.begin(),
        }
        let _stable = self.stable.lock();
        self.memories.fold(retired, self.gone())?;
        let mut freed = 0;
        for group in retired.iter() {
            let mut directory = self.directory.lock();
            if directory.places.vacate(group) {
                freed += 1;
                directory.gone += 1;
                directory.last_refused = None;
            }
        }
        Ok(freed)
    }
}

/// Makes room for new groups.
pub(crate) struct Sweeper {
    pub(crate) groups: Arc<Groups>,
    pub(crate) tasks: TaskStates,
}

impl Job for Sweeper {
    fn run(&self) {
        // Without memory there is no room either.
        let freed = self.groups.sweep(Some(&self.tasks)).unwrap_or(0);
        if freed != 0 && self.groups.directory.lock().was_refused {
            for_each_task(|task| {
                // If it is wanted, there will be another one.
                let _ = self.groups.decide(task, None, &self.tasks);
            });
        }
    }
}
