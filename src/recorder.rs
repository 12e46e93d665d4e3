// SPDX-License-Identifier: GPL-2.0

//! What the probes do: from a tracepoint to the engine, and on to our own events.

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
        outlier_key,
        task_table::TaskTable, //
    },
    engine::{
        self,
        metric::{
            Metric,
            MetricSet, //
        },
        switch::{
            cpu::Prev,
            sample::Observer,
            settings::{
                Dynamic,
                Settings, //
            },
            switch_out::PrevState,
            task_state::{
                Entering,
                Leaving, //
            },
        },
    },
    events,
    observer::{
        SilentObserver,
        TracingObserver, //
    },
    outliers::Outliers,
    records::Records, //
};

/// Measuring, from when it is switched on until it is switched off: what the probes work on.
pub(crate) struct Recorder {
    records: Arc<Records>,
    /// Whether each wakeup is to be stamped, and not only those that the kernel does not stamp.
    stamps_wakeups: bool,
    /// Whether the waits of tasks are asked for, and `tasks` is filled.
    tracks_tasks: bool,
    tasks: Arc<TaskTable>,
    outliers: Arc<Outliers>,
    sweep: Pin<KBox<Work<TaskTable>>>,
}

impl Recorder {
    /// Creates a recorder that fills `records` with `metrics`. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(
        records: Arc<Records>,
        metrics: MetricSet,
        outliers: Arc<Outliers>,
    ) -> Result<Self> {
        let tasks = Arc::new(TaskTable::new()?, GFP_KERNEL)?;
        Ok(Self {
            records,
            stamps_wakeups: metrics.contains(Metric::Wakeup),
            tracks_tasks: metrics.needs_tasks(),
            outliers,
            sweep: Work::new(tasks.clone())?,
            tasks,
        })
    }

    /// Makes room for the tasks that there are already. New ones are taken care of by the probe of
    /// new tasks, which is to be registered before.
    pub(crate) fn make_room(&self) {
        self.tasks.make_room_for_all();
    }

    /// Returns how much memory the states of tasks take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tasks.memory()
    }
}

impl TaskNewtask for Recorder {
    fn task_newtask(&self, task: Task<'_>) {
        // Where there is no memory the task is counted as untracked whenever it runs.
        let _ = self.tasks.make_room(task.pid());
        if self.tasks.wants_sweep() {
            self.sweep.queue();
        }
    }
}

impl<S: Settings + 'static> SchedSwitch<S> for Recorder {
    #[inline(always)]
    fn is_watched() -> bool {
        events::any_enabled() || outlier_key::is_on()
    }

    #[inline(always)]
    fn sched_switch(&self, switch: &Switch<'_>) {
        self.record::<S>(switch, &SilentObserver::new(switch));
    }

    fn sched_switch_watched(&self, switch: &Switch<'_>) {
        self.record_watched(switch);
    }
}

impl Recorder {
    /// Records a switch of which each sample is wanted. Not compiled for each kind of settings.
    #[inline(never)]
    fn record_watched(&self, switch: &Switch<'_>) {
        self.record::<Dynamic>(switch, &TracingObserver::new(switch, &self.outliers));
    }

    /// Records a switch.
    #[inline(always)]
    fn record<S: Settings>(&self, switch: &Switch<'_>, observer: &impl Observer) {
        let records = self.records.this(switch);
        // It always does; asked once, it spares each sample the question.
        if !records.fits::<S>() {
            return;
        }
        let now = local_clock();
        let tracks_tasks = S::NEEDS_TASKS.unwrap_or(self.tracks_tasks);
        let prev = switch.prev;
        let pid = prev.pid();
        let leaving = if pid == 0 {
            Prev::Idle
        } else {
            let task = Leaving {
                id: prev.id(),
                exiting: prev.is_exiting(),
                state: PrevState::new(switch.preempt, switch.prev_state),
                run_delay: prev.sched_info().run_delay,
            };
            let state = match tracks_tasks {
                true => self.tasks.get(pid, switch),
                false => None,
            };
            Prev::Task(task, state)
        };
        records.leave::<S>(now, leaving, observer);

        let next = switch.next;
        let pid = next.pid();
        if pid == 0 {
            records.enter_idle();
        } else if tracks_tasks {
            let info = next.sched_info();
            let task = Entering {
                id: next.id(),
                exiting: next.is_exiting(),
                is_new: !info.has_run,
                run_delay: info.run_delay,
                last_queued: info.last_queued,
            };
            records.enter::<S>(now, &task, self.tasks.get(pid, switch), observer);
        }
    }
}

impl Hotplug for Recorder {
    fn prepare(&self, cpu: u32) {
        // It was not idle while it was offline.
        if let Some(records) = self.records.get(cpu) {
            records.forget();
        }
    }
}

impl SchedWaking for Recorder {
    #[inline(always)]
    fn sched_waking(&self, waking: Waking<'_>) {
        // Read once: where the task is moved meanwhile, there may be no stamp for a moment.
        let is_stamped = waking.task.is_stamped();
        if self.stamps_wakeups || is_stamped {
            self.stamp(waking, is_stamped);
        }
    }
}

impl Recorder {
    /// Notes a wakeup. Not part of the probe, which as a rule has nothing to do, and so saves no register.
    #[inline(never)]
    fn stamp(&self, waking: Waking<'_>, is_stamped: bool) {
        let task = waking.task;
        // A task that is not tracked is counted as such when it runs.
        if let Some(state) = self.tasks.get(task.pid(), &waking) {
            let who = engine::switch::task_state::Waking {
                id: task.id(),
                exiting: task.is_exiting(),
                is_stamped,
            };
            state.wake(local_clock(), &who);
        }
    }
}
