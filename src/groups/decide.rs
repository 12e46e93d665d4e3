// SPDX-License-Identifier: GPL-2.0

//! Decides which task is in which group.

use kernel::{
    prelude::*,
    sync::rcu,
    time::Msecs, //
};

use super::{
    kind::Kind,
    registry::{
        GroupRegistry,
        Namesake, //
    },
    Groups, //
};
use crate::{
    boundary::{
        abstractions::{
            task_key,
            with_current,
            ProcessId,
            SchedProcessExit,
            Task,
            TaskNewtask,
            COMM_LEN, //
        },
        TaskStates, //
    },
    engine::{
        format::up_to_nul,
        group::{
            Group,
            TaskGroup, //
        },
    },
};

impl Groups {
    /// Decides the group of `task` and stores it in `tasks`. `comm` is the name that the task is
    /// about to get, if any. If a [sweep](Groups::sweep) may make room, returns after how many
    /// milliseconds it may begin. The context is that of
    /// [`IrqLock::lock`](crate::boundary::abstractions::irq_lock::IrqLock::lock).
    pub(crate) fn decide(
        &self,
        task: Task<'_>,
        comm: Option<[u8; COMM_LEN]>,
        tasks: &TaskStates,
    ) -> Option<Msecs> {
        let rcu = rcu::read_lock();
        let mut registry = self.registry.lock();
        let pages = tasks.pages(&rcu);
        let state = pages.get(task.pid());
        // A walk may still find a task that has given up its PID meanwhile. If another task has the
        // PID by now, its group was stored under the lock, so the first task is seen to be
        // exiting.
        if task.is_exiting() {
            let group = state.task_group(task.id()).group();
            if state.has_task_group_of_another(task.id()) || self.keeps(group, &registry) {
                return None;
            }
        }
        let group = match self.key_of(task, comm, &registry, &rcu) {
            Ok((key, namesake)) => registry.group_of(key, &namesake),
            Err(group) => group,
        };
        let task_group = TaskGroup::new(group, task.is_kernel_thread());
        if !state.set_task_group(task.id(), task_group) {
            // The task counts as untracked whenever it runs, until there is memory for its state.
            registry.lack_memory();
        }
        registry.take_wanted_sweep()
    }

    /// Returns whether a task that is exiting, and cannot be asked for its process any more, stays
    /// in `group`.
    fn keeps(&self, group: Group, registry: &GroupRegistry) -> bool {
        match self.kind {
            Kind::Cgroup | Kind::Comm => false,
            Kind::Process(_) | Kind::Thread(_) => registry.places.key(group).is_some(),
            Kind::List => registry.has_rule_of(group),
        }
    }

    /// Records that the current task has created `task`: a process begins with the marks of the one
    /// that forked it. No effect if that is known already. If there is no room and `counts` is
    /// true, counts the process as lost. The recorder calls this before it decides the group of a
    /// new task, as its probe may come before that of the groups.
    #[inline(never)]
    pub(crate) fn fork(&self, task: Task<'_>, counts: bool) {
        if !self.is_list() || task.pid() != task.tgid() {
            return;
        }
        let rcu = rcu::read_lock();
        let parent = with_current(|parent| parent.process(&rcu));
        if let (Some(child), Some(parent)) = (task.process(&rcu), parent) {
            let mut registry = self.registry.lock();
            if !registry.fork_marks.fork(parent.key(), child.key()) && counts {
                registry.fork_marks.count_lost();
            }
        }
    }

    /// Returns the group of `task` as it is stored in `tasks`.
    pub(crate) fn task_group(&self, task: Task<'_>, tasks: &TaskStates) -> TaskGroup {
        let rcu = rcu::read_lock();
        let task_group = tasks.pages(&rcu).get(task.pid()).task_group(task.id());
        task_group
    }

    /// Returns the group of `task`, but makes none: `None` if the task should have one that there
    /// is not.
    pub(super) fn peek(&self, task: Task<'_>) -> Option<Group> {
        let rcu = rcu::read_lock();
        let registry = self.registry.lock();
        match self.key_of(task, None, &registry, &rcu) {
            Ok((key, _)) => registry.places.peek(key),
            Err(group) => Some(group),
        }
    }

    /// Returns the key of the group of `task`, and what the group is named after; or the group, if
    /// it has no key.
    fn key_of<'a>(
        &self,
        task: Task<'a>,
        comm: Option<[u8; COMM_LEN]>,
        registry: &GroupRegistry,
        rcu: &'a rcu::Guard,
    ) -> Result<(u128, Namesake<'a>), Group> {
        Ok(match &self.kind {
            Kind::Comm => {
                let comm = comm.unwrap_or_else(|| task.comm());
                (comm_key(&comm), Namesake::Comm(comm))
            }
            Kind::Process(those) => {
                let process = process_of(task, those, rcu).ok_or(Group::OTHER)?;
                // Of its threads, the leader gives the process its name.
                let leader = task.leader(rcu).ok_or(Group::OTHER)?;
                let comm = comm.filter(|_| task.pid() == task.tgid());
                (process.key(), Namesake::Task(task.tgid(), leader, comm))
            }
            Kind::Thread(those) if is_thread_of(task, those, rcu) => (
                task_key(task.pid(), task.start_time()),
                Namesake::Task(task.pid(), task, comm),
            ),
            Kind::Thread(_) => return Err(Group::OTHER),
            Kind::Cgroup => {
                let cgroup = registry.cgroup_of(task, rcu).ok_or(Group::OTHER)?;
                (u128::from(cgroup.id()), Namesake::Cgroup(cgroup))
            }
            // Its group keeps its place anyway, as the rule exists.
            Kind::List => return Err(registry.rule_of(task, comm, rcu).unwrap_or(Group::OTHER)),
        })
    }
}

impl TaskNewtask for Groups {
    fn task_newtask(&self, task: Task<'_>) {
        // Counted here only, as the recorder's probe sees the same fork.
        self.fork(task, true);
    }
}

impl SchedProcessExit for Groups {
    fn sched_process_exit(&self, process: ProcessId) {
        self.registry.lock().fork_marks.exit(process.key());
    }
}

/// Returns the key of the threads with this name.
fn comm_key(comm: &[u8; COMM_LEN]) -> u128 {
    // What follows the first NUL does not belong to the name.
    let name = up_to_nul(comm);
    let mut key = [0; COMM_LEN];
    key[..name.len()].copy_from_slice(name);
    u128::from_le_bytes(key)
}

/// Returns the process of `task` if it is one of `those`, or if there are none.
fn process_of(task: Task<'_>, those: &[ProcessId], rcu: &rcu::Guard) -> Option<ProcessId> {
    let process = task.process(rcu)?;
    (those.is_empty() || those.contains(&process)).then_some(process)
}

/// Returns whether `task` is a thread of one of `those` processes, or whether there are none.
fn is_thread_of(task: Task<'_>, those: &[ProcessId], rcu: &rcu::Guard) -> bool {
    those.is_empty() || process_of(task, those, rcu).is_some()
}
