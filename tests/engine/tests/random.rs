// SPDX-License-Identifier: GPL-2.0

//! Long lists of random operations: four CPUs, about eight tasks alive, few PIDs, with the engine
//! compared to the reference after each operation.

mod model;

use proptest::prelude::*;
use schedhist_engine::engine::metric::{Metric, MetricSet};

use model::{
    kernel::{Call, Kernel, Sleep, GROUPS},
    Op, World,
};

const CPUS: usize = 4;
const TASKS: i32 = 6;
/// PIDs are below this, so that they are soon reused.
const PIDS: i32 = 11;

/// The next operation, before it is known what is possible: big numbers stand for a choice.
#[derive(Clone, Copy, Debug)]
struct Wish {
    what: u8,
    cpu: usize,
    which: usize,
    to: usize,
    time: u64,
}

fn wish() -> impl Strategy<Value = Wish> {
    let time = prop_oneof![1u64..10, 10u64..1_000, 1_000u64..100_000_000];
    (0u8..131, 0..CPUS, 0usize..1000, 0..CPUS, time).prop_map(|(what, cpu, which, to, time)| Wish {
        what,
        cpu,
        which,
        to,
        time,
    })
}

/// Chooses one element of `list`; `None` if it is empty.
fn choose<T>(list: impl Iterator<Item = T>, which: usize) -> Option<T> {
    let list: Vec<T> = list.collect();
    let index = which.checked_rem(list.len())?;
    list.into_iter().nth(index)
}

/// Finds an operation that matches the wish; it may still prove impossible.
fn fulfil(kernel: &Kernel, wish: &Wish, is_enabled: bool) -> Option<Op> {
    let Wish {
        what,
        cpu,
        which,
        to,
        time,
    } = *wish;
    let living = || {
        let tasks = kernel.tasks().iter().filter(|task| !task.gone);
        tasks.map(|task| task.serial)
    };
    let state = match which % 12 {
        0..=4 => Sleep::Interruptible,
        5..=6 => Sleep::Uninterruptible,
        7 => Sleep::IdleWait,
        8 => Sleep::Stopped,
        9 => Sleep::Traced,
        10 => Sleep::Parked,
        _ => Sleep::Frozen,
    };
    let next = choose(kernel.waiting(cpu), which);
    Some(match what {
        0..=11 => Op::SetState { cpu, state },
        12..=41 => {
            let call = match which % 10 {
                0..=3 => Call::Schedule,
                4..=6 => Call::Preempt,
                7 => Call::ScheduleWithSignal,
                8 => Call::ScheduleDelayed,
                _ => Call::ScheduleDelayedAndWoken,
            };
            let call = match kernel.curr(cpu) {
                None => Call::Schedule,
                Some(_) => call,
            };
            // Now and then the task that was just woken goes on.
            let next = match call {
                Call::ScheduleDelayedAndWoken if to == cpu => kernel.curr(cpu),
                _ => next,
            };
            Op::Switch { cpu, call, next }
        }
        42..=61 => {
            let task = choose(
                living().filter(|task| kernel.tasks()[*task].state.is_some()),
                which,
            )?;
            let to = if kernel.tasks()[task].on_rq {
                kernel.tasks()[task].cpu
            } else {
                to
            };
            match time % 4 {
                0 => Op::BeginToWake { task, by: cpu },
                _ => Op::Wake { task, by: cpu, to },
            }
        }
        67..=74 => {
            let can = |task: &usize| kernel.tasks()[*task].on_rq && !kernel.is_running(*task);
            Op::Migrate {
                task: choose(living().filter(can), which)?,
                to,
            }
        }
        62..=66 => {
            let is_being_woken = |task: &usize| kernel.tasks()[*task].is_being_woken;
            let task = choose(living().filter(is_being_woken), which)?;
            let to = match kernel.tasks()[task].on_rq {
                true => kernel.tasks()[task].cpu,
                false => to,
            };
            Op::FinishToWake { task, to }
        }
        75..=77 => {
            let delayed = living().filter(|task| kernel.tasks()[*task].sched_delayed);
            Op::FinishDelayed {
                task: choose(delayed, which)?,
            }
        }
        78..=83 => Op::Fork {
            cpu,
            pid: choose((1..PIDS).filter(|pid| !kernel.is_used(*pid)), which)?,
            to,
            is_io_thread: time % 8 == 0,
        },
        84..=87 => Op::Exit { cpu },
        88..=90 => {
            let exiting = kernel
                .tasks()
                .iter()
                .filter(|task| task.exiting && !task.released);
            Op::Release {
                task: choose(exiting, which)?.serial,
            }
        }
        91..=94 => Op::Die { cpu, next },
        95 | 96 => Op::Exec {
            cpu,
            leader: choose(living(), which)?,
        },
        100..=102 => Op::Throttle { cpu },
        103..=105 => {
            let throttled = living().filter(|task| kernel.tasks()[*task].is_throttled);
            Op::Unthrottle {
                task: choose(throttled, which)?,
            }
        }
        97 if is_enabled => Op::Disable,
        106..=112 => {
            let alive = kernel.tasks().iter().filter(|task| !task.released);
            Op::Attach {
                task: choose(alive, which)?.serial,
                group: to % GROUPS,
            }
        }
        113..=115 => {
            let is_in_exec = |cpu: &usize| {
                kernel
                    .curr(*cpu)
                    .is_some_and(|curr| kernel.tasks()[curr].is_in_exec)
            };
            Op::FinishExec {
                cpu: choose((0..CPUS).filter(is_in_exec), which)?,
            }
        }
        116..=118 => Op::Fold {
            group: 1 + which % (GROUPS - 1),
        },
        119..=126 => Op::Resched {
            by: to,
            cpu,
            is_lazy: which % 2 == 0,
        },
        127 | 128 => Op::Stay { cpu },
        129 | 130 => Op::FinishToStay { cpu },
        _ if is_enabled && which % 4 != 0 => return None,
        _ => Op::Enable(match time % 8 {
            0 => MetricSet::from_bits(which as u32),
            1 => MetricSet::DEFAULT,
            // Those that need no state of tasks.
            2 => MetricSet::from_bits((1 << Metric::Oncpu as u32) | (1 << Metric::Idle as u32)),
            _ => MetricSet::ALL,
        }),
    })
}

fn world(is_rt: bool, keeps_chains: bool) -> World {
    let mut world = World::new(CPUS, TASKS).group();
    if keeps_chains {
        world = world.chain();
    }
    world.recorder.watch();
    world.kernel.is_rt = is_rt;
    world
}

/// Makes a list of operations that are possible one after the other, following the wishes.
fn plan(wishes: &[Wish], steps: bool, is_rt: bool) -> Vec<Op> {
    let mut world = world(is_rt, false);
    let mut ops = Vec::new();
    for wish in wishes {
        let mut next = vec![Op::Pass(wish.time)];
        if steps && wish.which % 40 == 0 {
            let by = i64::try_from(wish.time).expect("small enough");
            let by = if wish.to % 2 == 0 { by } else { -by.min(400) };
            next.push(Op::StepClock { cpu: wish.cpu, by });
        }
        let is_enabled = world.reference.began().is_some();
        next.extend(fulfil(&world.kernel, wish, is_enabled));
        ops.extend(next.into_iter().filter(|op| world.apply(*op)));
    }
    ops
}

/// Applies `ops`, skipping the impossible ones, and checks everything after each.
fn live(ops: &[Op], is_rt: bool, keeps_chains: bool) -> Result<(), String> {
    let mut world = world(is_rt, keeps_chains);
    for op in ops {
        if world.apply(*op) && !matches!(op, Op::Pass(_)) {
            world.check()?;
            if world.reference.clocks_agree {
                no_longer_than_enabled(&world)?;
            }
        }
    }
    Ok(())
}

/// Checks `ops`; if the check fails, shows a short list of operations with which it still fails.
fn check(mut ops: Vec<Op>, is_rt: bool) -> Result<(), TestCaseError> {
    let with_chains = [false, true];
    let live = |ops: &[Op]| {
        with_chains
            .iter()
            .try_for_each(|with| live(ops, is_rt, *with))
    };
    let Err(mut difference) = live(&ops) else {
        return Ok(());
    };
    // proptest would shrink the wishes, and the remaining ones would then mean different
    // operations.
    for many in [64, 16, 4, 1, 1] {
        let mut at = 0;
        while at < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(at..ops.len().min(at + many));
            match live(&fewer) {
                Ok(()) => at += many,
                Err(still) => (ops, difference) = (fewer, still),
            }
        }
    }
    let list = ops.iter().map(|op| format!("    {op:?},\n"));
    let list = list.collect::<String>();
    Err(TestCaseError::fail(format!("{difference}\nafter:\n{list}")))
}

/// Checks that no sample is longer than the time between the beginning of measuring and its end.
///
/// The engine's worst samples suffice: the others are shorter, and each was the last at some time.
fn no_longer_than_enabled(world: &World) -> Result<(), String> {
    let Some(began) = world.reference.began() else {
        return Ok(());
    };
    for cpu in &world.recorder.cpus {
        for metric in Metric::ALL {
            if let Some(worst) = cpu.worst(metric) {
                if worst.time >= began && worst.value > worst.time - began {
                    return Err(format!("{metric:?} is longer than it can be: {worst:?}"));
                }
            }
        }
    }
    Ok(())
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(32))]

    /// With clocks that agree, every wait is exactly the time from the wakeup to the switch-in.
    #[test]
    fn clocks_that_agree(wishes in prop::collection::vec(wish(), 300..700)) {
        check(plan(&wishes, false, false), false)?;
    }

    /// With clocks that jump both ways, each independently.
    #[test]
    fn clocks_that_jump(wishes in prop::collection::vec(wish(), 300..700)) {
        check(plan(&wishes, true, false), false)?;
    }

    /// With tasks that sleep after their PID was released.
    #[test]
    fn asleep_without_a_pid(wishes in prop::collection::vec(wish(), 300..700)) {
        check(plan(&wishes, false, true), true)?;
    }
}
