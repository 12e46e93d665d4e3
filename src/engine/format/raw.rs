// SPDX-License-Identifier: GPL-2.0

//! The binary snapshot, for tools.
//!
//! `include/uapi/schedhist_raw.h` documents the layout, and this file does not repeat it. The
//! functions here write the structures of that header one by one.
//!
//! A histogram is written as pairs of an index and a count, one for each bucket that is not empty.
//! Pairs have a fixed size, so that a reader needs no decoder but a `struct`; a plain array would
//! be smaller only if more than two thirds of all buckets were in use. Numbers of variable length
//! would take a third of the space but more time, and time is scarcer for a reader at 64 CPUs.
//!
//! Most buckets are empty and adjacent to other empty ones, so a group of empty buckets is skipped
//! as a whole. A count that is written comes from a single read of its bucket, so the bucket had
//! that value, whatever the probes record meanwhile. A record's length precedes its pairs. To know
//! the length in time, pairs are collected in a small array on the stack, which is written as a
//! record whenever it is full. This takes one pass over the memory of a CPU, and no copy of it.

mod chains;
mod groups;
pub mod layout;

pub use chains::{chain, kept_cpu, kept_slice, kept_slices, kept_slices_len};
pub use groups::{group, grouping, in_progress};

use core::ops::Deref;

use layout::*;

use crate::engine::{
    histogram::{
        extremes_since_load,
        Baseline,
        Scheme,
        Worst,
        VALUE_BITS, //
    },
    idle::WaitSums,
    switch::{
        Cpu,
        CurrentSlice,
        Occupancy,
        TaskInProgress,
        Waiters,
        LONGEST,
        WAITS, //
    },
    Cell,
    Counter,
    Metric,
    MetricSet,
    ShownMetric, //
};

/// The number of buckets that are checked together for being empty: one cache line.
const CHUNK: usize = 8;

/// The maximum number of pairs in a record. They are collected on the stack, which is small in a
/// kernel.
const PAIRS: usize = 64;

/// Receives a snapshot, piece by piece.
pub trait Sink {
    /// Receives the next bytes.
    fn write(&mut self, bytes: &[u8]);
}

/// A sink that only counts the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length(pub usize);

impl Sink for Length {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.wrapping_add(bytes.len());
    }
}

/// The contents of a snapshot's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The time of the snapshot, in nanoseconds of the CPU's clock.
    pub time: u64,
    /// Whether schedhist is enabled.
    pub enabled: bool,
    /// The metrics that are on.
    pub metrics: MetricSet,
    /// The scheme of the buckets.
    pub scheme: Scheme,
    /// The number of possible CPUs.
    pub cpus: u32,
}

/// Writes a snapshot of `cpus`, all online, each with its baseline if there was a reset. There must
/// be `info.cpus` of them. All values are since the module was loaded.
///
/// Does not allocate. The probes may keep recording meanwhile.
pub fn snapshot<'a, B, D, S>(
    out: &mut S,
    info: &Info,
    cpus: impl Iterator<Item = (&'a Cpu<B>, Option<&'a Baseline<D>>)>,
) where
    B: AsRef<[Cell]> + ?Sized + 'a,
    D: Deref<Target = [u64]> + 'a,
    S: Sink,
{
    begin(out, info, cpus, |_| None);
    end(out);
}

/// Writes a [`snapshot`], but not its end: [`offline`] must follow for each CPU that is offline,
/// [`long_waits`], [`chain`], [`grouping`] and groups may follow, [`waiters`] and tasks, and then
/// [`end`].
/// `slice` returns the slice in progress on a CPU, if that is known.
pub fn begin<'a, B, D, S>(
    out: &mut S,
    info: &Info,
    cpus: impl Iterator<Item = (&'a Cpu<B>, Option<&'a Baseline<D>>)>,
    slice: impl Fn(&Cpu<B>) -> Option<CurrentSlice>,
) where
    B: AsRef<[Cell]> + ?Sized + 'a,
    D: Deref<Target = [u64]> + 'a,
    S: Sink,
{
    header(out, info);
    names(out);
    for (cpu, baseline) in cpus {
        write_cpu(out, cpu, baseline, slice(cpu).as_ref());
    }
}

/// Writes a task whose slice on a CPU, or whose wait, is in progress.
pub fn task(out: &mut impl Sink, task: &TaskInProgress) {
    record::<TASK_LEN>(out, types::TASK, TASK_LEN, |fields| {
        fields.u32(task.metric as u32);
        fields.u32(if task.is_sample { 0 } else { UNSEEN });
        fields.u32(task.cpu);
        fields.u32(task.task.group.number());
        fields.u64(task.now);
        fields.u64(task.duration);
        fields.u32(task.task.pid as u32);
        fields.u32(task.task.prio as u32);
        fields.bytes(task.task.comm);
    });
}

/// Writes the waits in progress, and the longest of them, each as a [`task`]. `now` is the time at
/// which they were found.
pub fn waiters(out: &mut impl Sink, now: u64, waiters: &Waiters) {
    for (metric, waits) in waiters.waits() {
        record::<WAITING_LEN>(out, types::WAITING, WAITING_LEN, |fields| {
            fields.u32(metric as u32);
            fields.u32(0);
            fields.u64(now);
            fields.u64(waits.count);
            fields.u64(waits.sum as u64);
        });
    }
    waiters.longest().for_each(|waiter| task(out, waiter));
}

/// Writes that a possible CPU is offline.
pub fn offline(out: &mut impl Sink, cpu: u32) {
    record::<OFFLINE_LEN>(out, types::OFFLINE, OFFLINE_LEN, |fields| {
        fields.u32(cpu);
        fields.u32(0);
    });
}

/// Writes the sums of the long waits that have ended on a CPU. Waits of `limit` nanoseconds or more
/// are long; 0 if none are, any more.
pub fn long_waits(out: &mut impl Sink, cpu: u32, limit: u64, sums: &WaitSums) {
    record::<LONG_WAITS_LEN>(out, types::LONG_WAITS, LONG_WAITS_LEN, |fields| {
        fields.u32(cpu);
        fields.u32(0);
        fields.u64(limit);
        fields.wait_sums(sums);
    });
}

/// Writes the end of a snapshot.
pub fn end(out: &mut impl Sink) {
    record::<RECORD_LEN>(out, types::END, RECORD_LEN, |_| {});
}

/// Returns the maximum length of a snapshot without groups and chains, in bytes, with `cpus`
/// possible CPUs that each have memory for `metrics`, whether those metrics are on or not.
pub const fn max_len(scheme: Scheme, metrics: MetricSet, cpus: usize) -> usize {
    let metrics = metrics.bits().count_ones() as usize;
    let buckets = scheme.buckets();
    let histogram = HISTOGRAM_LEN
        + WORST_LEN
        + buckets.div_ceil(PAIRS) * BUCKETS_LEN
        + (buckets * PAIR_LEN).next_multiple_of(8);
    let cpu = CPU_LEN
        + Counter::COUNT * 8
        + SLICE_LEN
        + OFFLINE_LEN
        + LONG_WAITS_LEN
        + TASK_LEN
        + metrics * histogram;
    let waiting = WAITS.len() * WAITING_LEN + LONGEST * TASK_LEN;
    let names = (ShownMetric::ALL.len() + Counter::COUNT) * NAME_LEN;
    HEADER_LEN + names + cpus * cpu + waiting + RECORD_LEN
}

fn header(out: &mut impl Sink, info: &Info) {
    let mut fields = Fields::<HEADER_LEN>::new();
    fields.bytes(MAGIC);
    fields.u32(VERSION);
    fields.u32(HEADER_LEN as u32);
    fields.u64(info.time);
    fields.u32(TELLS_OFFLINE | if info.enabled { ENABLED } else { 0 });
    fields.u32(info.scheme.precision().bits());
    fields.u32(VALUE_BITS);
    fields.u32(info.scheme.buckets() as u32);
    fields.u32(info.cpus);
    fields.u32(Metric::COUNT as u32);
    fields.u32(Counter::COUNT as u32);
    fields.u32(info.metrics.bits());
    out.write(&fields.bytes);
}

/// Writes the names of metrics, of sums of metrics, and of counters.
fn names(out: &mut impl Sink) {
    for shown in ShownMetric::ALL {
        if let [metric] = shown.parts {
            name(out, types::METRIC, *metric as u32, shown.name);
        } else {
            name(out, types::SUM, shown.bits(), shown.name);
        }
    }
    for counter in Counter::ALL {
        name(out, types::COUNTER, counter as u32, counter.name());
    }
}

fn name(out: &mut impl Sink, kind: u32, number: u32, name: &str) {
    let mut padded = [0; 32];
    // One byte is left for the NUL.
    for (to, from) in padded.iter_mut().take(31).zip(name.bytes()) {
        *to = from;
    }
    record::<NAME_LEN>(out, kind, NAME_LEN, |fields| {
        fields.u32(number);
        fields.u32(0);
        fields.bytes(padded);
    });
}

fn write_cpu<B, D>(
    out: &mut impl Sink,
    cpu: &Cpu<B>,
    baseline: Option<&Baseline<D>>,
    slice: Option<&CurrentSlice>,
) where
    B: AsRef<[Cell]> + ?Sized,
    D: Deref<Target = [u64]>,
{
    let len = CPU_LEN + Counter::COUNT * 8;
    record::<CPU_LEN>(out, types::CPU, len, |fields| {
        fields.u32(cpu.number());
        fields.u32(Counter::COUNT as u32);
    });
    for counter in Counter::ALL {
        out.write(&cpu.counter(counter).to_le_bytes());
    }
    if let Some(slice) = slice {
        record::<SLICE_LEN>(out, types::SLICE, SLICE_LEN, |fields| {
            fields.u32(cpu.number());
            fields.u32(match slice.occupancy {
                Occupancy::Idle => 0,
                Occupancy::Task => 1,
                Occupancy::Unseen => 2,
            });
            fields.u64(slice.now);
            fields.u64(slice.since);
            fields.u64(slice.unseen);
        });
    }
    for metric in Metric::ALL {
        let buckets = cpu.buckets(metric);
        if buckets.is_empty() {
            continue;
        }
        let extremes = extremes_since_load(cpu, baseline, metric);
        let sum = match (metric, slice) {
            (Metric::Oncpu, Some(slice)) => slice.oncpu,
            (Metric::Idle, Some(slice)) => slice.idle,
            _ => cpu.sum(metric),
        };
        record::<HISTOGRAM_LEN>(out, types::HISTOGRAM, HISTOGRAM_LEN, |fields| {
            fields.u32(cpu.number());
            fields.u32(metric as u32);
            fields.u64(sum as u64);
            fields.u64(extremes.min);
            fields.u64((sum >> 64) as u64);
        });
        if let Some(worst) = extremes.worst {
            write_worst(out, cpu.number(), metric, &worst);
        }
        all_buckets(
            out,
            (types::BUCKETS, cpu.number(), metric as u32),
            buckets,
            Cell::get,
        );
    }
}

/// Writes the greatest sample of `metric` on one CPU.
fn write_worst(out: &mut impl Sink, cpu: u32, metric: Metric, worst: &Worst) {
    record::<WORST_LEN>(out, types::WORST, WORST_LEN, |fields| {
        fields.u32(cpu);
        fields.u32(metric as u32);
        fields.u64(worst.value);
        fields.u64(worst.time);
        fields.u32(worst.task.pid as u32);
        fields.u32(worst.task.prio as u32);
        fields.bytes(worst.task.comm);
    });
}

/// The type of a record of buckets, and whose buckets they are: the number of a CPU or a group, and
/// that of a metric.
type Owner = (u32, u32, u32);

/// Writes the buckets that are not empty, with what `count` returns for each.
fn all_buckets<B>(out: &mut impl Sink, owner: Owner, buckets: &[B], count: impl Fn(&B) -> u64) {
    let mut pairs = [[0; PAIR_LEN]; PAIRS];
    let mut filled = 0;
    for (chunk, first) in buckets.chunks(CHUNK).zip((0_u32..).step_by(CHUNK)) {
        // Whole chunks at a time: most are empty.
        let is_empty =
            |chunk: &[B; CHUNK]| chunk.iter().fold(0, |any, bucket| any | count(bucket)) == 0;
        if <&[B; CHUNK]>::try_from(chunk).is_ok_and(is_empty) {
            continue;
        }
        for (bucket, index) in chunk.iter().zip(first..) {
            // Read only once: a second read may return another count.
            let count = count(bucket);
            if count == 0 {
                continue;
            }
            if filled == PAIRS {
                some_buckets(out, owner, &pairs);
                filled = 0;
            }
            if let Some(pair) = pairs.get_mut(filled) {
                let (first, second) = pair.split_at_mut(4);
                first.copy_from_slice(&index.to_le_bytes());
                second.copy_from_slice(&count.to_le_bytes());
                filled += 1;
            }
        }
    }
    if let Some(pairs @ [_, ..]) = pairs.get(..filled) {
        some_buckets(out, owner, pairs);
    }
}

/// Writes some of the buckets that are not empty.
fn some_buckets(out: &mut impl Sink, owner: Owner, pairs: &[[u8; PAIR_LEN]]) {
    let (kind, number, metric) = owner;
    let bytes = pairs.as_flattened();
    let len = BUCKETS_LEN + bytes.len();
    let padding = len.next_multiple_of(8) - len;
    record::<BUCKETS_LEN>(out, kind, len + padding, |fields| {
        fields.u32(number);
        fields.u32(metric);
        fields.u32(pairs.len() as u32);
        fields.u32(0);
    });
    out.write(bytes);
    if padding != 0 {
        out.write(&[0; 4]);
    }
}

/// Writes a record of `len` bytes, or only its first `N` bytes if the record is longer.
fn record<const N: usize>(
    out: &mut impl Sink,
    kind: u32,
    len: usize,
    fill: impl FnOnce(&mut Fields<N>),
) {
    let mut fields = Fields::new();
    fields.u32(kind);
    fields.u32(len as u32);
    fill(&mut fields);
    out.write(&fields.bytes);
}

/// The bytes of a structure that is filled field by field. Unfilled bytes are 0.
struct Fields<const N: usize> {
    bytes: [u8; N],
    filled: usize,
}

impl<const N: usize> Fields<N> {
    /// Begins a structure.
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            filled: 0,
        }
    }

    /// Fills the next field. Drops a field that does not fit.
    #[inline(always)]
    fn bytes<const M: usize>(&mut self, field: [u8; M]) {
        let end = self.filled.wrapping_add(M);
        if let Some(room) = self.bytes.get_mut(self.filled..end) {
            room.copy_from_slice(&field);
            self.filled = end;
        }
    }

    #[inline(always)]
    fn u32(&mut self, field: u32) {
        self.bytes(field.to_le_bytes());
    }

    #[inline(always)]
    fn u64(&mut self, field: u64) {
        self.bytes(field.to_le_bytes());
    }

    /// Adds the fields that the records of long waits end with.
    fn wait_sums(&mut self, sums: &WaitSums) {
        sums.0.iter().for_each(|sum| self.u64(*sum));
    }
}
