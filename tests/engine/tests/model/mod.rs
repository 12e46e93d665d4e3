// SPDX-License-Identifier: GPL-2.0

//! A model of the kernel's scheduler that drives the engine, and a reference to compare it with.
//!
//! | file | contents |
//! | --- | --- |
//! | [`kernel`] | the scheduler: what happens, and the tracepoints that report it |
//! | [`recorder`] | the module's recordings of the tracepoints, with the engine |
//! | [`reference`] | the expected numbers |
//! | [`groups`] | the records of groups, and the expected ones |
//!
//! A test applies a list of [`Op`]s to a [`World`], and calls [`World::check`] after each.

// Each test uses only a part of this module.
#![allow(dead_code)]

#[path = "../grouped/mod.rs"]
pub(crate) mod grouped;
pub(crate) mod groups;
pub(crate) mod kernel;
pub(crate) mod recorder;
pub(crate) mod reference;

use std::sync::LazyLock;

use schedhist_engine::engine::{
    histogram::bucket::{Precision, Scheme},
    metric::{Counter, Metric, MetricSet},
    outlier::history::Slice,
};

use self::{
    kernel::{Call, Event, Kernel, Sleep},
    recorder::Recorder,
    reference::{first_of_greatest, Reference},
};

/// An operation on the kernel, or on the module. Tasks and CPUs are identified by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Time passes.
    Pass(u64),
    /// The clock of a CPU jumps.
    StepClock { cpu: usize, by: i64 },
    /// The current task of `cpu` is about to sleep.
    SetState { cpu: usize, state: Sleep },
    /// `cpu` switches to the task `next`, or to its idle task.
    Switch {
        cpu: usize,
        call: Call,
        next: Option<usize>,
    },
    /// The CPU `by` requests that `cpu` be rescheduled.
    Resched {
        by: usize,
        cpu: usize,
        is_lazy: bool,
    },
    /// The scheduler chooses the current task of `cpu` again: see [`Kernel::stay`].
    Stay { cpu: usize },
    /// That is told: see [`Kernel::finish_to_stay`].
    FinishToStay { cpu: usize },
    /// A task is woken by a task on the CPU `by`, and goes to the CPU `to`.
    Wake { task: usize, by: usize, to: usize },
    /// A waker on the CPU `by` takes the first of its two steps: see [`Kernel::begin_to_wake`].
    BeginToWake { task: usize, by: usize },
    /// That waker takes its second step, and the task goes to the CPU `to`.
    FinishToWake { task: usize, to: usize },
    /// A task that waits goes to the CPU `to`.
    Migrate { task: usize, to: usize },
    /// A sleeping task, whose dequeue was delayed, is dequeued.
    FinishDelayed { task: usize },
    /// The current task of `cpu` has spent its quota, and is to leave its CPU.
    Throttle { cpu: usize },
    /// The quota of a throttled task returns.
    Unthrottle { task: usize },
    /// The current task of `cpu` forks a new one.
    Fork {
        cpu: usize,
        pid: i32,
        to: usize,
        is_io_thread: bool,
    },
    /// The current task of `cpu` begins to exit.
    Exit { cpu: usize },
    /// The PID of an exiting task is released.
    Release { task: usize },
    /// The current task of `cpu` leaves it for the last time.
    Die { cpu: usize, next: Option<usize> },
    /// The current task of `cpu` takes over the PID of the task `leader`, which exits.
    Exec { cpu: usize, leader: usize },
    /// That task comes to the end of its `execve()`.
    FinishExec { cpu: usize },
    /// A task is moved to another group.
    Attach { task: usize, group: usize },
    /// A rule follows the process of a task, and those that it forks from now on.
    Follow { task: usize },
    /// That rule is removed.
    Unfollow,
    /// A dead group gives up its place, and what its tasks did is added up as gone.
    Fold { group: usize },
    /// Measuring begins.
    Enable(MetricSet),
    /// Measuring ends.
    Disable,
}

/// Applies `op` to `kernel`, and returns the events; `None` if it is not possible now. It takes a
/// nanosecond, so that no two events happen at the same time.
pub(crate) fn apply(kernel: &mut Kernel, op: Op) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    let tell = &mut |event| events.push(event);
    kernel.pass(1);
    match op {
        Op::Pass(nanoseconds) => kernel.pass(nanoseconds),
        Op::StepClock { cpu, by } => kernel.step_clock(cpu, by),
        Op::SetState { cpu, state } => kernel.set_current_state(cpu, state)?,
        Op::Switch { cpu, call, next } => kernel.schedule(cpu, call, next, tell)?,
        Op::Resched { by, cpu, is_lazy } => kernel.resched_curr(by, cpu, is_lazy, tell)?,
        Op::Stay { cpu } => kernel.stay(cpu, tell)?,
        Op::FinishToStay { cpu } => kernel.finish_to_stay(cpu, tell)?,
        Op::Wake { task, by, to } => kernel.try_to_wake_up(task, by, to, tell)?,
        Op::BeginToWake { task, by } => kernel.begin_to_wake(task, by, tell)?,
        Op::FinishToWake { task, to } => kernel.finish_to_wake(task, to, tell)?,
        Op::Migrate { task, to } => kernel.migrate(task, to, tell)?,
        Op::FinishDelayed { task } => kernel.finish_delayed(task)?,
        Op::Throttle { cpu } => kernel.throttle(cpu)?,
        Op::Unthrottle { task } => kernel.unthrottle(task)?,
        Op::Fork {
            cpu,
            pid,
            to,
            is_io_thread,
        } => kernel.fork(cpu, pid, to, is_io_thread, tell)?,
        Op::Exit { cpu } => kernel.exit(cpu, tell)?,
        Op::Release { task } => kernel.release(task)?,
        Op::Die { cpu, next } => {
            kernel.set_dead(cpu)?;
            kernel.schedule(cpu, Call::Schedule, next, tell)?;
        }
        Op::Exec { cpu, leader } => kernel.exec(cpu, leader)?,
        Op::FinishExec { cpu } => kernel.finish_exec(cpu, tell)?,
        Op::Attach { task, group } => kernel.attach(task, group, tell)?,
        Op::Follow { task } => kernel.follow(task, tell)?,
        Op::Unfollow => kernel.unfollow(tell)?,
        Op::Fold { group } => kernel.fold(group, tell)?,
        Op::Enable(metrics) => {
            let now = kernel.local_clock(0);
            tell(Event::Enable { metrics, now });
            for cpu in 0..kernel.cpus() {
                tell(Event::Started {
                    cpu,
                    is_idle: kernel.curr(cpu).is_none(),
                    now: kernel.local_clock(cpu),
                });
            }
            for task in kernel.tasks().iter().filter(|task| !task.released) {
                tell(Event::Found { task: *task });
            }
        }
        Op::Disable => tell(Event::Disable),
    }
    Some(events)
}

/// The kernel, the module in it, and the module's expected recordings.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) recorder: Recorder,
    pub(crate) reference: Reference,
}

impl World {
    /// Creates `cpus` idle CPUs, and sleeping tasks, with the PIDs from 1 on.
    pub(crate) fn new(cpus: usize, tasks: i32) -> Self {
        let kernel = Kernel::new(cpus, tasks);
        let reference = Reference::new(cpus, kernel.tasks().len());
        Self {
            kernel,
            recorder: Recorder::new(cpus, scheme()),
            reference,
        }
    }

    /// Keeps chains, too.
    pub(crate) fn chain(mut self) -> Self {
        self.recorder.chain();
        self.reference.chain();
        self
    }

    /// Records groups, too.
    pub(crate) fn group(mut self) -> Self {
        self.recorder.group();
        self.reference.group();
        self
    }

    /// Records groups, too, which are those of a list of rules.
    pub(crate) fn list(mut self) -> Self {
        self.kernel.list();
        self.recorder.list();
        self.group()
    }

    /// Applies `op` and returns `true`, if it is possible. Otherwise changes nothing.
    pub(crate) fn apply(&mut self, op: Op) -> bool {
        let mut kernel = self.kernel.clone();
        let Some(events) = apply(&mut kernel, op) else {
            return false;
        };
        self.kernel = kernel;
        if matches!(op, Op::StepClock { .. }) {
            self.reference.clocks_agree = false;
        }
        for event in &events {
            self.recorder.see(event);
            self.reference.see(event);
        }
        true
    }

    /// Compares the engine with the reference, and checks the laws.
    pub(crate) fn check(&self) -> Result<(), String> {
        check(&self.recorder, &self.reference)
    }
}

/// The number of buckets that a metric has with [`scheme`].
const BUCKETS: usize = scheme().buckets();

/// The scheme of the tests: the smallest one suffices, as sum, minimum and maximum are exact.
pub(crate) const fn scheme() -> Scheme {
    match Precision::new(Precision::MIN) {
        Some(precision) => Scheme::new(precision),
        None => unreachable!(),
    }
}

/// Compares all of the engine's recordings, and the calls of its observer, with the reference, and
/// checks the laws.
pub(crate) fn check(recorder: &Recorder, reference: &Reference) -> Result<(), String> {
    let scheme = scheme();
    let cpus = recorder.cpus.iter().zip(&recorder.seen);
    for (number, ((cpu, seen), expected)) in cpus.zip(reference.cpus()).enumerate() {
        let differs = |what: &str, engine: String, reference: String| {
            Err(format!(
                "CPU {number}, {what}: the engine says {engine}, the reference {reference}"
            ))
        };
        for counter in Counter::ALL {
            let (engine, reference) = (cpu.counter(counter), expected.counter(counter));
            if engine != reference {
                return differs(counter.name(), engine.to_string(), reference.to_string());
            }
        }
        let mut counts = [0; Metric::COUNT];
        for (metric, count) in Metric::ALL.into_iter().zip(&mut counts) {
            let samples = expected.samples(metric);
            let name = || format!("{metric:?}");
            let mut buckets = [0; BUCKETS];
            let (mut sum, mut min) = (0, u64::MAX);
            for sample in samples {
                buckets[scheme.index(sample.value)] += 1;
                sum += u128::from(sample.value);
                min = min.min(sample.value);
            }
            for (bucket, expected) in cpu.buckets(metric).iter().zip(&buckets) {
                *count += bucket.get();
                if bucket.get() != *expected {
                    let engine = (cpu.sum(metric), cpu.min(metric), cpu.worst(metric));
                    return differs(&name(), format!("{engine:?}"), format!("{samples:?}"));
                }
            }
            if (cpu.sum(metric), cpu.min(metric)) != (sum, min) {
                let engine = (cpu.sum(metric), cpu.min(metric));
                return differs(&name(), format!("{engine:?}"), format!("{:?}", (sum, min)));
            }
            let worst = first_of_greatest(samples);
            let engine = cpu.worst(metric);
            let engine = engine.map(|engine| (engine.value, engine.task, engine.time));
            if engine != worst {
                return differs(&name(), format!("{engine:?}"), format!("{worst:?}"));
            }
            // The observer receives exactly the samples that went into the histogram.
            let seen = &seen.samples[metric as usize];
            let told = seen.iter().fold((0, 0), |(count, sum), sample| {
                (count + 1, sum + u128::from(sample.value))
            });
            // A clock that stands still hides a move from the kernel's sums.
            let known = |sample: &reference::Sample| reference::Sample {
                moved: sample.moved && reference.clocks_agree,
                why: sample.why.filter(|_| reference.clocks_agree),
                ..*sample
            };
            let differs_in_one = seen.iter().map(known).ne(samples.iter().map(known));
            if told != (*count, cpu.sum(metric)) || differs_in_one {
                return differs(&name(), format!("{seen:?}"), format!("{samples:?}"));
            }
        }
        if let Some(wrong) = &seen.wrong {
            return Err(format!("CPU {number}, the observer, {wrong}"));
        }
        if recorder.is_chained() && seen.begun != expected.begun() {
            let (seen, expected) = (&seen.begun, expected.begun());
            return differs("begun", format!("{seen:?}"), format!("{expected:?}"));
        }
        if seen.slices != expected.slices() {
            let (seen, expected) = (&seen.slices, expected.slices());
            return differs("slices", format!("{seen:?}"), format!("{expected:?}"));
        }
        let overlap = |pair: &[Slice]| pair[0].until > pair[1].since;
        if reference.clocks_agree && seen.slices.windows(2).any(overlap) {
            return Err(format!("CPU {number}, slices overlap: {:?}", seen.slices));
        }
        laws(&counts, |counter| cpu.counter(counter), reference)
            .map_err(|law| format!("CPU {number}: {law} does not hold"))?;
        if let Some(groups) = recorder.groups.get(number) {
            groups::check(groups, expected.groups())
                .and_then(|()| groups::law(groups, &counts, |counter| cpu.counter(counter)))
                .map_err(|difference| format!("CPU {number}, {difference}"))?;
        }
    }
    Ok(())
}

/// The laws documented at [`Counter`]. Metrics stand for the number of their samples: with `#`, a
/// law needs them to have been on all the time, with `@` it does not.
const LAWS: [&str; 7] = [
    "switches = #oncpu + #idle + start_unseen",
    "switches = to_idle + #runq_wakeup + #runq_preempt + throttled + wait_unseen + untracked",
    "#throttled = throttled",
    "#offcpu = #blocked_interruptible + #blocked_uninterruptible + blocked_idle + blocked_stopped \
     + blocked_traced + blocked_parked + blocked_frozen + blocked_other",
    "#offcpu = #wakeup + wake_unseen",
    "migrations = migrations_core + migrations_llc + migrations_node + migrations_remote",
    "resched_set = @resched + @resched_lazy + resched_idle + resched_unused",
];

enum Term {
    Samples(Metric),
    Counter(Counter),
}

/// The text of a law, the metrics that it needs, and its terms: those on the right are subtracted.
type Law = (&'static str, Vec<Metric>, Vec<(i64, Term)>);

static PARSED_LAWS: LazyLock<[Law; 7]> = LazyLock::new(|| {
    LAWS.map(|law| {
        let (mut needs, mut terms, mut sign) = (Vec::new(), Vec::new(), 1);
        for word in law.split(' ').filter(|word| *word != "+") {
            let name = word.trim_start_matches(['#', '@']);
            if word == "=" {
                sign = -1;
            } else if name == word {
                let counter = Counter::ALL.into_iter().find(|it| it.name() == name);
                terms.push((sign, Term::Counter(counter.expect("a counter"))));
            } else {
                let metric = Metric::ALL.into_iter().find(|it| it.name() == name);
                let metric = metric.expect("a metric");
                needs.extend(word.starts_with('#').then_some(metric));
                terms.push((sign, Term::Samples(metric)));
            }
        }
        (law, needs, terms)
    })
});

fn laws(
    counts: &[u64; Metric::COUNT],
    counter: impl Fn(Counter) -> u64,
    reference: &Reference,
) -> Result<(), &'static str> {
    for (law, needs, terms) in &*PARSED_LAWS {
        let values = terms.iter().map(|(sign, term)| {
            let value = match *term {
                Term::Samples(metric) => counts[metric as usize],
                Term::Counter(of) => counter(of),
            };
            sign * value as i64
        });
        let applies = needs.iter().all(|metric| reference.was_always_on(*metric));
        if applies && values.sum::<i64>() != 0 {
            return Err(law);
        }
    }
    Ok(())
}
