// SPDX-License-Identifier: GPL-2.0

//! The data of the probes, and the probes of tasks, groups and CPUs that come and change. Those of
//! switches and wakeups have files of their own.

mod switch;
mod view;
mod wakeup;

use core::pin::Pin;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            for_each_task,
            new_work,
            run_if_online,
            with_current,
            CgroupAttachTask,
            Hotplug,
            PerCpu,
            SchedProcessExec,
            Task,
            TaskNewtask,
            TaskRename,
            ThisCpu,
            Work,
            COMM_LEN, //
        },
        TaskStates,
        TaskTable, //
    },
    chains::AllChains,
    delivery::Delivery,
    engine::group::{
        Group,
        TaskGroup, //
    },
    groups::{
        Groups,
        Latecomers,
        Sweeper, //
    },
    long_waits::CpuIdles,
    records::{
        CpuRecords,
        Records, //
    },
    topology, //
};

pub(crate) use switch::{CpuRecorder, SlowVariant, Variant};
pub(crate) use wakeup::Chained;

/// The data of the probes, from when measuring is switched on until it is switched off.
pub(crate) struct Recorder {
    records: Arc<PerCpu<KVBox<CpuRecords>>>,
    /// Present while tasks are grouped.
    groups: Option<Grouping>,
    tasks: TaskStates,
    /// Present while long waits are looked at, with the limit in nanoseconds.
    long_waits: Option<(u64, CpuIdles)>,
    /// Present while chains are kept.
    chains: Option<Arc<AllChains>>,
    delivery: Arc<Delivery>,
    sweep: Pin<KBox<Work<TaskTable>>>,
}

/// The groups, and the work that the probes leave for later.
struct Grouping {
    groups: Arc<Groups>,
    sweep: Arc<Pin<KBox<Work<Sweeper>>>>,
    latecomers: Pin<KBox<Work<Latecomers>>>,
}

impl Grouping {
    fn new(groups: Arc<Groups>, tasks: &Arc<TaskTable>) -> Result<Self> {
        let sweeper = Sweeper {
            groups: groups.clone(),
            tasks: TaskStates::new(tasks.clone()),
        };
        let sweep = new_work!(
            Arc::new(sweeper, GFP_KERNEL)?,
            c"schedhist::Grouping::sweep"
        )?;
        let sweep = Arc::new(sweep, GFP_KERNEL)?;
        let latecomers = Latecomers {
            groups: groups.clone(),
            tasks: TaskStates::new(tasks.clone()),
            sweep: sweep.clone(),
        };
        Ok(Self {
            groups,
            sweep,
            latecomers: new_work!(
                Arc::new(latecomers, GFP_KERNEL)?,
                c"schedhist::Grouping::latecomers"
            )?,
        })
    }
}

impl Recorder {
    /// Creates a recorder that fills `records`. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(
        records: &Records,
        groups: Option<Arc<Groups>>,
        long_waits: Option<(u64, CpuIdles)>,
        chains: Option<Arc<AllChains>>,
        delivery: Arc<Delivery>,
    ) -> Result<Self> {
        let tasks = TaskTable::new()?;
        Ok(Self {
            records: records.per_cpu().clone(),
            groups: match groups {
                Some(groups) => Some(Grouping::new(groups, &tasks)?),
                None => None,
            },
            long_waits,
            chains,
            delivery,
            sweep: new_work!(tasks.clone(), c"schedhist::Recorder::sweep")?,
            tasks: TaskStates::new(tasks),
        })
    }

    /// Makes room for the states of all existing tasks, and decides their groups. The probe of new
    /// tasks does so for later tasks. It and the probes of changes of groups must be registered
    /// before this is called.
    pub(crate) fn make_room(&self) {
        // Without memory for its state, a task counts as untracked whenever it runs, until a sweep
        // has made room.
        if self.tasks.table().make_room_for_all().is_err() {
            self.sweep.queue();
        }
        self.decide_all();
    }

    pub(crate) fn decide_all(&self) {
        if self.groups.is_some() {
            for_each_task(|task| self.decide(task, None));
        }
    }

    pub(crate) fn records(&self, cpu: u32) -> Option<&CpuRecords> {
        Some(self.records.get(cpu)?)
    }

    /// Returns the records of this CPU.
    #[cfg_attr(not(HAVE_SCHED_SET_NEED_RESCHED_TP), expect(dead_code))]
    pub(crate) fn records_here(&self, here: &impl ThisCpu) -> &CpuRecords {
        self.records.this(here)
    }

    pub(crate) fn tasks(&self) -> &TaskStates {
        &self.tasks
    }

    /// Returns the group of each task. Sleeps; fails with `ENOMEM`.
    pub(crate) fn members(&self) -> Result<KVVec<Member>> {
        let mut members = KVVec::new();
        let Some(Grouping { groups, .. }) = &self.groups else {
            return Ok(members);
        };
        loop {
            let mut found: usize = 0;
            for_each_task(|task| {
                found += 1;
                if members.len() < members.capacity() {
                    let member = Member {
                        pid: task.pid(),
                        comm: task.comm(),
                        group: groups.task_group(task, &self.tasks).group(),
                    };
                    // Cannot fail: there is room.
                    let _ = members.push_within_capacity(member);
                }
            });
            if members.len() == found {
                return Ok(members);
            }
            // Memory cannot be allocated during the walk.
            members.clear();
            members.reserve(found + found / 4, GFP_KERNEL)?;
        }
    }

    /// Forgets what all CPUs did, before the probes are registered. The records have begun anew.
    pub(crate) fn forget(&self) {
        for (cpu, _) in self.records.numbered() {
            self.forget_cpu(cpu, TaskGroup::UNKNOWN);
        }
    }

    /// Forgets what `cpu` did, which is offline, or has no probe, but for its records. From here on
    /// a task of `occupant` has it.
    fn forget_cpu(&self, cpu: u32, occupant: TaskGroup) {
        if let Some((_, idles)) = &self.long_waits {
            idles.forget(cpu);
        }
        if let Some(chain) = self.chains.as_ref().and_then(|chains| chains.of(cpu)) {
            chain.ring.forget();
        }
        if let Some(Grouping { groups, .. }) = &self.groups {
            if let Some(memory) = groups.memories().per_cpu().get(cpu) {
                memory.forget(occupant);
            }
        }
    }

    /// Begins to know what CPUs do, once the probes are registered. Sleeps.
    pub(crate) fn start(&self) {
        if let Some((_, idles)) = &self.long_waits {
            idles.start();
        }
        let Some(Grouping { groups, .. }) = &self.groups else {
            return;
        };
        for (cpu, memory) in groups.memories().per_cpu().numbered() {
            run_if_online(cpu, || {
                let occupant = memory.occupant();
                // Else there was a switch already.
                if occupant.now() == TaskGroup::UNKNOWN {
                    occupant.enter(with_current(|task| match task.is_idle() {
                        true => TaskGroup::IDLE,
                        false => groups.task_group(task, &self.tasks),
                    }));
                }
            });
        }
    }

    /// Cancels the jobs that the probes have queued, and waits for those that are running. The
    /// probes must not be registered any more. Sleeps.
    pub(crate) fn end_sweeps(&self) {
        self.sweep.cancel();
        if let Some(grouping) = &self.groups {
            // They may queue a sweep.
            grouping.latecomers.cancel();
            grouping.sweep.cancel();
        }
    }

    fn decide(&self, task: Task<'_>, comm: Option<[u8; COMM_LEN]>) {
        if let Some(Grouping { groups, sweep, .. }) = &self.groups {
            if let Some(delay) = groups.decide(task, comm, &self.tasks) {
                sweep.queue_after(delay);
            }
        }
    }

    /// Returns how much memory the states of tasks take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tasks.table().memory()
    }
}

pub(crate) struct Member {
    pub(crate) pid: i32,
    pub(crate) comm: [u8; COMM_LEN],
    pub(crate) group: Group,
}

impl TaskNewtask for Recorder {
    fn task_newtask(&self, task: Task<'_>) {
        // Without memory for its state, the task counts as untracked whenever it runs, until a
        // sweep has made room.
        let _ = self.tasks.table().make_room(task.pid());
        if let Some(Grouping { groups, .. }) = &self.groups {
            // The probe of the groups counts.
            groups.fork(task, false);
        }
        self.decide(task, None);
        if self.tasks.table().wants_sweep() {
            self.sweep.queue();
        }
    }
}

impl TaskRename for Recorder {
    fn task_rename(&self, task: Task<'_>, comm: [u8; COMM_LEN]) {
        self.decide(task, Some(comm));
    }
}

impl SchedProcessExec for Recorder {
    fn sched_process_exec(&self, task: Task<'_>) {
        // Its PID may be another one now.
        self.decide(task, None);
    }
}

impl CgroupAttachTask for Recorder {
    fn cgroup_attach_task(&self, task: Task<'_>) {
        self.decide(task, None);
    }

    fn cgroup_attach_rest(&self, task: Task<'_>) {
        if let Some(grouping) = &self.groups {
            grouping.groups.defer(task);
            grouping.latecomers.queue();
        }
    }
}

impl Hotplug for Recorder {
    fn prepare(&self, cpu: u32) {
        // The time offline must not count as idle time.
        if let Some(records) = self.records.get(cpu) {
            records.forget();
        }
        self.forget_cpu(cpu, TaskGroup::IDLE);
    }

    fn online(&self) {
        topology::learn();
    }
}
