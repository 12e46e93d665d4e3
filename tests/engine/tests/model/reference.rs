// SPDX-License-Identifier: GPL-2.0

//! The expected numbers: slow, and straight from the definitions in `metric.rs`.
//!
//! The reference sees every event, with true times. It identifies tasks by their serial number, not
//! by PID or address, and uses no stamp of the kernel.

use std::collections::{BTreeMap, BTreeSet};

use schedhist_engine::{
    engine::{
        chain::{self, Context, Start},
        identity::Identity,
        idle::{Distance, WaitCause},
        metric::{Counter, Metric, MetricSet},
        outlier::history::Slice,
        switch::sample::Cause,
    },
    testing::distance,
};

use super::{
    groups::{Groups, Who},
    kernel::{Departure, Event, Sleep, Task},
    recorder::{identify, PIDS_PER_PAGE},
};

/// A sample, with everything that is shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) value: u64,
    pub(crate) task: Identity,
    /// The time when it was taken.
    pub(crate) time: u64,
    /// The end of the measured time span.
    pub(crate) end: u64,
    pub(crate) cause: Cause,
    /// Whether the task waited on several run queues.
    pub(crate) moved: bool,
    /// Why it waited, if it did.
    pub(crate) why: Option<WaitCause>,
}

/// Returns the value, the task and the time of the first of the greatest samples.
pub(crate) fn first_of_greatest(samples: &[Sample]) -> Option<(u64, Identity, u64)> {
    let worst = samples.iter().rev().max_by_key(|sample| sample.value)?;
    Some((worst.value, worst.task, worst.time))
}

/// A slice, by its CPU and its number there, and how it led to another one.
type Slot = (usize, u64, Context);

const NOWHERE: Slot = (0, 0, Context::Unknown);

/// What is known of a slice as it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pid: i32,
    comm: [u8; 16],
    group: u32,
    start: Start,
    since: u64,
    waiting: u64,
    /// The slice of who woke or created the task, or else its own one before, if that is known.
    after: Slot,
}

impl From<chain::ChainSlice> for Begun {
    fn from(slice: chain::ChainSlice) -> Self {
        let link = slice.link;
        Self {
            pid: slice.pid,
            comm: slice.comm,
            group: slice.group.number(),
            start: slice.start,
            since: slice.since,
            waiting: slice.waiting,
            after: (link.cpu() as usize, link.number(), link.context()),
        }
    }
}

/// What came last of those that a PID's state tells of: a preemption, or the doing of a waker.
#[derive(Clone, Copy, Debug)]
enum Last {
    Preempted,
    Woken(Slot),
}

/// The metrics of requests to reschedule, full and lazy.
const REQUESTS: [Metric; 2] = [Metric::Resched, Metric::ReschedLazy];

/// The expected recordings of one CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuReference {
    /// The time when the running task got the CPU, if measuring was on then.
    since: Option<u64>,
    /// The pending requests to reschedule, full and lazy: when each was made, and whether its flag
    /// is still set.
    requests: [Option<(u64, bool)>; 2],
    /// The number of those that were pending when measuring was switched off.
    forgotten: usize,
    counters: [u64; Counter::COUNT],
    samples: [Vec<Sample>; Metric::COUNT],
    slices: Vec<Slice>,
    /// Since when the CPU is idle, or was when measuring began.
    idle_since: Option<u64>,
    /// How many slices of tasks have begun, with a gap wherever measuring began.
    number: u64,
    /// What the CPU does, if that was seen to begin.
    now: Option<Context>,
    begun: Vec<Begun>,
    groups: Option<Groups>,
}

impl CpuReference {
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    pub(crate) fn samples(&self, metric: Metric) -> &[Sample] {
        &self.samples[metric as usize]
    }

    /// Returns the slices that began since measuring did, regardless of the metrics.
    pub(crate) fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Returns what is known of each slice as it began, if chains are kept.
    pub(crate) fn begun(&self) -> &[Begun] {
        &self.begun
    }

    /// Returns what is expected of groups, if they are recorded.
    pub(crate) fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    fn count(&mut self, counter: Counter) {
        self.counters[counter as usize] += 1;
    }

    fn forget_requests(&mut self) {
        self.forgotten += self.requests.iter_mut().filter_map(Option::take).count();
    }

    /// Counts a request to reschedule after which there was no switch.
    fn count_request(&mut self, end: Counter) {
        self.count(Counter::ReschedSet);
        self.count(end);
    }
}

impl Departure {
    /// Returns the cause in the sample of this absence.
    fn cause(self) -> Cause {
        match self {
            Self::Runnable => Cause::Preempted,
            Self::Throttled => Cause::Throttled,
            Self::Blocked(Sleep::Interruptible) => Cause::Interruptible,
            Self::Blocked(Sleep::Uninterruptible) => Cause::Uninterruptible,
            Self::Blocked(Sleep::IdleWait) => Cause::IdleWait,
            Self::Blocked(Sleep::Stopped) => Cause::Stopped,
            Self::Blocked(Sleep::Traced) => Cause::Traced,
            Self::Blocked(Sleep::Parked) => Cause::Parked,
            Self::Blocked(Sleep::Frozen) => Cause::Frozen,
            Self::Blocked(Sleep::Dead) => Cause::Dead,
        }
    }
}

/// A wait for a CPU, by a task that slept or is new.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// The time when it began.
    since: u64,
    /// The time of it spent on run queues that the task has been moved away from.
    elsewhere: u64,
    /// The time when the task came onto its current run queue, by the clock of that CPU.
    here_since: u64,
}

/// An absence from all CPUs.
#[derive(Clone, Copy, Debug)]
struct Absence {
    out: u64,
    cpu: usize,
    pid: i32,
    how: Departure,
    /// The task that got the CPU then.
    successor: Who,
    slice: Slot,
}

/// The truth about one task.
#[derive(Clone, Debug, Default)]
struct Story {
    has_run: bool,
    wait: Option<Wait>,
    /// How it left a CPU last, if that was since measuring began, and can be known.
    absence: Option<Absence>,
    /// The time when its last wakeup began, if that was since it last got a CPU after a sleep, and
    /// since measuring began.
    waking: Option<u64>,
    /// Whether it was moved in its sleep since it last got a CPU.
    moved_asleep: bool,
    /// Whether it was moved while it waited since it last got a CPU.
    moved: bool,
    /// What was last decided of it since measuring began, and its PID at that time.
    task_group: Option<(i32, Who)>,
}

/// The expected recordings of all CPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    cpus: Vec<CpuReference>,
    stories: Vec<Story>,
    /// While measuring: the metrics that are on, and since when.
    on: Option<(MetricSet, u64)>,
    /// The pages of the table that the module had a reason to allocate, by number.
    pages: BTreeSet<i32>,
    /// The last task known to hold each PID.
    holders: BTreeMap<i32, usize>,
    /// The task with each PID of which a group was last decided.
    decided: BTreeMap<i32, usize>,
    /// What came last under each PID.
    last: BTreeMap<i32, Last>,
    is_chained: bool,
    /// The metrics that were on whenever measuring was on.
    always_on: Option<MetricSet>,
    /// Whether every clock has kept up with true time.
    pub(crate) clocks_agree: bool,
}

impl Reference {
    /// Creates the reference for `cpus` CPUs, and `tasks` tasks that have run before.
    pub(crate) fn new(cpus: usize, tasks: usize) -> Self {
        let has_run = Story {
            has_run: true,
            ..Story::default()
        };
        Self {
            cpus: vec![CpuReference::default(); cpus],
            stories: vec![has_run; tasks],
            clocks_agree: true,
            ..Self::default()
        }
    }

    /// Expects records of groups from now on.
    pub(crate) fn group(&mut self) {
        for cpu in &mut self.cpus {
            cpu.groups = Some(Groups::default());
        }
    }

    /// Expects chains from now on.
    pub(crate) fn chain(&mut self) {
        self.is_chained = true;
    }

    fn keeps_chains(&self) -> bool {
        self.is_chained && self.on.is_some_and(|(metrics, _)| metrics.needs_tasks())
    }

    /// Returns what `cpu` does now.
    fn slot(&self, cpu: usize) -> Slot {
        let of = &self.cpus[cpu];
        match of.now {
            Some(context) => (cpu, of.number, context),
            None => (cpu, 0, Context::Unknown),
        }
    }

    /// A task on the CPU `by` wakes `task`, or created it if `is_fork`. Under its PID, which it may
    /// have released, another task may be known.
    fn wake(&mut self, task: &Task, by: usize, is_fork: bool) {
        let is_holder = self.holders.get(&task.pid) == Some(&task.serial);
        if self.keeps_chains() && self.has_room(task) && (is_holder || !task.exiting) {
            let waker = match self.slot(by) {
                (cpu, number, Context::Task) if is_fork => (cpu, number, Context::Fork),
                slot => slot,
            };
            self.last.insert(task.pid, Last::Woken(waker));
        }
    }

    /// Returns who woke or created the task that runs now, if it is known, and forgets it.
    fn take_waker(&mut self, task: &Task) -> Slot {
        match self.last.remove(&task.pid) {
            Some(Last::Woken(waker)) => waker,
            _ => NOWHERE,
        }
    }

    /// A slice begins.
    fn begin(
        &mut self,
        cpu: usize,
        now: u64,
        task: &Task,
        (start, waiting): (Start, u64),
        after: Slot,
    ) {
        if !self.keeps_chains() {
            return;
        }
        let who = self.who(Some(task));
        let group = self.cpus[cpu]
            .groups
            .as_ref()
            .map_or(0, |_| who.group() as u32);
        let of = &mut self.cpus[cpu];
        of.number += 1;
        of.now = Some(Context::Task);
        of.begun.push(Begun {
            pid: task.pid,
            comm: task.comm,
            group,
            start,
            since: now,
            waiting,
            after,
        });
    }

    pub(crate) fn cpus(&self) -> &[CpuReference] {
        &self.cpus
    }

    /// Returns whether `metric` was on whenever measuring was on.
    pub(crate) fn was_always_on(&self, metric: Metric) -> bool {
        self.always_on.is_none_or(|set| set.contains(metric))
    }

    /// Returns the time when measuring began, if it has not ended.
    pub(crate) fn began(&self) -> Option<u64> {
        self.on.map(|(_, began)| began)
    }

    fn story(&mut self, task: &Task) -> &mut Story {
        if self.stories.len() <= task.serial {
            self.stories.resize(task.serial + 1, Story::default());
        }
        &mut self.stories[task.serial]
    }

    fn is_on(&self, metric: Metric) -> bool {
        self.on.is_some_and(|(set, _)| set.contains(metric))
    }

    fn has_room(&self, task: &Task) -> bool {
        self.pages.contains(&(task.pid / PIDS_PER_PAGE))
    }

    fn sample(&mut self, cpu: usize, metric: Metric, sample: Sample) {
        if self.is_on(metric) {
            self.cpus[cpu].samples[metric as usize].push(sample);
            if let Some(groups) = &mut self.cpus[cpu].groups {
                groups.sample(metric, sample);
            }
        }
    }

    /// The group of `task` is decided, and known from now on if there is room.
    fn decide(&mut self, task: &Task) {
        if self.on.is_some() && self.has_room(task) {
            let who = Who::Task {
                group: task.true_group(),
                is_kernel_thread: task.is_kernel_thread,
            };
            self.story(task).task_group = Some((task.pid, who));
            self.decided.insert(task.pid, task.serial);
        }
    }

    /// Returns what is known of the task that gets a CPU now. A group is kept under the PID that
    /// the task had when it was decided, until one is kept for another task of that PID.
    fn who(&mut self, task: Option<&Task>) -> Who {
        let Some(task) = task else {
            return Who::Idle;
        };
        let is_kept = self.decided.get(&task.pid) == Some(&task.serial);
        match self.story(task).task_group {
            Some((pid, who)) if pid == task.pid && is_kept => who,
            _ => Who::Unknown,
        }
    }

    /// Updates the reference for `event`, of which it sees everything.
    pub(crate) fn see(&mut self, event: &Event) {
        match *event {
            Event::Enable { metrics, now } => self.enable(metrics, now),
            Event::Disable => {
                self.on = None;
                self.cpus.iter_mut().for_each(CpuReference::forget_requests);
            }
            Event::Started { cpu, is_idle, now } => {
                self.cpus[cpu].idle_since = is_idle.then_some(now);
            }
            Event::Found { task } | Event::Fork { task } => {
                if self.on.is_some() {
                    self.pages.insert(task.pid / PIDS_PER_PAGE);
                }
                self.decide(&task);
            }
            Event::Changed { task } => self.decide(&task),
            Event::Forked { .. } | Event::Ended { .. } | Event::Follow { .. } | Event::Unfollow => {
            }
            Event::Fold { group } => self.fold(group),
            Event::Ready { task, now } => {
                self.story(&task).wait = Some(Wait {
                    since: now,
                    elsewhere: 0,
                    here_since: now,
                });
            }
            Event::Moved { task, from, to } => {
                let story = self.story(&task);
                story.moved = true;
                if let Some(wait) = &mut story.wait {
                    wait.elsewhere += from - wait.here_since;
                    wait.here_since = to;
                }
            }
            Event::MovedAsleep { task } => self.story(&task).moved_asleep = true,
            Event::Resched {
                by,
                cpu,
                is_lazy,
                is_idle,
                now,
            } => {
                let metric = REQUESTS[usize::from(is_lazy)];
                if !self.is_on(metric) {
                } else if is_idle {
                    self.cpus[by].count_request(Counter::ReschedIdle);
                } else {
                    let request = &mut self.cpus[cpu].requests[usize::from(is_lazy)];
                    if let Some((_, is_set)) = request.replace((now, true)) {
                        assert!(!is_set, "the kernel requests nothing twice");
                        self.cpus[by].count_request(Counter::ReschedUnused);
                    }
                }
            }
            Event::Cleared { cpu } => {
                for (_, is_set) in self.cpus[cpu].requests.iter_mut().flatten() {
                    *is_set = false;
                }
            }
            Event::Stay { cpu, .. } => {
                for kind in 0..2 {
                    if matches!(self.cpus[cpu].requests[kind], Some((_, false))) {
                        self.cpus[cpu].requests[kind] = None;
                        self.cpus[cpu].count_request(Counter::ReschedUnused);
                    }
                }
            }
            Event::Created { task, by } => self.wake(&task, by, true),
            Event::Waking { task, by, now } => {
                self.wake(&task, by, false);
                if self.on.is_some() && self.has_room(&task) {
                    self.story(&task).waking = Some(now);
                }
            }
            Event::Switch {
                cpu,
                now,
                prev,
                next,
                ..
            } => {
                if self.on.is_some() {
                    let slice = self.slot(cpu);
                    self.cpus[cpu].count(Counter::Switches);
                    self.end_slice(cpu, now, prev.as_ref());
                    if let Some((prev, how)) = &prev {
                        self.end_requests(cpu, now, prev, *how);
                    }
                    let who = self.who(next.as_ref());
                    if let Some(groups) = &mut self.cpus[cpu].groups {
                        groups.switch(prev.map(|(_, how)| how), who);
                    }
                    match &next {
                        None => {
                            self.cpus[cpu].now = Some(Context::Idle);
                            self.cpus[cpu].count(Counter::ToIdle);
                        }
                        Some(next) => self.enter(cpu, now, next),
                    }
                    self.cpus[cpu].idle_since = next.is_none().then_some(now);
                    if let Some((prev, how)) = &prev {
                        self.leave(cpu, now, prev, *how, slice);
                    }
                }
                if let Some(next) = &next {
                    let story = self.story(next);
                    // A task that was about to be woken while it was preempted may be asleep by
                    // then.
                    let slept = story
                        .absence
                        .is_none_or(|absence| matches!(absence.how, Departure::Blocked(_)));
                    *story = Story {
                        has_run: true,
                        waking: story.waking.filter(|_| !slept),
                        task_group: story.task_group,
                        ..Story::default()
                    };
                }
            }
        }
    }

    /// What the tasks of `group` did is added up as gone. A task that released its PID, and is
    /// still in the group, is in none from now on, except for its slice on a CPU.
    fn fold(&mut self, folded: usize) {
        for story in &mut self.stories {
            let is_in_it = |(_, who)| matches!(who, Who::Task { group, .. } if group == folded);
            if story.task_group.is_some_and(is_in_it) {
                story.task_group = None;
            }
        }
        let is_on = self.on.is_some();
        for groups in self.cpus.iter_mut().filter_map(|cpu| cpu.groups.as_mut()) {
            if !is_on {
                groups.forget();
            }
            groups.fold(folded);
        }
    }

    /// Forgets everything from before, except which tasks are new, and the current waits.
    fn enable(&mut self, metrics: MetricSet, now: u64) {
        self.on = Some((metrics, now));
        let before = self.always_on.unwrap_or(MetricSet::ALL).bits();
        self.always_on = Some(MetricSet::from_bits(before & metrics.bits()));
        self.pages.clear();
        self.holders.clear();
        self.decided.clear();
        self.last.clear();
        for cpu in &mut self.cpus {
            cpu.since = None;
            cpu.now = None;
            cpu.number += 1;
            cpu.forget_requests();
            for _ in 0..std::mem::take(&mut cpu.forgotten) {
                cpu.count_request(Counter::ReschedUnused);
            }
            if let Some(groups) = &mut cpu.groups {
                groups.forget();
            }
        }
        for story in &mut self.stories {
            story.absence = None;
            story.waking = None;
            story.task_group = None;
        }
    }

    fn end_slice(&mut self, cpu: usize, now: u64, prev: Option<&(Task, Departure)>) {
        let (metric, cause) = match prev {
            Some((_, how)) => (Metric::Oncpu, how.cause()),
            None => (Metric::Idle, Cause::Idle),
        };
        let task = identify(prev.map(|(task, _)| task));
        match self.cpus[cpu].since {
            None => self.cpus[cpu].count(Counter::StartUnseen),
            Some(since) if now < since => {
                self.cpus[cpu].count(Counter::StartUnseen);
                self.cpus[cpu].count(Counter::ClockBackwards);
            }
            Some(since) => {
                self.cpus[cpu].slices.push(Slice {
                    task,
                    since,
                    until: now,
                });
                let sample = Sample {
                    value: now - since,
                    task,
                    time: now,
                    end: now,
                    cause,
                    moved: false,
                    why: None,
                };
                self.sample(cpu, metric, sample);
            }
        }
        self.cpus[cpu].since = Some(now);
    }

    fn end_requests(&mut self, cpu: usize, now: u64, task: &Task, how: Departure) {
        for (kind, metric) in REQUESTS.into_iter().enumerate() {
            if let Some((since, is_set)) = self.cpus[cpu].requests[kind].take() {
                assert!(is_set, "the end of a call of the scheduler is told");
                self.cpus[cpu].count(Counter::ReschedSet);
                self.compare(cpu, now, since);
                let sample = Sample {
                    value: now.saturating_sub(since),
                    task: identify(Some(task)),
                    time: now,
                    end: now,
                    cause: how.cause(),
                    moved: false,
                    why: None,
                };
                self.sample(cpu, metric, sample);
            }
        }
    }

    fn leave(&mut self, cpu: usize, now: u64, task: &Task, how: Departure, slice: Slot) {
        self.cpus[cpu].count(match how {
            Departure::Runnable | Departure::Throttled => Counter::Involuntary,
            Departure::Blocked(_) => Counter::Voluntary,
        });
        self.story(task).absence = None;
        // Without memory for its state, the absence is forgotten. And an exiting task may have
        // released its PID, the key of its state: it counts as the owner only if it is known as the
        // holder.
        let is_holder = self.holders.get(&task.pid) == Some(&task.serial);
        if !self.has_room(task) || (task.exiting && !is_holder) {
            return;
        }
        self.holders.insert(task.pid, task.serial);
        let groups = self.cpus[cpu].groups.as_ref();
        if groups.is_some() && !matches!(how, Departure::Blocked(_)) {
            self.last.insert(task.pid, Last::Preempted);
        }
        let successor = groups.map_or(Who::Unknown, Groups::now);
        self.story(task).absence = Some(Absence {
            out: now,
            cpu,
            pid: task.pid,
            how,
            successor,
            slice,
        });
    }

    fn enter(&mut self, cpu: usize, now: u64, task: &Task) {
        let Some((metrics, began)) = self.on else {
            return;
        };
        if !metrics.needs_tasks() {
            return;
        }
        let story = self.story(task).clone();
        let idle_since = self.cpus[cpu].idle_since;
        let sample = |value, cause| Sample {
            value,
            task: identify(Some(task)),
            time: now,
            end: now,
            cause,
            moved: false,
            why: None,
        };
        let wait_sample = |value, cause| Sample {
            moved: story.moved,
            why: Some(match cause {
                _ if story.moved => WaitCause::Moved,
                Cause::Fork => WaitCause::Forked,
                Cause::Preempted => WaitCause::Preempted,
                _ if idle_since.is_some_and(|since| since <= now - value) => WaitCause::WokenIdle,
                _ => WaitCause::WokenBusy,
            }),
            ..sample(value, cause)
        };
        if !story.has_run {
            let wait = story.wait.expect("a task that is new was put on a queue");
            if self.has_room(task) {
                self.holders.insert(task.pid, task.serial);
            }
            self.compare(cpu, now, wait.here_since);
            let value = self.length(&wait, now);
            let waker = self.take_waker(task);
            self.begin(cpu, now, task, (Start::Forked, now - value), waker);
            // The wait's beginning, by the clock of this CPU.
            if now - value < began {
                return self.cpus[cpu].count(Counter::WaitUnseen);
            }
            return self.sample(cpu, Metric::RunqWakeup, wait_sample(value, Cause::Fork));
        }
        let unknown = (Start::Unknown, now);
        if !self.has_room(task) {
            self.begin(cpu, now, task, unknown, NOWHERE);
            return self.cpus[cpu].count(Counter::Untracked);
        }
        // The state under a PID is lost when the task gets another PID, or the PID another task.
        let is_holder = self.holders.get(&task.pid) == Some(&task.serial);
        let absence = match story.absence {
            Some(absence) if absence.pid == task.pid && is_holder => absence,
            _ => {
                // From now on the holder of the PID is known, unless the PID may be released
                // already.
                if !task.exiting {
                    self.holders.insert(task.pid, task.serial);
                }
                self.begin(cpu, now, task, unknown, NOWHERE);
                return self.cpus[cpu].count(Counter::WaitUnseen);
            }
        };
        if now < absence.out {
            self.begin(cpu, now, task, unknown, NOWHERE);
            self.cpus[cpu].count(Counter::ClockBackwards);
            return self.cpus[cpu].count(Counter::WaitUnseen);
        }
        if absence.cpu != cpu {
            self.cpus[cpu].count(Counter::Migrations);
            self.cpus[cpu].count(match distance(absence.cpu as u32) {
                Distance::Core => Counter::MigrationsCore,
                Distance::Llc => Counter::MigrationsLlc,
                Distance::Node => Counter::MigrationsNode,
                _ => Counter::MigrationsRemote,
            });
            if let Some(groups) = &mut self.cpus[cpu].groups {
                groups.migrated();
            }
        }
        let away = now - absence.out;
        let sleep = match absence.how {
            Departure::Runnable => {
                self.begin(
                    cpu,
                    now,
                    task,
                    (Start::Preempted, absence.out),
                    absence.slice,
                );
                let culprit = match self.last.get(&task.pid) {
                    Some(Last::Woken(_)) => Who::Unknown,
                    _ => absence.successor,
                };
                if let Some(groups) = &mut self.cpus[cpu].groups {
                    groups.preempted(culprit, away);
                }
                return self.sample(
                    cpu,
                    Metric::RunqPreempt,
                    wait_sample(away, Cause::Preempted),
                );
            }
            Departure::Throttled => {
                self.begin(
                    cpu,
                    now,
                    task,
                    (Start::Throttled, absence.out),
                    absence.slice,
                );
                self.cpus[cpu].count(Counter::Throttled);
                if let Some(groups) = &mut self.cpus[cpu].groups {
                    groups.throttled(away);
                }
                return self.sample(cpu, Metric::Throttled, sample(away, Cause::Throttled));
            }
            Departure::Blocked(sleep) => sleep,
        };
        let cause = absence.how.cause();
        let wait = story.wait.expect("a task that had blocked was woken");
        // A wakeup may overtake the switch-out; the wait begins with the switch-out.
        let mut waited = self.length(&wait, now).min(away);
        if let Some(waking) = story.waking.filter(|_| story.moved_asleep) {
            waited = now.saturating_sub(waking).min(away);
        }
        let waker = self.take_waker(task);
        self.begin(cpu, now, task, (Start::Woken, now - waited), waker);
        self.sample(cpu, Metric::Offcpu, sample(away, cause));
        if metrics.contains(Metric::Wakeup) {
            match story.waking {
                Some(waking) => {
                    self.compare(cpu, now, waking);
                    let value = now.saturating_sub(waking);
                    self.sample(cpu, Metric::Wakeup, sample(value, cause));
                }
                None => self.cpus[cpu].count(Counter::WakeUnseen),
            }
        }
        self.compare(cpu, now, wait.here_since);
        if let Some(waking) = story.waking.filter(|_| story.moved_asleep) {
            // Only the waker's clock tells when the wakeup began.
            if !metrics.contains(Metric::Wakeup) {
                self.compare(cpu, now, waking);
            }
        }
        self.sample(cpu, Metric::RunqWakeup, wait_sample(waited, Cause::Wakeup));
        // A sleep ended when the wait began; the worst sample nevertheless has the time when it was
        // taken.
        let blocked = Sample {
            end: absence.out + (away - waited),
            ..sample(away - waited, cause)
        };
        match sleep {
            Sleep::Interruptible => {
                self.sample(cpu, Metric::BlockedInterruptible, blocked);
            }
            Sleep::Uninterruptible => {
                self.sample(cpu, Metric::BlockedUninterruptible, blocked);
            }
            Sleep::IdleWait => self.cpus[cpu].count(Counter::BlockedIdle),
            Sleep::Stopped => self.cpus[cpu].count(Counter::BlockedStopped),
            Sleep::Traced => self.cpus[cpu].count(Counter::BlockedTraced),
            Sleep::Parked => self.cpus[cpu].count(Counter::BlockedParked),
            Sleep::Frozen => self.cpus[cpu].count(Counter::BlockedFrozen),
            Sleep::Dead => self.cpus[cpu].count(Counter::BlockedOther),
        }
    }

    /// Counts a `stamp` later than `now`: the clock of another CPU may be ahead.
    fn compare(&mut self, cpu: usize, now: u64, stamp: u64) {
        if now < stamp {
            self.cpus[cpu].count(Counter::ClockBackwards);
        }
    }

    /// Returns the length of a wait that ends at `now`: the sum of its times on each run queue, by
    /// the clock of its CPU.
    fn length(&self, wait: &Wait, now: u64) -> u64 {
        let length = wait.elsewhere + now.saturating_sub(wait.here_since);
        if self.clocks_agree {
            assert_eq!(length, now - wait.since);
        }
        length
    }
}
