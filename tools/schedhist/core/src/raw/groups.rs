// SPDX-License-Identifier: GPL-2.0

//! The groups in a snapshot.

use std::{collections::BTreeMap, rc::Rc};

use super::{decode_header, printable_lines, DecodeError, Reader, Records};
use crate::engine::{
    format::{
        raw::layout::{types::*, RECORD_LEN},
        up_to_nul, Escaped,
    },
    group::records::{CulpritKind, GroupCounter, GroupMetric},
    histogram::bucket::{Precision, Scheme},
    idle::{Distance, WaitSums},
};

/// A number of slices or waits, and their sum in nanoseconds.
pub type Times = (u64, u64);

/// The samples of a metric of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSamples {
    /// Their number, in buckets or not.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub sum: u128,
    /// The greatest, in nanoseconds; 0 if there is none.
    pub max: u64,
    /// The index and the count of each bucket that is not empty, by ascending index.
    pub buckets: Vec<(u32, u64)>,
}

/// Another group that had the CPU when waits of a group ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub id: u32,
    pub name: Rc<str>,
    /// The waits, at least.
    pub ended: Times,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number; 0 has the tasks of no other group.
    pub id: u32,
    /// Its name, escaped as in the text files.
    pub name: Rc<str>,
    /// Its samples, by [`GroupMetric`].
    pub samples: [GroupSamples; GroupMetric::COUNT],
    /// Its counters, by [`GroupCounter`].
    pub counters: [u64; GroupCounter::COUNT],
    /// Its waits by who had the CPU when they ended, by [`CulpritKind`].
    pub ended_by: [Times; CulpritKind::COUNT],
    /// Its waits after a preemption by who preempted the task.
    pub preempted_by: [Times; CulpritKind::COUNT],
    /// The slices of its tasks on a CPU that are in progress.
    pub slices: Times,
    /// The slices in progress whose beginning was not seen: they do not become samples.
    pub unseen: Times,
    /// The waits for a CPU that are in progress.
    pub waiting: Times,
    /// Its migrations, by [`Distance::BETWEEN_CPUS`].
    pub migrations: [u64; Distance::BETWEEN_CPUS.len()],
    /// Its long waits.
    pub long_waits: WaitSums,
    /// The other groups that kept it waiting.
    pub neighbours: Vec<Neighbour>,
    /// The p99 of its waits, if an early recording tells it in place of a histogram.
    pub runq_p99: Option<u64>,
}

impl Group {
    /// Creates a group of which nothing is known yet.
    pub fn new(id: u32, name: &str) -> Self {
        Self {
            id,
            name: name.into(),
            samples: Default::default(),
            counters: Default::default(),
            ended_by: Default::default(),
            preempted_by: Default::default(),
            slices: (0, 0),
            unseen: (0, 0),
            waiting: (0, 0),
            migrations: Default::default(),
            long_waits: WaitSums::default(),
            neighbours: Vec::new(),
            runq_p99: None,
        }
    }

    /// Returns how many samples of these metrics are in no histogram.
    pub fn not_in_histogram(&self, metrics: &[GroupMetric]) -> u64 {
        let missing = metrics.iter().map(|metric| {
            let samples = &self.samples[*metric as usize];
            let buckets = samples.buckets.iter();
            let held = buckets.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
            samples.count.saturating_sub(held)
        });
        missing.fold(0, u64::saturating_add)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The rule by which tasks are grouped, as `group_by` has it.
    pub rule: String,
    /// The time of the snapshot, in nanoseconds of the module's clock.
    pub time: Option<u64>,
    /// The time at which these groups began: another time means other groups. Early recordings do
    /// not tell.
    pub since: Option<u64>,
    pub limit: Option<u32>,
    /// How often a task went to "other" because there was no room for a group.
    pub refused: u64,
    /// The memory of the groups in bytes, if the module tells.
    pub memory: Option<u64>,
    pub scheme: Scheme,
    pub groups: Vec<Group>,
}

/// Returns the groups of a snapshot, or what [`only_groups`] keeps of it; `None` if tasks are not
/// grouped.
///
/// # Errors
///
/// Fails if `data` is not a snapshot, is cut off or inconsistent, or is of another version.
pub fn groups(data: &[u8]) -> Result<Option<Groups>, DecodeError> {
    let (snapshot, _, start) = decode_header(data)?;
    let mut found = None;
    let mut records = Records { data, at: start };
    while let Some((offset, kind, record)) = records.next()? {
        parse_record(&mut found, snapshot.time, kind, record)
            .ok_or_else(|| DecodeError(format!("bad record of type {kind} at offset {offset}")))?;
    }
    Ok(found.map(|found: Found| found.named()))
}

/// Returns the header of a snapshot and its records of groups, but for the histograms of other
/// metrics than `runq`; `None` if tasks are not grouped, or it is not a snapshot.
pub fn only_groups(data: &[u8]) -> Option<Vec<u8>> {
    let (_, _, start) = decode_header(data).ok()?;
    let mut kept = data.get(..start)?.to_vec();
    let mut records = Records { data, at: start };
    while let Some((offset, kind, mut record)) = records.next().ok()? {
        let is_kept = match kind {
            GROUP_BUCKETS => {
                record.u32()?;
                record.u32()? == GroupMetric::Runq as u32
            }
            GROUPING | GROUP | NEIGHBOUR | GROUP_SLICES | GROUP_WAITING | GROUP_UNSEEN
            | GROUPING_MORE | GROUP_LONG_WAITS | GROUP_MIGRATIONS => true,
            _ => false,
        };
        if is_kept {
            kept.extend(data.get(offset..records.at)?);
        }
    }
    let is_grouped = kept.len() > start;
    // The end.
    kept.extend(data.get(data.len() - RECORD_LEN..)?);
    is_grouped.then_some(kept)
}

/// What was found so far.
struct Found {
    all: Groups,
    /// The place of each group in `all`, by its number.
    places: BTreeMap<u32, usize>,
}

impl Found {
    fn group(&mut self, id: u32) -> Option<&mut Group> {
        self.all.groups.get_mut(*self.places.get(&id)?)
    }

    /// Returns the groups, with the names of all neighbours.
    fn named(self) -> Groups {
        let mut all = self.all;
        let names: Vec<_> = all
            .groups
            .iter()
            .map(|group| Rc::clone(&group.name))
            .collect();
        let neighbours = all
            .groups
            .iter_mut()
            .flat_map(|group| &mut group.neighbours);
        for neighbour in neighbours {
            if let Some(place) = self.places.get(&neighbour.id) {
                neighbour.name = Rc::clone(&names[*place]);
            }
        }
        all
    }
}

/// Reads the rest of a record, after its head. Returns `None` if it is not valid.
fn parse_record(
    found: &mut Option<Found>,
    time: u64,
    kind: u32,
    mut record: Reader<'_>,
) -> Option<()> {
    let Some(known) = found else {
        if kind == GROUPING {
            *found = Some(Found {
                all: parse_grouping(time, record)?,
                places: BTreeMap::new(),
            });
        }
        let is_early = matches!(
            kind,
            GROUP..=NEIGHBOUR | GROUP_SLICES..=GROUPING_MORE | GROUP_LONG_WAITS..=GROUP_MIGRATIONS
        );
        return (!is_early).then_some(());
    };
    match kind {
        GROUPING => return None,
        GROUPING_MORE => {
            known.all.memory = Some(record.u64()?);
            let (_no_memory, _unfollowed, _late) = (record.u64()?, record.u64()?, record.u64()?);
        }
        GROUP => {
            let group = parse_group(record)?;
            let place = known.all.groups.len();
            if known.places.insert(group.id, place).is_some() {
                return None;
            }
            known.all.groups.push(group);
        }
        GROUP_BUCKETS => {
            let (id, metric) = (record.u32()?, record.u32()?);
            let buckets = known.all.scheme.buckets();
            let samples = known.group(id)?.samples.get_mut(metric as usize)?;
            record.buckets(buckets, &mut samples.buckets)?;
        }
        NEIGHBOUR => {
            let (id, other) = (record.u32()?, record.u32()?);
            let neighbour = Neighbour {
                id: other,
                name: "".into(),
                ended: record.times()?,
            };
            known.group(id)?.neighbours.push(neighbour);
        }
        GROUP_SLICES | GROUP_WAITING | GROUP_UNSEEN => {
            let (id, _) = (record.u32()?, record.u32()?);
            let times = record.times()?;
            // A group that is gone by now has no record.
            if let Some(group) = known.group(id) {
                *match kind {
                    GROUP_SLICES => &mut group.slices,
                    GROUP_WAITING => &mut group.waiting,
                    _ => &mut group.unseen,
                } = times;
            }
        }
        GROUP_MIGRATIONS => {
            let (id, _) = (record.u32()?, record.u32()?);
            for count in &mut known.group(id)?.migrations {
                *count = record.u64()?;
            }
        }
        GROUP_LONG_WAITS => {
            let (id, _) = (record.u32()?, record.u32()?);
            known.group(id)?.long_waits = record.wait_sums()?;
        }
        _ => {}
    }
    Some(())
}

fn parse_grouping(time: u64, mut record: Reader<'_>) -> Option<Groups> {
    let (since, refused, _gone) = (record.u64()?, record.u64()?, record.u64()?);
    let (limit, precision) = (record.u32()?, record.u32()?);
    let (buckets, rule) = (record.u32()?, record.u32()?);
    let scheme = Precision::new(precision).map(Scheme::new);
    Some(Groups {
        rule: printable_lines(up_to_nul(record.bytes(rule as usize)?)),
        time: Some(time),
        since: Some(since),
        limit: Some(limit),
        refused,
        memory: None,
        scheme: scheme.filter(|scheme| scheme.buckets() == buckets as usize)?,
        groups: Vec::new(),
    })
}

fn parse_group(mut record: Reader<'_>) -> Option<Group> {
    let (id, _tasks) = (record.u32()?, record.u32()?);
    let (_live, name_len) = (record.u32()?, record.u32()?);
    let mut group = Group::new(id, "");
    for samples in &mut group.samples {
        samples.count = record.u64()?;
        samples.sum = u128::from(record.u64()?) | (u128::from(record.u64()?) << 64);
        samples.max = record.u64()?;
    }
    for counter in &mut group.counters {
        *counter = record.u64()?;
    }
    for waits in group.ended_by.iter_mut().chain(&mut group.preempted_by) {
        *waits = record.times()?;
    }
    let name = record.bytes(name_len as usize)?;
    group.name = Escaped(name).to_string().into();
    Some(group)
}

impl Reader<'_> {
    /// Reads a number of waits, or the like, and their sum.
    fn times(&mut self) -> Option<Times> {
        Some((self.u64()?, self.u64()?))
    }
}
