// SPDX-License-Identifier: GPL-2.0

//! Drives the engine from the tracepoints like `src/recorder.rs` and `src/probes.rs`.

use std::{cell::RefCell, collections::BTreeMap};

use schedhist_engine::engine::{
    cell::Cell,
    chain::{self, Context, Interrupted, Link, Ring, Start},
    group::{
        fork_marks::ForkMarks,
        hash::Secret,
        index::Entry,
        list::{List, Matcher, Rule, Subject},
        observer::Grouped,
        task_group::{Group, TaskGroup},
    },
    histogram::bucket::Scheme,
    identity::Identity,
    idle::{split::split, Candidates, CpuIdle, Distance, IdlePeriods, Wait, WaitCause},
    metric::{Metric, MetricSet},
    outlier::{history::Slice, log::Log},
    switch::{
        cpu::{Cpu, Requested},
        sample::{Observer, Sample, Side},
        switch_out::PrevState,
        task_state::{record_wakeup, AllWakeups, QueuedWakeups, TaskState as State},
    },
};
use schedhist_engine::testing::{self, new_records, record_switch, Switch, Wakeup};

use super::{
    grouped::Groups as CpuGroups,
    kernel::{Event, Task, FOLLOWED, GROUPS},
    reference,
};

/// The number of PIDs in a page of the table; the module has more.
pub(crate) const PIDS_PER_PAGE: i32 = 4;

type Page = [State; PIDS_PER_PAGE as usize];

type ListRule = Rule<Vec<u8>, Vec<u128>, usize>;

/// A list of rules: first one that follows a process, if there is any, then one for each cgroup,
/// which has the number of the group.
#[derive(Debug)]
struct Listed {
    list: List<Vec<Option<ListRule>>>,
    fork_marks: ForkMarks<Vec<Entry<u64>>>,
}

/// A task, as rules look at it.
struct ListedTask<'a>(&'a Task, &'a ForkMarks<Vec<Entry<u64>>>);

impl Subject<usize> for ListedTask<'_> {
    fn is_in(&self, cgroup: &usize) -> bool {
        self.0.group == *cgroup
    }

    fn process(&self) -> Option<u128> {
        (!self.0.exiting).then_some(self.0.process as u128)
    }

    fn marks(&self) -> u64 {
        self.process().map_or(0, |process| self.1.marks(process))
    }

    fn with_comm(&self, f: impl FnOnce(&[u8]) -> bool) -> bool {
        f(&self.0.comm)
    }
}

impl Listed {
    const NAME: &'static [u8] = b"followed";

    fn new() -> Self {
        let mut all = Self {
            list: List::new((0..GROUPS).map(|_| None).collect()),
            fork_marks: ForkMarks::new(vec![None; 16], Secret::new([1, 2])),
        };
        for cgroup in FOLLOWED + 1..GROUPS {
            all.add(&[b'0' + cgroup as u8], Matcher::Cgroup(cgroup), cgroup);
        }
        all
    }

    fn add(
        &mut self,
        name: &[u8],
        matcher: Matcher<Vec<u8>, Vec<u128>, usize>,
        group: usize,
    ) -> u64 {
        let group = Group::new(group as u32).expect("a small number");
        let rule = Rule::new(name.to_vec(), Vec::new(), matcher, group);
        let mark = self.list.next_mark().expect("there is room");
        self.list.add(rule).expect("there is room");
        mark
    }

    /// A task is in one cgroup at most, and the rule of a process comes last. So that it is the
    /// first that matches, the others are added again.
    fn follow(&mut self, process: usize) {
        let mut others: Vec<_> = (FOLLOWED + 1..GROUPS).collect();
        for cgroup in &others {
            self.list
                .remove(&[b'0' + *cgroup as u8])
                .expect("it is there");
        }
        let mark = self.add(Self::NAME, Matcher::Children, FOLLOWED);
        assert!(self.fork_marks.mark(process as u128, mark));
        for cgroup in others.drain(..) {
            self.add(&[b'0' + cgroup as u8], Matcher::Cgroup(cgroup), cgroup);
        }
    }

    fn unfollow(&mut self) {
        let rule = self.list.remove(Self::NAME).expect("there is one");
        self.fork_marks.forget(rule.mark());
        // The memory has no more entries than one call looks at.
        assert_eq!(self.fork_marks.clean(0), None);
    }

    /// Returns the group of `task`, whose group in `state` is known so far, as `Groups::decide()`
    /// finds it. Returns `None` if that stays.
    fn decide(&self, task: &Task, state: &State) -> Option<Group> {
        let id = shown(Some(task)).id;
        if task.exiting {
            let group = state.task_group(id).group();
            let has_rule = self.list.iter().any(|rule| rule.group == group);
            if state.has_task_group_of_another(id) || has_rule {
                return None;
            }
        }
        let group = self.list.group_of(&ListedTask(task, &self.fork_marks));
        Some(group.unwrap_or(Group::OTHER))
    }
}

/// Measuring, from when it is switched on until it is switched off.
#[derive(Debug)]
struct Session {
    metrics: MetricSet,
    pages: BTreeMap<i32, Page>,
    untracked: State,
}

impl Session {
    fn make_room(&mut self, pid: i32) {
        self.pages.entry(pid / PIDS_PER_PAGE).or_default();
    }

    fn state(&self, pid: i32) -> &State {
        match self.pages.get(&(pid / PIDS_PER_PAGE)) {
            Some(page) => &page[(pid % PIDS_PER_PAGE) as usize],
            None => &self.untracked,
        }
    }

    /// Decides the group of `task`, and stores it if there is room.
    fn decide(&self, task: &Task, listed: Option<&Listed>) {
        let state = self.state(task.pid);
        let group = match listed {
            Some(listed) => listed.decide(task, state),
            None => u32::try_from(task.group).ok().and_then(Group::new),
        };
        if let Some(group) = group {
            let task_group = TaskGroup::new(group, task.is_kernel_thread);
            state.set_task_group(shown(Some(task)).id, task_group);
        }
    }
}

/// The CPUs that a task may use which is pinned to this one.
struct Pinned(u32);

impl Candidates for Pinned {
    fn next(&self, _: Option<u32>) -> Option<u32> {
        None
    }

    fn own_cpu(&self) -> u32 {
        self.0
    }

    fn is_near(&self, _: u32) -> bool {
        false
    }

    fn periods(&self, _: u32) -> Option<&IdlePeriods> {
        None
    }

    fn distance(&self, _: u32) -> Distance {
        Distance::Own
    }
}

/// The observer's calls for the switches on a CPU.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) begun: Vec<reference::Begun>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) samples: [Vec<reference::Sample>; Metric::COUNT],
    /// A call that the observer should not have got, if any.
    pub(crate) wrong: Option<String>,
}

/// What is needed to observe a switch.
struct Watcher<'a> {
    cpu: u32,
    now: u64,
    prev: Identity,
    next: Identity,
    /// When the kernel stamped the next task.
    queued: u64,
    seen: RefCell<&'a mut Seen>,
    log: Option<&'a Log>,
    ring: &'a Ring<Vec<chain::SliceCells>>,
    idle: &'a CpuIdle,
    /// The number of calls for a slice, for a sample of the previous task, and for one of the next.
    told: RefCell<[u32; 3]>,
}

impl Watcher<'_> {
    /// Counts a call of the kind `what`, one of those three, which must come in that order.
    fn told(&self, what: usize) {
        let mut told = self.told.borrow_mut();
        told[what] += 1;
        let is_late = told[what + 1..].iter().any(|count| *count != 0);
        if is_late || told[0] > 1 || told[1] > 3 {
            self.wrong(&format!("slice, sample, sample of the next: {told:?}"));
        }
    }

    /// Reports an outlier, and checks that each nanosecond of it is blamed on one task, or missing.
    fn report(&self, log: &Log, sample: &Sample, task: &Identity) {
        let reported = log.report(log.reported() + 1, sample, task, None);
        let (outlier, culprits) = reported.expect("there always is a place");
        let ran: u64 = culprits.map(|culprit| culprit.ran).sum();
        if ran + outlier.missing != sample.value {
            self.wrong(&format!("{ran} are blamed of {outlier:?}"));
        }
    }

    fn why(&self, sample: &Sample) -> WaitCause {
        let wait = Wait {
            start: sample.start(),
            end: sample.end,
            queued: self.queued,
            cause: sample.cause,
            moved: sample.moved,
        };
        split(
            &wait,
            &self.idle.periods,
            &self.idle.gaps,
            &Pinned(self.cpu),
        )
        .why
    }

    fn wrong(&self, what: &str) {
        self.seen.borrow_mut().wrong = Some(format!("at {}: {what}", self.now));
    }
}

/// Observes a switch, with what led to a slice if there is a `CHAIN`.
#[derive(Clone, Copy)]
struct Observed<'a, const CHAIN: bool>(&'a Watcher<'a>);

impl<const CHAIN: bool> Observer for Observed<'_, CHAIN> {
    const CHAIN: bool = CHAIN;

    fn idle_begins(self, now: u64) {
        self.0.idle.periods.begin(now);
        if CHAIN {
            self.0.ring.enter_idle(now);
        }
    }

    fn idle_ends(self, now: u64) {
        self.0.idle.periods.end(now);
    }

    fn begins(
        self,
        now: u64,
        (start, waiting): (Start, u64),
        group: impl FnOnce() -> Group,
        link: impl FnOnce() -> u64,
    ) {
        if !CHAIN {
            return;
        }
        if now != self.0.now || self.0.told.borrow()[2] != 0 {
            self.0
                .wrong(&format!("a slice from {now}, after its samples"));
        }
        let slice = chain::ChainSlice {
            pid: self.0.next.pid,
            comm: self.0.next.comm,
            group: group(),
            start,
            since: now,
            waiting,
            link: Link::from_bits(link()).unwrap_or(Link::UNKNOWN),
        };
        self.0.ring.enter(&slice);
        self.0.seen.borrow_mut().begun.push(slice.into());
    }

    fn last_slice(self, cpu: u32) -> u64 {
        match CHAIN {
            true => self.0.ring.now().bits(),
            false => cpu.into(),
        }
    }

    fn cpu_of(self, last_slice: u64) -> u32 {
        match CHAIN {
            true => Link::from_bits(last_slice).expect("a link").cpu(),
            false => last_slice as u32,
        }
    }

    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        move || match side {
            Side::Prev => self.0.prev,
            Side::Next => self.0.next,
        }
    }

    fn slice(self, since: u64, now: u64) {
        self.0.told(0);
        if now != self.0.now {
            self.0.wrong(&format!("a slice until {now}"));
        }
        let slice = Slice {
            task: self.0.prev,
            since,
            until: now,
        };
        self.0.seen.borrow_mut().slices.push(slice);
        if let Some(log) = self.0.log {
            log.slice(&slice);
        }
    }

    fn sample(self, sample: &Sample) {
        let side = sample.metric.side();
        self.0.told(match side {
            Side::Prev => 1,
            Side::Next => 2,
        });
        if let Some(log) = self.0.log {
            self.0.report(log, sample, &self.namer(side)());
        }
        self.0.seen.borrow_mut().samples[sample.metric as usize].push(reference::Sample {
            value: sample.value,
            task: self.namer(side)(),
            time: self.0.now,
            end: sample.end,
            cause: sample.cause,
            moved: sample.moved,
            why: sample.metric.is_wait().then(|| self.0.why(sample)),
        });
    }
}

/// The records of all CPUs.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) cpus: Vec<Cpu<Vec<Cell>>>,
    /// The observer's calls on each CPU.
    pub(crate) seen: Vec<Seen>,
    /// The log of each CPU, if each sample is to be an outlier.
    logs: Vec<Log>,
    idles: Vec<CpuIdle>,
    rings: Vec<Ring<Vec<chain::SliceCells>>>,
    /// Whether chains are kept.
    is_chained: bool,
    /// The records of groups on each CPU, if groups are recorded.
    pub(crate) groups: Vec<CpuGroups>,
    listed: Option<Listed>,
    session: Option<Session>,
}

impl Recorder {
    pub(crate) fn new(cpus: usize, scheme: Scheme) -> Self {
        let new = |number| new_records(number, scheme, MetricSet::ALL);
        Self {
            cpus: (0..).map(new).take(cpus).collect(),
            seen: (0..cpus).map(|_| Seen::default()).collect(),
            logs: Vec::new(),
            idles: (0..cpus).map(|_| CpuIdle::default()).collect(),
            rings: (0..cpus as u32).map(ring).collect(),
            is_chained: false,
            groups: Vec::new(),
            listed: None,
            session: None,
        }
    }

    /// Makes an outlier of each sample from now on.
    pub(crate) fn watch(&mut self) {
        self.logs = self.cpus.iter().map(|_| Log::default()).collect();
    }

    /// Keeps chains from now on.
    pub(crate) fn chain(&mut self) {
        self.is_chained = true;
    }

    /// Returns whether chains are kept.
    pub(crate) fn is_chained(&self) -> bool {
        self.is_chained
    }

    /// Records groups from now on.
    pub(crate) fn group(&mut self) {
        self.groups = self.cpus.iter().map(|_| CpuGroups::of_model()).collect();
    }

    /// Makes groups those of a list of rules.
    pub(crate) fn list(&mut self) {
        self.listed = Some(Listed::new());
    }

    /// Updates the list of rules, which lives on while measuring is off.
    fn see_rules(&mut self, event: &Event) {
        let Some(listed) = &mut self.listed else {
            return;
        };
        match *event {
            Event::Forked { parent, child } => {
                listed.fork_marks.fork(parent as u128, child as u128);
            }
            Event::Ended { process } => listed.fork_marks.exit(process as u128),
            Event::Follow { process } => listed.follow(process),
            Event::Unfollow => listed.unfollow(),
            _ => {}
        }
    }

    /// Folds a dead group, as `Groups::fold()` does.
    fn fold(&mut self, group: usize) {
        match &self.session {
            Some(session) => {
                let states = session.pages.values().flatten();
                states.for_each(|state| {
                    state.forget_task_group(|of| of.number() as usize == group);
                });
            }
            None => self.groups.iter().for_each(CpuGroups::forget),
        }
        for groups in &mut self.groups {
            groups.fold(group);
        }
    }

    /// Passes the part of `event` that the module can observe to the engine.
    pub(crate) fn see(&mut self, event: &Event) {
        if let Event::Enable { metrics, now } = *event {
            for cpu in &self.cpus {
                cpu.begin(now, metrics);
            }
            self.idles.iter().for_each(|idle| idle.periods.forget());
            self.rings.iter().for_each(Ring::forget);
            for groups in &self.groups {
                groups.forget();
            }
            self.session = Some(Session {
                metrics,
                pages: BTreeMap::new(),
                untracked: State::untracked(),
            });
        }
        self.see_rules(event);
        if let Event::Fold { group } = *event {
            self.fold(group);
        }
        let listed = self.listed.as_ref();
        let Some(session) = &mut self.session else {
            return;
        };
        let has_groups = !self.groups.is_empty();
        let tracks_tasks = session.metrics.needs_tasks() || has_groups;
        let is_chained = self.is_chained && session.metrics.needs_tasks();
        // As in `src/recorder/wakeup.rs`.
        if let (true, Event::Waking { task, by, .. } | Event::Created { task, by }) =
            (is_chained, *event)
        {
            let waker = self.rings[by].waker(Interrupted::No);
            let is_fork = matches!(event, Event::Created { .. });
            let waker = match waker.context() {
                Context::Task if is_fork => waker.within(Context::Fork),
                _ => waker,
            };
            session.state(task.pid).woken_by(shown(Some(&task)), waker);
        }
        match *event {
            Event::Disable => self.session = None,
            Event::Started { cpu, is_idle, now } => self.idles[cpu].periods.start(now, is_idle),
            Event::Fork { task } | Event::Found { task } if tracks_tasks => {
                session.make_room(task.pid);
                if has_groups {
                    session.decide(&task, listed);
                }
            }
            Event::Changed { task } if has_groups => session.decide(&task, listed),
            Event::Resched {
                by,
                cpu,
                is_lazy,
                is_idle,
                now,
            } if session.metrics.needs_resched() => {
                let metric = [Metric::Resched, Metric::ReschedLazy][usize::from(is_lazy)];
                let task = match is_idle {
                    true => Requested::Idle,
                    false => Requested::Running,
                };
                self.cpus[by].request(&self.cpus[cpu], metric, task, now);
            }
            Event::Stay { cpu, need_resched } if session.metrics.needs_resched() => {
                let is_pending = |metric| need_resched[usize::from(metric == Metric::ReschedLazy)];
                self.cpus[cpu].withdraw_requests(is_pending);
            }
            Event::Waking { task, now, .. } if is_chained || session.metrics.needs_wakeups() => {
                let wakeup = Wakeup::<false> {
                    now,
                    task: shown(Some(&task)),
                    state: session.state(task.pid),
                };
                match session.metrics.contains(Metric::Wakeup) {
                    true => record_wakeup::<AllWakeups, _>(wakeup),
                    false => record_wakeup::<QueuedWakeups, _>(wakeup),
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
                let prev_state = PrevState::new(preempt, prev_state);
                let (leaving, entering) = (shown(prev.as_ref()), shown(next.as_ref()));
                let state = |pid| session.state(pid);
                let switch = Switch::new(now, leaving, prev_state, entering, &state);
                let watcher = Watcher {
                    cpu: cpu as u32,
                    now,
                    prev: identify(prev.as_ref()),
                    next: identify(next.as_ref()),
                    seen: RefCell::new(&mut self.seen[cpu]),
                    queued: entering.last_queued,
                    log: self.logs.get(cpu),
                    ring: &self.rings[cpu],
                    idle: &self.idles[cpu],
                    told: RefCell::default(),
                };
                let records = (&self.cpus[cpu], session.metrics);
                let groups = self.groups.get_mut(cpu);
                match is_chained {
                    true => record(records, groups, &switch, Observed::<true>(&watcher)),
                    false => record(records, groups, &switch, Observed::<false>(&watcher)),
                }
            }
            _ => {}
        }
    }
}

/// Records a switch, with groups if there are any.
fn record(
    (records, metrics): (&Cpu<Vec<Cell>>, MetricSet),
    groups: Option<&mut CpuGroups>,
    switch: &Switch<'_>,
    observer: impl Observer,
) {
    match groups {
        Some(groups) => {
            groups.make_room();
            record_switch(records, metrics, switch, Grouped::new(observer, &*groups));
        }
        None => record_switch(records, metrics, switch, observer),
    }
}

fn ring(cpu: u32) -> Ring<Vec<chain::SliceCells>> {
    Ring::new(cpu, vec![chain::SliceCells::default()]).expect("a power of two")
}

/// Returns what the tracepoints show of a task; `None` is the idle task.
fn shown(task: Option<&Task>) -> testing::Task {
    match task {
        Some(task) => testing::Task {
            pid: task.pid,
            id: task.address << 6,
            is_exiting: task.exiting,
            has_run: task.sched_info.pcount != 0,
            run_delay: task.sched_info.run_delay,
            last_queued: task.sched_info.last_queued,
            is_donor: false,
            is_throttled: task.is_throttled,
        },
        None => testing::IDLE,
    }
}

/// Copies the identity of a task; `None` is the idle task.
pub(crate) fn identify(task: Option<&Task>) -> Identity {
    match task {
        Some(task) => Identity {
            pid: task.pid,
            prio: task.prio,
            comm: task.comm,
            ..Identity::default()
        },
        None => Identity::default(),
    }
}
