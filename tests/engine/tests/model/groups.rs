// SPDX-License-Identifier: GPL-2.0

//! The records of groups on a CPU, and the expected ones: straight from the definitions in
//! `group/mod.rs` and `group/records.rs`.

use std::collections::BTreeMap;

use schedhist_engine::engine::{
    cell::Cell,
    group::{
        records::{CulpritKind, GroupCounter, GroupMetric, GroupRecords, NEIGHBOURS},
        task_group::{Group, TaskGroup},
    },
    metric::{Counter, Metric},
};

use super::{
    grouped::{neighbours, Groups as CpuGroups},
    kernel::{Departure, GONE, GROUPS},
    reference::{first_of_greatest, Sample},
    scheme, BUCKETS,
};

/// The last group never gets memory for histograms.
const WITHOUT_HISTOGRAMS: usize = GROUPS - 1;

impl CpuGroups {
    pub(crate) fn of_model() -> Self {
        let mut groups = Self::without_histograms(GONE + 1, scheme());
        groups.placements.clear();
        groups
    }

    /// Forgets which task has the CPU.
    pub(crate) fn forget(&self) {
        self.occupant.enter(TaskGroup::UNKNOWN);
        self.current.set(0);
    }

    /// Adds what `group` recorded to what is gone, as `GroupMemory::fold()` does, unless the CPU's
    /// task got the CPU as one of the group.
    pub(crate) fn fold(&mut self, group: usize) {
        if self.current.get() as usize == group {
            return;
        }
        self.records[GONE].absorb(&self.records[group]);
        self.records[group].clear();
        let buckets = std::mem::take(&mut self.buckets[group]);
        self.wanted[group].set(0);
        match self.buckets[GONE].is_empty() {
            true => self.buckets[GONE] = buckets,
            false => {
                let pairs = self.buckets[GONE].iter().zip(&buckets);
                pairs.for_each(|(to, from)| to.add(from.get()));
            }
        }
        let gone = Group::new(GONE as u32).expect("a small number");
        for records in &self.records {
            records.rename_neighbours(|of| of.number() as usize == group, gone, |_| {});
        }
    }

    /// Makes room for the histograms of all groups that get any.
    pub(crate) fn make_room(&mut self) {
        for buckets in &mut self.buckets[..WITHOUT_HISTOGRAMS] {
            if buckets.is_empty() {
                let cells = GroupMetric::COUNT * BUCKETS;
                *buckets = (0..cells).map(|_| Cell::new(0)).collect();
            }
        }
    }
}

/// A task on a CPU, as far as it matters for groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Who {
    /// A task of which nothing is known.
    #[default]
    Unknown,
    /// The idle task.
    Idle,
    /// A task of which it was decided in time.
    Task {
        group: usize,
        is_kernel_thread: bool,
    },
}

impl Who {
    pub(crate) fn group(self) -> usize {
        match self {
            Self::Unknown | Self::Idle => 0,
            Self::Task { group, .. } => group,
        }
    }

    /// Returns what this is to a task of `group`.
    fn culprit(self, group: usize) -> CulpritKind {
        match self {
            Self::Idle => CulpritKind::Idle,
            Self::Task {
                is_kernel_thread: true,
                ..
            } => CulpritKind::Kernel,
            _ if self.group() == group => CulpritKind::Own,
            _ => CulpritKind::Other,
        }
    }
}

/// A number of waits, and how long they took.
type Waits = (u64, u64);

fn add(waits: &mut Waits, wait: u64) {
    waits.0 += 1;
    waits.1 += wait;
}

/// What is expected of a group on a CPU.
#[derive(Clone, Debug, Default)]
struct GroupReference {
    samples: [Vec<Sample>; GroupMetric::COUNT],
    counters: [u64; GroupCounter::COUNT],
    ended_by: [Waits; CulpritKind::COUNT],
    preempted_by: [Waits; CulpritKind::COUNT],
    /// By the other group that had the CPU when the wait ended.
    neighbours: BTreeMap<usize, Waits>,
    /// How often what is gone is there besides: groups are renamed where they are.
    again: usize,
    /// Whether there were more of them than the records have room for.
    is_crowded: bool,
    /// Whether samples are in no histogram: they are those of a group without memory for any.
    lacks_histograms: bool,
}

impl GroupReference {
    /// Adds up what another group did.
    fn absorb(&mut self, other: Self) {
        for (mine, theirs) in self.samples.iter_mut().zip(other.samples) {
            mine.extend(theirs);
        }
        for (mine, theirs) in self.counters.iter_mut().zip(other.counters) {
            *mine += theirs;
        }
        let waits = self.ended_by.iter_mut().chain(&mut self.preempted_by);
        for (mine, theirs) in waits.zip(other.ended_by.iter().chain(&other.preempted_by)) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        for (group, waits) in other.neighbours {
            let mine = self.neighbours.entry(group).or_default();
            mine.0 += waits.0;
            mine.1 += waits.1;
        }
        self.is_crowded |= other.is_crowded;
        self.lacks_histograms |= other.lacks_histograms;
        self.count_neighbours();
    }

    fn count_neighbours(&mut self) {
        self.is_crowded |= self.neighbours.len() + self.again > NEIGHBOURS;
    }
}

/// What is expected of all groups on a CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// The task that has the CPU, as it was known when it got the CPU.
    now: Who,
    /// The task that had the CPU before.
    before: Who,
    groups: [GroupReference; GONE + 1],
}

impl Groups {
    /// Returns the task that has the CPU.
    pub(crate) fn now(&self) -> Who {
        self.now
    }

    pub(crate) fn forget(&mut self) {
        (self.now, self.before) = Default::default();
    }

    /// What `group` did is added up as gone, unless it has the CPU.
    pub(crate) fn fold(&mut self, group: usize) {
        if self.now.group() == group {
            return;
        }
        let mut folded = std::mem::take(&mut self.groups[group]);
        folded.lacks_histograms |=
            group == WITHOUT_HISTOGRAMS && folded.samples.iter().any(|samples| !samples.is_empty());
        self.groups[GONE].absorb(folded);
        for of in &mut self.groups {
            if let Some(waits) = of.neighbours.remove(&group) {
                of.again += usize::from(of.neighbours.contains_key(&GONE));
                let gone = of.neighbours.entry(GONE).or_default();
                gone.0 += waits.0;
                gone.1 += waits.1;
            }
        }
    }

    fn group(&mut self) -> &mut GroupReference {
        &mut self.groups[self.now.group()]
    }

    fn count(&mut self, counter: GroupCounter) {
        self.group().counters[counter as usize] += 1;
    }

    /// A task leaves the CPU, unless that was the idle task, and `next` gets it.
    pub(crate) fn switch(&mut self, how: Option<Departure>, next: Who) {
        match how {
            Some(Departure::Runnable | Departure::Throttled) => {
                self.count(GroupCounter::Involuntary)
            }
            Some(Departure::Blocked(_)) => self.count(GroupCounter::Voluntary),
            None => {}
        }
        self.before = self.now;
        self.now = next;
    }

    /// The task that has just got the CPU ran on another one before.
    pub(crate) fn migrated(&mut self) {
        self.count(GroupCounter::Migrations);
    }

    /// The task that has just got the CPU was preempted by `culprit`, `wait` ago.
    pub(crate) fn preempted(&mut self, culprit: Who, wait: u64) {
        let culprit = culprit.culprit(self.now.group());
        add(&mut self.group().preempted_by[culprit as usize], wait);
    }

    /// The task that has just got the CPU was throttled, and away for `away`.
    pub(crate) fn throttled(&mut self, away: u64) {
        self.count(GroupCounter::Throttled);
        self.group().counters[GroupCounter::ThrottledNs as usize] += away;
    }

    /// A sample of the task that has the CPU: of one that is about to leave it, or that has just
    /// got it.
    pub(crate) fn sample(&mut self, metric: Metric, sample: Sample) {
        let place = match metric {
            Metric::Oncpu => GroupMetric::Oncpu,
            Metric::RunqWakeup | Metric::RunqPreempt => GroupMetric::Runq,
            Metric::Offcpu => GroupMetric::Offcpu,
            _ => return,
        };
        self.group().samples[place as usize].push(sample);
        if place == GroupMetric::Runq {
            let before = self.before;
            let culprit = before.culprit(self.now.group());
            let group = self.group();
            add(&mut group.ended_by[culprit as usize], sample.value);
            if culprit == CulpritKind::Other {
                add(
                    group.neighbours.entry(before.group()).or_default(),
                    sample.value,
                );
                group.count_neighbours();
            }
        }
    }
}

/// Compares the records of all groups on a CPU with the expected ones.
pub(crate) fn check(cpu: &CpuGroups, expected: Option<&Groups>) -> Result<(), String> {
    let expected = expected.ok_or("the reference expects no groups")?;
    for (number, (records, expected)) in cpu.records.iter().zip(&expected.groups).enumerate() {
        let buckets = &cpu.buckets[number];
        let has_samples = expected.samples.iter().any(|samples| !samples.is_empty());
        if number != GONE && (cpu.wanted[number].get() != 0) != has_samples {
            return Err(format!(
                "group {number}, histograms are wanted without a sample, or late"
            ));
        }
        one(records, buckets, expected).map_err(|(what, engine, reference)| {
            format!("group {number}, {what}: the engine says {engine}, the reference {reference}")
        })?;
    }
    Ok(())
}

/// The name of a value, the engine's value, and the expected one.
type Difference = (String, String, String);

fn equal<T: std::fmt::Debug + PartialEq>(
    name: &str,
    what: &str,
    engine: T,
    reference: T,
) -> Result<(), Difference> {
    if engine == reference {
        return Ok(());
    }
    Err((
        format!("{name} {what}"),
        format!("{engine:?}"),
        format!("{reference:?}"),
    ))
}

/// Compares the records of one group.
fn one(
    records: &GroupRecords,
    buckets: &[Cell],
    expected: &GroupReference,
) -> Result<(), Difference> {
    for (metric, samples) in GroupMetric::ALL.into_iter().zip(&expected.samples) {
        let name = metric.name();
        equal(name, "count", records.samples(metric), samples.len() as u64)?;
        let sum = samples.iter().map(|sample| u128::from(sample.value)).sum();
        equal(name, "sum", records.sum(metric), sum)?;
        let engine = records.worst(metric);
        let engine = engine.map(|engine| (engine.value, engine.task, engine.time));
        let worst = first_of_greatest(samples);
        equal(name, "worst", engine, worst)?;
        if buckets.is_empty() || expected.lacks_histograms {
            continue;
        }
        let mut counts = [0; BUCKETS];
        for sample in samples {
            counts[scheme().index(sample.value)] += 1;
        }
        let first = metric as usize * BUCKETS;
        let buckets = &buckets[first..first + BUCKETS];
        if buckets.iter().zip(&counts).any(|(a, b)| a.get() != *b) {
            let engine: Vec<u64> = buckets.iter().map(Cell::get).collect();
            return equal(name, "buckets", engine, counts.to_vec());
        }
    }
    for counter in GroupCounter::ALL {
        let reference = expected.counters[counter as usize];
        equal(counter.name(), "", records.counter(counter), reference)?;
    }
    for culprit in CulpritKind::ALL {
        let (ended, preempted) = (records.ended_by(culprit), records.preempted_by(culprit));
        let reference = expected.ended_by[culprit as usize];
        let ended = (ended.count(), ended.nanoseconds());
        equal("ended by", culprit.name(), ended, reference)?;
        let reference = expected.preempted_by[culprit as usize];
        let preempted = (preempted.count(), preempted.nanoseconds());
        equal("preempted by", culprit.name(), preempted, reference)?;
    }
    let engine = neighbours(records).into_iter();
    let engine: BTreeMap<_, _> = engine
        .map(|(group, waits)| (group as usize, waits))
        .collect();
    if !expected.is_crowded {
        return equal("neighbours", "", engine, expected.neighbours.clone());
    }
    // Lower bounds.
    let is_no_more = |(group, (count, ns)): (&usize, &Waits)| {
        let (whole, whole_ns) = expected.neighbours.get(group).copied().unwrap_or_default();
        *count <= whole && *ns <= whole_ns
    };
    match engine.iter().all(is_no_more) {
        true => Ok(()),
        false => equal("neighbours", "", engine, expected.neighbours.clone()),
    }
}

/// Checks that the groups of a CPU together have what the CPU has, whose numbers of samples and
/// counters these are.
pub(crate) fn law(
    cpu: &CpuGroups,
    counts: &[u64; Metric::COUNT],
    counter: impl Fn(Counter) -> u64,
) -> Result<(), String> {
    let sum = |of: &dyn Fn(&GroupRecords) -> u64| cpu.records.iter().map(of).sum::<u64>();
    let samples = |metric| sum(&|records| records.samples(metric));
    let counted = |counter| sum(&|records| records.counter(counter));
    let count = |metric: Metric| counts[metric as usize];
    for (name, groups, whole) in [
        ("oncpu", samples(GroupMetric::Oncpu), count(Metric::Oncpu)),
        (
            "runq",
            samples(GroupMetric::Runq),
            count(Metric::RunqWakeup) + count(Metric::RunqPreempt),
        ),
        (
            "offcpu",
            samples(GroupMetric::Offcpu),
            count(Metric::Offcpu),
        ),
        (
            "voluntary",
            counted(GroupCounter::Voluntary),
            counter(Counter::Voluntary),
        ),
        (
            "involuntary",
            counted(GroupCounter::Involuntary),
            counter(Counter::Involuntary),
        ),
        (
            "migrations",
            counted(GroupCounter::Migrations),
            counter(Counter::Migrations),
        ),
    ] {
        if groups != whole {
            return Err(format!("{name}: all groups have {groups}, the CPU {whole}"));
        }
    }
    Ok(())
}
