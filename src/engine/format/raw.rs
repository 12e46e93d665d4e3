// SPDX-License-Identifier: GPL-2.0

//! The binary snapshot, for tools.
//!
//! Its layout is documented in `include/uapi/schedhist_raw.h`, whose structures the functions here
//! write one by one: what that says is not said again.
//!
//! Histograms go out as pairs of an index and a count for each bucket that is not empty. Pairs
//! have a fixed size, so that a reader needs no decoder but a `struct`, and two thirds of all
//! buckets may be in use before a plain array would be smaller. Numbers of variable length would
//! take a third of the space, but more time, and of that a reader at 64 CPUs has less.
//!
//! Most buckets are empty, and most of those side by side: of a group in which all are, no more is
//! seen. A count that is written is read once: whatever the probes do meanwhile, what is written is
//! what was counted. A record's length comes before its pairs, and is known in time because pairs are
//! collected in a small array on the stack, which becomes a record whenever it is full. So there is
//! one pass over the memory of a CPU, and no copy of it.

use core::ops::Deref;

use crate::engine::{
    cell::Cell,
    histogram::{
        bucket::{
            Scheme,
            VALUE_BITS, //
        },
        snapshot::{
            extremes_since_load, //
            Baseline,
        },
        totals::Worst, //
    },
    metric::{
        Counter,
        Metric,
        MetricSet,
        Series, //
    },
    switch::cpu::Cpu, //
};

/// What a snapshot begins with: `SCHEDHIST_RAW_MAGIC`.
pub const MAGIC: [u8; 8] = *b"SCHDHIST";

/// The version of the layout: `SCHEDHIST_RAW_VERSION`.
pub const VERSION: u32 = 1;

/// The bit of the flags that says that it was measuring: `SCHEDHIST_RAW_ENABLED`.
const ENABLED: u32 = 1;

/// How many buckets are looked at together: a line of the cache.
const GROUP: usize = 8;

/// How many pairs go into one record at most. They wait on the stack, which is small in a kernel.
const PAIRS: usize = 64;

// The sizes of the structures, in bytes, without the arrays at the ends of some.
const HEADER_LEN: usize = 56;
const RECORD_LEN: usize = 8;
const NAME_LEN: usize = 48;
const CPU_LEN: usize = 16;
const HISTOGRAM_LEN: usize = 40;
const WORST_LEN: usize = 56;
const BUCKETS_LEN: usize = 24;
const PAIR_LEN: usize = 12;

/// What a record is.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Type {
    End,
    Metric,
    Counter,
    Sum,
    Cpu,
    Histogram,
    Worst,
    Buckets,
}

/// Where a snapshot goes, piece by piece.
pub trait Sink {
    /// Takes the next bytes.
    fn write(&mut self, bytes: &[u8]);
}

/// A sink that keeps nothing but the number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length(pub usize);

impl Sink for Length {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.wrapping_add(bytes.len());
    }
}

/// What a snapshot says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// When it is made, in nanoseconds of the CPU's clock.
    pub time: u64,
    /// Whether it is being measured.
    pub enabled: bool,
    /// Which metrics are on.
    pub metrics: MetricSet,
    /// The scheme of the buckets.
    pub scheme: Scheme,
    /// How many CPUs are possible.
    pub cpus: u32,
}

/// Writes a snapshot of `cpus`, which must be `info.cpus` many, each with its baseline if there was a
/// reset. All that it shows is since the module was loaded.
///
/// Does not allocate. The probes may go on meanwhile.
pub fn snapshot<'a, B, D, S>(
    out: &mut S,
    info: &Info,
    cpus: impl Iterator<Item = (&'a Cpu<B>, Option<&'a Baseline<D>>)>,
) where
    B: AsRef<[Cell]> + ?Sized + 'a,
    D: Deref<Target = [u64]> + 'a,
    S: Sink,
{
    header(out, info);
    names(out);
    for (cpu, baseline) in cpus {
        one_cpu(out, cpu, baseline);
    }
    record::<RECORD_LEN>(out, Type::End, RECORD_LEN, |_| {});
}

/// Returns how long a snapshot can get at most, in bytes, with `cpus` possible CPUs that each have
/// memory for `metrics`, whether those are on or not.
pub const fn max_len(scheme: Scheme, metrics: MetricSet, cpus: usize) -> usize {
    let metrics = metrics.bits().count_ones() as usize;
    let buckets = scheme.buckets();
    let histogram = HISTOGRAM_LEN
        + WORST_LEN
        + buckets.div_ceil(PAIRS) * BUCKETS_LEN
        + (buckets * PAIR_LEN).next_multiple_of(8);
    let cpu = CPU_LEN + Counter::COUNT * 8 + metrics * histogram;
    HEADER_LEN + (Series::ALL.len() + Counter::COUNT) * NAME_LEN + cpus * cpu + RECORD_LEN
}

/// Writes the header.
fn header(out: &mut impl Sink, info: &Info) {
    let metrics = Series::ALL
        .iter()
        .filter(|shown| shown.parts.len() == 1)
        .count();
    let mut fields = Fields::<HEADER_LEN>::new();
    fields.bytes(MAGIC);
    fields.u32(VERSION);
    fields.u32(HEADER_LEN as u32);
    fields.u64(info.time);
    fields.u32(if info.enabled { ENABLED } else { 0 });
    fields.u32(info.scheme.precision().bits());
    fields.u32(VALUE_BITS);
    fields.u32(info.scheme.buckets() as u32);
    fields.u32(info.cpus);
    fields.u32(metrics as u32);
    fields.u32(Counter::COUNT as u32);
    fields.u32(info.metrics.bits());
    out.write(&fields.bytes);
}

/// Writes the names of metrics, of sums of metrics, and of counters.
fn names(out: &mut impl Sink) {
    for shown in Series::ALL {
        if let [metric] = shown.parts {
            name(out, Type::Metric, *metric as u32, shown.name);
        } else {
            let bits = shown
                .parts
                .iter()
                .fold(0, |bits, part| bits | (1 << *part as u32));
            name(out, Type::Sum, bits, shown.name);
        }
    }
    for counter in Counter::ALL {
        name(out, Type::Counter, counter as u32, counter.name());
    }
}

/// Writes one name.
fn name(out: &mut impl Sink, kind: Type, number: u32, name: &str) {
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

/// Writes all about one CPU.
fn one_cpu<B, D>(out: &mut impl Sink, cpu: &Cpu<B>, baseline: Option<&Baseline<D>>)
where
    B: AsRef<[Cell]> + ?Sized,
    D: Deref<Target = [u64]>,
{
    let len = CPU_LEN + Counter::COUNT * 8;
    record::<CPU_LEN>(out, Type::Cpu, len, |fields| {
        fields.u32(cpu.number());
        fields.u32(Counter::COUNT as u32);
    });
    for counter in Counter::ALL {
        out.write(&cpu.counter(counter).to_le_bytes());
    }
    for metric in Metric::ALL {
        let buckets = cpu.buckets(metric);
        if buckets.is_empty() {
            continue;
        }
        let extremes = extremes_since_load(cpu, baseline, metric);
        let sum = cpu.sum(metric);
        record::<HISTOGRAM_LEN>(out, Type::Histogram, HISTOGRAM_LEN, |fields| {
            fields.u32(cpu.number());
            fields.u32(metric as u32);
            fields.u64(sum as u64);
            fields.u64(extremes.min);
            fields.u64((sum >> 64) as u64);
        });
        if let Some(worst) = extremes.worst {
            one_worst(out, cpu.number(), metric, &worst);
        }
        all_buckets(out, cpu.number(), metric, buckets);
    }
}

/// Writes a greatest sample.
fn one_worst(out: &mut impl Sink, cpu: u32, metric: Metric, worst: &Worst) {
    record::<WORST_LEN>(out, Type::Worst, WORST_LEN, |fields| {
        fields.u32(cpu);
        fields.u32(metric as u32);
        fields.u64(worst.value);
        fields.u64(worst.time);
        fields.u32(worst.task.pid as u32);
        fields.u32(worst.task.prio as u32);
        fields.bytes(worst.task.comm);
    });
}

/// Writes the buckets that are not empty.
fn all_buckets(out: &mut impl Sink, cpu: u32, metric: Metric, buckets: &[Cell]) {
    let mut pairs = [[0; PAIR_LEN]; PAIRS];
    let mut filled = 0;
    for (group, first) in buckets.chunks(GROUP).zip((0_u32..).step_by(GROUP)) {
        if <&[Cell; GROUP]>::try_from(group).is_ok_and(are_empty) {
            continue;
        }
        for (bucket, index) in group.iter().zip(first..) {
            // Read once: it may be another number the next time.
            let count = bucket.get();
            if count == 0 {
                continue;
            }
            if filled == PAIRS {
                some_buckets(out, cpu, metric, &pairs);
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
        some_buckets(out, cpu, metric, pairs);
    }
}

/// Says whether all buckets of a group are empty.
fn are_empty(group: &[Cell; GROUP]) -> bool {
    group.iter().fold(0, |any, bucket| any | bucket.get()) == 0
}

/// Writes some of the buckets that are not empty.
fn some_buckets(out: &mut impl Sink, cpu: u32, metric: Metric, pairs: &[[u8; PAIR_LEN]]) {
    let bytes = pairs.as_flattened();
    let len = BUCKETS_LEN + bytes.len();
    let padding = len.next_multiple_of(8) - len;
    record::<BUCKETS_LEN>(out, Type::Buckets, len + padding, |fields| {
        fields.u32(cpu);
        fields.u32(metric as u32);
        fields.u32(pairs.len() as u32);
        fields.u32(0);
    });
    out.write(bytes);
    if padding != 0 {
        out.write(&[0; 4]);
    }
}

/// Writes a record of `len` bytes in all, or the first `N` bytes of it.
fn record<const N: usize>(
    out: &mut impl Sink,
    kind: Type,
    len: usize,
    fill: impl FnOnce(&mut Fields<N>),
) {
    let mut fields = Fields::new();
    fields.u32(kind as u32);
    fields.u32(len as u32);
    fill(&mut fields);
    out.write(&fields.bytes);
}

/// The bytes of a structure that is filled field by field. What is not filled is 0.
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

    /// Fills the next field. One too many for the structure is dropped.
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
}
