// SPDX-License-Identifier: GPL-2.0

//! The observers of a context switch.
//!
//! One only identifies the tasks of the switch; others look at long waits, too, or keep slices for
//! chains. The last one does all that there is, emits trace events and reports outliers.

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
            Link,
            Slice as ChainSlice,
            Start, //
        },
        group::{
            Group,
            Occupant, //
        },
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

/// What a [`ChainObserver`] can be around: an observer that has only methods which that passes on.
pub(crate) trait ChainInner: Observer {}

impl ChainInner for SilentObserver<'_> {}
impl ChainInner for WaitObserver<'_> {}

/// Identifies the tasks of a switch, and ignores its samples.
#[derive(Clone, Copy)]
pub(crate) struct SilentObserver<'a> {
    prev: Task<'a>,
    next: Task<'a>,
}

impl<'a> SilentObserver<'a> {
    #[inline(always)]
    pub(crate) fn new(switch: &Switch<'a>) -> Self {
        Self {
            prev: switch.prev,
            next: switch.next,
        }
    }

    #[inline(always)]
    fn task(self, side: Side) -> Task<'a> {
        match side {
            Side::Prev => self.prev,
            Side::Next => self.next,
        }
    }
}

impl Observer for SilentObserver<'_> {
    #[inline(always)]
    fn identify(self, side: Side) -> Identity {
        // Most callers do not need the group: see `identify_occupant()`.
        identify(self.task(side), Group::OTHER)
    }

    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        let task = self.task(side);
        move || identify(task, Group::OTHER)
    }

    #[inline(always)]
    fn wants_moved(self, _value: u64) -> bool {
        false
    }
}

/// Returns whether `sample` is a long wait for a CPU.
#[inline(always)]
fn is_long_wait(sample: &Sample, watch: &WaitWatch) -> bool {
    sample.metric.is_wait() && watch.is_long(sample.value)
}

/// Identifies the tasks of a switch, records when the CPU is idle, and looks at long waits.
#[derive(Clone, Copy)]
pub(crate) struct WaitObserver<'a> {
    names: SilentObserver<'a>,
    watch: &'a WaitWatch,
    proof: WithinSwitch<'a>,
}

impl<'a> WaitObserver<'a> {
    #[inline(always)]
    pub(crate) fn new(switch: &'a Switch<'a>, watch: &'a WaitWatch) -> Self {
        Self {
            names: SilentObserver::new(switch),
            watch,
            proof: switch.proof(),
        }
    }
}

impl Observer for WaitObserver<'_> {
    #[inline(always)]
    fn identify(self, side: Side) -> Identity {
        self.names.identify(side)
    }

    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        self.names.namer(side)
    }

    #[inline(always)]
    fn idle_begins(self, now: u64) {
        self.watch.periods().begin(now);
    }

    #[inline(always)]
    fn idle_ends(self, now: u64) {
        self.watch.periods().end(now);
    }

    #[inline(always)]
    fn wants_moved(self, value: u64) -> bool {
        self.watch.is_long(value)
    }

    #[inline(always)]
    fn sample(self, sample: &Sample) {
        if is_long_wait(sample, self.watch) {
            // Only the copy is in memory: so nothing is stored for a wait that is not long.
            let (next, sample) = (self.names.next, *sample);
            // It is counted there.
            let _ = { self.watch }.look(next, &sample, self.proof);
        }
    }
}

/// Records for chains that `task` gets the CPU.
#[inline(always)]
fn enter(
    chain: &CpuChain,
    task: Task<'_>,
    now: u64,
    (start, waiting): (Start, u64),
    group: Group,
    link: impl FnOnce() -> u64,
) {
    chain.ring.enter(&ChainSlice {
        pid: task.pid(),
        comm: task.comm(),
        group,
        start,
        since: now,
        waiting,
        link: Link::of_bits(link()),
    });
}

/// Records what led to each slice, besides what another observer does.
#[derive(Clone, Copy)]
pub(crate) struct ChainObserver<'a, O> {
    inner: O,
    next: Task<'a>,
    chain: &'a CpuChain,
}

impl<'a, O: ChainInner> ChainObserver<'a, O> {
    #[inline(always)]
    pub(crate) fn new(inner: O, switch: &Switch<'a>, chain: &'a CpuChain) -> Self {
        Self {
            inner,
            next: switch.next,
            chain,
        }
    }
}

impl<O: ChainInner> Observer for ChainObserver<'_, O> {
    const CHAIN: bool = true;

    #[inline(always)]
    fn identify(self, side: Side) -> Identity {
        self.inner.identify(side)
    }

    #[inline(always)]
    fn namer(self, side: Side) -> impl FnOnce() -> Identity {
        self.inner.namer(side)
    }

    #[inline(always)]
    fn idle_begins(self, now: u64) {
        self.chain.ring.enter_idle(now);
        self.inner.idle_begins(now);
    }

    #[inline(always)]
    fn idle_ends(self, now: u64) {
        self.inner.idle_ends(now);
    }

    #[inline(always)]
    fn begins(
        self,
        now: u64,
        waited: (Start, u64),
        group: impl FnOnce() -> Group,
        link: impl FnOnce() -> u64,
    ) {
        enter(self.chain, self.next, now, waited, group(), link);
    }

    #[inline(always)]
    fn last_slice(self, _cpu: u32) -> u64 {
        self.chain.ring.now().bits()
    }

    #[inline(always)]
    fn cpu_of(self, last_slice: u64) -> u32 {
        Link::of_bits(last_slice).cpu()
    }

    #[inline(always)]
    fn wants_moved(self, value: u64) -> bool {
        self.inner.wants_moved(value)
    }

    #[inline(always)]
    fn sample(self, sample: &Sample) {
        self.inner.sample(sample);
    }
}

/// Emits an event for each sample, and checks each for an outlier; or leaves that to the task that
/// the sample belongs to.
pub(crate) struct TracingObserver<'a, const CHAIN: bool> {
    names: SilentObserver<'a>,
    cpu: u32,
    delivery: &'a Delivery,
    /// `None` if samples of the task that gets the CPU are delivered at the switch, too.
    pending: Option<&'a Pending>,
    /// `None` while no threshold is set.
    watched: Option<Watched<'a>>,
    /// The group that has the CPU; `None` if tasks are not grouped.
    occupant: Option<&'a Occupant>,
    /// `None` while long waits are not looked at.
    watch: Option<&'a WaitWatch>,
    /// `None` while chains are not kept, and without `CHAIN`.
    chain: Option<&'a CpuChain>,
    proof: WithinSwitch<'a>,
}

impl<'a, const CHAIN: bool> TracingObserver<'a, CHAIN> {
    /// Creates an observer of `switch`, which is in progress on this CPU. `occupant` is that of the
    /// CPU if tasks are grouped.
    #[inline(always)]
    pub(crate) fn new(
        switch: &'a Switch<'a>,
        delivery: &'a Delivery,
        occupant: Option<&'a Occupant>,
        watch: Option<&'a WaitWatch>,
        chain: Option<&'a CpuChain>,
    ) -> Self {
        let cpu = switch.cpu();
        Self {
            names: SilentObserver::new(switch),
            cpu,
            delivery,
            pending: delivery.pending(switch),
            watched: delivery.outliers().watched(cpu, switch),
            occupant,
            watch,
            chain: chain.filter(|_| CHAIN),
            proof: switch.proof(),
        }
    }

    /// Returns the identity of one of the two tasks, which must be the occupant of the CPU, with
    /// its group. The task that leaves is the occupant until its samples have come, and the other
    /// one is when its own come.
    #[inline(always)]
    fn identify_occupant(&self, side: Side) -> Identity {
        let group = { self.occupant }.map_or(Group::OTHER, |occupant| occupant.now().group());
        identify(self.names.task(side), group)
    }

    /// Emits the event of the idle task's slice, which names the task that ended it.
    fn emit_idle(&self, sample: &Sample) {
        if events::trace_idle_enabled() {
            let next = self.names.identify(Side::Next);
            events::trace_idle(self.cpu, sample.value, next.pid, &next.comm, next.prio);
        }
    }
}

impl<const CHAIN: bool> Observer for &TracingObserver<'_, CHAIN> {
    const CHAIN: bool = CHAIN;

    fn identify(self, side: Side) -> Identity {
        self.names.identify(side)
    }

    fn slice(self, since: u64, now: u64) {
        if let Some(watched) = self.watched {
            watched.log.slice(&Slice {
                task: self.identify_occupant(Side::Prev),
                since,
                until: now,
            });
        }
    }

    fn begins(
        self,
        now: u64,
        waited: (Start, u64),
        group: impl FnOnce() -> Group,
        link: impl FnOnce() -> u64,
    ) {
        if let Some(chain) = self.chain {
            enter(chain, self.names.next, now, waited, group(), link);
        }
    }

    fn last_slice(self, cpu: u32) -> u64 {
        { self.chain }.map_or(u64::from(cpu), |chain| chain.ring.now().bits())
    }

    fn cpu_of(self, last_slice: u64) -> u32 {
        match self.chain {
            Some(_) => Link::of_bits(last_slice).cpu(),
            None => last_slice as u32,
        }
    }

    fn idle_begins(self, now: u64) {
        if let Some(chain) = self.chain {
            chain.ring.enter_idle(now);
        }
        if let Some(watch) = self.watch {
            watch.periods().begin(now);
        }
    }

    fn idle_ends(self, now: u64) {
        if let Some(watch) = self.watch {
            watch.periods().end(now);
        }
    }

    #[inline(always)]
    fn wants_moved(self, value: u64) -> bool {
        self.watch.is_some_and(|watch| watch.is_long(value))
    }

    #[inline(always)]
    fn sample(self, sample: &Sample) {
        let watch = self.watch.filter(|watch| is_long_wait(sample, watch));
        let long_wait = watch.map(|watch| {
            let (next, sample) = (self.names.next, *sample);
            watch.look(next, &sample, self.proof)
        });
        let side = sample.metric.side();
        let task = || self.identify_occupant(side);
        if let (Side::Next, Some(pending)) = (side, self.pending) {
            let is_wanted = self.watched.is_some()
                || is_listened_to(sample.metric)
                || (long_wait.is_some() && events::trace_long_wait_enabled());
            if !is_wanted {
                return;
            }
            // There is room for all samples of a switch.
            if pending.push(sample, task) {
                if let Some(wait) = &long_wait {
                    pending.set_long_wait(wait);
                }
                ask_for_exit();
                return;
            }
        }
        if sample.metric == Metric::Idle {
            self.emit_idle(sample);
        }
        let long_wait = long_wait.as_ref();
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
