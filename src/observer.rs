// SPDX-License-Identifier: GPL-2.0

//! The observer of a context switch.
//!
//! A variant of the probe has only the parts of it that it needs: what looks at long waits, keeps
//! slices for chains, or emits trace events and reports outliers.

use crate::{
    boundary::abstractions::{
        ask_for_exit,
        Switch,
        Task,
        ThisCpu,
        WithinSwitch, //
    },
    chains::CpuChain,
    delivery::{
        is_listened_to,
        Delivery, //
    },
    engine::{
        chain::{
            ChainSlice,
            Link,
            Start, //
        },
        group::{
            Group,
            Occupant, //
        },
        idle::LongWait,
        outlier::Slice,
        switch::{
            Observer,
            Pending,
            Sample, //
        },
        Identity,
        Metric,
        Side, //
    },
    events,
    long_waits::WaitWatch,
    outliers::Watched, //
};

/// A part of an observer: it lacks it, as `()`, or has it, or may have it.
pub(crate) trait Part<'a, T: 'a>: Copy {
    const MAY_BE: bool;

    fn get(self) -> Option<&'a T>;
}

impl<'a, T: 'a> Part<'a, T> for () {
    const MAY_BE: bool = false;

    #[inline(always)]
    fn get(self) -> Option<&'a T> {
        None
    }
}

impl<'a, T> Part<'a, T> for &'a T {
    const MAY_BE: bool = true;

    #[inline(always)]
    fn get(self) -> Option<&'a T> {
        Some(self)
    }
}

impl<'a, T> Part<'a, T> for Option<&'a T> {
    const MAY_BE: bool = true;

    #[inline(always)]
    fn get(self) -> Self {
        self
    }
}

/// The tasks of a switch.
#[derive(Clone, Copy)]
pub(crate) struct Tasks<'a> {
    prev: Task<'a>,
    next: Task<'a>,
}

impl<'a> Tasks<'a> {
    #[inline(always)]
    fn of(self, side: Side) -> Task<'a> {
        match side {
            Side::Prev => self.prev,
            Side::Next => self.next,
        }
    }

    /// Returns a function that identifies one of them, of the same type for all observers.
    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity + 'a {
        let task = self.of(side);
        // Most callers do not need the group: see `identify_occupant()`.
        move || identify(task, Group::OTHER)
    }
}

/// What receives the slices and the samples of a switch. `()` ignores them.
pub(crate) trait Receiver: Copy {
    #[inline(always)]
    fn slice(self, _tasks: Tasks<'_>, _since: u64, _now: u64) {}

    #[inline(always)]
    fn sample(self, _tasks: Tasks<'_>, _sample: &Sample, _long_wait: Option<&LongWait>) {}
}

impl Receiver for () {}

/// Identifies the tasks of a switch. With a `watch`, records when the CPU is idle, and looks at
/// long waits; with a `chain`, records what led to each slice.
#[derive(Clone, Copy)]
pub(crate) struct SwitchObserver<'a, W, C, R> {
    tasks: Tasks<'a>,
    watch: W,
    chain: C,
    receiver: R,
    proof: WithinSwitch<'a>,
}

impl<'a, W, C, R> SwitchObserver<'a, W, C, R> {
    #[inline(always)]
    pub(crate) fn new(switch: &'a Switch<'a>, watch: W, chain: C, receiver: R) -> Self {
        Self {
            tasks: Tasks {
                prev: switch.prev,
                next: switch.next,
            },
            watch,
            chain,
            receiver,
            proof: switch.proof(),
        }
    }
}

impl<'a, W, C, R> Observer for SwitchObserver<'a, W, C, R>
where
    W: Part<'a, WaitWatch>,
    C: Part<'a, CpuChain>,
    R: Receiver,
{
    const CHAIN: bool = C::MAY_BE;

    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        self.tasks.namer(side)
    }

    #[inline(always)]
    fn slice(self, since: u64, now: u64) {
        self.receiver.slice(self.tasks, since, now);
    }

    #[inline(always)]
    fn idle_begins(self, now: u64) {
        if let Some(chain) = self.chain.get() {
            chain.ring.enter_idle(now);
        }
        if let Some(watch) = self.watch.get() {
            watch.periods().begin(now);
        }
    }

    #[inline(always)]
    fn idle_ends(self, now: u64) {
        if let Some(watch) = self.watch.get() {
            watch.periods().end(now);
        }
    }

    #[inline(always)]
    fn begins(
        self,
        now: u64,
        (start, waiting): (Start, u64),
        group: impl FnOnce() -> Group,
        link: impl FnOnce() -> u64,
    ) {
        if let Some(chain) = self.chain.get() {
            let task = self.tasks.next;
            chain.ring.enter(&ChainSlice {
                pid: task.pid(),
                comm: task.comm(),
                group: group(),
                start,
                since: now,
                waiting,
                link: Link::of_bits(link()),
            });
        }
    }

    #[inline(always)]
    fn last_slice(self, cpu: u32) -> u64 {
        self.chain
            .get()
            .map_or(u64::from(cpu), |chain| chain.ring.now().bits())
    }

    #[inline(always)]
    fn cpu_of(self, last_slice: u64) -> u32 {
        match self.chain.get() {
            Some(_) => Link::of_bits(last_slice).cpu(),
            None => last_slice as u32,
        }
    }

    #[inline(always)]
    fn wants_moved(self, value: u64) -> bool {
        self.watch.get().is_some_and(|watch| watch.is_long(value))
    }

    #[inline(always)]
    fn sample(self, sample: &Sample) {
        let is_long = |watch: &&WaitWatch| sample.metric.is_wait() && watch.is_long(sample.value);
        let long_wait = self.watch.get().filter(is_long).map(|watch| {
            // Only the copy is in memory: so nothing is stored for a wait that is not long.
            let (next, sample) = (self.tasks.next, *sample);
            watch.count(next, &sample, self.proof)
        });
        self.receiver.sample(self.tasks, sample, long_wait.as_ref());
    }
}

/// Emits an event for each sample, and checks each for an outlier; or leaves that to the task that
/// the sample belongs to.
pub(crate) struct SampleTracer<'a> {
    cpu: u32,
    delivery: &'a Delivery,
    /// `None` if samples of the task that gets the CPU are delivered at the switch, too.
    pending: Option<&'a Pending>,
    /// `None` while no threshold is set.
    watched: Option<Watched<'a>>,
    /// The group that has the CPU; `None` if tasks are not grouped.
    occupant: Option<&'a Occupant>,
}

impl<'a> SampleTracer<'a> {
    /// Creates a tracer of `switch`, which is in progress on this CPU. `occupant` is that of the
    /// CPU if tasks are grouped.
    #[inline(always)]
    pub(crate) fn new(
        switch: &'a Switch<'a>,
        delivery: &'a Delivery,
        occupant: Option<&'a Occupant>,
    ) -> Self {
        let cpu = switch.cpu();
        Self {
            cpu,
            delivery,
            pending: delivery.pending(switch),
            watched: delivery.outliers().watched(cpu, switch),
            occupant,
        }
    }

    /// Returns the identity of one of the two tasks, which must be the occupant of the CPU, with
    /// its group. The task that leaves is the occupant until its samples have come, and the other
    /// one is when its own come.
    #[inline(always)]
    fn identify_occupant(&self, tasks: Tasks<'_>, side: Side) -> Identity {
        let group = self
            .occupant
            .map_or(Group::OTHER, |occupant| occupant.now().group());
        identify(tasks.of(side), group)
    }

    /// Emits the event of the idle task's slice, which names the task that ended it.
    fn emit_idle(&self, next: Task<'_>, sample: &Sample) {
        if events::trace_idle_enabled() {
            let next = identify(next, Group::OTHER);
            events::trace_idle(self.cpu, sample.value, next.pid, &next.comm, next.prio);
        }
    }
}

impl Receiver for &SampleTracer<'_> {
    fn slice(self, tasks: Tasks<'_>, since: u64, now: u64) {
        if let Some(watched) = self.watched {
            watched.log.slice(&Slice {
                task: self.identify_occupant(tasks, Side::Prev),
                since,
                until: now,
            });
        }
    }

    #[inline(always)]
    fn sample(self, tasks: Tasks<'_>, sample: &Sample, long_wait: Option<&LongWait>) {
        let side = sample.metric.side();
        let task = || self.identify_occupant(tasks, side);
        if let (Side::Next, Some(pending)) = (side, self.pending) {
            let is_wanted = self.watched.is_some()
                || is_listened_to(sample.metric)
                || (long_wait.is_some() && events::trace_long_wait_enabled());
            if !is_wanted {
                return;
            }
            // There is room for all samples of a switch.
            if pending.push(sample, task) {
                if let Some(wait) = long_wait {
                    pending.set_long_wait(wait);
                }
                ask_for_exit();
                return;
            }
        }
        if sample.metric == Metric::Idle {
            self.emit_idle(tasks.next, sample);
        }
        self.delivery
            .deliver(self.watched, self.cpu, sample, long_wait, task);
    }
}

/// Returns the identity of a task in `group`. Out of line, as it is rarely called.
#[cold]
#[inline(never)]
pub(crate) fn identify(task: Task<'_>, group: Group) -> Identity {
    Identity {
        pid: task.pid(),
        prio: task.prio(),
        comm: task.comm(),
        group,
    }
}
