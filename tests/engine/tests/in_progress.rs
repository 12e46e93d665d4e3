// SPDX-License-Identifier: GPL-2.0

//! What has not ended yet: slices on a CPU, and waits for one, as readers see them.

mod common;
mod grouped;

use common::new_cpu;
use grouped::{user, Groups};
use proptest::{collection::vec, prelude::*};
use schedhist_engine::{
    engine::{
        group::{observer::CpuGroups, slices::GroupSlices},
        histogram::bucket::Scheme,
        identity::Identity,
        metric::{Metric, MetricSet},
        switch::{
            cpu::{CurrentSlice, Occupancy},
            in_progress::{Waiters, LONGEST, WAITS},
            sample::Side,
            settings::Dynamic,
            switch_out::PrevState,
            task_state::{TaskState, Waiting},
        },
    },
    testing::{records, task, wake, Switch, Task, IDLE},
};

fn nobody(_: Side) -> Identity {
    Identity::default()
}

/// Asserts the law of time.
fn assert_law(slice: &CurrentSlice) {
    let sum = (slice.oncpu + slice.idle) as u64;
    let sum = sum.wrapping_add(slice.in_progress());
    assert_eq!(sum.wrapping_add(slice.unseen), slice.now, "{slice:?}");
}

/// An operation on a CPU.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// After this time, another task gets the CPU; 0 is the idle task.
    Switch(u64, i32),
    /// The clock has gone back by this time at the next switch.
    Backwards(u64, i32),
    /// Measuring begins anew after this time.
    Begin(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let time = || (any::<u64>(), 30..64_u32).prop_map(|(bits, shift)| bits >> shift);
    prop_oneof![
        20 => (time(), 0..3).prop_map(|(time, next)| Step::Switch(time, next)),
        1 => (1..1_000_u64, 0..3).prop_map(|(time, next)| Step::Backwards(time, next)),
        1 => time().prop_map(Step::Begin),
    ]
}

proptest! {
    /// After any switches, a reader finds what has the CPU, since when, and all of the time, for
    /// each of the groups 1 and 2, too. Each has one task.
    #[test]
    fn slices_of_any_switches(steps in vec(any_step(), 1..100), later in 0..1_000_u64) {
        let cpu = new_cpu(Scheme::DEFAULT);
        let groups = Groups::new(3, Scheme::DEFAULT);
        let states = [(); 3].map(|()| TaskState::new());
        for n in 1..3 {
            assert!(states[n as usize].set_task_group(task(n).id, user(n as u32)));
        }
        let mut ended = [0; 3];
        let (mut now, mut began, mut current, mut since) = (5_000_u64, 0, task(9), None);
        for step in steps {
            let next = match step {
                Step::Begin(time) => {
                    now += time;
                    (began, since) = (now, None);
                    cpu.begin(now, all());
                    None
                }
                Step::Switch(time, next) => {
                    now += time;
                    Some(next)
                }
                Step::Backwards(time, next) => {
                    now = now.saturating_sub(time).max(1);
                    Some(next)
                }
            };
            if let Some(next) = next {
                // The idle task does not follow itself.
                let next = task(if next == 0 && current.pid == 0 { 1 } else { next });
                let states = |pid: i32| &states[pid as usize % 3];
                let prev_state = PrevState::new(false, u32::from(now % 2 == 0));
                let switch = Switch::new(now, current, prev_state, next, &states);
                cpu.switch::<Dynamic>(&switch, groups.observer());
                if let Some(span) = since.and_then(|since| now.checked_sub(since)) {
                    ended[current.pid as usize] += u128::from(span);
                }
                (current, since) = (next, Some(now));
            }
            let slice = || cpu.current_slice(|| now + later);
            let found = slice().expect("there is no switch");
            assert_law(&found);
            prop_assert_eq!(found.since, since.unwrap_or(began));
            let (occupancy, in_progress) = match (since, current.pid) {
                (None, _) => (Occupancy::Unseen, 0),
                (_, 0) => (Occupancy::Idle, later),
                _ => (Occupancy::Task, later),
            };
            prop_assert_eq!((found.occupancy, found.in_progress()), (occupancy, in_progress));
            for n in 1..3 {
                // It adds to what other CPUs have.
                let mut found = GroupSlices { ended: 1, count: 1, in_progress: 1 };
                found.add(grouped::group(n), groups.of(n), (&groups).occupant(), slice);
                let has_cpu = since.is_some() && current.pid == n as i32;
                let expected = GroupSlices {
                    ended: 1 + ended[n as usize],
                    count: 1 + u64::from(has_cpu),
                    in_progress: 1 + if has_cpu { later } else { 0 },
                };
                prop_assert_eq!(found, expected);
            }
        }
    }

    /// The longest waits are named, and all that become samples are counted.
    #[test]
    fn longest_waits(waits in vec((0..3_usize, 0..50_u64, any::<bool>()), 0..60)) {
        let mut waiters = Waiters::default();
        for (pid, (metric, waited, is_sample)) in waits.iter().copied().enumerate() {
            let waiting = Waiting { metric: WAITS[metric], waited, is_sample };
            let identity = || Identity { pid: pid as i32, ..Identity::default() };
            waiters.add(&waiting, 100, 1, identity);
        }
        for (place, (metric, found)) in waiters.waits().enumerate() {
            let of = waits.iter().filter(|(m, _, is_sample)| *m == place && *is_sample);
            prop_assert_eq!(metric, WAITS[place]);
            prop_assert_eq!(found.count, of.clone().count() as u64);
            prop_assert_eq!(found.sum, of.map(|(_, waited, _)| u128::from(*waited)).sum());
        }
        let mut all: Vec<_> = waits.iter().map(|(_, waited, _)| *waited).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.truncate(LONGEST);
        let mut named = Vec::new();
        for wait in waiters.longest() {
            let (metric, waited, is_sample) = waits[wait.task.pid as usize];
            let of_task = (WAITS[metric], waited, is_sample);
            prop_assert_eq!((wait.metric, wait.duration, wait.is_sample), of_task);
            named.push(wait.duration);
        }
        named.sort_unstable_by(|a, b| b.cmp(a));
        prop_assert_eq!(named, all);
    }
}

fn all() -> MetricSet {
    MetricSet::parse(b"oncpu idle", MetricSet::ALL).expect("names of metrics")
}

/// What a task is as it waits.
fn waiting(state: &TaskState, now: u64, awake: bool, task: Task) -> Option<(Metric, u64, bool)> {
    let waiting = state.waiting(now, 1_000, awake, task)?;
    Some((waiting.metric, waiting.waited, waiting.is_sample))
}

/// Lets task 1 leave CPU 0 at `now`, after it got it.
fn left(state: &TaskState, now: u64, prev_state: PrevState, throttled: bool) {
    let cpu = records(0, Scheme::DEFAULT, MetricSet::DEFAULT);
    let one = Task {
        is_throttled: throttled,
        run_delay: 40,
        ..task(1)
    };
    for (now, prev, next) in [(now - 10, IDLE, one), (now, one, IDLE)] {
        let states = |_| state;
        let switch = Switch::new(now, prev, prev_state, next, &states);
        cpu.switch::<Dynamic>(&switch, nobody);
    }
}

/// A wait that has not ended is as long as the sample would be if it ended now.
#[test]
fn waits_in_progress() {
    let sleeping = PrevState::new(false, 1);
    let one = Task {
        run_delay: 40,
        ..task(1)
    };
    let queued = |at| Task {
        last_queued: at,
        ..one
    };

    // After a sleep: since the kernel queued the task.
    let state = TaskState::new();
    left(&state, 2_000, sleeping, false);
    assert!(state.is_out(one) && !state.is_out(task(2)));
    assert_eq!(waiting(&state, 5_000, false, one), None);
    let wakeup = (Metric::RunqWakeup, 1_500, true);
    assert_eq!(waiting(&state, 5_000, true, queued(3_500)), Some(wakeup));
    // It migrated meanwhile: the kernel has moved a part of the wait to the sum.
    let migrated = Task {
        run_delay: 40 + 600,
        ..queued(4_200)
    };
    let wakeup = (Metric::RunqWakeup, 600 + 800, true);
    assert_eq!(waiting(&state, 5_000, true, migrated), Some(wakeup));
    // A sleeping task whose dequeue is delayed is queued when it migrates.
    assert_eq!(waiting(&state, 5_000, false, queued(3_500)), None);
    // If it is woken then, its wait begins there.
    wake(4_000, queued(3_500), &state);
    let wakeup = (Metric::RunqWakeup, 1_000, true);
    assert_eq!(waiting(&state, 5_000, true, queued(3_500)), Some(wakeup));
    // No wait is longer than the absence.
    let state = TaskState::new();
    left(&state, 2_000, sleeping, false);
    let wakeup = (Metric::RunqWakeup, 3_000, true);
    assert_eq!(waiting(&state, 5_000, true, queued(1_990)), Some(wakeup));

    // Preempted, even with its sleep state set: since it left.
    for prev_state in [PrevState::new(false, 0), PrevState::new(true, 1)] {
        let state = TaskState::new();
        left(&state, 2_000, prev_state, false);
        for (awake, task) in [(false, one), (true, queued(2_001))] {
            let preempt = (Metric::RunqPreempt, 3_000, true);
            assert_eq!(waiting(&state, 5_000, awake, task), Some(preempt));
        }
    }
    let state = TaskState::new();
    left(&state, 2_000, PrevState::new(false, 0), true);
    let throttled = (Metric::Throttled, 3_000, true);
    assert_eq!(waiting(&state, 5_000, true, one), Some(throttled));

    // A new task: a sample if it was created after measuring began.
    let new = |at| Task {
        has_run: false,
        run_delay: 100,
        ..queued(at)
    };
    let state = TaskState::new();
    let fork = |waited, is_sample| Some((Metric::RunqWakeup, waited, is_sample));
    assert_eq!(waiting(&state, 5_000, true, new(4_000)), fork(1_100, true));
    assert_eq!(waiting(&state, 5_000, true, new(900)), fork(4_200, false));
    assert_eq!(waiting(&state, 5_000, false, new(4_000)), None);
    // A task of which nothing is known: the kernel's stamp is known, but it is no sample.
    assert_eq!(
        waiting(&state, 5_000, true, queued(900)),
        fork(4_100, false)
    );
    assert_eq!(waiting(&state, 5_000, true, one), None);
}

/// A task that has a CPU, as far as its state tells, does not wait.
#[test]
fn a_running_task_does_not_wait() {
    let state = TaskState::new();
    let one = Task {
        last_queued: 1,
        ..task(1)
    };
    let cpu = records(0, Scheme::DEFAULT, MetricSet::DEFAULT);
    let states = |_| &state;
    let switch = Switch::new(10, IDLE, PrevState::new(false, 0), one, &states);
    cpu.switch::<Dynamic>(&switch, nobody);
    assert_eq!(waiting(&state, 5_000, true, one), None);
    assert!(!state.is_out(one));
}
