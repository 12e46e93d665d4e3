// SPDX-License-Identifier: GPL-2.0

//! What has not ended yet: slices on a CPU, and waits for one, as readers see them.

mod common;
mod grouped;

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
};

use common::new_cpu;
use grouped::{user, Groups};
use proptest::{collection::vec, prelude::*};
use schedhist_engine::{
    engine::{
        cell::Cell,
        group::{observer::CpuGroups, slices::GroupSlices, task_group::TaskGroup},
        histogram::bucket::Scheme,
        identity::Identity,
        metric::{Metric, MetricSet},
        switch::{
            cpu::{Cpu, CurrentSlice, Occupancy},
            in_progress::{Waiters, LONGEST, WAITS},
            sample::{Observer, Side},
            settings::Dynamic,
            switch_out::PrevState,
            task_state::{TaskState, Waiting},
        },
    },
    testing::{next_random, records, task, wake, SetAtEnd, Switch, Task, IDLE},
};

/// Switches from one task to another, or the idle task.
fn switch(cpu: &Cpu<Vec<Cell>>, now: u64, prev: Task, next: Task, observer: impl Observer) {
    let untracked = TaskState::untracked();
    let prev_state = PrevState::new(false, u32::from(now % 2 == 0));
    let states = |_| &untracked;
    let switch = Switch::new(now, prev, prev_state, next, &states);
    cpu.switch::<Dynamic>(&switch, observer);
}

fn nobody(_: Side) -> Identity {
    Identity::default()
}

/// Asserts the law of time.
fn assert_law(slice: &CurrentSlice) {
    let sum = (slice.oncpu + slice.idle) as u64;
    let sum = sum.wrapping_add(slice.in_progress());
    assert_eq!(sum.wrapping_add(slice.unseen), slice.now, "{slice:?}");
}

/// Returns how long tasks, and the idle task, had had the CPU, with what was in progress.
fn until(slice: &CurrentSlice) -> (u128, u128) {
    let in_progress = u128::from(slice.in_progress());
    match slice.occupancy {
        Occupancy::Task => (slice.oncpu + in_progress, slice.idle),
        _ => (slice.oncpu, slice.idle + in_progress),
    }
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
    /// After any switches, a reader finds what has the CPU, since when, and all of the time.
    #[test]
    fn slices_of_any_switches(steps in vec(any_step(), 1..100), later in 0..1_000_u64) {
        let cpu = new_cpu(Scheme::DEFAULT);
        let (mut now, mut began, mut current, mut since) = (5_000_u64, 0, task(9), None);
        for step in steps {
            let next = match step {
                Step::Begin(time) => {
                    now += time;
                    (began, since) = (now, None);
                    cpu.begin(now, all());
                    continue;
                }
                Step::Switch(time, next) => {
                    now += time;
                    next
                }
                Step::Backwards(time, next) => {
                    now = now.saturating_sub(time).max(1);
                    next
                }
            };
            // The idle task does not follow itself.
            let next = if next == 0 && current.pid == 0 { 1 } else { next };
            let next = task(next);
            switch(&cpu, now, current, next, nobody);
            (current, since) = (next, Some(now));
            let slice = cpu.current_slice(|| now + later).expect("there is no switch");
            assert_law(&slice);
            prop_assert_eq!(slice.since, now);
            let is_idle = slice.occupancy == Occupancy::Idle;
            prop_assert_eq!(is_idle, current.pid == 0, "{:?}", slice);
        }
        let slice = cpu.current_slice(|| now + later).expect("there is no switch");
        assert_law(&slice);
        if since.is_none() {
            prop_assert_eq!((slice.occupancy, slice.since), (Occupancy::Unseen, began));
            prop_assert_eq!(slice.in_progress(), 0);
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

/// A reader on another CPU never sees more or less time than has passed: neither a slice that is in
/// its sum, too, nor a long slice of the idle task as one of a task, or the other way round.
#[test]
fn a_reader_sees_all_time_once() {
    let groups = Groups::new(3, Scheme::DEFAULT);
    let cpu = new_cpu(Scheme::DEFAULT);
    let clock = AtomicU64::new(1);
    let done = AtomicBool::new(false);
    // Time passes only between the switches, so that the reader knows it.
    let now = || clock.load(SeqCst);
    thread::scope(|scope| {
        let _end = SetAtEnd(&done);
        scope.spawn(|| {
            let mut random = 1_u64;
            let mut current = (IDLE, TaskGroup::IDLE);
            while !done.load(Relaxed) {
                next_random(&mut random);
                let next = match (random >> 60, current.0.pid) {
                    (0..8, 1..) => (IDLE, TaskGroup::IDLE),
                    (8..12, _) => (task(1), user(1)),
                    _ => (task(2), user(2)),
                };
                // Each millionth of a slice is long.
                let time = 1 + (random >> (24 + random % 40));
                let now = clock.fetch_add(time, SeqCst) + time;
                switch(&cpu, now, current.0, next.0, groups.observer());
                current = next;
            }
        });
        while cpu
            .current_slice(now)
            .is_none_or(|slice| slice.occupancy == Occupancy::Unseen)
        {
            thread::yield_now();
        }
        let mut last = cpu.current_slice(now).expect("there are breaks");
        let of_groups = || {
            let before = now();
            let sums = [1, 2].map(|number| {
                let mut slices = GroupSlices::default();
                let (group, all) = (grouped::group(number), &groups);
                slices.add(group, groups.of(number), all.occupant(), || {
                    cpu.current_slice(now)
                });
                slices.ended + u128::from(slices.in_progress)
            });
            (before, sums, now())
        };
        let mut last_of_groups = of_groups();
        for _ in 0..1_000_000 {
            let slice = cpu.current_slice(now).expect("there are breaks");
            assert_law(&slice);
            let (first, second) = (until(&last), until(&slice));
            let span = u128::from(slice.now - last.now);
            // A switch that is about to be recorded may be missing: then the time since belongs to
            // the slice before it. Here, no time passes within a switch.
            assert!(
                first.0 <= second.0 && first.1 <= second.1,
                "{last:?} {slice:?}"
            );
            assert_eq!(second.0 - first.0 + (second.1 - first.1), span);
            last = slice;
            let all = of_groups();
            for (old, new) in last_of_groups.1.into_iter().zip(all.1) {
                assert!(old <= new, "{old} {new}");
                assert!(
                    new - old <= u128::from(all.2 - last_of_groups.0),
                    "{old} {new}"
                );
            }
            last_of_groups = all;
        }
    });
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
