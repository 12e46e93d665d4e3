// SPDX-License-Identifier: GPL-2.0

//! The probes: they pass each tracepoint hit to the engine, and its samples to our own trace
//! events.

use core::pin::Pin;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            clock::local_clock,
            hotplug::Hotplug,
            per_cpu::PerCpuRef,
            sched_switch::{
                SchedSwitch,
                Switch, //
            },
            sched_waking::{
                SchedWaking,
                Waking, //
            },
            task::Task,
            task_newtask::TaskNewtask,
            work::Work, //
        },
        task_table::{
            TaskPages,
            TaskStates,
            TaskTable, //
        },
    },
    engine::switch::{
        sample::Observer,
        settings::{
            Dynamic,
            Settings, //
        },
        switch_out::PrevState,
        task_state::{
            record_wakeup,
            Notes,
            TaskState, //
        },
        view, //
    },
    events,
    observer::{
        SilentObserver,
        TracingObserver, //
    },
    outliers::Outliers,
    records::{
        CpuRecords,
        Records, //
    },
};

/// The data of the probes, from when measuring is switched on until it is switched off.
pub(crate) struct Recorder {
    records: PerCpuRef<CpuRecords>,
    tasks: TaskStates,
    outliers: Arc<Outliers>,
    sweep: Pin<KBox<Work<TaskTable>>>,
}

impl Recorder {
    /// Creates a recorder that fills `records`. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(records: &Records, outliers: Arc<Outliers>) -> Result<Self> {
        let tasks = TaskTable::new()?;
        Ok(Self {
            records: records.per_cpu(),
            outliers,
            sweep: Work::new(tasks.clone())?,
            tasks: TaskStates::new(tasks),
        })
    }

    /// Makes room for the states of all existing tasks. The probe of new tasks does so for later
    /// tasks, and must be registered before this is called.
    pub(crate) fn make_room(&self) {
        self.tasks.table().make_room_for_all();
    }

    /// Returns how much memory the states of tasks take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tasks.table().memory()
    }
}

impl TaskNewtask for Recorder {
    fn task_newtask(&self, task: Task<'_>) {
        // Without memory for its state, the task counts as untracked whenever it runs.
        let _ = self.tasks.table().make_room(task.pid());
        if self.tasks.table().wants_sweep() {
            self.sweep.queue();
        }
    }
}

/// A task as the kernel's tracepoints show it.
impl view::Task for Task<'_> {
    #[inline(always)]
    fn pid(self) -> i32 {
        self.pid()
    }

    #[inline(always)]
    fn id(self) -> u64 {
        self.id()
    }

    #[inline(always)]
    fn is_exiting(self) -> bool {
        self.is_exiting()
    }

    #[inline(always)]
    fn has_run(self) -> bool {
        self.has_run()
    }

    #[inline(always)]
    fn run_delay(self) -> u64 {
        self.run_delay()
    }

    #[inline(always)]
    fn last_queued(self) -> u64 {
        self.last_queued()
    }
}

/// A context switch, with the states of its tasks.
struct SwitchView<'a> {
    switch: &'a Switch<'a>,
    tasks: TaskPages<'a>,
}

impl<'a> view::Switch for SwitchView<'a> {
    type Task = Task<'a>;

    #[inline(always)]
    fn now(&self) -> u64 {
        local_clock()
    }

    #[inline(always)]
    fn prev(&self) -> Task<'a> {
        self.switch.prev
    }

    #[inline(always)]
    fn prev_state(&self) -> PrevState {
        PrevState::new(self.switch.preempt, self.switch.prev_state)
    }

    #[inline(always)]
    fn next(&self) -> Task<'a> {
        self.switch.next
    }

    #[inline(always)]
    fn state(&self, pid: i32) -> &TaskState {
        self.tasks.get(pid)
    }
}

impl<S: Settings + 'static> SchedSwitch<S> for Recorder {
    #[inline(always)]
    fn is_watched() -> bool {
        // Outliers count as a listener: see `outlier_key`.
        events::any_enabled()
    }

    #[inline(always)]
    fn sched_switch(&self, switch: &Switch<'_>) {
        self.record::<S>(switch, SilentObserver::new(switch));
    }

    fn sched_switch_watched(&self, switch: &Switch<'_>) {
        self.record_watched(switch);
    }
}

impl Recorder {
    /// Records a switch and passes on each of its samples. Compiled once, for all settings, as it
    /// is rarely called.
    #[inline(never)]
    fn record_watched(&self, switch: &Switch<'_>) {
        self.record::<Dynamic>(switch, &TracingObserver::new(switch, &self.outliers));
    }

    /// Records a switch.
    #[inline(always)]
    fn record<S: Settings>(&self, switch: &Switch<'_>, observer: impl Observer) {
        let records = self.records.this(switch);
        let tasks = self.tasks.pages(switch);
        records.switch::<S>(&SwitchView { switch, tasks }, observer);
    }
}

impl Hotplug for Recorder {
    fn prepare(&self, cpu: u32) {
        // The time offline must not count as idle time.
        if let Some(records) = self.records.get(cpu) {
            records.forget();
        }
    }
}

/// A wakeup, with the state of its task.
struct WakeupView<'a> {
    waking: Waking<'a>,
    tasks: &'a TaskStates,
}

impl<'a> view::Wakeup for WakeupView<'a> {
    type Task = Task<'a>;

    #[inline(always)]
    fn now(&self) -> u64 {
        local_clock()
    }

    #[inline(always)]
    fn task(&self) -> Task<'a> {
        self.waking.task
    }

    #[inline(always)]
    fn state(&self, pid: i32) -> &TaskState {
        self.tasks.pages(&self.waking).get(pid)
    }
}

impl<N: Notes> SchedWaking<N> for Recorder {
    #[inline(always)]
    fn sched_waking(&self, waking: Waking<'_>) {
        let tasks = &self.tasks;
        record_wakeup::<N>(WakeupView { waking, tasks });
    }
}
