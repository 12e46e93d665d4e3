// SPDX-License-Identifier: GPL-2.0

//! A small simulated machine: made-up switches enter the engine as those of the module do, so that
//! snapshots of it are like real ones. Always the same for a seed.
//!
//! The including crate must have the engine as `crate::engine`.

#![allow(dead_code, reason = "not every user needs all of it")]

#[path = "../../../../../tests/engine/src/testing.rs"]
#[allow(unreachable_pub, reason = "made for tests that need more of it")]
mod testing;

use std::{collections::BTreeMap, ops::Range};

use crate::engine::{
    cell::Cell,
    format::raw::{self, Info},
    group::records::{group_scheme, CulpritKind, GroupCounter, GroupMetric},
    histogram::{
        bucket::{Precision, Scheme},
        snapshot::Baseline,
    },
    identity::Identity,
    idle::WaitSums,
    metric::{Metric, MetricSet},
    switch::{
        cpu::{Cpu, CurrentSlice, Occupancy},
        in_progress::{TaskInProgress, Waiters},
        sample::Cause,
        settings::Dynamic,
        task_state::{TaskState, Waiting},
    },
};
pub use testing::Bytes;
use testing::{prev_state_of, task, unescaped, wake, Switch, Task};

/// Marsaglia's xorshift generator.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }
}

/// Returns the data with a few changes.
pub fn mutate(random: &mut Random, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..=random.next() % 3 {
        let at = random.next() as usize % data.len().max(1);
        match random.next() % 5 {
            0 => data[at] = random.next() as u8,
            1 => data[at] ^= 1 << (random.next() % 8),
            2 => data.truncate(at.max(1)),
            3 => data.iter_mut().skip(at).take(20).for_each(|it| *it = b'9'),
            _ => {
                let at = at & !3;
                for byte in data.iter_mut().skip(at).take(4) {
                    *byte = [0, 0xff, 0x7f, 0x80][(random.next() % 4) as usize];
                }
            }
        }
    }
    data
}

/// Returns a chunk of a recording.
pub fn chunk(kind: u32, contents: &[u8]) -> Vec<u8> {
    let (kind, len) = (kind.to_le_bytes(), (contents.len() as u32).to_le_bytes());
    let bytes = kind.iter().chain(&len).chain(contents);
    let sum = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    [&kind[..], &len, &sum.to_le_bytes(), contents].concat()
}

/// Returns the chunks of a recording: where they are, and their types.
pub fn chunks(data: &[u8]) -> Vec<(Range<usize>, u8)> {
    let (mut found, mut at) = (Vec::new(), 16);
    while at < data.len() {
        let length = u32::from_le_bytes(data[at + 4..at + 8].try_into().unwrap());
        let end = at + 12 + length as usize;
        found.push((at..end, data[at]));
        at = end;
    }
    found
}

/// A machine whose CPUs each run two tasks in turn.
pub struct Machine {
    cpus: Vec<Cpu<Vec<Cell>>>,
    tasks: Vec<TaskState>,
    current: Vec<i32>,
    has_run: Vec<bool>,
    random: Random,
    scheme: Scheme,
    /// The time, in nanoseconds.
    pub now: u64,
    /// Slices are shorter than `10 << spread` microseconds.
    pub spread: u32,
    /// Whether snapshots say that measuring is on.
    pub enabled: bool,
    /// The groups of tasks.
    pub groups: Option<Groups>,
    /// Whether snapshots tell what is in progress.
    pub tells_progress: bool,
    /// When a task began to wait for CPU 0, which it does not get.
    pub starved_since: Option<u64>,
    /// The metrics that are on, as snapshots tell.
    pub metrics: MetricSet,
    /// The limit and the sums of the long waits of CPU 0.
    pub long_waits: Option<(u64, WaitSums)>,
}

impl Machine {
    /// Creates a machine that has just loaded the module.
    pub fn new(cpus: usize, precision: u32, seed: u64) -> Self {
        let scheme = Scheme::new(Precision::new(precision).expect("a precision"));
        let cells = Cpu::<Vec<Cell>>::cells(scheme, MetricSet::ALL);
        let cpu = |number| {
            let buckets = (0..cells).map(|_| Cell::new(0)).collect();
            let cpu = Cpu::new(number, scheme, buckets).expect("as many as asked for");
            cpu.begin(1, MetricSet::WITHOUT_RESCHED);
            cpu
        };
        Self {
            cpus: (0..cpus as u32).map(cpu).collect(),
            tasks: (0..2 * cpus).map(|_| TaskState::new()).collect(),
            current: vec![0; cpus],
            has_run: vec![false; 2 * cpus + 1],
            random: Random(seed | 1),
            scheme,
            now: 1_000_000_000,
            spread: 11,
            enabled: false,
            groups: None,
            tells_progress: false,
            starved_since: None,
            metrics: MetricSet::WITHOUT_RESCHED,
            long_waits: None,
        }
    }

    /// Runs until a task has CPU 0.
    pub fn run_until_busy(&mut self) {
        while self.current[0] == 0 {
            self.run(1);
        }
    }

    /// Returns the current slice of a CPU, if it is told.
    fn slice(&self, cpu: &Cpu<Vec<Cell>>) -> Option<CurrentSlice> {
        let slice = || cpu.current_slice(|| self.now);
        self.tells_progress.then(slice).flatten()
    }

    /// Writes the tasks that are in the middle of something.
    fn tasks_in_progress(&self, out: &mut Bytes) {
        for (number, cpu) in self.cpus.iter().enumerate() {
            if let Some(slice) = self
                .slice(cpu)
                .filter(|slice| slice.occupancy != Occupancy::Idle)
            {
                let task = TaskInProgress {
                    metric: Metric::Oncpu,
                    is_sample: slice.occupancy == Occupancy::Task,
                    cpu: number as u32,
                    now: slice.now,
                    duration: slice.now - slice.since,
                    task: identity(number, self.current[number]),
                };
                raw::task(out, &task);
            }
        }
        let mut waiters = Waiters::default();
        if let Some(since) = self.starved_since {
            let waiting = Waiting {
                metric: Metric::RunqWakeup,
                waited: self.now - since,
                is_sample: true,
            };
            waiters.add(&waiting, self.now, 0, || identity(0, 99));
        }
        if self.tells_progress {
            raw::waiters(out, self.now, &waiters);
        }
    }

    /// Runs `switches` switches on each CPU.
    pub fn run(&mut self, switches: u64) {
        for _ in 0..switches {
            for cpu in 0..self.cpus.len() {
                self.switch(cpu);
            }
        }
    }

    fn switch(&mut self, cpu: usize) {
        let spread = 1 << (self.random.next() % (u64::from(self.spread) + 1));
        self.now += 1_000 + self.random.next() % (10_000 * spread);
        let prev = self.current[cpu];
        // Idle, or one of the two tasks of this CPU; never the same one.
        let choices = [0, 2 * cpu as i32 + 1, 2 * cpu as i32 + 2];
        let others: Vec<_> = choices.into_iter().filter(|next| *next != prev).collect();
        let next = others[(self.random.next() % 2) as usize];
        let ends = [
            Cause::Preempted,
            Cause::Interruptible,
            Cause::Uninterruptible,
        ];
        let end = ends[(self.random.next() % 3) as usize];
        let queued = self.now - self.random.next() % (1_000 * spread);
        let tasks = &self.tasks;
        if next != 0 {
            wake(queued, task(next), &tasks[next as usize - 1]);
        }
        let entering = Task {
            has_run: self.has_run[next as usize],
            last_queued: queued,
            ..task(next)
        };
        let state = |pid| &tasks[pid as usize - 1];
        let switch = Switch::new(self.now, task(prev), prev_state_of(end), entering, &state);
        self.cpus[cpu]
            .switch::<Dynamic>(&switch, |side| identity(cpu, [prev, next][side as usize]));
        self.has_run[next as usize] = true;
        self.current[cpu] = next;
    }

    /// Returns a snapshot, as the file `raw` has it.
    pub fn raw(&self) -> Vec<u8> {
        let info = Info {
            time: self.now,
            enabled: self.enabled,
            metrics: self.metrics,
            scheme: self.scheme,
            cpus: self.cpus.len() as u32,
        };
        let mut bytes = Bytes::default();
        let cpus = self
            .cpus
            .iter()
            .map(|cpu| (cpu, None::<&Baseline<Vec<u64>>>));
        raw::begin(&mut bytes, &info, cpus, |cpu| self.slice(cpu));
        self.tasks_in_progress(&mut bytes);
        if let Some((limit, sums)) = &self.long_waits {
            raw::long_waits(&mut bytes, 0, *limit, sums);
        }
        if let Some(groups) = &self.groups {
            groups.write(&mut bytes.0, group_scheme(self.scheme));
        }
        raw::end(&mut bytes);
        bytes.0
    }
}

/// A histogram of the waits of a group, as in `group_hist/runq`.
pub const GROUP_RUNQ: &str = "# schedhist group histogram version 1
metric runq
group 1
name /web.service
unit ns
precision 3
count 578
sum 701000000
max 37000000
bucket 524288 589823 500
bucket 33554432 37748735 78
";

/// Made-up groups of tasks.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// When tasks began to be grouped.
    pub since: u64,
    /// The groups, as in the file `groups`. Keys that are missing are 0.
    pub text: String,
    /// The histograms of `oncpu`, `runq` and `offcpu`, as in `group_hist/METRIC`. Where there is
    /// none for a group, all samples are in the bucket of their mean, unless some are said to be in
    /// none.
    pub histograms: [String; GroupMetric::COUNT],
}

impl Groups {
    /// Returns groups with histograms of `runq`.
    pub fn new(text: &str, runq: &str) -> Self {
        Self {
            since: 1,
            text: text.to_owned(),
            histograms: [String::new(), runq.to_owned(), String::new()],
        }
    }

    /// Returns `count` groups of long names, each with samples of all metrics and four neighbours.
    pub fn many(count: u64) -> Self {
        let mut text = "# schedhist groups version 1\ngroup_by cgroup\nlimit 4095\nrefused 0\n\
            memory_bytes 7000000\n"
            .to_owned();
        let name = |id: u64| format!("/kubepods.slice/kubepods-burstable.slice/pod{id:055x}.slice");
        let (mut histograms, scheme) = (String::new(), group_scheme(Scheme::DEFAULT));
        for id in 0..count {
            text += &format!(
                "group id {id} oncpu_count 900000 oncpu_sum_ns {0} runq_count 900000 \
                 runq_sum_ns {1} ended_by_own_ns {1} ended_by_other_ns {1} ended_by_kernel_ns {1} \
                 ended_by_idle_ns {1} name {2}\n",
                id * 1_000_000_007,
                id * 100_000_007,
                name(id)
            );
            for other in (1..=4).map(|other| (id + other) % count) {
                let name = name(other);
                text += &format!(
                    "  neighbour id {other} of {id} ended 5000 ended_ns 40000000 name {name}\n"
                );
            }
            histograms += &format!("# \ngroup {id}\nmax 99999999\n");
            for index in 80..200 {
                histograms += &format!("bucket {} 7500\n", scheme.bounds(index));
            }
        }
        Self {
            since: 1,
            text,
            histograms: [histograms.clone(), histograms.clone(), histograms],
        }
    }

    /// Returns the histograms of a metric, by the group.
    fn blocks(&self, metric: GroupMetric, scheme: Scheme) -> BTreeMap<u64, Block> {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let blocks = self.histograms[metric as usize].split("# ").skip(1);
        let blocks = blocks.map(|block| {
            let (mut id, mut max, mut buckets) = (0, 0, Vec::new());
            for line in block.lines() {
                let words: Vec<_> = line.split(' ').collect();
                match words[..] {
                    ["group", group] => id = number(group),
                    ["max", sample] => max = number(sample),
                    ["bucket", lower, _, count] => {
                        buckets.push((scheme.index(number(lower)) as u32, number(count)));
                    }
                    _ => {}
                }
            }
            (id, (buckets, max))
        });
        blocks.collect()
    }

    /// Writes their records.
    fn write(&self, out: &mut Vec<u8>, scheme: Scheme) {
        let head = |key: &str| {
            let mut lines = self.text.lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
        };
        let number =
            |key: &str, or: u64| head(key).map_or(or, |text| text.parse().expect("a number"));
        let rule = head("group_by").expect("a rule");
        let mut body = words64(&[self.since, number("refused", 0), number("gone", 0)]);
        body.extend(words32(&[
            number("limit", 255) as u32,
            scheme.precision().bits(),
            scheme.buckets() as u32,
            rule.len() as u32,
        ]));
        body.extend(rule.as_bytes());
        record(out, 8, body);
        record(out, 18, words64(&[number("memory_bytes", 0), 0, 0, 0]));
        let all = GroupMetric::ALL.map(|metric| self.blocks(metric, scheme));
        let (mut named, mut known) = (BTreeMap::new(), Vec::new());
        for line in self.text.lines() {
            if let Some(line) = line.strip_prefix("group ") {
                let pairs = pairs(line);
                known.push(pairs["id"].parse::<u64>().expect("a number"));
                group(out, &pairs, &all, scheme);
            } else if let Some(line) = line.strip_prefix("  neighbour ") {
                let pairs = pairs(line);
                let of = |key: &str| pairs[key].parse::<u64>().expect("a number");
                let mut body = words32(&[of("of") as u32, of("id") as u32]);
                body.extend(words64(&[of("ended"), of("ended_ns")]));
                record(out, 11, body);
                named.insert(of("id"), pairs["name"]);
            } else if let Some(line) = line.strip_prefix("in_progress ") {
                let pairs = pairs(line);
                times(out, 16, &pairs, "runq_in_progress");
                times(out, 17, &pairs, "oncpu_unseen");
            }
        }
        // Those that the text only names.
        for (id, name) in named.iter().filter(|(id, _)| !known.contains(id)) {
            let id = id.to_string();
            let pairs = BTreeMap::from([("id", id.as_str()), ("name", *name)]);
            group(out, &pairs, &all, scheme);
        }
    }
}

/// Writes the records of a group.
fn group(
    out: &mut Vec<u8>,
    pairs: &BTreeMap<&str, &str>,
    all: &[BTreeMap<u64, Block>; GroupMetric::COUNT],
    scheme: Scheme,
) {
    let of = |key: &str| {
        pairs
            .get(key)
            .map_or(0, |n| n.parse::<u64>().expect("a number"))
    };
    let (id, name) = (of("id"), unescaped(pairs["name"]));
    let mut body = words32(&[id as u32, of("tasks") as u32, 1, name.len() as u32]);
    let mut blocks = Vec::new();
    for metric in GroupMetric::ALL {
        let key = |what: &str| of(&format!("{}_{what}", metric.name()));
        let (count, sum) = (key("count"), key("sum_ns"));
        let mean = sum / count.max(1);
        let made_up = || (vec![(scheme.index(mean) as u32, count)], mean);
        let block = all[metric as usize].get(&id).cloned().unwrap_or_else(|| {
            if count != 0 && of("not_in_histogram") == 0 {
                made_up()
            } else {
                (Vec::new(), mean)
            }
        });
        let max = if key("max_ns") == 0 {
            block.1
        } else {
            key("max_ns")
        };
        body.extend(words64(&[count, sum, 0, max]));
        blocks.push(block.0);
    }
    body.extend(
        GroupCounter::ALL
            .iter()
            .flat_map(|counter| words64(&[of(counter.name())])),
    );
    for kind in ["ended_by", "preempted_by"] {
        for culprit in CulpritKind::ALL {
            let key = format!("{kind}_{}", culprit.name());
            body.extend(words64(&[of(&key), of(&format!("{key}_ns"))]));
        }
    }
    body.extend(name);
    record(out, 9, body);
    times(out, 15, pairs, "oncpu_in_progress");
    for (metric, buckets) in (0..).zip(blocks) {
        let mut body = words32(&[id as u32, metric, buckets.len() as u32, 0]);
        for (index, count) in buckets {
            body.extend(words32(&[index, count as u32, (count >> 32) as u32]));
        }
        record(out, 10, body);
    }
}

/// The buckets of a histogram, and its greatest sample.
type Block = (Vec<(u32, u64)>, u64);

/// Returns the keys and values of a line, the name of which comes last.
fn pairs(line: &str) -> BTreeMap<&str, &str> {
    let (numbers, name) = line.split_once(" name ").unwrap_or((line, ""));
    let words: Vec<_> = numbers.split(' ').collect();
    let pairs = words.chunks(2).map(|pair| (pair[0], pair[1]));
    pairs.chain([("name", name)]).collect()
}

fn words32(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn words64(numbers: &[u64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Writes a record, by `include/uapi/schedhist_raw.h`.
fn record(out: &mut Vec<u8>, kind: u32, mut body: Vec<u8>) {
    body.resize(body.len().next_multiple_of(8), 0);
    out.extend(words32(&[kind, body.len() as u32 + 8]));
    out.extend(body);
}

/// Writes what is in progress of a group, if there is anything.
fn times(out: &mut Vec<u8>, kind: u32, pairs: &BTreeMap<&str, &str>, key: &str) {
    let of = |key: &str| {
        pairs
            .get(key)
            .map_or(0, |n| n.parse::<u64>().expect("a number"))
    };
    let (count, ns) = (of(key), of(&format!("{key}_ns")));
    if count != 0 {
        let mut body = words32(&[of("id") as u32, 0]);
        body.extend(words64(&[count, ns]));
        record(out, kind, body);
    }
}

fn identity(cpu: usize, pid: i32) -> Identity {
    let name = if pid == 0 {
        format!("swapper/{cpu}")
    } else {
        format!("worker {pid}")
    };
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    Identity {
        pid,
        prio: 120,
        comm,
        ..Identity::default()
    }
}

/// Parts of names of tasks, which may have any bytes but NUL: what looks like the texts in which
/// names stand, what has a meaning in them, and what is no text. There is a bar between them.
const PARTS: &[u8] = b"\
    [0] d 1.0: a b|a|Z|7|12| | |  |\n|\t|\r|\x1b[31m|\x7f|;|:|: |=|,|/|#|-|-7|\\|\\x3b|\"|'|\
    <b>|&lt;|{}|\xff|\xc3|\xc3\xa9|\xe2\x82\xac|comm=| pid=7| cpu=9|id=1 |duration_ns=5|\
    [001] |1.5: |0.0: runq: |0.0: idle: cpu=|5 GET: x|x:y: |=> f|<stack trace>|_[k]";

/// Returns a name of a task, of up to 15 bytes.
pub fn nasty_name(random: &mut Random) -> Vec<u8> {
    let parts: Vec<_> = PARTS.split(|byte| *byte == b'|').collect();
    let mut name = Vec::new();
    for _ in 0..=random.next() % 5 {
        name.extend(parts[random.next() as usize % parts.len()]);
    }
    name.truncate(15);
    name
}

/// Returns a name as text to be shown: bytes that are no UTF-8 as `\xNN`.
pub fn shown(name: &[u8]) -> String {
    let chunks = name.utf8_chunks().map(|chunk| {
        let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        chunk.valid().to_owned() + &invalid.collect::<String>()
    });
    chunks.collect()
}
