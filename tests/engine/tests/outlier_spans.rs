// SPDX-License-Identifier: GPL-2.0

//! The beginning and the end of outliers on a CPU that switches.

mod outlier;

use std::cell::RefCell;

use schedhist_engine::engine::{
    cell::Cell,
    histogram::bucket::{Precision, Scheme},
    identity::Identity,
    metric::{Metric, MetricSet},
    outlier::{
        history::Slice,
        log::{Log, Outlier},
    },
    switch::{
        cpu::Cpu,
        sample::{Cause, Observer, Sample, Side},
        settings::Dynamic,
        task_state::TaskState,
    },
};
use schedhist_engine::testing::{idle_at, prev_state_of, records, task, Switch, Task};

use outlier::identity;

/// The PIDs of culprits, and the time that each ran.
type Blamed = Vec<(i32, u64)>;

/// A CPU on which everything is measured and each sample is an outlier.
struct Watched {
    cpu: Cpu<Vec<Cell>>,
    log: Log,
    /// The reported outliers.
    reported: RefCell<Vec<(Outlier, Blamed)>>,
}

/// Observes a switch away from the task with this PID.
struct Watcher<'a>(&'a Watched, i32);

impl Observer for &Watcher<'_> {
    fn namer(self, _: Side) -> impl FnOnce() -> Identity {
        || identity(self.1, 0)
    }

    fn slice(self, since: u64, until: u64) {
        self.0.log.slice(&Slice {
            task: identity(self.1, 0),
            since,
            until,
        });
    }

    fn sample(self, sample: &Sample) {
        let mut reported = self.0.reported.borrow_mut();
        let id = reported.len() as u64 + 1;
        let victim = identity(1, 0);
        let (outlier, culprits) = self
            .0
            .log
            .report(id, sample, &victim, None)
            .expect("always");
        let culprits = culprits.map(|culprit| (culprit.task.pid, culprit.ran));
        reported.push((outlier, culprits.collect()));
    }
}

impl Watched {
    fn new() -> Self {
        let scheme = Scheme::new(Precision::new(Precision::MIN).expect("within range"));
        Self {
            cpu: records(0, scheme, MetricSet::ALL),
            log: Log::default(),
            reported: RefCell::default(),
        }
    }

    /// The idle task leaves the CPU.
    fn end_of_idle(&self, now: u64) {
        let watcher = Watcher(self, 0);
        idle_at(&self.cpu, now, &watcher);
    }

    /// The task `pid` leaves the CPU.
    fn leave(&self, now: u64, pid: i32, end: Cause, state: &TaskState, next: Task) {
        let untracked = TaskState::untracked();
        // Only the state of task 1 is kept.
        let state = |pid| if pid == 1 { state } else { &untracked };
        let switch = Switch::new(now, task(pid), prev_state_of(end), next, &state);
        self.cpu.switch::<Dynamic>(&switch, &Watcher(self, pid));
    }

    /// Returns the only outlier of `metric`, with its culprits.
    fn outlier(&self, metric: Metric) -> (Outlier, Blamed) {
        let reported = self.reported.borrow();
        let mut those = reported
            .iter()
            .filter(|(outlier, _)| outlier.sample.metric == metric);
        let one = those.next().expect("one").clone();
        assert!(those.next().is_none());
        one
    }
}

/// Task 1 gets the CPU after it was put on its queue.
fn task_1(last_queued: u64) -> Task {
    Task {
        last_queued,
        ..task(1)
    }
}

/// Task 1 is preempted at 150, after the clock went back from 200, and waits until 240. Task 2 had
/// the CPU until 200, but that was in the earlier time from 150 to 200.
#[test]
fn what_was_before_the_clock_went_backwards_is_forgotten() {
    let (watched, state) = (Watched::new(), TaskState::new());
    watched.end_of_idle(100);
    watched.leave(200, 2, Cause::Preempted, &state, task(1));
    watched.leave(150, 1, Cause::Preempted, &state, task(3));
    let next = task_1(150);
    watched.leave(240, 3, Cause::Preempted, &state, next);
    let (outlier, culprits) = watched.outlier(Metric::RunqPreempt);
    assert_eq!((outlier.sample.start(), outlier.sample.end), (150, 240));
    assert_eq!((culprits, outlier.missing), (vec![(3, 90)], 0));
}

/// Task 1 sleeps from 100 to 150, and waits until 400. Task 2 has the CPU until 120, and task 3
/// from then on.
#[test]
fn a_sleep_ends_at_the_wakeup() {
    for (end, metric) in [
        (Cause::Interruptible, Metric::BlockedInterruptible),
        (Cause::Uninterruptible, Metric::BlockedUninterruptible),
    ] {
        let (watched, state) = (Watched::new(), TaskState::new());
        watched.end_of_idle(50);
        watched.leave(100, 1, end, &state, task(2));
        watched.leave(120, 2, Cause::Preempted, &state, task(3));
        let next = task_1(150);
        watched.leave(400, 3, Cause::Preempted, &state, next);

        for (metric, start, end, expected) in [
            (metric, 100, 150, [(2, 20), (3, 30)].as_slice()),
            (Metric::RunqWakeup, 150, 400, &[(3, 250)]),
            (Metric::Offcpu, 100, 400, &[(2, 20), (3, 280)]),
        ] {
            let (outlier, culprits) = watched.outlier(metric);
            assert_eq!((outlier.sample.start(), outlier.sample.end), (start, end));
            assert_eq!((culprits.as_slice(), outlier.missing), (expected, 0));
        }
        // The worst sample has the time when it was taken.
        let worst = watched.cpu.worst(metric).expect("a sample");
        assert_eq!((worst.value, worst.time), (50, 400));
    }
}
