// SPDX-License-Identifier: GPL-2.0

//! Makes room for new groups: dead ones give up their places.

use core::mem;

use kernel::{
    prelude::*,
    sync::Arc,
    time::Msecs, //
};

use super::{
    no_groups,
    registry::{
        GroupRegistry,
        NSEC_PER_MSEC,
        PAUSE, //
    },
    Groups, //
};
use crate::{
    boundary::{
        abstractions::{
            for_each_task,
            local_clock,
            synchronize_rcu,
            Job, //
        },
        TaskStates, //
    },
    engine::group::{
        TaskGroup,
        PLACES_AT_ONCE, //
    },
};

/// The maximum number of groups that one sweep retires.
const RETIRED_AT_ONCE: usize = 64;

/// The most time between sweeps, in milliseconds.
const MAX_PAUSE: Msecs = 1280;

impl Groups {
    /// Makes room for new groups: those that are dead, as nothing is left of what their tasks had
    /// in common, give up their places, and what they recorded is added up as gone. Returns how
    /// many did so. `tasks` has the groups of tasks; `None` if no probe is registered.
    ///
    /// Sleeps; fails with `ENOMEM`.
    pub(crate) fn sweep(&self, tasks: Option<&TaskStates>) -> Result<usize> {
        let _sweeping = self.sweeping.lock();
        let freed = self.retire(tasks).and_then(|()| self.fold(tasks));
        let mut registry = self.registry.lock();
        registry.pause = match freed {
            Ok(1..) => PAUSE,
            _ => (2 * registry.pause).min(MAX_PAUSE),
        };
        registry.next_sweep = local_clock() + u64::from(registry.pause) * NSEC_PER_MSEC;
        drop(registry);
        freed
    }

    /// Retires dead groups. Fails with `ENOMEM`.
    fn retire(&self, tasks: Option<&TaskStates>) -> Result {
        let mut live = no_groups(self.limits.groups)?;
        // From here on, no group that gets a task is retired, and refusals are noted.
        let (since, was_refused) = {
            let mut registry = self.registry.lock();
            (registry.places.now(), mem::take(&mut registry.was_refused))
        };
        let mut lacks_group = false;
        for_each_task(|task| {
            match self.peek(task) {
                Some(group) => live.insert(group),
                None => lacks_group = true,
            }
            if let Some(tasks) = tasks {
                live.insert(self.task_group(task, tasks).group());
            }
        });
        for group in self.numbers() {
            if !live.contains(group) && self.is_kept(group) {
                live.insert(group);
            }
        }
        // Whoever reads the groups sees them all, either before or afterwards.
        let mut retired = self.retired.lock();
        // Unless all that were refused have ended.
        self.registry.lock().was_refused |= was_refused && lacks_group;
        let (all, before) = (self.limits.groups as usize, retired.len());
        for _ in 0..all.div_ceil(PLACES_AT_ONCE) {
            let mut registry = self.registry.lock();
            let GroupRegistry { places, gone, .. } = &mut *registry;
            let wanted = (all / 4).max(1).saturating_sub(places.vacant());
            let most = wanted.min(RETIRED_AT_ONCE);
            places.retire(
                since,
                most.saturating_sub(retired.len() - before),
                |group| !live.contains(group),
                |group| {
                    retired.insert(group);
                    *gone += 1;
                },
            );
        }
        Ok(())
    }

    /// Moves what the retired groups recorded to the group of those that are gone, and makes their
    /// places vacant. Returns how many there were. A group that a task has not let go yet is left
    /// for the next time. Fails with `ENOMEM`.
    ///
    /// No CPU is interrupted. A switch runs with preemption off, so waiting for an RCU grace period
    /// waits for each switch that may still see what was true before:
    ///
    /// 1. No task is in a retired group any more, except those that have a CPU, once the switches
    ///    that found such a group have ended.
    /// 2. A group in which no CPU's task is then stays so. The last task that was in it may just be
    ///    leaving its CPU, and be recorded as the neighbour that kept the next one waiting.
    /// 3. Once that switch has ended, too, no CPU writes the records of the group, or its name.
    fn fold(&self, tasks: Option<&TaskStates>) -> Result<usize> {
        let (mut left, mut named) = (
            no_groups(self.limits.groups)?,
            no_groups(self.limits.groups)?,
        );
        // Only a sweep changes the set.
        self.retired.lock().iter().for_each(|group| {
            left.insert(group);
            self.memories.close(group);
        });
        if left.is_empty() {
            return Ok(0);
        }
        // A task that no walk finds any more may still get a CPU: it has released its PID, but not
        // yet left for the last time. It then counts as one of no group.
        match tasks {
            Some(tasks) => tasks.table().for_each_page(|states| {
                // Groups change with the lock held.
                let _registry = self.registry.lock();
                let is_retired = |group| left.contains(group);
                states
                    .iter()
                    .for_each(|state| state.forget_task_group(is_retired));
            }),
            None => self
                .memories
                .cpus()
                .for_each(|(_, cpu)| cpu.forget(TaskGroup::UNKNOWN)),
        }
        synchronize_rcu();
        self.memories.current().for_each(|group| left.remove(group));
        self.memories.rename_neighbours(&left, self.gone(), |_| {});
        synchronize_rcu();
        // Only where a switch undid it.
        let undone = |group| named.insert(group);
        self.memories.rename_neighbours(&left, self.gone(), undone);
        let mut retired = self.retired.lock();
        let mut freed = 0;
        for group in left.iter().filter(|group| !named.contains(*group)) {
            self.memories.fold(group, self.gone());
            retired.remove(group);
            let mut registry = self.registry.lock();
            registry.places.vacate(group);
            registry.last_refused = None;
            freed += 1;
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
        let _ = self.groups.sweep(Some(&self.tasks));
        let (may_fit, lacked_memory) = {
            let mut registry = self.groups.registry.lock();
            let may_fit = registry.was_refused && registry.places.vacant() != 0;
            registry.was_refused &= !may_fit;
            (may_fit, mem::take(&mut registry.lacked_memory))
        };
        if lacked_memory {
            // If there is none yet, some group is not stored again.
            let _ = self.tasks.table().make_room_for_all();
        }
        if may_fit || lacked_memory {
            for_each_task(|task| {
                // `again()` is called after this.
                let _ = self.groups.decide(task, None, &self.tasks);
            });
        }
    }

    fn again(&self) -> Option<Msecs> {
        let mut registry = self.groups.registry.lock();
        let made_room = registry.pause == PAUSE;
        registry.wants_sweep |= registry.was_refused
            || registry.lacked_memory
            || (made_room && registry.is_nearly_full());
        registry.take_wanted_sweep()
    }
}
