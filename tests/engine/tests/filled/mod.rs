// SPDX-License-Identifier: GPL-2.0

//! CPUs that have seen some switches, for tests of their readers.

use proptest::prelude::*;

use schedhist_engine::engine::{
    histogram::snapshot::Baseline,
    identity::Identity,
    switch::{
        sample::{Cause, Side},
        settings::Dynamic,
        task_state::TaskState,
    },
};
use schedhist_engine::testing::{idle_at, prev_state_of, task, wake, Records, Switch, Task};

use crate::common::any_duration;

/// The number of tasks besides the idle task.
const TASKS: usize = 6;

/// A switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    cpu: usize,
    gap: u64,
    end: Cause,
    next: usize,
    wait: u64,
}

/// Generates a switch on one of `cpus` CPUs.
pub(crate) fn step(cpus: usize) -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        Just(Cause::Preempted),
        Just(Cause::Interruptible),
        Just(Cause::Uninterruptible),
        Just(Cause::IdleWait),
        Just(Cause::Stopped),
    ];
    (0..cpus, any_duration(), end, 0..=TASKS, any_duration()).prop_map(
        |(cpu, gap, end, next, wait)| Step {
            cpu,
            gap,
            end,
            next,
            wait,
        },
    )
}

/// Returns a task's name and numbers, derived from its index.
fn identity(task: usize) -> Identity {
    const COMMS: [&[u8; 16]; TASKS + 1] = [
        b"swapper/0\0\0\0\0\0\0\0",
        b"kworker/0:1-mm_\0",
        b"a \"b\" \\c\\\0\0\0\0\0\0\0",
        b"line\nbreak\t\x1b[1m\0",
        b"sixteen letters!",
        b"\xc3\xa9t\xc3\xa9 \xff\0\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ];
    Identity {
        pid: [0, 1, 42, 4_194_303, i32::MAX, 7, 8][task],
        prio: [120, 120, -1, 0, 139, 99, 100][task],
        comm: *COMMS[task],
        ..Identity::default()
    }
}

/// Runs the idle task on `cpu` for so long that its sum has more than 64 bits.
fn idle_for_ages(cpu: &Records) {
    for _ in 0..5 {
        cpu.forget();
        for now in [1, 1 << 62] {
            idle_at(cpu, now, |_| identity(0));
        }
    }
    cpu.forget();
}

/// Applies `steps` to `cpus`, after some very long slices on the last of them.
pub(crate) fn run(cpus: &[Records], steps: &[Step]) {
    if let Some(cpu) = cpus.last() {
        idle_for_ages(cpu);
    }
    let tasks: [TaskState; TASKS] = core::array::from_fn(|_| TaskState::new());
    let mut current = vec![0; cpus.len()];
    let mut has_run = [false; TASKS + 1];
    let mut now: u64 = 1_000;
    for step in steps {
        now += step.gap.max(1);
        let prev = current[step.cpu];
        // A task runs on one CPU at a time.
        let next = if current.contains(&step.next) {
            0
        } else {
            step.next
        };
        let queued = now.saturating_sub(step.wait);
        if next != 0 {
            wake(queued, task(next as i32), &tasks[next - 1]);
        }
        let entering = Task {
            has_run: has_run[next],
            last_queued: queued,
            ..task(next as i32)
        };
        let state = |pid| &tasks[pid as usize - 1];
        let prev_state = prev_state_of(step.end);
        let switch = Switch::new(now, task(prev as i32), prev_state, entering, &state);
        cpus[step.cpu].switch::<Dynamic>(&switch, |side| match side {
            Side::Prev => identity(prev),
            Side::Next => identity(next),
        });
        has_run[next] = true;
        current[step.cpu] = next;
    }
}

/// A CPU's recordings at a reset.
pub(crate) type Before = Baseline<Vec<u64>>;

/// Pairs each of `cpus` with no baseline, as if it was never reset.
#[allow(dead_code, reason = "not for all who share this")]
pub(crate) fn never_reset(cpus: &[Records]) -> impl Iterator<Item = (&Records, Option<&Before>)> {
    cpus.iter().map(|cpu| (cpu, None))
}
