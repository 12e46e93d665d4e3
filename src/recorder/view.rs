// SPDX-License-Identifier: GPL-2.0

//! What the kernel's tracepoints show, as the engine wants to see it.

use crate::{
    boundary::{
        abstractions::{
            local_clock,
            Switch,
            Task,
            ThisCpu,
            Waking, //
        },
        TaskPages,
        TaskStates, //
    },
    engine::{
        idle::Distance,
        switch::{
            view,
            PrevState,
            TaskState, //
        },
    },
    topology, //
};

/// Implements methods by those of the same name.
macro_rules! delegate {
    ($($method:ident: $value:ty,)*) => {
        $(
            #[inline(always)]
            fn $method(self) -> $value {
                self.$method()
            }
        )*
    };
}

/// A task as the kernel's tracepoints show it.
impl view::Task for Task<'_> {
    delegate! {
        pid: i32,
        id: u64,
        is_exiting: bool,
        has_run: bool,
        run_delay: u64,
        last_queued: u64,
        is_queued: bool,
        is_throttled: bool,
    }
}

/// A context switch, with the states of its tasks.
pub(super) struct SwitchView<'a> {
    pub(super) switch: &'a Switch<'a>,
    pub(super) tasks: TaskPages<'a>,
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
    fn distance(&self, cpu: u32) -> Distance {
        topology::distance(self.switch.cpu(), cpu)
    }

    #[inline(always)]
    fn state(&self, pid: i32) -> &TaskState {
        self.tasks.get(pid)
    }
}

/// A wakeup, with the state of its task.
pub(super) struct WakeupView<'a> {
    pub(super) waking: Waking<'a>,
    pub(super) tasks: &'a TaskStates,
}

impl<'a> view::Wakeup for WakeupView<'a> {
    type Task = Task<'a>;

    // `proxy_deactivate()` dequeues a task that `proxy_migrate_task()` has queued.
    const COUNTS_SLEEPS: bool = cfg!(CONFIG_SCHED_PROXY_EXEC);

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
