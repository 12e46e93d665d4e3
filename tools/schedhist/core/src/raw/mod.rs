// SPDX-License-Identifier: GPL-2.0

//! Decodes binary snapshots: the file `raw`, whose layout `include/uapi/schedhist_raw.h` describes.
//!
//! This is the only decoder: the fuzzer in `tests/engine` compiles this file, too.

mod groups;
mod long_waits;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    rc::Rc,
};

pub use long_waits::LongWaits;

pub use groups::{groups, only_groups, Group, GroupSamples, Groups, Neighbour, Times};

use crate::engine::{
    format::raw::layout::{types::*, *},
    group::task_group,
    histogram::{
        bucket::{Precision, Scheme, VALUE_BITS},
        totals::Worst,
    },
    identity::Identity,
    switch::cpu::Occupancy,
};

/// The error of a reader whose input is not what it should be: one line that says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(pub String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

/// Returns the error with this text.
pub(crate) fn decode_error<T>(text: impl Into<String>) -> Result<T, DecodeError> {
    Err(DecodeError(text.into()))
}

/// A metric as the text files show it: a recorded metric, or the sum of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: String,
    /// The numbers of the recorded metrics that it is the sum of; each is less than 32.
    pub parts: Vec<u32>,
}

impl Metric {
    /// Returns whether all parts are in a set of recorded metrics.
    pub fn is_in(&self, set: u32) -> bool {
        self.parts.iter().all(|part| (set >> part) & 1 != 0)
    }

    /// Returns whether it is one of waits for a CPU.
    pub fn is_of_waits(&self) -> bool {
        self.name.starts_with("runq")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The metrics, in the order of the file.
    pub metrics: Vec<Metric>,
    /// The counters, each with its number: its place in [`Cpu::counters`].
    pub counters: Vec<(usize, String)>,
}

impl Names {
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Returns the number of the counter called `name`.
    pub fn counter(&self, name: &str) -> Option<usize> {
        let found = self.counters.iter().find(|(_, other)| other == name);
        found.map(|(number, _)| *number)
    }
}

/// The histogram of a metric on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The number of the metric.
    pub metric: u32,
    /// The sum of all samples, in nanoseconds.
    pub sum: u128,
    /// The least sample, in nanoseconds; `u64::MAX` if there is none.
    pub min: u64,
    pub worst: Option<Worst>,
    /// The index and the count of each bucket that is not empty, by ascending index.
    pub buckets: Vec<(u32, u64)>,
}

impl Histogram {
    pub fn new(metric: u32) -> Self {
        Self {
            metric,
            sum: 0,
            min: u64::MAX,
            worst: None,
            buckets: Vec::new(),
        }
    }
}

/// The slice in progress on a CPU. The sums of `oncpu` and `idle` of the CPU are of the same
/// moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceInProgress {
    pub occupancy: Occupancy,
    /// The time at which this was read, in nanoseconds of `local_clock()`.
    pub now: u64,
    /// The time at which the slice began, or, if that was not seen, at which measuring did.
    pub since: u64,
    /// The time on the clock that is in no slice, in nanoseconds.
    pub unseen: u64,
}

impl SliceInProgress {
    /// Returns how long the slice has taken so far, if it is one of `what`.
    pub fn of(&self, what: Occupancy) -> u64 {
        if self.occupancy == what {
            self.now.saturating_sub(self.since)
        } else {
            0
        }
    }
}

/// A slice of a task on a CPU, or a wait, that is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInProgress {
    /// The number of the metric of which it becomes a sample.
    pub metric: u32,
    /// Whether its beginning was not seen: it does not become a sample.
    pub unseen: bool,
    /// The CPU that the task has, or waits for.
    pub cpu: u32,
    /// The time at which it was found, in nanoseconds of `local_clock()`.
    pub now: u64,
    /// How long it had taken by then, in nanoseconds.
    pub duration: u64,
    pub task: Identity,
}

impl TaskInProgress {
    /// Returns the time at which it began.
    pub fn since(&self) -> u64 {
        self.now.saturating_sub(self.duration)
    }
}

/// The waits of a metric that are in progress, but for those whose beginning was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The number of the metric.
    pub metric: u32,
    /// How many there are.
    pub count: u64,
    /// How long they have taken so far, in nanoseconds.
    pub sum: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    pub number: u32,
    /// The slice in progress; `None` if measuring is off or the CPU is offline, and if the module
    /// does not tell.
    pub slice: Option<SliceInProgress>,
    /// The counters, by their numbers.
    pub counters: Vec<u64>,
    /// The histograms, by ascending number of the metric.
    pub histograms: Vec<Histogram>,
}

impl Cpu {
    /// Returns the histogram of a metric, if it has memory on this CPU.
    pub fn histogram(&self, metric: u32) -> Option<&Histogram> {
        let place = self.histograms.binary_search_by_key(&metric, |h| h.metric);
        self.histograms.get(place.ok()?)
    }

    /// Returns whether a later snapshot lacks a histogram: it is of another load of the module.
    pub(crate) fn lost_histogram(&self, later: &Self) -> bool {
        let mut histograms = self.histograms.iter();
        histograms.any(|old| later.histogram(old.metric).is_none())
    }

    /// Returns the histogram of a metric, which is created if necessary.
    pub(crate) fn histogram_mut(&mut self, metric: u32) -> &mut Histogram {
        let place = match self.histograms.binary_search_by_key(&metric, |h| h.metric) {
            Ok(place) => place,
            Err(place) => {
                self.histograms.insert(place, Histogram::new(metric));
                place
            }
        };
        &mut self.histograms[place]
    }
}

/// A snapshot of all that the module has recorded since it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The time at which the module began to make it, in nanoseconds of `local_clock()`.
    pub time: u64,
    /// Whether measuring was on.
    pub enabled: bool,
    /// The set of metrics that were on, as bits.
    pub metrics_on: u32,
    pub scheme: Scheme,
    /// The names; shared, because they do not change while the module is loaded.
    pub names: Rc<Names>,
    /// All possible CPUs, by ascending number.
    pub cpus: Vec<Cpu>,
    /// The waits in progress; empty if the module does not tell.
    pub waits: Vec<Waits>,
    /// The task on each CPU, as far as it stayed there while the snapshot was made, and the longest
    /// waits.
    pub tasks: Vec<TaskInProgress>,
    /// The CPUs that are offline; `None` if the module does not tell, and in a recording.
    pub offline: Option<BTreeSet<u32>>,
    /// The long waits; `None` if the module has never looked at any.
    pub long_waits: Option<LongWaits>,
}

impl Snapshot {
    /// Returns the CPUs that are online, as a list such as `0-3,6`, if that is known.
    pub fn online(&self) -> Option<String> {
        let offline = self.offline.as_ref()?;
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in self
            .cpus
            .iter()
            .filter(|cpu| !offline.contains(&cpu.number))
        {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(cpu.number) => *last = cpu.number,
                _ => ranges.push((cpu.number, cpu.number)),
            }
        }
        let ranges = ranges.into_iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        Some(ranges.collect::<Vec<_>>().join(","))
    }

    /// Returns the slices and waits in progress that belong to a metric, the longest first. Of the
    /// idle task's slices, the PID is 0.
    pub fn in_progress(&self, metric: &Metric) -> Vec<TaskInProgress> {
        let tasks = self
            .tasks
            .iter()
            .filter(|task| metric.parts.contains(&task.metric));
        let mut all: Vec<_> = tasks.cloned().collect();
        if metric.name == "idle" {
            all.extend(self.cpus.iter().filter_map(|cpu| idle_on(cpu, metric)));
        }
        all.sort_by_cached_key(|task| std::cmp::Reverse(task.duration));
        all
    }

    /// Returns the time of the clock at the slice of a CPU, less the sum of all slices and what was
    /// not seen, modulo 2^64: 0, by the law of time. Returns `None` if the slice is not known, or a
    /// metric has no memory.
    pub fn unaccounted(&self, cpu: &Cpu) -> Option<u64> {
        let slice = cpu.slice?;
        let sum = |name: &str| {
            let metric = self.names.metric(name)?;
            let [metric] = metric.parts.as_slice() else {
                return None;
            };
            Some(cpu.histogram(*metric)?.sum as u64)
        };
        let in_progress = slice
            .of(Occupancy::Task)
            .wrapping_add(slice.of(Occupancy::Idle));
        let all = [sum("oncpu")?, sum("idle")?, in_progress, slice.unseen];
        Some(
            all.iter()
                .fold(slice.now, |left, part| left.wrapping_sub(*part)),
        )
    }

    /// Returns the task that has a CPU, if it is known.
    pub fn task_on(&self, cpu: u32) -> Option<&TaskInProgress> {
        let oncpu = self.names.metric("oncpu")?;
        let mut tasks = self.tasks.iter();
        tasks.find(|task| task.cpu == cpu && oncpu.parts.contains(&task.metric))
    }

    /// Returns the number of waits in progress that belong to a metric, and how long they have
    /// taken so far, in nanoseconds.
    pub fn waits(&self, metric: &Metric) -> (u64, u64) {
        let waits = self
            .waits
            .iter()
            .filter(|waits| metric.parts.contains(&waits.metric));
        waits.fold((0, 0), |(count, sum), waits| {
            (count + waits.count, sum.saturating_add(waits.sum))
        })
    }
}

/// Returns the slice of a CPU in its idle task.
fn idle_on(cpu: &Cpu, idle: &Metric) -> Option<TaskInProgress> {
    let slice = cpu.slice?;
    (slice.occupancy == Occupancy::Idle).then(|| TaskInProgress {
        metric: idle.parts.first().copied().unwrap_or_default(),
        unseen: false,
        cpu: cpu.number,
        now: slice.now,
        duration: slice.of(Occupancy::Idle),
        task: Identity::default(),
    })
}

/// Reads numbers from the front of a slice. Reading past the end gives `None`.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// Reads the rest of a record of buckets. Appends them to those of the records before it, each
    /// with its index, which is less than `end`.
    fn buckets(&mut self, end: usize, to: &mut Vec<(u32, u64)>) -> Option<()> {
        let (pairs, _) = (self.u32()?, self.u32()?);
        for _ in 0..pairs {
            let (index, count) = (self.u32()?, self.u64()?);
            let is_next = to.last().is_none_or(|(last, _)| *last < index);
            if !is_next || index as usize >= end {
                return None;
            }
            to.push((index, count));
        }
        Some(())
    }

    pub(crate) fn worst(&mut self) -> Option<Worst> {
        Some(Worst {
            value: self.u64()?,
            time: self.u64()?,
            task: Identity {
                pid: self.u32()? as i32,
                prio: self.u32()? as i32,
                comm: self.bytes(16)?.try_into().ok()?,
                ..Identity::default()
            },
        })
    }
}

/// The records of a snapshot.
pub(crate) struct Records<'a> {
    pub(crate) data: &'a [u8],
    /// The offset of the next one.
    pub(crate) at: usize,
}

impl<'a> Records<'a> {
    /// Returns the offset and the type of the next record, and its contents after the head; `None`
    /// at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, u32, Reader<'a>)>, DecodeError> {
        let (data, offset) = (self.data, self.at);
        let mut rest = Reader(data.get(offset..).unwrap_or_default());
        let mut head = rest;
        let (Some(kind), Some(len)) = (head.u32(), head.u32()) else {
            return decode_error(format!("cut off after {} bytes", data.len()));
        };
        let len = len as usize;
        if len < RECORD_LEN || len % 8 != 0 {
            return decode_error(format!("record of {len} bytes at offset {offset}"));
        }
        let Some(record) = rest.bytes(len) else {
            return decode_error(format!("cut off in the record at offset {offset}"));
        };
        self.at += len;
        if kind != END {
            return Ok(Some((offset, kind, Reader(&record[RECORD_LEN..]))));
        }
        if !rest.0.is_empty() {
            return decode_error(format!("bytes after the end, at offset {}", self.at));
        }
        Ok(None)
    }
}

/// Decodes a snapshot.
///
/// # Errors
///
/// Fails if `data` is not a snapshot, is cut off or inconsistent, or is of another version.
pub fn decode(data: &[u8]) -> Result<Snapshot, DecodeError> {
    let (mut snapshot, cpus, start) = decode_header(data)?;
    let (mut names, mut places) = (Names::default(), BTreeMap::new());
    let mut records = Records { data, at: start };
    while let Some((offset, kind, record)) = records.next()? {
        parse_record(&mut snapshot, &mut names, &mut places, kind, record)
            .ok_or_else(|| DecodeError(format!("bad record of type {kind} at offset {offset}")))?;
    }
    if snapshot.cpus.len() != cpus as usize {
        return decode_error(format!("{} of {cpus} CPUs", snapshot.cpus.len()));
    }
    snapshot
        .cpus
        .sort_by_cached_key(|cpu| u64::from(cpu.number));
    snapshot.names = Rc::new(names);
    Ok(snapshot)
}

/// Reads the header. Returns an empty snapshot, the number of CPUs, and the offset of the first
/// record.
fn decode_header(data: &[u8]) -> Result<(Snapshot, u32, usize), DecodeError> {
    let Some(mut head) = data.get(..HEADER_LEN).map(Reader) else {
        return decode_error("not a snapshot of schedhist: too short");
    };
    if head.bytes(8) != Some(&MAGIC) {
        return decode_error("not a snapshot of schedhist");
    }
    let mut next = || head.u32().unwrap_or_default();
    let (version, start) = (next(), next());
    if version != VERSION {
        return decode_error(format!(
            "version {version}: this command knows version {VERSION}"
        ));
    }
    let (low, high) = (next(), next());
    let time = u64::from(low) | (u64::from(high) << 32);
    let (flags, precision, value_bits, buckets) = (next(), next(), next(), next());
    let (cpus, _metrics, _counters, metrics_on) = (next(), next(), next(), next());
    let scheme = Precision::new(precision).map(Scheme::new);
    let scheme = scheme.filter(|s| value_bits == VALUE_BITS && buckets as usize == s.buckets());
    let Some(scheme) = scheme else {
        return decode_error(format!(
            "{buckets} buckets of precision {precision} up to 2^{value_bits}: \
             this command does not know them"
        ));
    };
    let start = start as usize;
    if start < HEADER_LEN || start % 8 != 0 || start > data.len() {
        return decode_error(format!("header of {start} bytes"));
    }
    let snapshot = Snapshot {
        time,
        enabled: flags & ENABLED != 0,
        metrics_on,
        scheme,
        names: Rc::default(),
        cpus: Vec::new(),
        waits: Vec::new(),
        tasks: Vec::new(),
        offline: (flags & TELLS_OFFLINE != 0).then(BTreeSet::new),
        long_waits: None,
    };
    Ok((snapshot, cpus, start))
}

/// Reads the rest of a record, after its head. Returns `None` if it is not valid. `places` has the
/// places of the CPUs in the snapshot.
fn parse_record(
    snapshot: &mut Snapshot,
    names: &mut Names,
    places: &mut BTreeMap<u32, usize>,
    kind: u32,
    mut record: Reader<'_>,
) -> Option<()> {
    match kind {
        METRIC | COUNTER | SUM => {
            let (number, _) = (record.u32()?, record.u32()?);
            let name = record.bytes(32)?;
            let len = name.iter().position(|byte| *byte == 0)?;
            parse_name(names, kind, number, std::str::from_utf8(&name[..len]).ok()?)
        }
        CPU => {
            let (number, counters) = (record.u32()?, record.u32()?);
            if places.insert(number, snapshot.cpus.len()).is_some() {
                return None;
            }
            let counters = (0..counters).map(|_| record.u64()).collect::<Option<_>>()?;
            snapshot.cpus.push(Cpu {
                number,
                slice: None,
                counters,
                histograms: Vec::new(),
            });
            Some(())
        }
        SLICE => {
            let (number, occupancy) = (record.u32()?, record.u32()?);
            let cpu = &mut snapshot.cpus[*places.get(&number)?];
            let occupancy = match occupancy {
                0 => Occupancy::Idle,
                1 => Occupancy::Task,
                _ => Occupancy::Unseen,
            };
            cpu.slice = Some(SliceInProgress {
                occupancy,
                now: record.u64()?,
                since: record.u64()?,
                unseen: record.u64()?,
            });
            Some(())
        }
        TASK => {
            snapshot.tasks.push(parse_task(record)?);
            Some(())
        }
        WAITING => {
            let (metric, _, _now) = (record.u32()?, record.u32()?, record.u64()?);
            let (count, sum) = (record.u64()?, record.u64()?);
            snapshot.waits.push(Waits { metric, count, sum });
            Some(())
        }
        OFFLINE => {
            let (number, _) = (record.u32()?, record.u32()?);
            if let Some(offline) = &mut snapshot.offline {
                offline.insert(number);
            }
            Some(())
        }
        LONG_WAITS => {
            let all = snapshot.long_waits.get_or_insert_default();
            all.add(record)
        }
        HISTOGRAM | WORST | BUCKETS => {
            let (number, metric) = (record.u32()?, record.u32()?);
            let buckets = snapshot.scheme.buckets();
            let cpu = &mut snapshot.cpus[*places.get(&number)?];
            if metric >= u32::BITS {
                return None;
            }
            parse_part(cpu.histogram_mut(metric), kind, buckets, record)
        }
        // The command takes chains from the file `chains`.
        CHAIN => record.bytes(CHAIN_LEN - RECORD_LEN).map(drop),
        HOP => record.bytes(HOP_LEN - RECORD_LEN).map(drop),
        _ => Some(()),
    }
}

fn parse_task(mut record: Reader<'_>) -> Option<TaskInProgress> {
    let (metric, flags) = (record.u32()?, record.u32()?);
    let (cpu, group) = (record.u32()?, record.u32()?);
    let (now, duration) = (record.u64()?, record.u64()?);
    let task = Identity {
        pid: record.u32()? as i32,
        prio: record.u32()? as i32,
        comm: record.bytes(16)?.try_into().ok()?,
        group: task_group::Group::new(group)?,
    };
    Some(TaskInProgress {
        metric,
        unseen: flags & UNSEEN != 0,
        cpu,
        now,
        duration,
        task,
    })
}

/// Reads a part of a histogram.
fn parse_part(
    histogram: &mut Histogram,
    kind: u32,
    buckets: usize,
    mut record: Reader<'_>,
) -> Option<()> {
    match kind {
        HISTOGRAM => {
            let (low, min, high) = (record.u64()?, record.u64()?, record.u64()?);
            histogram.sum = (u128::from(high) << 64) | u128::from(low);
            histogram.min = min;
        }
        WORST => {
            histogram.worst = Some(record.worst()?);
        }
        _ => record.buckets(buckets, &mut histogram.buckets)?,
    }
    Some(())
}

/// Returns text that may come from someone else, without what a terminal would take for a command.
pub fn printable_lines(bytes: &[u8]) -> String {
    let is_harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    let text = String::from_utf8_lossy(bytes);
    text.replace(|c| !is_harmless(c), "\u{fffd}")
}

fn parse_name(names: &mut Names, kind: u32, number: u32, name: &str) -> Option<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    match kind {
        COUNTER => names.counters.push((number as usize, name.to_owned())),
        METRIC if number >= u32::BITS => return None,
        METRIC => names.metrics.push(Metric {
            name: name.to_owned(),
            parts: vec![number],
        }),
        _ => names.metrics.push(Metric {
            name: name.to_owned(),
            parts: (0..u32::BITS)
                .filter(|bit| (number >> bit) & 1 != 0)
                .collect(),
        }),
    }
    Some(())
}
