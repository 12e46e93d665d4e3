// SPDX-License-Identifier: GPL-2.0

//! The last slices of tasks on a CPU.

use core::{
    mem::size_of_val,
    ops::Deref, //
};

use crate::engine::{
    atomic::{
        fence,
        Ordering::{
            Acquire,
            Release, //
        },
    },
    chain::{
        Context,
        End,
        Interrupted,
        Link,
        SoftirqOf, //
    },
    group::Group,
    identity::CommCells,
    named::named,
    Cell, //
};

/// The least number of slices that are kept of a CPU.
pub const MIN_SLICES: u64 = 16;

/// The greatest number of slices that are kept of a CPU.
pub const MAX_SLICES: u64 = 1 << 16;

/// The number of kinds of softirqs, with room for more: `NR_SOFTIRQS`.
const SOFTIRQS: usize = if cfg!(loom) { 1 } else { 16 };

named! {
    /// What had led to a slice.
    #[repr(u8)]
    pub enum Start {
        /// The task was woken from a sleep.
        Woken => "woken";
        /// The task was created.
        Forked => "forked";
        /// The task had been preempted.
        Preempted => "preempted";
        /// The task's quota had been spent.
        Throttled => "throttled";
        /// Not known.
        Unknown => "unknown";
    }
}

impl Start {
    /// Returns whether another task may have ended what came before.
    pub const fn is_wakeup(self) -> bool {
        matches!(self, Self::Woken | Self::Forked)
    }
}

/// A slice of a task on a CPU; times in nanoseconds of the CPU's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainSlice {
    /// The task.
    pub pid: i32,
    /// The task's name, padded with NULs.
    pub comm: [u8; 16],
    /// The task's group; [`Group::OTHER`] if tasks are not grouped.
    pub group: Group,
    /// What had led to it.
    pub start: Start,
    /// The time at which the task got the CPU.
    pub since: u64,
    /// The time from which on it had waited for one.
    pub waiting: u64,
    /// The slice of the waker or, if there is none, of the task itself, before this one. Read from
    /// a ring, it is a link.
    pub link: Link,
}

/// A slice that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSlice {
    /// The number of the slice on its CPU, from 1 on.
    pub number: u64,
    /// The slice.
    pub slice: ChainSlice,
    /// The time at which the CPU became idle after it; 0 if it did not.
    pub idle: u64,
}

/// Storage for a slice: one line of cache.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct SliceCells {
    /// From the lowest bit on: the PID, in 32 bits; the start, in 8; the group.
    task: Cell,
    since: Cell,
    waiting: Cell,
    /// The bits of a link; anything else means that it is not known.
    link: Cell,
    /// The time at which the CPU became idle after it; 0 if it did not, or is not yet.
    idle: Cell,
    comm: CommCells,
}

impl SliceCells {
    #[inline(always)]
    fn set(&self, slice: &ChainSlice) {
        let group = u64::from(slice.group.number());
        self.task
            .set(u64::from(slice.pid as u32) | ((slice.start as u64) << 32) | (group << 40));
        self.since.set(slice.since);
        self.waiting.set(slice.waiting);
        self.link.set(slice.link.bits());
        self.idle.set(0);
        self.comm.set(&slice.comm);
    }

    fn get(&self) -> ChainSlice {
        let task = self.task.get();
        let start = Start::ALL.get((task >> 32) as u8 as usize);
        ChainSlice {
            pid: task as i32,
            comm: self.comm.get(),
            group: Group::new((task >> 40) as u32).unwrap_or(Group::OTHER),
            start: start.copied().unwrap_or(Start::Unknown),
            since: self.since.get(),
            waiting: self.waiting.get(),
            link: Link::from_bits(self.link.get()).unwrap_or(Link::UNKNOWN),
        }
    }
}

/// The last slices of tasks on a CPU, in entries `P`, and who raised its softirqs.
///
/// Only the CPU writes it; any CPU reads it. A reader that is slower than the CPU notices that a
/// slice was overwritten.
///
/// # Invariants
///
/// The number of entries is a power of two. `now` and `last` are bits of links of this CPU.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Ring<P> {
    /// The link of the slice in progress, within [`Context::Idle`] while the CPU is idle: there,
    /// the number is the last slice's.
    now: Cell,
    /// The link of the last slice, within [`Context::Task`].
    last: Cell,
    /// The number of the first slice since everything was forgotten.
    first: Cell,
    /// The link of what raised the softirq that runs now, or ran last in this slice.
    softirq: Cell,
    /// What [`Ring::now`] was when that softirq began. A task that leaves the CPU within a softirq,
    /// as on `PREEMPT_RT`, takes it along, so that it is not known from then on.
    softirq_in: Cell,
    /// Whether a hard interrupt runs the function of a timer.
    in_timer: Cell,
    entries: P,
    /// The links of what raised softirqs that have not run; 0 for those that nothing raised.
    raised: [Cell; SOFTIRQS],
}

impl<P: Deref<Target = [SliceCells]>> Ring<P> {
    /// Creates the ring of `cpu`; returns `None` unless the number of entries is a power of two.
    pub fn new(cpu: u32, entries: P) -> Option<Self> {
        // INVARIANT: Just checked.
        entries.len().is_power_of_two().then(|| Self {
            now: Cell::new(Link::new(cpu, 0).bits()),
            last: Cell::new(Link::new(cpu, 0).bits()),
            first: Cell::new(1),
            softirq: Cell::new(0),
            softirq_in: Cell::new(0),
            in_timer: Cell::new(0),
            entries,
            raised: [const { Cell::new(0) }; SOFTIRQS],
        })
    }

    /// Forgets what the CPU is doing, and all slices, as what came after the last one is not seen.
    /// Must not run at the same time as a switch or a wakeup on it.
    pub fn forget(&self) {
        // So that no slice follows on the last one.
        let last = self.last().next();
        self.first.set(last.number().wrapping_add(1));
        self.last.set(last.bits());
        self.now.set(Link::new(last.cpu(), 0).bits());
        self.softirq_in.set(0);
        self.in_timer.set(0);
        for raised in &self.raised {
            raised.set(0);
        }
    }

    /// Returns the number of the first slice since everything was forgotten.
    pub fn first(&self) -> u64 {
        self.first.get()
    }

    /// Returns how many slices are kept at most.
    pub fn count(&self) -> usize {
        let count = (self.last().number().wrapping_add(1)).saturating_sub(self.first());
        count.min(self.entries.len() as u64) as usize
    }

    #[inline(always)]
    fn last(&self) -> Link {
        Link::of_bits(self.last.get())
    }

    /// Returns the memory of the entries, in bytes.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.entries)
    }

    #[inline(always)]
    fn entry(&self, number: u64) -> Option<&SliceCells> {
        let mask = self.entries.len().wrapping_sub(1);
        self.entries.get(number as usize & mask)
    }

    /// Records that a task gets the CPU.
    #[inline(always)]
    pub fn enter(&self, slice: &ChainSlice) {
        let link = self.last().next();
        // Who sees any of what follows sees this, too.
        self.last.set(link.bits());
        fence(Release);
        // The number is in the lowest bits of the link, of which there are enough.
        if let Some(entry) = self.entry(link.bits()) {
            entry.set(slice);
        }
        // For `kept()`.
        self.now.publish(link.bits());
    }

    /// Records that the CPU gets its idle task at `now`.
    #[inline(always)]
    pub fn enter_idle(&self, now: u64) {
        let last = self.last();
        if let Some(entry) = self.entry(last.bits()) {
            entry.idle.set(now);
        }
        // For `kept()`: the slice has its end.
        self.now.publish(last.within(Context::Idle).bits());
    }

    /// Returns the link of the slice in progress.
    #[inline(always)]
    pub fn now(&self) -> Link {
        Link::of_bits(self.now.get())
    }

    /// Returns who wakes a task on this CPU now. A softirq in a thread of its own interrupts
    /// nothing: it is that thread's doing.
    #[inline(always)]
    pub fn waker(&self, interrupted: Interrupted) -> Link {
        match interrupted {
            Interrupted::No => self.now(),
            Interrupted::Softirq if self.softirq_in.get() == self.now.get() => {
                Link::of_bits(self.softirq.get())
            }
            Interrupted::Softirq => Link::UNKNOWN.within(Context::UnknownSoftirq),
            Interrupted::Hard => self.now().within(match self.in_timer.get() {
                0 => Context::Interrupt,
                _ => Context::Timer,
            }),
        }
    }

    /// Records that a hard interrupt on this CPU begins to run the function of a timer, or has run
    /// it. Such functions do not interrupt each other.
    pub fn run_timer(&self, begins: bool) {
        self.in_timer.set(begins.into());
    }

    /// Records that a softirq of this kind is raised on this CPU. `is_for_all` is whether it does
    /// what other tasks than its raiser have asked for, too.
    pub fn raise_softirq(&self, kind: u32, interrupted: Interrupted, is_for_all: bool) {
        let Some(raised) = self.raised.get(kind as usize) else {
            return;
        };
        let raiser = self.waker(interrupted);
        let raiser = match (interrupted, raiser.context()) {
            (_, context) if is_for_all && context.is_of_task() => {
                raiser.within(Context::UnknownSoftirq)
            }
            (_, Context::Task) => raiser.within(Context::Softirq),
            (Interrupted::Hard, _) => raiser.within(Context::InterruptSoftirq),
            // Of what it is raised in.
            (Interrupted::Softirq, _) => raiser,
            (Interrupted::No, _) => raiser.within(Context::UnknownSoftirq),
        };
        let by = match raised.get() {
            0 => raiser,
            earlier if earlier == raiser.bits() => raiser,
            earlier => {
                let earlier = Link::from_bits(earlier).unwrap_or(raiser).context();
                match raiser.context() == earlier && !earlier.is_of_task() {
                    true => raiser,
                    false => raiser.within(Context::UnknownSoftirq),
                }
            }
        };
        raised.set(by.bits());
    }

    /// Records that a softirq of this kind begins to run on this CPU, and whose doing it is.
    pub fn run_softirq(&self, kind: u32, of: SoftirqOf) {
        let raised = self.raised.get(kind as usize);
        // An interrupt may raise it meanwhile: then it runs once more.
        let by = raised.and_then(|raised| Link::from_bits(raised.swap(0)));
        let now = self.now();
        let by = match of {
            SoftirqOf::Thread if now.context() == Context::Task => now,
            SoftirqOf::Timers => now.within(Context::Timer),
            _ => Self::raiser(by, now),
        };
        self.softirq.set(by.bits());
        // On `PREEMPT_RT`, others may have had the CPU since this was read.
        self.softirq_in.set(now.bits());
    }

    /// Returns who wakes a thread for softirqs, but not in a hard interrupt: who raised those that
    /// have not run, if that was one.
    pub fn softirqs_waker(&self) -> Link {
        let mut raised = self.raised.iter().map(Cell::get).filter(|bits| *bits != 0);
        let by = raised.next().filter(|by| raised.all(|bits| bits == *by));
        Self::raiser(by.and_then(Link::from_bits), self.now())
    }

    /// Returns who raised a softirq that runs `now`, as `by` says.
    fn raiser(by: Option<Link>, now: Link) -> Link {
        match by {
            // The task that raised it has left the CPU since. While that is idle, `now` has its
            // number still.
            Some(by)
                if by.context() == Context::Softirq
                    && (by.number() != now.number() || now.context() != Context::Task) =>
            {
                by.within(Context::UnknownSoftirq)
            }
            Some(by) => by,
            None => now.within(Context::UnknownSoftirq),
        }
    }

    /// Reads a slice, which has begun. If it is not kept any more, returns why a chain ends there.
    pub fn read(&self, number: u64) -> Result<ChainSlice, End> {
        match self.read_kept(number) {
            Some(kept) => Ok(kept.slice),
            // Forgotten: a greater ring would not have it either.
            None if number < self.first() => Err(End::Unknown),
            None => Err(End::Overwritten),
        }
    }

    fn read_kept(&self, number: u64) -> Option<KeptSlice> {
        let entry = self.entry(number)?;
        let kept = KeptSlice {
            number,
            slice: entry.get(),
            idle: entry.idle.get(),
        };
        fence(Acquire);
        let age = self.last().number().wrapping_sub(number);
        (number >= self.first() && age < self.entries.len() as u64).then_some(kept)
    }

    /// Returns the slices that are kept, the oldest first, with that in progress.
    pub fn kept(&self) -> impl Iterator<Item = KeptSlice> + '_ {
        let now = Link::of_bits(self.now.acquire());
        let oldest = now.number().saturating_sub(self.entries.len() as u64);
        let oldest = oldest.max(self.first());
        (oldest..=now.number()).filter_map(|number| self.read_kept(number))
    }
}
