// SPDX-License-Identifier: GPL-2.0

//! Every possible list of operations, up to a depth, with the engine compared to the reference
//! after each of them.
//!
//! The time that passes before an operation is a power of two, a different one each time, so that
//! the sum of any samples tells which they were.

mod model;

use schedhist_engine::engine::metric::MetricSet;

use model::{
    apply, check,
    kernel::{Call, Event, Kernel, Sleep},
    recorder::Recorder,
    reference::Reference,
    Op, World,
};

/// The search: the operations so far, and the possible next ones.
struct Search<'a> {
    /// Returns the operations to try in a given situation; the search skips the impossible ones.
    choices: &'a dyn Fn(&Kernel) -> Vec<Op>,
    ops: Vec<Op>,
    events: Vec<Event>,
    /// Returns what has seen nothing yet.
    recorder: &'a dyn Fn() -> Recorder,
}

impl Search<'_> {
    /// Checks all lists that continue this one with at most `depth` operations.
    fn go_on(&mut self, kernel: &Kernel, reference: &Reference, depth: u32) {
        let mut recorder = (self.recorder)();
        for event in &self.events {
            recorder.see(event);
        }
        if let Err(difference) = check(&recorder, reference) {
            let list = self.ops.iter().map(|op| format!("    {op:?},\n"));
            panic!("{difference}\nafter:\n{}", list.collect::<String>());
        }
        if depth == 0 {
            return;
        }
        for op in (self.choices)(kernel) {
            let mut after = kernel.clone();
            after.pass(16 << self.ops.len());
            let Some(events) = apply(&mut after, op) else {
                continue;
            };
            let mut seen = reference.clone();
            for event in &events {
                seen.see(event);
            }
            let before = self.events.len();
            self.events.extend(events);
            self.ops.push(op);
            self.go_on(&after, &seen, depth - 1);
            self.ops.pop();
            self.events.truncate(before);
        }
    }
}

/// Checks all lists of at most `depth` operations that follow `prefix`.
fn search(
    cpus: usize,
    tasks: i32,
    prefix: &[Op],
    depth: u32,
    choices: impl Fn(&Kernel) -> Vec<Op>,
) {
    search_in(|| World::new(cpus, tasks), prefix, depth, choices);
}

/// Checks the same in a world without chains and in one with them, which are other code.
fn search_both(
    world: impl Fn() -> World,
    prefix: &[Op],
    depth: u32,
    choices: impl Fn(&Kernel) -> Vec<Op>,
) {
    search_in(&world, prefix, depth, &choices);
    search_in(|| world().chain(), prefix, depth, &choices);
}

/// Checks the same in `world`.
fn search_in(
    world: impl Fn() -> World,
    prefix: &[Op],
    depth: u32,
    choices: impl Fn(&Kernel) -> Vec<Op>,
) {
    let mut search = Search {
        choices: &choices,
        ops: Vec::new(),
        events: Vec::new(),
        recorder: &|| world().recorder,
    };
    let mut world = world();
    for op in prefix {
        world.kernel.pass(1);
        let events = apply(&mut world.kernel, *op).expect("the prefix is possible");
        for event in &events {
            world.reference.see(event);
        }
        search.events.extend(events);
        search.ops.push(*op);
    }
    search.go_on(&world.kernel, &world.reference, depth);
}

/// Returns all ways in which `cpu` can switch, with `call`.
fn switches(kernel: &Kernel, cpu: usize, call: Call) -> Vec<Op> {
    let next = kernel.waiting(cpu).map(Some);
    let next = next.chain([None]);
    next.map(|next| Op::Switch { cpu, call, next }).collect()
}

/// The same with the two calls that matter most.
fn few_switches(kernel: &Kernel, cpu: usize) -> Vec<Op> {
    [Call::Preempt, Call::Schedule]
        .map(|call| switches(kernel, cpu, call))
        .concat()
}

/// The same with every call.
fn all_switches(kernel: &Kernel, cpu: usize) -> Vec<Op> {
    let calls = [
        Call::Preempt,
        Call::Schedule,
        Call::ScheduleWithSignal,
        Call::ScheduleDelayed,
        Call::ScheduleDelayedAndWoken,
    ];
    let mut ops = Vec::new();
    for call in calls {
        ops.extend(switches(kernel, cpu, call));
    }
    if let Some(curr) = kernel.curr(cpu) {
        ops.push(Op::Switch {
            cpu,
            call: Call::ScheduleDelayedAndWoken,
            next: Some(curr),
        });
    }
    ops
}

const fn wake(task: usize, to: usize) -> Op {
    Op::Wake { task, by: 0, to }
}

/// The task that has `cpu` is about to sleep.
const fn set_asleep(cpu: usize) -> Op {
    let state = Sleep::Interruptible;
    Op::SetState { cpu, state }
}

/// The wakeups and migrations of `task`.
fn moves(kernel: &Kernel, task: usize) -> Vec<Op> {
    let mut ops = vec![Op::FinishDelayed { task }];
    for to in 0..kernel.cpus() {
        ops.push(wake(task, to));
        ops.push(Op::Migrate { task, to });
    }
    ops
}

/// The end of the task that has a CPU: it begins to exit, or dies and another one comes.
fn exits(kernel: &Kernel, cpu: usize) -> Vec<Op> {
    let next = kernel.waiting(cpu).map(Some);
    let dies = next.chain([None]).map(|next| Op::Die { cpu, next });
    [Op::Exit { cpu }].into_iter().chain(dies).collect()
}

/// A fork. The PID is the one that the first task may have released, or one more: no others.
fn fork(kernel: &Kernel, cpu: usize, to: usize, is_io_thread: bool) -> Op {
    let pid = if kernel.is_used(1) { 2 } else { 1 };
    Op::Fork {
        cpu,
        pid,
        to,
        is_io_thread,
    }
}

/// Returns what `of` returns for each CPU.
fn on_each_cpu(kernel: &Kernel, of: impl Fn(usize) -> Vec<Op>) -> Vec<Op> {
    (0..kernel.cpus()).flat_map(of).collect()
}

/// Operations on the CPU of task 0 and on the CPU that it can go to.
fn all_of_a_task(kernel: &Kernel, states: &[Sleep]) -> Vec<Op> {
    let mut ops = Vec::new();
    for cpu in 0..kernel.cpus() {
        for state in states {
            ops.push(Op::SetState { cpu, state: *state });
        }
        ops.extend(all_switches(kernel, cpu));
    }
    ops.extend((0..kernel.tasks().len()).flat_map(|task| moves(kernel, task)));
    ops
}

const WAKE_FIRST: Op = wake(0, 0);
const RUN_FIRST: Op = Op::Switch {
    cpu: 0,
    call: Call::Schedule,
    next: Some(0),
};

#[test]
fn one_task() {
    let states = [
        Sleep::Interruptible,
        Sleep::Uninterruptible,
        Sleep::IdleWait,
        Sleep::Stopped,
    ];
    let choices = |kernel: &Kernel| all_of_a_task(kernel, &states);
    search(2, 1, &[Op::Enable(MetricSet::ALL)], 10, choices);
}

#[test]
fn two_tasks() {
    let choices = |kernel: &Kernel| all_of_a_task(kernel, &[Sleep::Interruptible]);
    let prefix = [Op::Enable(MetricSet::ALL)];
    search_both(|| World::new(2, 2), &prefix, 8, choices);
}

#[test]
fn enable_and_disable() {
    let choices = |kernel: &Kernel| {
        let mut ops = all_of_a_task(kernel, &[Sleep::Interruptible]);
        ops.push(Op::Enable(MetricSet::ALL));
        ops.push(Op::Disable);
        ops.push(Op::Fork {
            cpu: 0,
            pid: 2,
            to: 0,
            is_io_thread: false,
        });
        ops
    };
    search(2, 1, &[WAKE_FIRST], 7, choices);
}

/// Fewer ways to sleep and switch, which leaves depth for the life of a PID.
#[test]
fn pids() {
    let choices = |kernel: &Kernel| {
        let mut ops = Vec::new();
        for cpu in 0..kernel.cpus() {
            ops.extend(switches(kernel, cpu, Call::Preempt));
            let curr = kernel.curr(cpu);
            if curr.is_none_or(|curr| kernel.tasks()[curr].state.is_some()) {
                ops.extend(switches(kernel, cpu, Call::Schedule));
            }
            ops.push(set_asleep(cpu));
            ops.extend(exits(kernel, cpu));
            ops.push(fork(kernel, cpu, 1 - cpu, false));
            ops.extend((0..kernel.tasks().len()).map(|leader| Op::Exec { cpu, leader }));
        }
        for task in 0..kernel.tasks().len() {
            ops.push(Op::Release { task });
            let to = kernel.tasks()[task].cpu;
            ops.push(wake(task, to));
        }
        ops
    };
    let prefix = [Op::Enable(MetricSet::ALL), WAKE_FIRST, RUN_FIRST];
    search_both(|| World::new(2, 1), &prefix, 9, choices);
}

/// A task is moved while its dequeue is delayed, and then sleeps on: the kernel stamps it as if it
/// waited.
#[test]
fn delayed_and_moved() {
    let choices = |kernel: &Kernel| {
        let mut ops = on_each_cpu(kernel, |cpu| few_switches(kernel, cpu));
        ops.extend(moves(kernel, 0));
        ops
    };
    let prefix = [
        Op::Enable(MetricSet::DEFAULT),
        WAKE_FIRST,
        RUN_FIRST,
        set_asleep(0),
        Op::Switch {
            cpu: 0,
            call: Call::ScheduleDelayed,
            next: None,
        },
        Op::Migrate { task: 0, to: 1 },
    ];
    search_both(|| World::new(2, 1), &prefix, 9, choices);
}

/// A task spends its quota, and leaves its CPU throttled, or is told before that it may go on.
#[test]
fn throttled() {
    let choices = |kernel: &Kernel| {
        let mut ops = Vec::new();
        for cpu in 0..kernel.cpus() {
            ops.push(set_asleep(cpu));
            ops.extend(all_switches(kernel, cpu));
            ops.push(Op::Throttle { cpu });
            ops.push(Op::Migrate { task: 0, to: cpu });
            ops.push(wake(0, cpu));
        }
        ops.extend((0..kernel.tasks().len()).map(|task| Op::Unthrottle { task }));
        ops
    };
    let wake_second = wake(1, 0);
    let only_throttled =
        MetricSet::parse(b"throttled", MetricSet::ALL).expect("the name of a metric");
    for metrics in [MetricSet::ALL, MetricSet::DEFAULT, only_throttled] {
        let prefix = [Op::Enable(metrics), WAKE_FIRST, RUN_FIRST, wake_second];
        search_both(|| World::new(2, 2), &prefix, 8, choices);
    }
}

/// A waker is slow between its two steps, because its virtual CPU is stopped, or because it waits
/// for the lock of a run queue: the task may get the CPU meanwhile, and block.
#[test]
fn slow_waker() {
    let choices = |kernel: &Kernel| {
        let mut ops = Vec::new();
        for cpu in 0..kernel.cpus() {
            ops.push(set_asleep(cpu));
            ops.extend(few_switches(kernel, cpu));
            ops.push(Op::FinishToWake { task: 0, to: cpu });
            ops.push(Op::Migrate { task: 0, to: cpu });
        }
        ops.push(Op::BeginToWake { task: 0, by: 0 });
        ops
    };
    for metrics in [MetricSet::ALL, MetricSet::DEFAULT] {
        let wake_second = wake(1, 0);
        let prefix = [Op::Enable(metrics), WAKE_FIRST, RUN_FIRST, wake_second];
        search_both(|| World::new(2, 2), &prefix, 9, choices);
    }
}

/// Two tasks of different groups are moved to each other's at any time: while they run, wait or
/// sleep.
#[test]
fn moves_between_groups() {
    let choices = |kernel: &Kernel| {
        let switches = |cpu| [few_switches(kernel, cpu), vec![set_asleep(cpu)]].concat();
        let mut ops = on_each_cpu(kernel, switches);
        for task in kernel.tasks() {
            ops.extend(moves(kernel, task.serial));
            ops.push(Op::Attach {
                task: task.serial,
                group: 3 - task.group,
            });
        }
        ops
    };
    for metrics in [MetricSet::ALL, MetricSet::DEFAULT] {
        search_in(
            || World::new(2, 2).group(),
            &[Op::Enable(metrics)],
            6,
            choices,
        );
    }
}

/// Fewer ways to switch, which leaves depth for the life of a PID: the group of a task is known by
/// its PID, which another task may get.
#[test]
fn groups_and_pids() {
    let choices = |kernel: &Kernel| {
        let mut ops = Vec::new();
        for cpu in 0..kernel.cpus() {
            ops.extend(few_switches(kernel, cpu));
            ops.extend(exits(kernel, cpu));
            ops.extend([false, true].map(|io| fork(kernel, cpu, 1 - cpu, io)));
            ops.extend((0..kernel.tasks().len()).map(|leader| Op::Exec { cpu, leader }));
            ops.push(Op::FinishExec { cpu });
        }
        for task in kernel.tasks() {
            let (task, group) = (task.serial, if task.group == 1 { 2 } else { 1 });
            ops.push(Op::Release { task });
            ops.push(Op::Attach { task, group });
        }
        ops
    };
    let prefix = [Op::Enable(MetricSet::ALL), WAKE_FIRST, RUN_FIRST];
    search_both(|| World::new(2, 1).group(), &prefix, 8, choices);
}

/// Groups in which no task is any more are folded into what is gone, while some of their tasks
/// still have a CPU, were preempted by one another, or kept others waiting.
#[test]
fn dead_groups() {
    let choices = |kernel: &Kernel| {
        let of = |cpu| [switches(kernel, cpu, Call::Preempt), exits(kernel, cpu)].concat();
        let mut ops = on_each_cpu(kernel, of);
        for task in kernel.tasks() {
            let (task, group) = (task.serial, 3 - task.group);
            ops.push(Op::Release { task });
            ops.push(Op::Attach { task, group });
        }
        ops.extend([1, 2].map(|group| Op::Fold { group }));
        ops
    };
    // Both tasks wait for the same CPU.
    let prefix = [Op::Enable(MetricSet::ALL), wake(0, 0), wake(1, 0)];
    search_in(|| World::new(2, 2).group(), &prefix, 10, choices);
}

/// A rule follows a process and those that it forks, from any moment on, and is removed at any
/// moment; then its group may be folded, and a rule may follow another process in the same group.
#[test]
fn followed_processes() {
    let choices = |kernel: &Kernel| {
        let mut ops = Vec::new();
        for cpu in 0..kernel.cpus() {
            ops.extend(switches(kernel, cpu, Call::Preempt));
            ops.extend(exits(kernel, cpu));
            ops.extend([false, true].map(|io| fork(kernel, cpu, cpu, io)));
        }
        for task in kernel.tasks() {
            let (task, group) = (task.serial, if task.group == 1 { 2 } else { 1 });
            ops.push(Op::Release { task });
            ops.push(Op::Follow { task });
            if !kernel.tasks()[task].exiting {
                ops.push(Op::Attach { task, group });
            }
        }
        ops.extend([Op::Unfollow, Op::Fold { group: 1 }]);
        ops
    };
    let prefix = [Op::Enable(MetricSet::ALL), WAKE_FIRST, RUN_FIRST];
    search_in(|| World::new(1, 1).list(), &prefix, 7, choices);
}

/// A task that has given back its PID sleeps for a lock, with `PREEMPT_RT`, and is woken while the
/// new owner of the PID waits for a CPU: the new owner was woken earlier.
#[test]
fn woken_without_a_pid() {
    let switch = |cpu, next| Op::Switch {
        cpu,
        call: Call::Schedule,
        next,
    };
    let sleep = |cpu| Op::SetState {
        cpu,
        state: Sleep::Uninterruptible,
    };
    let mut world = World::new(2, 2);
    world.kernel.is_rt = true;
    let ops = [
        Op::Enable(MetricSet::ALL),
        wake(0, 0),
        switch(0, Some(0)),
        Op::Exit { cpu: 0 },
        Op::Release { task: 0 },
        wake(1, 1),
        switch(1, Some(1)),
        Op::Fork {
            cpu: 1,
            pid: 1,
            to: 1,
            is_io_thread: false,
        },
        sleep(1),
        switch(1, Some(2)),
        sleep(1),
        switch(1, None),
        wake(2, 1),
        Op::Pass(100),
        sleep(0),
        wake(0, 0),
        switch(1, Some(2)),
    ];
    play(world, &ops);
}

/// Applies `ops` and checks after each.
fn play(mut world: World, ops: &[Op]) {
    for op in ops {
        assert!(world.apply(*op), "{op:?} is not possible");
        if let Err(difference) = world.check() {
            panic!("{difference}");
        }
    }
}

/// A preempted task gets a CPU whose clock is behind: what led to its slice is not known.
#[test]
fn a_clock_that_is_behind() {
    let switch = |cpu, call, next| Op::Switch { cpu, call, next };
    let ops = [
        Op::Enable(MetricSet::ALL),
        wake(0, 0),
        RUN_FIRST,
        wake(1, 0),
        switch(0, Call::Preempt, Some(1)),
        Op::StepClock { cpu: 1, by: -500 },
        Op::Migrate { task: 0, to: 1 },
        switch(1, Call::Schedule, Some(0)),
    ];
    play(World::new(2, 2).chain(), &ops);
}

#[test]
fn requests() {
    let choices = |kernel: &Kernel| {
        let mut ops = vec![set_asleep(0), wake(0, 0), Op::Stay { cpu: 0 }];
        ops.push(Op::FinishToStay { cpu: 0 });
        ops.extend(few_switches(kernel, 0));
        for (by, is_lazy) in [(0, false), (1, false), (0, true)] {
            ops.push(Op::Resched {
                by,
                cpu: 0,
                is_lazy,
            });
        }
        ops
    };
    let only = |name: &[u8]| MetricSet::parse(name, MetricSet::ALL).expect("a metric");
    for metrics in [
        MetricSet::ALL,
        MetricSet::DEFAULT,
        only(b"resched"),
        only(b"resched_lazy"),
    ] {
        let prefix = [Op::Enable(metrics), WAKE_FIRST, RUN_FIRST, wake(1, 0)];
        search(2, 2, &prefix, 7, choices);
    }
}
