// SPDX-License-Identifier: GPL-2.0

//! The critical path of a command: what its end waited for, back to its beginning.
//!
//! It is computed from all slices of tasks meanwhile, which the module's file `slices` has. From
//! the last slice of the command's process, it goes back in time as a chain does, see
//! [`engine::chain`](crate::engine::chain). But where not a task ended a sleep, it goes on with the
//! sleeper itself, before that sleep. A thread that handles interrupts, as on a real-time
//! kernel, is on the path only while the task that it woke was asleep: before that, the path goes
//! on with that task.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    culprits::pool,
    engine::{
        chain::{ChainSlice, Context, KeptSlice, Link, Start},
        format::{
            raw::layout::{
                types::{KEPT_CPU, KEPT_SLICE},
                SLICES_MAGIC, SLICES_VERSION,
            },
            Escaped,
        },
        group::Group,
    },
    raw::{decode_error, DecodeError, Reader, Records},
    text::Outlier,
};

/// All slices that were read, by CPU.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    /// When the module began to count them.
    since: Option<u64>,
    /// The number of the first one of each CPU.
    firsts: BTreeMap<u32, u64>,
    cpus: BTreeMap<u32, BTreeMap<u64, KeptSlice>>,
    missed: u64,
}

impl Slices {
    /// Adds those of a file `slices`. Returns which part of what the file can hold is new, at most
    /// 1: it must be read again before all is.
    pub fn add(&mut self, data: &[u8]) -> Result<f64, DecodeError> {
        let (at, since) = header(data).ok_or_else(|| DecodeError("no slices".to_owned()))?;
        if *self.since.get_or_insert(since) != since {
            return decode_error("chain was written meanwhile, and the slices were forgotten");
        }
        // What was overwritten before the first file is of no matter.
        let is_first = self.firsts.is_empty();
        let mut records = Records { data, at };
        let mut counts: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        while let Some((offset, kind, record)) = records.next()? {
            let broken = || decode_error(format!("broken record at offset {offset}"));
            if kind == KEPT_CPU {
                let Some((cpu, first)) = kept_cpu(record) else {
                    return broken();
                };
                self.firsts.entry(cpu).or_insert(first);
            }
            if kind != KEPT_SLICE {
                continue;
            }
            let Some((cpu, kept)) = kept_slice(record) else {
                return broken();
            };
            let slices = self.cpus.entry(cpu).or_default();
            let last = slices.last_key_value().map(|(number, _)| *number);
            let is_new = last.is_none_or(|last| last < kept.number);
            let next = match last {
                Some(last) => last.checked_add(1),
                None if is_first => None,
                None => self.firsts.get(&cpu).copied(),
            };
            if let Some(next) = next.filter(|_| is_new) {
                let missed = kept.number.saturating_sub(next);
                self.missed = self.missed.saturating_add(missed);
            }
            let (new, all) = counts.entry(cpu).or_default();
            *new += u64::from(is_new);
            *all += 1;
            // The last one may have ended since; those before it had.
            if is_new || last == Some(kept.number) {
                slices.insert(kept.number, kept);
            }
        }
        let parts = counts.values().map(|(new, all)| *new as f64 / *all as f64);
        Ok(parts.fold(0.0, f64::max))
    }

    /// Returns how many slices were overwritten or forgotten before they were read.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns whether a task was on a CPU at the last read.
    pub fn is_running(&self, pid: i32) -> bool {
        let mut last = self
            .cpus
            .values()
            .filter_map(|slices| slices.values().next_back());
        last.any(|kept| kept.slice.pid == pid && kept.idle == 0)
    }

    /// Returns the times from which slices were not read: those of each CPU, the earliest first.
    fn gaps(&self) -> Vec<Vec<(u64, u64)>> {
        let gaps = self.cpus.iter().map(|(cpu, slices)| {
            let mut gaps = Vec::new();
            let (mut next, mut end) = (self.firsts.get(cpu).copied().unwrap_or(0), 0);
            for (number, kept) in slices {
                if *number > next {
                    gaps.push((end, kept.slice.since));
                }
                next = number.wrapping_add(1);
                end = kept.slice.since.max(kept.idle);
            }
            gaps
        });
        gaps.collect()
    }

    /// Returns the slices of each task.
    pub fn by_task(&self) -> ByTask {
        let mut by_task = ByTask::new();
        for (cpu, of_cpu) in &self.cpus {
            for (number, kept) in of_cpu {
                let of_task = by_task.entry(kept.slice.pid).or_default();
                of_task.insert((kept.slice.since, (*cpu, *number)));
            }
        }
        by_task
    }

    fn get(&self, at: At) -> Option<&KeptSlice> {
        self.cpus.get(&at.0)?.get(&at.1)
    }

    /// Returns when a slice ended; `None` if it has not.
    fn end(&self, (cpu, number): At) -> Option<u64> {
        match self.get((cpu, number))?.idle {
            0 => Some(self.get((cpu, number.wrapping_add(1)))?.slice.since),
            idle => Some(idle),
        }
    }

    /// Gives the hops of an outlier's chain what had the CPU for most of the time for which each
    /// waited or was preempted.
    pub fn explain(&self, outlier: &mut Outlier, by_task: &ByTask) {
        let (Some(mut end), Some(chain)) = (outlier.end_ns, &mut outlier.chain) else {
            return;
        };
        for hop in &mut chain.hops {
            let begin = end.saturating_sub(hop.sum_ns());
            if begin == end {
                continue;
            }
            let mut behind = BTreeMap::new();
            let own = by_task.get(&hop.pid).into_iter();
            // Those that began after `begin`, and up to `end`.
            let own = own.flat_map(|all| all.range((begin.saturating_add(1), FIRST)..=(end, LAST)));
            for (_, at) in own {
                let Some(KeptSlice { slice, .. }) = self.get(*at) else {
                    continue;
                };
                if slice.start == Start::Throttled {
                    continue;
                }
                let from = slice.waiting.max(begin);
                for (occupant, ns) in self.occupants(*at, from, slice.since) {
                    *behind.entry(occupant).or_default() += ns;
                }
            }
            let most = behind.iter().max_by_key(|(_, ns)| **ns);
            hop.behind = most.map(|(occupant, ns): (&Occupant, _)| (occupant.clone(), *ns));
            end = begin;
        }
    }

    /// Returns what had a CPU from one time to another, before the slice `at`.
    fn occupants(&self, at: At, from: u64, to: u64) -> Vec<(Occupant, u64)> {
        let (mut found, mut left) = (Vec::new(), to.saturating_sub(from));
        let mut add = |occupant, begin: u64, end: u64| {
            let ns = end.saturating_sub(begin.max(from)).min(left);
            left -= ns;
            found.push((occupant, ns));
        };
        // The slice after, and when it began.
        let (mut next, mut until) = (at.1, to);
        let before = self.cpus.get(&at.0).map(|slices| slices.range(..at.1));
        for (number, kept) in before.into_iter().flatten().rev() {
            let since = kept.slice.since;
            if let Some(end) = self.end((at.0, *number)) {
                // If slices between were overwritten, it is not known what came after this one.
                if number.wrapping_add(1) == next {
                    add(Occupant::Idle, end, until);
                }
                add(Occupant::Task(name(&kept.slice)), since, end.min(until));
            }
            (next, until) = (*number, since.min(until));
            if until <= from {
                break;
            }
        }
        found.push((Occupant::Unknown, left));
        found
    }
}

/// What had a CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occupant {
    /// A task of this name.
    Task(String),
    Idle,
    /// What was overwritten before it was read.
    Unknown,
}

impl Occupant {
    pub fn name(&self) -> &str {
        match self {
            Self::Task(name) => name,
            Self::Idle => "(idle)",
            Self::Unknown => "(unknown)",
        }
    }
}

/// The CPU and the number of a slice.
type At = (u32, u64);

const FIRST: At = (0, 0);
const LAST: At = (u32::MAX, u64::MAX);

/// The slices of each task, by their begin.
pub type ByTask = BTreeMap<i32, BTreeSet<(u64, At)>>;

fn name(slice: &ChainSlice) -> String {
    let comm = slice.comm.split(|byte| *byte == 0).next();
    pool(&Escaped(comm.unwrap_or_default()).to_string())
}

/// Returns where the records begin in a file `slices`, and since when slices are counted.
fn header(data: &[u8]) -> Option<(usize, u64)> {
    let mut head = Reader(data);
    let is_it = head.bytes(8)? == SLICES_MAGIC && head.u32()? == SLICES_VERSION;
    let (length, _time, since) = (head.u32()?, head.u64()?, head.u64()?);
    let is_valid = is_it && length >= 32 && length % 8 == 0;
    is_valid.then_some((length as usize, since))
}

fn kept_cpu(mut record: Reader<'_>) -> Option<(u32, u64)> {
    let (cpu, _reserved) = (record.u32()?, record.u32()?);
    Some((cpu, record.u64()?))
}

fn kept_slice(mut record: Reader<'_>) -> Option<(u32, KeptSlice)> {
    let (cpu, pid) = (record.u32()?, record.u32()? as i32);
    let (number, since, idle) = (record.u64()?, record.u64()?, record.u64()?);
    let (waiting, link_number) = (record.u64()?, record.u64()?);
    let (link_cpu, via, start) = (record.u32()?, record.u32()?, record.u32()?);
    let group = Group::new(record.u32()?).unwrap_or(Group::OTHER);
    let context = Context::ALL.get(via as usize).copied();
    let slice = ChainSlice {
        pid,
        comm: record.bytes(16)?.try_into().ok()?,
        group,
        start: Start::ALL
            .get(start as usize)
            .copied()
            .unwrap_or(Start::Unknown),
        since,
        waiting,
        link: Link::new(link_cpu, link_number).within(context.unwrap_or(Context::Unknown)),
    };
    let kept = KeptSlice {
        number,
        slice,
        idle,
    };
    Some((cpu, kept))
}

/// What the path goes through, in a task; times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// It had a CPU.
    pub ran: u64,
    /// It waited for a CPU after it had been woken.
    pub waited: u64,
    /// It waited for one after it had been preempted.
    pub preempted: u64,
    /// Its quota had been spent.
    pub throttled: u64,
    /// It was blocked, until no task but a timer, a device or another CPU's idle task woke it.
    pub blocked: u64,
    /// It was blocked, and it is not known until what woke it; or slices of that time were not
    /// read, and one may have been its own.
    pub unknown: u64,
}

impl Times {
    /// The parts, with their names.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("ran", self.ran),
            ("waited", self.waited),
            ("preempted", self.preempted),
            ("throttled", self.throttled),
            ("blocked", self.blocked),
            ("unknown", self.unknown),
        ]
    }

    pub fn add(&mut self, other: &Self) {
        self.ran += other.ran;
        self.waited += other.waited;
        self.preempted += other.preempted;
        self.throttled += other.throttled;
        self.blocked += other.blocked;
        self.unknown += other.unknown;
    }

    pub fn sum(&self) -> u64 {
        self.parts().iter().map(|(_, ns)| ns).sum()
    }
}

/// The critical path of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// From its fork to its exit, in nanoseconds: what `unseen` and all times of all tasks add up
    /// to.
    pub wall: u64,
    /// The time before the path ends at a slice that was not read.
    pub unseen: u64,
    /// The times of all tasks of a name.
    pub tasks: BTreeMap<String, Times>,
    /// Who had the CPU while tasks of the path waited for it or were preempted: of a name, or the
    /// idle task.
    pub behind: BTreeMap<Occupant, u64>,
    /// The number of times at which a task of the path woke the next one, or created it.
    pub wakeups: u64,
}

impl Path {
    /// Follows the path of the process `pid`, which has ended. Returns `None` if its first or its
    /// last slice is not there.
    pub fn of(slices: &Slices, pid: i32) -> Option<Self> {
        let by_task = slices.by_task();
        let count: usize = slices.cpus.values().map(BTreeMap::len).sum();
        let own = by_task.get(&pid)?;
        let begin = own.iter().rev().find_map(|(_, at)| {
            let slice = slices.get(*at)?.slice;
            (slice.start == Start::Forked).then_some(slice.waiting)
        })?;
        let last = own.last()?.1;
        let mut walk = Walk {
            slices,
            gaps: slices.gaps(),
            by_task,
            begin,
            until: slices.end(last)?.max(begin),
            ended: None,
            path: Self::default(),
        };
        walk.path.wall = walk.until - begin;
        let mut next = Some(last);
        // In a file that is damaged, links may lead in a circle.
        for _ in 0..count {
            match next.filter(|_| walk.until > begin) {
                Some(at) => next = walk.step(at),
                None => break,
            }
        }
        walk.path.unseen = walk.back_to(begin);
        Some(walk.path)
    }
}

/// A path that is being followed back.
struct Walk<'a> {
    slices: &'a Slices,
    gaps: Vec<Vec<(u64, u64)>>,
    by_task: BTreeMap<i32, BTreeSet<(u64, At)>>,
    begin: u64,
    /// What comes later is in the path already.
    until: u64,
    /// The last sleep that another task ended; not one of a thread that handles interrupts.
    ended: Option<Sleep>,
    path: Path,
}

/// A sleep of a task.
#[derive(Clone, Copy)]
struct Sleep {
    since: u64,
    /// The slices before and after it.
    before: At,
    after: At,
}

/// Returns whether a thread does what an interrupt or a softirq would do itself, by its name.
fn is_of_interrupts(slice: &ChainSlice) -> bool {
    let names: [&[u8]; 3] = [b"irq/", b"ksoftirqd/", b"ktimers/"];
    names.iter().any(|name| slice.comm.starts_with(name))
}

impl Walk<'_> {
    /// Returns how long it is from `time` on until here, and goes back there.
    fn back_to(&mut self, time: u64) -> u64 {
        let time = time.min(self.until).max(self.begin);
        let ns = self.until - time;
        self.until = time;
        ns
    }

    /// Adds a slice, and what was before it. Returns the slice before.
    fn step(&mut self, at: At) -> Option<At> {
        let slice = self.slices.get(at)?.slice;
        let ended = self.ended.filter(|_| is_of_interrupts(&slice));
        let asleep = ended.map_or(0, |sleep| sleep.since);
        let mut times = Times {
            ran: self.back_to(slice.since.max(asleep)),
            ..Times::default()
        };
        let since = self.until;
        let gap = self.back_to(slice.waiting.max(asleep));
        match slice.start {
            Start::Throttled => times.throttled = gap,
            Start::Preempted => times.preempted = gap,
            _ => times.waited = gap,
        }
        if slice.start != Start::Throttled {
            for (occupant, ns) in self.slices.occupants(at, self.until, since) {
                *self.path.behind.entry(occupant).or_default() += ns;
            }
        }
        let all = self.path.tasks.entry(name(&slice)).or_default();
        all.add(&times);
        if let Some(sleep) = ended.filter(|_| self.until <= asleep) {
            return Some(sleep.before);
        }
        let link = (slice.link.cpu(), slice.link.number());
        if slice.start == Start::Unknown || !slice.link.context().is_of_task() {
            return self.sleeper(&slice, ended.or_else(|| self.sleep(at, &slice))?);
        }
        self.path.wakeups += u64::from(slice.start.is_wakeup() && self.until > self.begin);
        if slice.start == Start::Woken && !is_of_interrupts(&slice) {
            self.ended = self.sleep(at, &slice);
        }
        // If it was overwritten, so may be others of this task.
        self.slices.get(link).map(|_| link)
    }

    /// Returns the sleep before a slice, if the slice before is known, and when it ended.
    fn sleep(&self, after: At, slice: &ChainSlice) -> Option<Sleep> {
        let of_task = self.by_task.get(&slice.pid)?;
        let (_, before) = *of_task.range(..(slice.since, after)).next_back()?;
        (slice.start != Start::Forked).then_some(Sleep {
            since: self.slices.end(before)?,
            before,
            after,
        })
    }

    /// Adds a sleep that no known task ended: what woke the task of `slice` did. Returns the slice
    /// before.
    fn sleeper(&mut self, slice: &ChainSlice, sleep: Sleep) -> Option<At> {
        let is_sleep = self.gaps.iter().all(|gaps| {
            let gap = gaps.partition_point(|gap| gap.1 <= sleep.since);
            gaps.get(gap).is_none_or(|gap| gap.0 >= self.until)
        });
        let ns = self.back_to(sleep.since);
        let sleeper = self.slices.get(sleep.after)?.slice;
        let times = self.path.tasks.entry(name(&sleeper)).or_default();
        match slice.link.context() {
            Context::Interrupt | Context::InterruptSoftirq | Context::Idle | Context::Timer
                if is_sleep && slice.start == Start::Woken =>
            {
                times.blocked += ns;
            }
            _ => times.unknown += ns,
        }
        Some(sleep.before)
    }
}
