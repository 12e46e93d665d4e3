// SPDX-License-Identifier: GPL-2.0

//! What groups of tasks did between two snapshots.

use std::{cmp::Reverse, collections::BTreeMap, mem, rc::Rc};

use crate::{
    distribution::{p99, Distribution, Max},
    engine::{
        group::records::{CulpritKind, GroupCounter, GroupMetric},
        idle::{Distance, WaitSums},
    },
    gather::Gather,
    raw::{Group, GroupSamples, Groups, Neighbour, Times},
    text::Pairs,
    units,
    window::grown,
};

/// The classes of tasks that had the CPU when a wait ended: the names of [`CulpritKind`].
pub const CLASSES: [&str; CulpritKind::COUNT] = [
    CulpritKind::Own.name(),
    CulpritKind::Other.name(),
    CulpritKind::Kernel.name(),
    CulpritKind::Idle.name(),
];

/// Returns the metric of groups that is called so.
pub fn group_metric(name: &str) -> Option<GroupMetric> {
    let mut all = GroupMetric::ALL.into_iter();
    all.find(|metric| metric.name() == name)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRow {
    pub id: u32,
    pub name: String,
    /// The time that its tasks ran, in nanoseconds. A slice counts for as long as it has taken so
    /// far.
    pub oncpu_ns: u64,
    /// The number of its waits that have ended, and the time that its tasks waited, in nanoseconds.
    /// A wait counts for as long as it has taken so far.
    pub waits: Times,
    /// What is in progress at the end.
    pub in_progress: InProgress,
    /// The p99 and the greatest of its waits since tasks were grouped, in nanoseconds.
    pub runq: (Option<u64>, Option<u64>),
    /// The time that it waited, by who had the CPU at the end: see [`CulpritKind`].
    pub ended_ns: [u64; CulpritKind::COUNT],
    /// By [`GroupCounter`].
    pub counters: [u64; GroupCounter::COUNT],
    /// Its migrations, by [`Distance::BETWEEN_CPUS`].
    pub migrations: [u64; Distance::BETWEEN_CPUS.len()],
    /// Its long waits.
    pub long_waits: WaitSums,
    /// The other groups that kept it waiting, with the time in nanoseconds; the longest is first.
    pub neighbours: Vec<(String, u64)>,
}

impl GroupRow {
    /// Returns how long its waits that have ended took, in nanoseconds.
    pub fn ended(&self) -> u64 {
        self.ended_ns
            .iter()
            .fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// Slices and waits in progress of a group: how many, and how long they have taken so far, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InProgress {
    /// The slices of its tasks on a CPU, those included whose beginning was not seen.
    pub oncpu: Times,
    /// Of these slices, those whose beginning was not seen: they do not become samples.
    pub unseen: Times,
    /// The waits for a CPU.
    pub runq: Times,
}

impl InProgress {
    fn new(group: &Group) -> Self {
        let (seen, unseen) = (group.slices, group.unseen);
        Self {
            oncpu: (
                seen.0.saturating_add(unseen.0),
                seen.1.saturating_add(unseen.1),
            ),
            unseen,
            runq: group.waiting,
        }
    }
}

impl Groups {
    /// Returns whether the group `id` is that of all groups that are gone. What a group did before
    /// it was gone is added to it at once, so what it gains is not of the time between two
    /// snapshots.
    pub fn is_gone(&self, id: u32) -> bool {
        self.limit
            .is_some_and(|limit| id.checked_sub(1) == Some(limit))
    }

    /// Returns whether these began at the same time as others, by the same rule.
    pub fn are_of(&self, other: &Self) -> bool {
        (&self.rule, self.since) == (&other.rule, other.since)
    }

    /// Returns whether they were begun after `old` was read, if that was.
    #[must_use]
    pub fn are_anew(&self, old: Option<&Self>) -> bool {
        old.is_some_and(|old| !self.are_of(old))
    }

    /// Returns whether a group of these is the one that had the same number in earlier groups of
    /// the same rule, by their names there and here. Another group may have got the number.
    pub fn is_same(&self, earlier: &str, name: &str) -> bool {
        let kind = self.rule.split(' ').next().unwrap_or_default();
        if !matches!(kind, "process" | "thread") {
            return earlier == name;
        }
        // The group of a process or thread stays when that is renamed.
        let pid = |name: &str| name.split_once(':').map(|(pid, _)| pid.to_owned());
        pid(earlier).map_or(earlier == name, |earlier| pid(name) == Some(earlier))
    }

    pub fn distribution(&self, group: &Group, metric: GroupMetric) -> Distribution {
        let samples = &group.samples[metric as usize];
        let mut all = Distribution::new(self.scheme);
        all.sum = samples.sum;
        for (index, count) in &samples.buckets {
            // The decoder has checked the index.
            let _ = all.add(*index, *count);
        }
        if !samples.buckets.is_empty() {
            all.max = Max::Exact(samples.max);
        }
        all
    }
}

/// A group whose tasks had the CPU when waits of other groups ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offender {
    pub name: String,
    /// How long other groups waited for it at least, in nanoseconds: of the groups that keep a
    /// group waiting, the module names some.
    pub kept_ns: u64,
    /// The groups that it kept waiting, by their places in the rows, with the time at least; the
    /// longest is first.
    pub waited: Vec<(usize, u64)>,
}

/// Returns the groups that kept others waiting, the worst one first, and how long groups waited for
/// others of which the module names none, in nanoseconds.
pub fn offenders(rows: &[GroupRow]) -> (Vec<Offender>, u64) {
    let mut all: BTreeMap<&str, Offender> = BTreeMap::new();
    let mut unnamed = 0_u64;
    for (place, row) in rows.iter().enumerate() {
        let mut rest = row.ended_ns[CulpritKind::Other as usize];
        for (name, ns) in &row.neighbours {
            let offender = all.entry(name).or_insert_with(|| Offender {
                name: name.clone(),
                kept_ns: 0,
                waited: Vec::new(),
            });
            offender.kept_ns = offender.kept_ns.saturating_add(*ns);
            offender.waited.push((place, *ns));
            rest = rest.saturating_sub(*ns);
        }
        unnamed = unnamed.saturating_add(rest);
    }
    let mut all: Vec<_> = all.into_values().collect();
    for offender in &mut all {
        offender.waited.sort_by_cached_key(|(_, ns)| Reverse(*ns));
    }
    all.sort_by_cached_key(|offender| Reverse(offender.kept_ns));
    (all, unnamed)
}

/// What the numbers of groups mean in a part of a recording: each rule and each load of the module
/// begins anew, and a number that is vacant goes to the next group.
#[derive(Clone, Debug)]
pub struct GroupNames {
    /// From when to when, in nanoseconds since the first snapshot.
    at: (u64, u64),
    /// The names of those that are the same all the while, as far as it was looked at.
    names: BTreeMap<u32, Rc<str>>,
}

impl GroupNames {
    pub fn new(at: (u64, u64), first: &Groups, last: &Groups) -> Self {
        let names = |groups: &Groups| -> BTreeMap<_, _> {
            let groups = groups.groups.iter().filter(|group| group.id != 0);
            groups.map(|group| (group.id, group.name.clone())).gather()
        };
        let (first, mut names) = (names(first), names(last));
        names.retain(|id, name| first.get(id) == Some(name));
        Self { at, names }
    }

    /// Parses what a recorder says of a group, beside the outliers that it is in; `place` returns
    /// where a time of the module's clock is.
    pub fn of_line(line: &str, place: impl Fn(u64) -> u64) -> Option<Self> {
        let pairs = Pairs::of_line(line.strip_prefix("group ")?, "name")?;
        let time = |key| pairs.number(key).map(&place);
        let name = (pairs.number("id")?, pairs.get("name")?.into());
        Some(Self {
            at: (time("since_ns")?, time("until_ns")?),
            names: BTreeMap::from([name]),
        })
    }

    /// Adds what was said later of a group: as long as that is the same, it is one entry.
    pub fn add(all: &mut Vec<Self>, later: Self) {
        let mut known = all.iter_mut().rev();
        match known.find(|it| it.at.0 == later.at.0 && it.names == later.names) {
            Some(known) => known.at.1 = known.at.1.max(later.at.1),
            None => all.push(later),
        }
    }

    /// Returns the name of a group, if it is sure for all of this time.
    pub fn name(all: &[Self], (begin, end): (u64, u64), id: u32) -> Option<&str> {
        let mut parts = all
            .iter()
            .filter(|part| part.at.0 <= begin && end <= part.at.1);
        parts.find_map(|part| part.names.get(&id).map(|name| &**name))
    }
}

/// The names of groups while time goes on: each is sure since the first snapshot in which the
/// number had it.
#[derive(Debug, Default)]
pub struct SureNames {
    /// When the groups began: see [`Groups::since`].
    began: Option<u64>,
    /// When they were looked at last.
    seen: u64,
    names: BTreeMap<u32, (Rc<str>, u64)>,
}

impl SureNames {
    /// Looks which names the groups have at `time`, of the module's clock.
    pub fn see(&mut self, time: u64, groups: Option<&Groups>) {
        self.seen = time;
        let mut before = mem::take(&mut self.names);
        let Some(now) = groups else {
            return;
        };
        // By another rule, or the same one written anew, all are others.
        if mem::replace(&mut self.began, now.since) != now.since {
            before.clear();
        }
        let names = now.groups.iter().map(|group| {
            let since = match before.get(&group.id) {
                Some((name, since)) if *name == group.name => *since,
                _ => time,
            };
            (group.id, (group.name.clone(), since))
        });
        self.names.extend(names);
    }

    /// Returns the name of a group, and since when it is sure.
    pub fn get(&self, id: u32) -> Option<(&str, u64)> {
        self.names.get(&id).map(|(name, since)| (&**name, *since))
    }

    /// Returns the names of these groups that are sure from one time to another.
    pub fn of(
        &self,
        ids: impl Iterator<Item = u32>,
        (begin, end): (u64, u64),
    ) -> BTreeMap<u32, String> {
        let is_sure = |since: u64| since <= begin && end <= self.seen;
        let sure = |id| self.get(id).filter(|(_, since)| is_sure(*since));
        ids.filter_map(|id| Some((id, sure(id)?.0.to_owned())))
            .gather()
    }

    /// Returns whether no group was seen.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The groups at the ends of an interval.
#[derive(Debug)]
pub struct GroupWindow<'a> {
    /// The time that passed, in nanoseconds, if the module tells.
    pub span: Option<u64>,
    /// The groups at the beginning, by their numbers; `None` if they began in the interval.
    old: Option<BTreeMap<u32, &'a Group>>,
    new: &'a Groups,
}

impl<'a> GroupWindow<'a> {
    /// Without earlier groups, or if all are others by now, the interval is that since they began.
    pub fn new(old: Option<&'a Groups>, new: &'a Groups) -> Self {
        let by_number = |old: &'a Groups| old.groups.iter().map(|group| (group.id, group));
        let old = old.filter(|old| old.are_of(new));
        let begin = old.map_or(new.since, |old| old.time);
        Self {
            span: new
                .time
                .zip(begin)
                .map(|(end, begin)| end.saturating_sub(begin)),
            old: old.map(|old| by_number(old).gather()),
            new,
        }
    }

    /// Returns the group that had this number at the beginning, unless it had another name.
    fn of_number(&self, group: &Group) -> Option<&'a Group> {
        let old = *self.old.as_ref()?.get(&group.id)?;
        self.new.is_same(&old.name, &group.name).then_some(old)
    }

    /// Returns whether there was a group of this name and number that had more: it was another one,
    /// or is measured anew.
    pub fn went_back(&self, group: &Group) -> bool {
        self.of_number(group).is_some() && self.before(group).is_none()
    }

    /// Returns the group as it was at the beginning, unless there was none, or another one of this
    /// number.
    pub fn before(&self, group: &Group) -> Option<&'a Group> {
        let old = self.of_number(group)?;
        let has_grown = |(old, new): (&GroupSamples, &GroupSamples)| {
            old.count <= new.count
                && old.sum <= new.sum
                && grown(&old.buckets, &new.buckets).is_some()
        };
        let mut ended = old.ended_by.iter().zip(&group.ended_by);
        let is_same = old.samples.iter().zip(&group.samples).all(has_grown)
            && old
                .counters
                .iter()
                .zip(&group.counters)
                .all(|(old, new)| old <= new)
            && ended.all(|(old, new)| old.1 <= new.1)
            && old.long_waits.waits() <= group.long_waits.waits();
        is_same.then_some(old)
    }

    /// Returns what each group did, if anything; who waited longest comes first. Only since they
    /// began is the group "gone" among them, as what it gains is not of the time between two
    /// snapshots.
    pub fn rows(&self) -> Vec<GroupRow> {
        let is_shown = |group: &&Group| self.old.is_none() || !self.new.is_gone(group.id);
        let rows = self
            .new
            .groups
            .iter()
            .filter(is_shown)
            .map(|group| self.row(group))
            .filter(|row| row.waits != (0, 0) || row.oncpu_ns != 0);
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_cached_key(|row| row.name.clone());
        rows.sort_by_cached_key(|row| Reverse(row.waits.1));
        rows
    }

    /// Returns what a group did.
    pub fn row(&self, group: &Group) -> GroupRow {
        let old = self.before(group);
        let in_progress = InProgress::new(group);
        let began = old.map_or_else(InProgress::default, InProgress::new);
        let samples = |of: GroupMetric| {
            let old = old.map(|old| &old.samples[of as usize]);
            let (count, sum) = old.map_or((0, 0), |old| (old.count, old.sum));
            let new = &group.samples[of as usize];
            (new.count - count, units::clamp(new.sum - sum))
        };
        // What is in progress at the end, less what was in progress at the beginning.
        let more = |sum: u64, new: u64, old: u64| sum.saturating_add(new).saturating_sub(old);
        let seen = |all: &InProgress| all.oncpu.1 - all.unseen.1;
        let (_, oncpu) = samples(GroupMetric::Oncpu);
        let (waits, waited) = samples(GroupMetric::Runq);
        // A slice that is not seen is in no sum after its end.
        let unseen = in_progress.unseen.1.saturating_sub(began.unseen.1);
        let mut ended_ns = group.ended_by.map(|(_, ns)| ns);
        for (ns, (_, old)) in ended_ns
            .iter_mut()
            .zip(old.map_or([(0, 0); 4], |old| old.ended_by))
        {
            *ns -= old;
        }
        let mut counters = group.counters;
        let counters_before = old.map_or([0; GroupCounter::COUNT], |old| old.counters);
        for (count, old) in counters.iter_mut().zip(counters_before) {
            *count -= old;
        }
        let (mut migrations, mut long_waits) = (group.migrations, group.long_waits);
        if let Some(old) = old {
            long_waits.subtract(&old.long_waits);
            for (count, old) in migrations.iter_mut().zip(old.migrations) {
                *count = count.saturating_sub(old);
            }
        }
        let runq = &group.samples[GroupMetric::Runq as usize];
        let p99 = p99(self.new.scheme, vec![&runq.buckets], Some(runq.max));
        GroupRow {
            id: group.id,
            name: group.name.to_string(),
            oncpu_ns: more(oncpu, seen(&in_progress), seen(&began)).saturating_add(unseen),
            waits: (waits, more(waited, in_progress.runq.1, began.runq.1)),
            in_progress,
            runq: (p99.or(group.runq_p99), (runq.max != 0).then_some(runq.max)),
            ended_ns,
            counters,
            migrations,
            long_waits,
            neighbours: self.neighbours(group, old),
        }
    }

    /// Returns the samples that a group took of several metrics together. If tasks were grouped
    /// meanwhile, those since then.
    pub fn samples(&self, group: &Group, metrics: &[GroupMetric]) -> Distribution {
        let old = self.before(group);
        let mut all = Distribution::new(self.new.scheme);
        for metric in metrics {
            let new = self.new.distribution(group, *metric);
            let since = old.and_then(|old| {
                let mut since = new.since(&self.new.distribution(old, *metric))?;
                let max = |group: &Group| group.samples[*metric as usize].max;
                // A sample that is in no histogram may be the greatest.
                if since.max != Max::None && self.not_in_histogram(group, &[*metric]) != 0 {
                    let later = match max(group) > max(old) {
                        true => Max::Exact,
                        false => Max::AtMost,
                    };
                    since.extend_max(later(max(group)), None);
                }
                Some(since)
            });
            all.merge(&since.unwrap_or(new));
        }
        all
    }

    /// Returns how many samples a group took of a metric.
    pub fn count(&self, group: &Group, metric: GroupMetric) -> u64 {
        let old = self.before(group);
        let old = old.map_or(0, |old| old.samples[metric as usize].count);
        group.samples[metric as usize].count - old
    }

    /// Returns how many samples that a group took of these metrics are in no histogram.
    pub fn not_in_histogram(&self, group: &Group, metrics: &[GroupMetric]) -> u64 {
        let before = self.before(group);
        let before = before.map_or(0, |old| old.not_in_histogram(metrics));
        group.not_in_histogram(metrics).saturating_sub(before)
    }

    /// Returns the groups that are gone: what they did at last is not known.
    pub fn lost(&self) -> Vec<&'a Group> {
        let is_there = |old: &&Group| {
            let mut all = self.new.groups.iter();
            all.any(|new| new.id == old.id && self.new.is_same(&old.name, &new.name))
        };
        let old = self.old.iter().flat_map(BTreeMap::values).copied();
        old.filter(|old| !self.new.is_gone(old.id) && !is_there(old))
            .collect()
    }

    /// Returns how long each other group kept this one waiting since the beginning, when this group
    /// was `old`; without `old`, since it began. The module names only some groups: of one that it
    /// did not name before, this is the least that is sure.
    fn neighbours(&self, group: &Group, old: Option<&Group>) -> Vec<(String, u64)> {
        let of_all = |group: &Group| group.ended_by[CulpritKind::Other as usize].1;
        let before = old.map_or(0, of_all);
        let most = of_all(group).saturating_sub(before);
        let before_of = |now: &Neighbour| {
            let Some(old) = old else { return 0 };
            let is_same = |before: &&Neighbour| {
                before.id == now.id && self.new.is_same(&before.name, &now.name)
            };
            let named = old.neighbours.iter().fold(0_u64, |sum, neighbour| {
                sum.saturating_add(neighbour.ended.1)
            });
            let known = old.neighbours.iter().find(is_same);
            known.map_or(before.saturating_sub(named), |known| known.ended.1)
        };
        // What is gone was another neighbour before.
        let is_known = |now: &&Neighbour| old.is_none() || !self.new.is_gone(now.id);
        let neighbours = group.neighbours.iter().filter(is_known).filter_map(|now| {
            let ns = now.ended.1.saturating_sub(before_of(now)).min(most);
            (ns != 0).then(|| (now.name.to_string(), ns))
        });
        let mut neighbours: Vec<_> = neighbours.collect();
        neighbours.sort_by_cached_key(|(_, ns)| Reverse(*ns));
        neighbours
    }
}
