// SPDX-License-Identifier: GPL-2.0

//! Splits a long wait by what other CPUs did meanwhile.

use crate::engine::{
    idle::{
        gaps::{
            self,
            Gaps, //
        },
        Distance,
        IdlePeriods,
        WaitCause,
        WaitPart, //
    },
    switch::Cause,
    Cell, //
};

/// The maximum number of CPUs that are looked at for a wait; the rest is unknown. One that was busy
/// all the while costs a line of cache.
pub const CPUS: u32 = 256;

/// The maximum number of them that were idle at some time.
pub const IDLE_CPUS: u32 = 64;

/// The maximum number of idle periods that are looked at for a wait, likewise.
pub const PERIODS: u32 = 256;

/// The maximum number of times that [`Candidates::next`] is called for a wait, likewise.
pub const STEPS: u32 = 1024;

/// A wait to be split; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The time at which it began.
    pub start: u64,
    /// The time at which the task got the CPU.
    pub end: u64,
    /// The time from which on the task was in the queue of that CPU.
    pub queued: u64,
    /// What it began with: of these, [`Cause::Preempted`], [`Cause::Wakeup`] or [`Cause::Fork`].
    pub cause: Cause,
    /// Whether the task was in the queue of another CPU before.
    pub moved: bool,
}

/// The CPUs that a task may use.
pub trait Candidates {
    /// Returns the next one after `cpu`, in the order of their numbers, or the first.
    fn next(&self, cpu: Option<u32>) -> Option<u32>;

    /// Returns the number of the CPU on which the wait has ended.
    fn own_cpu(&self) -> u32;

    /// Returns whether a CPU shares the last-level cache of that one.
    fn is_near(&self, cpu: u32) -> bool;

    /// Returns the idle periods of a CPU; `None` if there is no such CPU.
    fn periods(&self, cpu: u32) -> Option<&IdlePeriods>;

    /// Returns how far a CPU is from that one.
    fn distance(&self, cpu: u32) -> Distance;
}

/// The CPU that was idle for most of a wait, of those that were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// Its number.
    pub cpu: u32,
    /// How long it was idle during the wait, in nanoseconds.
    pub idle: u64,
    /// How far it is from the CPU that the task got.
    pub distance: Distance,
}

/// What CPUs did during a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongWait {
    /// Its parts, by [`WaitPart`], in nanoseconds.
    pub parts: [u64; WaitPart::COUNT],
    /// The CPU that was idle for most of it, if any was.
    pub longest: Option<Longest>,
    /// Why the task waited.
    pub why: WaitCause,
}

impl LongWait {
    /// Returns a part.
    pub fn part(&self, part: WaitPart) -> u64 {
        self.parts[part as usize]
    }

    /// Returns for how long another CPU was idle: it could have run the task.
    pub fn idle_elsewhere(&self) -> u64 {
        self.part(WaitPart::LlcIdle)
            .wrapping_add(self.part(WaitPart::RemoteIdle))
    }
}

/// Storage for a [`LongWait`] that one CPU writes and any CPU reads. A read may be torn.
#[derive(Debug, Default)]
pub(in crate::engine) struct LongWaitCells {
    /// 1 if there is one.
    is_set: Cell,
    parts: [Cell; WaitPart::COUNT],
    longest: LongestCells,
    why: Cell,
}

impl LongWaitCells {
    pub(in crate::engine) fn set(&self, wait: Option<&LongWait>) {
        self.is_set.set(u64::from(wait.is_some()));
        if let Some(wait) = wait {
            for (cell, part) in self.parts.iter().zip(wait.parts) {
                cell.set(part);
            }
            self.longest.set(wait.longest);
            self.why.set(wait.why as u64);
        }
    }

    pub(in crate::engine) fn get(&self) -> Option<LongWait> {
        let why = *WaitCause::ALL.get(self.why.get() as usize)?;
        (self.is_set.get() != 0).then(|| LongWait {
            parts: self.parts.each_ref().map(Cell::get),
            longest: self.longest.get(),
            why,
        })
    }
}

/// Storage for a [`Longest`], or for none, likewise.
#[derive(Debug, Default)]
pub(in crate::engine) struct LongestCells {
    /// 0 if there is none.
    idle: Cell,
    cpu_and_distance: Cell,
}

impl LongestCells {
    pub(in crate::engine) fn set(&self, longest: Option<Longest>) {
        self.idle.set(longest.map_or(0, |longest| longest.idle));
        if let Some(Longest { cpu, distance, .. }) = longest {
            self.cpu_and_distance
                .set((u64::from(cpu) << 8) | distance as u64);
        }
    }

    pub(in crate::engine) fn get(&self) -> Option<Longest> {
        let (idle, packed) = (self.idle.get(), self.cpu_and_distance.get());
        let distance = *Distance::ALL.get((packed & 0xff) as usize)?;
        (idle != 0).then_some(Longest {
            cpu: (packed >> 8) as u32,
            idle,
            distance,
        })
    }
}

/// Splits `wait` by what CPUs did meanwhile. `own` is the record of the CPU on which it has ended,
/// and `gaps` that CPU's memory for this.
///
/// Takes a bounded number of steps, whatever the number of CPUs.
pub fn split(
    wait: &Wait,
    own: &IdlePeriods,
    gaps: &Gaps,
    candidates: &impl Candidates,
) -> LongWait {
    let (start, end) = (wait.start.min(wait.end), wait.end);
    let queued = wait.queued.max(start).min(end);
    gaps.begin(start, end);
    let mut split = Split {
        gaps,
        periods: PERIODS,
        unknown_before: start,
        longest: (0, 0),
    };
    // Two gaps are left for what is not known of the own CPU.
    let (own_idle, _, known_from) = split.take_idle(own, queued, end, gaps::MAX - 2);
    // There it may be that the task only waited for its own CPU to wake up.
    let own_unknown = gaps.take(&mut 0, queued, known_from).unwrap_or_default();
    let (mut llc_idle, mut remote_idle) = (0_u64, 0_u64);
    if start < queued {
        llc_idle = split.add(candidates.own_cpu(), own, start, queued);
    }
    let (mut cpus, mut idle_cpus, mut steps) = (CPUS, IDLE_CPUS, STEPS);
    'all: for (is_near, sum) in [(true, &mut llc_idle), (false, &mut remote_idle)] {
        let mut last = candidates.own_cpu();
        while !gaps.is_empty() {
            let Some(cpu) = next_in_round(candidates, last) else {
                break;
            };
            // Before the periods are touched, whose lines other CPUs write.
            let is_next = candidates.is_near(cpu) == is_near;
            if steps == 0 || (is_next && cpus == 0) {
                split.unknown_before = end;
                break 'all;
            }
            last = cpu;
            steps = steps.wrapping_sub(1);
            let Some(periods) = candidates.periods(cpu).filter(|_| is_next) else {
                continue;
            };
            cpus = cpus.wrapping_sub(1);
            if periods.was_busy(start, end) {
                continue;
            }
            if idle_cpus == 0 {
                split.unknown_before = end;
                break 'all;
            }
            idle_cpus = idle_cpus.wrapping_sub(1);
            *sum = sum.wrapping_add(split.add(cpu, periods, start, end));
        }
    }
    let (cpu, idle) = split.longest;
    let waited = end.wrapping_sub(start);
    let unknown = own_unknown.wrapping_add(gaps.before(split.unknown_before));
    let others = [own_idle, llc_idle, remote_idle, unknown];
    let busy = others.into_iter().fold(waited, u64::saturating_sub);
    LongWait {
        parts: [waited, own_idle, llc_idle, remote_idle, unknown, busy],
        longest: (idle != 0).then(|| Longest {
            cpu,
            idle,
            distance: candidates.distance(cpu),
        }),
        why: match wait.cause {
            _ if wait.moved => WaitCause::Moved,
            Cause::Preempted => WaitCause::Preempted,
            Cause::Fork => WaitCause::Forked,
            _ if own_idle == waited => WaitCause::WokenIdle,
            _ => WaitCause::WokenBusy,
        },
    }
}

/// Returns the candidate after `cpu`, in a round from the own CPU to the last one, and from the
/// first one on to the own CPU, which is not in it.
fn next_in_round(candidates: &impl Candidates, cpu: u32) -> Option<u32> {
    let own = candidates.own_cpu();
    let next = candidates.next(Some(cpu));
    match cpu < own {
        true => next.filter(|next| *next < own),
        false => next.or_else(|| candidates.next(None).filter(|first| *first < own)),
    }
}

struct Split<'a> {
    /// What is not known to be idle yet.
    gaps: &'a Gaps,
    /// How many periods may still be looked at.
    periods: u32,
    /// The time before which a CPU may have been idle that is not known.
    unknown_before: u64,
    /// The number of the CPU that was idle longest, and how long.
    longest: (u32, u64),
}

impl Split<'_> {
    /// Adds what a CPU did. Returns for how long it is the first known to be idle.
    fn add(&mut self, cpu: u32, periods: &IdlePeriods, start: u64, end: u64) -> u64 {
        let (first, idle, known_from) = self.take_idle(periods, start, end, gaps::MAX);
        self.unknown_before = self.unknown_before.max(known_from);
        if idle > self.longest.1 {
            self.longest = (cpu, idle);
        }
        first
    }

    /// Takes the idle periods of a CPU out of the gaps, which may become `most`. Returns how much
    /// was taken, how long the CPU was idle, and from when on that is all.
    #[inline(never)]
    fn take_idle(
        &mut self,
        periods: &IdlePeriods,
        start: u64,
        end: u64,
        most: usize,
    ) -> (u64, u64, u64) {
        let (mut taken, mut idle, mut cursor) = (0_u64, 0_u64, 0);
        let known_from = periods.walk_back(start, end, |from, until| {
            if self.periods == 0 || self.gaps.len() >= most {
                return false;
            }
            self.periods = self.periods.wrapping_sub(1);
            let part = self.gaps.take(&mut cursor, from, until);
            taken = taken.wrapping_add(part.unwrap_or_default());
            idle = idle.wrapping_add(until.saturating_sub(from));
            part.is_some()
        });
        (taken, idle, known_from)
    }
}
