// SPDX-License-Identifier: GPL-2.0

//! A reader of binary snapshots, as strict as the format allows.

#![allow(dead_code, reason = "not every user needs all of it")]

use std::{collections::BTreeMap, fmt::Write as _};

use schedhist_engine::engine::{
    histogram::{
        bucket::{Bounds, Scheme},
        totals::Worst,
    },
    identity::Identity,
};

const END: u32 = 0;
pub(crate) const METRIC: u32 = 1;
pub(crate) const COUNTER: u32 = 2;
pub(crate) const SUM: u32 = 3;
const CPU: u32 = 4;
const HISTOGRAM: u32 = 5;
const WORST: u32 = 6;
const BUCKETS: u32 = 7;
const STAY: u32 = 12;
const TASK: u32 = 13;
const WAITING: u32 = 14;

/// A sequence of numbers. Reading past the end gives `None`.
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
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    pub(crate) sum: u128,
    pub(crate) min: u64,
    pub(crate) worst: Option<Worst>,
    pub(crate) buckets: BTreeMap<u32, u64>,
}

/// A task in the middle of a stay or a wait: the metric, the flags, the CPU, the group; the time
/// and the duration; and the PID, the priority and the name.
pub(crate) type TaskRecord = ([u32; 4], [u64; 2], (i32, i32, [u8; 16]));

/// The contents of a snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) time: u64,
    pub(crate) flags: u32,
    pub(crate) precision: u32,
    pub(crate) value_bits: u32,
    pub(crate) buckets: u32,
    pub(crate) cpus: u32,
    pub(crate) metrics: u32,
    pub(crate) counters: u32,
    pub(crate) metrics_on: u32,
    pub(crate) names: BTreeMap<(u32, u32), String>,
    pub(crate) counts: BTreeMap<u32, Vec<u64>>,
    pub(crate) histograms: BTreeMap<(u32, u32), Histogram>,
    /// The stay in progress of each CPU: what has it, the time, the beginning, and the time unseen.
    pub(crate) stays: BTreeMap<u32, (u32, [u64; 3])>,
    pub(crate) tasks: Vec<TaskRecord>,
    /// The waits in progress of each metric: the time, how many, and how long.
    pub(crate) waiting: BTreeMap<u32, [u64; 3]>,
    /// Whether a record came twice, a bucket was out of order or empty, or a histogram came without
    /// its totals first: a reader may accept these, but schedhist never writes them.
    pub(crate) is_odd: bool,
}

impl Decoded {
    /// Returns whether the numbers of the scheme are consistent.
    fn is_scheme(&self) -> bool {
        let (p, bits) = (self.precision, self.value_bits);
        bits < 64 && p < bits && u64::from(self.buckets) == (u64::from(bits - p + 1) << p) + 1
    }
}

/// Reads a snapshot. Returns `None` if it is broken or cut off.
pub(crate) fn decode(data: &[u8]) -> Option<Decoded> {
    let mut header = Reader(data);
    if header.bytes(8)? != b"SCHDHIST" || header.u32()? != 1 {
        return None;
    }
    let start = header.u32()? as usize;
    let mut decoded = Decoded {
        time: header.u64()?,
        flags: header.u32()?,
        precision: header.u32()?,
        value_bits: header.u32()?,
        buckets: header.u32()?,
        cpus: header.u32()?,
        metrics: header.u32()?,
        counters: header.u32()?,
        metrics_on: header.u32()?,
        ..Default::default()
    };
    if start < 56 || start % 8 != 0 || !decoded.is_scheme() {
        return None;
    }
    let mut cpus = 0;
    let mut rest = Reader(data.get(start..)?);
    loop {
        let mut record = rest;
        let (kind, len) = (record.u32()?, record.u32()? as usize);
        if len < 8 || len % 8 != 0 {
            return None;
        }
        let mut record = Reader(rest.bytes(len)?);
        record.u64()?;
        match kind {
            END => return (rest.0.is_empty() && cpus == decoded.cpus).then_some(decoded),
            METRIC | COUNTER | SUM => {
                let (number, _) = (record.u32()?, record.u32()?);
                let name = record.bytes(32)?;
                let len = name.iter().position(|byte| *byte == 0)?;
                let name = String::from_utf8(name.get(..len)?.to_vec()).ok()?;
                if !name.is_ascii() {
                    return None;
                }
                decoded.is_odd |= decoded.names.insert((kind, number), name).is_some();
            }
            CPU => {
                let (cpu, counters) = (record.u32()?, record.u32()?);
                let counts = (0..counters).map(|_| record.u64()).collect::<Option<_>>()?;
                decoded.is_odd |= decoded.counts.insert(cpu, counts).is_some();
                cpus += 1;
            }
            STAY => {
                let key = record.u32()?;
                let stay = (record.u32()?, [record.u64()?, record.u64()?, record.u64()?]);
                decoded.is_odd |= decoded.stays.insert(key, stay).is_some();
            }
            TASK => {
                let numbers = [record.u32()?, record.u32()?, record.u32()?, record.u32()?];
                let times = [record.u64()?, record.u64()?];
                let (pid, prio) = (record.u32()? as i32, record.u32()? as i32);
                let comm = record.bytes(16)?.try_into().ok()?;
                decoded.tasks.push((numbers, times, (pid, prio, comm)));
            }
            WAITING => {
                let (metric, _) = (record.u32()?, record.u32()?);
                let waits = [record.u64()?, record.u64()?, record.u64()?];
                decoded.is_odd |= decoded.waiting.insert(metric, waits).is_some();
            }
            HISTOGRAM | WORST | BUCKETS => {
                let key = (record.u32()?, record.u32()?);
                let is_new = !decoded.histograms.contains_key(&key);
                decoded.is_odd |= is_new != (kind == HISTOGRAM);
                let histogram = decoded.histograms.entry(key).or_default();
                match kind {
                    HISTOGRAM => {
                        let (low, min, high) = (record.u64()?, record.u64()?, record.u64()?);
                        histogram.sum = (u128::from(high) << 64) | u128::from(low);
                        histogram.min = min;
                    }
                    WORST => {
                        decoded.is_odd |= histogram.worst.is_some();
                        histogram.worst = Some(Worst {
                            value: record.u64()?,
                            time: record.u64()?,
                            task: Identity {
                                pid: record.u32()? as i32,
                                prio: record.u32()? as i32,
                                comm: record.bytes(16)?.try_into().ok()?,
                                ..Identity::default()
                            },
                        });
                    }
                    _ => {
                        let (pairs, _) = (record.u32()?, record.u32()?);
                        for _ in 0..pairs {
                            let (index, count) = (record.u32()?, record.u64()?);
                            let last = histogram.buckets.last_key_value();
                            let is_next = last.is_none_or(|(last, _)| *last < index);
                            decoded.is_odd |= !is_next || count == 0;
                            if index >= decoded.buckets {
                                return None;
                            }
                            histogram.buckets.insert(index, count);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// Prints what `raw.c` prints.
pub(crate) fn listing(scheme: Scheme, decoded: &Decoded) -> String {
    let mut out = format!(
        "header {} {} {} {} {} {} {} {} {}\n",
        decoded.time,
        decoded.flags & 1,
        decoded.precision,
        decoded.value_bits,
        decoded.buckets,
        decoded.cpus,
        decoded.metrics,
        decoded.counters,
        decoded.metrics_on,
    );
    for ((kind, number), name) in &decoded.names {
        let kind = ["", "metric", "counter", "sum"][*kind as usize];
        writeln!(out, "{kind} {number} {name}").expect("a String takes all");
    }
    for (cpu, counts) in &decoded.counts {
        for (i, count) in counts.iter().enumerate() {
            writeln!(out, "count {cpu} {i} {count}").expect("a String takes all");
        }
    }
    for (cpu, (occupancy, [now, since, unseen])) in &decoded.stays {
        writeln!(out, "stay {cpu} {occupancy} {now} {since} {unseen}").expect("a String takes all");
    }
    for ([metric, flags, cpu, group], [now, duration], (pid, prio, comm)) in &decoded.tasks {
        write!(
            out,
            "task {metric} {flags} {cpu} {group} {now} {duration} {pid} {prio} "
        )
        .expect("a String takes all");
        for byte in comm {
            write!(out, "{byte:02x}").expect("a String takes all");
        }
        out.push('\n');
    }
    for (metric, [now, count, sum]) in &decoded.waiting {
        writeln!(out, "waiting {metric} {now} {count} {sum}").expect("a String takes all");
    }
    for ((cpu, metric), histogram) in &decoded.histograms {
        let Histogram { sum, min, .. } = histogram;
        writeln!(out, "histogram {cpu} {metric} {sum:032x} {min}").expect("a String takes all");
        if let Some(Worst { value, time, task }) = histogram.worst {
            let Identity {
                pid, prio, comm, ..
            } = task;
            write!(out, "worst {cpu} {metric} {value} {time} {pid} {prio} ")
                .expect("a String takes all");
            for byte in comm {
                write!(out, "{byte:02x}").expect("a String takes all");
            }
            out.push('\n');
        }
        for (index, count) in &histogram.buckets {
            let Bounds { lower, upper } = scheme.bounds(*index as usize);
            writeln!(out, "bucket {cpu} {metric} {lower} {upper} {count}")
                .expect("a String takes all");
        }
    }
    out
}
