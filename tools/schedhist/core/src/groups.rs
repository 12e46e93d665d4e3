// SPDX-License-Identifier: GPL-2.0

//! What groups of tasks did between two texts of the file `groups`.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{
    text::{Group, Groups, Neighbour},
    units,
};

/// The classes of tasks that had the CPU when a wait ended.
pub const CLASSES: [&str; 4] = ["own", "other", "kernel", "idle"];

/// What a group did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRow {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether the earlier text has no such group, or another one of this number: this is all that
    /// it did.
    pub is_new: bool,
    /// The time that its tasks ran, in nanoseconds. A stay counts for as long as it has taken so
    /// far.
    pub oncpu_ns: u64,
    /// The number of its waits that have ended, and the time that its tasks waited, in nanoseconds.
    /// A wait counts for as long as it has taken so far.
    pub waits: (u64, u64),
    /// What is in progress at the end.
    pub in_progress: InProgress,
    /// The p99 and the greatest of its waits since tasks were grouped, in nanoseconds.
    pub runq: (Option<u64>, Option<u64>),
    /// The time that it waited, by who had the CPU at the end, as in [`CLASSES`].
    pub ended_ns: [u64; 4],
    /// The other groups that kept it waiting, with the time in nanoseconds; the longest is first.
    pub neighbours: Vec<(String, u64)>,
}

/// Stays and waits in progress of a group: how many, and how long they have taken so far, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InProgress {
    /// The stays of its tasks on a CPU, those included whose beginning was not seen.
    pub oncpu: (u64, u64),
    /// Of these stays, those whose beginning was not seen: they do not become samples.
    pub unseen: (u64, u64),
    /// The waits for a CPU.
    pub runq: (u64, u64),
}

impl InProgress {
    fn new(group: &Group) -> Self {
        let number = |key: &str| units::clamp(group.pairs.number(key).unwrap_or_default());
        let both = |key: &str| (number(key), number(&format!("{key}_ns")));
        let (seen, unseen) = (both("oncpu_in_progress"), both("oncpu_unseen"));
        Self {
            oncpu: (seen.0 + unseen.0, seen.1.saturating_add(unseen.1)),
            unseen,
            runq: both("runq_in_progress"),
        }
    }
}

/// What is counted of a group.
#[derive(Clone, Copy)]
struct Counts {
    oncpu_ns: u64,
    waits: (u64, u64),
    ended_ns: [u64; 4],
}

impl Counts {
    fn new(group: &Group) -> Self {
        let number = |key: &str| units::clamp(group.pairs.number(key).unwrap_or_default());
        Self {
            oncpu_ns: number("oncpu_sum_ns"),
            waits: (number("runq_count"), number("runq_sum_ns")),
            ended_ns: CLASSES.map(|class| number(&format!("ended_by_{class}_ns"))),
        }
    }

    /// Returns `None` if a count went back, which means that these are of another group.
    fn since(mut self, old: &Self) -> Option<Self> {
        self.oncpu_ns = self.oncpu_ns.checked_sub(old.oncpu_ns)?;
        self.waits.0 = self.waits.0.checked_sub(old.waits.0)?;
        self.waits.1 = self.waits.1.checked_sub(old.waits.1)?;
        for (new, old) in self.ended_ns.iter_mut().zip(old.ended_ns) {
            *new = new.checked_sub(old)?;
        }
        Some(self)
    }

    /// Adds what is in progress at the end, less what was in progress at the beginning.
    fn with_progress(mut self, new: &InProgress, old: &InProgress) -> Self {
        let seen = |all: &InProgress| all.oncpu.1 - all.unseen.1;
        let more = |sum: u64, new: u64, old: u64| sum.saturating_add(new).saturating_sub(old);
        self.oncpu_ns = more(self.oncpu_ns, seen(new), seen(old));
        // A stay that is not seen is in no sum after its end.
        self.oncpu_ns += new.unseen.1.saturating_sub(old.unseen.1);
        self.waits.1 = more(self.waits.1, new.runq.1, old.runq.1);
        self
    }
}

impl GroupRow {
    /// `old` is the group of this number in the earlier text, and `all` are the groups of the later
    /// one.
    fn new(group: &Group, old: Option<&Group>, all: &Groups) -> Self {
        let old = old.filter(|old| all.is_same(&old.name, &group.name));
        let counts = Counts::new(group);
        let since = old.and_then(|old| Some((Some(old), counts.since(&Counts::new(old))?)));
        let (old, counts) = since.unwrap_or((None, counts));
        let in_progress = InProgress::new(group);
        let before = old.map_or_else(InProgress::default, InProgress::new);
        let counts = counts.with_progress(&in_progress, &before);
        Self {
            id: group.id,
            name: group.name.clone(),
            is_new: old.is_none(),
            oncpu_ns: counts.oncpu_ns,
            waits: counts.waits,
            in_progress,
            runq: (
                group.pairs.number("runq_p99_ns"),
                group.pairs.number("runq_max_ns"),
            ),
            ended_ns: counts.ended_ns,
            neighbours: neighbours(group, old, all),
        }
    }
}

/// Returns what each group did between two texts, if anything; who waited longest comes first.
/// Without groups of the same rule in the first text, it is what they did since they began. Only
/// then is the group "gone" among them, as what it gains is not of the time between two texts.
pub fn between(first: &Groups, last: &Groups) -> Vec<GroupRow> {
    let old = first.groups.iter().filter(|_| first.rule == last.rule);
    let old: BTreeMap<_, _> = old.map(|group| (group.id, group)).collect();
    let is_shown = |group: &&Group| old.is_empty() || !last.is_gone(group.id);
    let rows = { last.groups.iter().filter(is_shown) }
        .map(|group| GroupRow::new(group, old.get(&group.id).copied(), last))
        .filter(|row| row.waits != (0, 0) || row.oncpu_ns != 0);
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|a, b| (Reverse(a.waits.1), &a.name).cmp(&(Reverse(b.waits.1), &b.name)));
    rows
}

/// Returns how long each other group kept this one waiting since an earlier text, in which this
/// group was `old`; without `old`, since it began. The module names only some groups: of one that
/// it did not name before, this is the least that is sure. `all` are the groups that this one is
/// of.
fn neighbours(group: &Group, old: Option<&Group>, all: &Groups) -> Vec<(String, u64)> {
    let of_all = |group: &Group| group.pairs.number::<u128>("ended_by_other_ns");
    let before = old.and_then(of_all).unwrap_or_default();
    let most = of_all(group).map_or(u128::MAX, |now| now.saturating_sub(before));
    let before_of = |now: &Neighbour| {
        let Some(old) = old else { return 0 };
        let is_same =
            |before: &&Neighbour| before.id == now.id && all.is_same(&before.name, &now.name);
        let named = old.neighbours.iter().fold(0_u128, |sum, neighbour| {
            sum.saturating_add(neighbour.ended_ns)
        });
        let known = old.neighbours.iter().find(is_same);
        known.map_or(before.saturating_sub(named), |known| known.ended_ns)
    };
    // What is gone was another neighbour before.
    let is_known = |now: &&Neighbour| old.is_none() || !all.is_gone(now.id);
    let neighbours = group.neighbours.iter().filter(is_known).filter_map(|now| {
        let ns = now.ended_ns.saturating_sub(before_of(now)).min(most);
        (ns != 0).then(|| (now.name.clone(), units::clamp(ns)))
    });
    let mut neighbours: Vec<_> = neighbours.collect();
    neighbours.sort_by_key(|(_, ns)| Reverse(*ns));
    neighbours
}
