// SPDX-License-Identifier: GPL-2.0

//! Drives the engine from the tracepoints as `src/recorder.rs` and `src/monitor.rs` do.

use std::collections::BTreeMap;

use schedhist_engine::engine::{
    bucket::Scheme,
    cell::Cell,
    cpu::{
        Cpu,
        Identity,
        Next,
        Prev,
        Side, //
    },
    metric::{
        Metric,
        MetricSet, //
    },
    slice::SliceEnd,
    task::{
        Entering,
        Leaving,
        Task as State,
        Waking, //
    },
};

use super::kernel::{
    Event,
    Task, //
};

/// How many PIDs a page of the table holds; more, in the module.
pub(crate) const PIDS_PER_PAGE: i32 = 4;

type Page = [State; PIDS_PER_PAGE as usize];

/// Measuring, from when it is switched on until it is switched off.
#[derive(Debug)]
struct Session {
    metrics: MetricSet,
    pages: BTreeMap<i32, Page>,
}

impl Session {
    fn make_room(&mut self, pid: i32) {
        self.pages.entry(pid / PIDS_PER_PAGE).or_default();
    }

    fn state(&self, pid: i32) -> Option<&State> {
        let page = self.pages.get(&(pid / PIDS_PER_PAGE))?;
        page.get((pid % PIDS_PER_PAGE) as usize)
    }
}

/// The records of all CPUs.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) cpus: Vec<Cpu<Vec<Cell>>>,
    session: Option<Session>,
}

impl Recorder {
    pub(crate) fn new(cpus: usize, scheme: Scheme) -> Self {
        let cells = Cpu::<Vec<Cell>>::cells(scheme, MetricSet::ALL);
        let new = |number| {
            let buckets = (0..cells).map(|_| Cell::new(0)).collect();
            Cpu::new(number, scheme, buckets).expect("as many cells as asked for")
        };
        Self {
            cpus: (0..).map(new).take(cpus).collect(),
            session: None,
        }
    }

    /// Sees what the module sees of `event`.
    pub(crate) fn see(&mut self, event: &Event) {
        if let Event::Enable { metrics, now } = *event {
            for cpu in &self.cpus {
                cpu.begin(now, metrics);
            }
            self.session = Some(Session {
                metrics,
                pages: BTreeMap::new(),
            });
        }
        let Some(session) = &mut self.session else {
            return;
        };
        let tracks_tasks = session.metrics.needs_tasks();
        match *event {
            Event::Disable => self.session = None,
            Event::Fork { task } | Event::Found { task } if tracks_tasks => {
                session.make_room(task.pid);
            }
            Event::Waking { task, now } if session.metrics.needs_wakeups() => {
                let is_stamped = task.sched_info.last_queued != 0;
                if session.metrics.contains(Metric::Wakeup) || is_stamped {
                    if let Some(state) = session.state(task.pid) {
                        let waking = Waking {
                            id: task.address,
                            exiting: task.exiting,
                            is_stamped,
                        };
                        state.wake(now, &waking);
                    }
                }
            }
            Event::Switch {
                cpu,
                now,
                preempt,
                prev_state,
                prev,
                next,
            } => {
                let prev = prev.map(|(prev, _)| prev);
                let leaving = match prev {
                    None => Prev::Idle,
                    Some(prev) => {
                        let task = Leaving {
                            id: prev.address,
                            exiting: prev.exiting,
                            end: SliceEnd::new(preempt, prev_state),
                            run_delay: prev.sched_info.run_delay,
                        };
                        Prev::Task(task, session.state(prev.pid))
                    }
                };
                let entering = match next {
                    None => Next::Idle,
                    Some(_) if !tracks_tasks => Next::Ignored,
                    Some(next) => {
                        let task = Entering {
                            id: next.address,
                            exiting: next.exiting,
                            is_new: next.sched_info.pcount == 0,
                            run_delay: next.sched_info.run_delay,
                            last_queued: next.sched_info.last_queued,
                        };
                        Next::Task(task, session.state(next.pid))
                    }
                };
                self.cpus[cpu].switch(now, leaving, entering, |side| match side {
                    Side::Prev => identify(prev.as_ref()),
                    Side::Next => identify(next.as_ref()),
                });
            }
            _ => {}
        }
    }
}

/// Copies what is shown of a task; none is the idle task.
pub(crate) fn identify(task: Option<&Task>) -> Identity {
    match task {
        Some(task) => Identity {
            pid: task.pid,
            prio: task.prio,
            comm: task.comm,
        },
        None => Identity::default(),
    }
}
