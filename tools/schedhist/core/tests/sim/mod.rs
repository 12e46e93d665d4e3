// SPDX-License-Identifier: GPL-2.0

//! A small simulated machine: made-up switches enter the engine as those of the module do, so that
//! snapshots of it are like real ones. Always the same for a seed.
//!
//! The including crate must have the engine as `crate::engine`.

#![allow(dead_code, reason = "not every user needs all of it")]

#[path = "../../../../../tests/engine/src/testing.rs"]
#[allow(unreachable_pub, reason = "made for tests that need more of it")]
mod testing;

use crate::engine::{
    cell::Cell,
    format::{
        groups::Head,
        raw::{self, Info, Sink},
    },
    histogram::{
        bucket::{Precision, Scheme},
        snapshot::Baseline,
    },
    identity::Identity,
    metric::{Metric, MetricSet},
    switch::{
        cpu::{Cpu, Occupancy, Stay},
        in_progress::{TaskInProgress, Waiters},
        settings::Dynamic,
        switch_out::SwitchOut,
        task_state::{TaskState, Waiting},
    },
};
use testing::{prev_state_of, task, wake, Switch, Task};

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

struct Bytes(Vec<u8>);

impl Sink for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
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
    /// When tasks began to be grouped.
    pub groups_since: Option<u64>,
    /// Whether snapshots tell what is in progress.
    pub tells_progress: bool,
    /// When a task began to wait for CPU 0, which it does not get.
    pub starved_since: Option<u64>,
    /// The metrics that are on, as snapshots tell.
    pub metrics: MetricSet,
}

impl Machine {
    /// Creates a machine that has just loaded the module.
    pub fn new(cpus: usize, precision: u32, seed: u64) -> Self {
        let scheme = Scheme::new(Precision::new(precision).expect("a precision"));
        let cells = Cpu::<Vec<Cell>>::cells(scheme, MetricSet::ALL);
        let cpu = |number| {
            let buckets = (0..cells).map(|_| Cell::new(0)).collect();
            let cpu = Cpu::new(number, scheme, buckets).expect("as many as asked for");
            cpu.begin(1, MetricSet::ALL);
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
            groups_since: None,
            tells_progress: false,
            starved_since: None,
            metrics: MetricSet::ALL,
        }
    }

    /// Runs until a task has CPU 0.
    pub fn run_until_busy(&mut self) {
        while self.current[0] == 0 {
            self.run(1);
        }
    }

    /// Returns the stay of a CPU, if it is told.
    fn stay(&self, cpu: &Cpu<Vec<Cell>>) -> Option<Stay> {
        let stay = || cpu.stay(|| self.now);
        self.tells_progress.then(stay).flatten()
    }

    /// Writes the tasks that are in the middle of something.
    fn tasks_in_progress(&self, out: &mut Bytes) {
        for (number, cpu) in self.cpus.iter().enumerate() {
            if let Some(stay) = self
                .stay(cpu)
                .filter(|stay| stay.occupancy != Occupancy::Idle)
            {
                let task = TaskInProgress {
                    metric: Metric::Oncpu,
                    is_sample: stay.occupancy == Occupancy::Task,
                    cpu: number as u32,
                    now: stay.now,
                    duration: stay.now - stay.since,
                    task: identity(number, self.current[number]),
                };
                raw::task(out, &task);
            }
        }
        let mut waiters = Waiters::new();
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
            SwitchOut::Preempted,
            SwitchOut::Interruptible,
            SwitchOut::Uninterruptible,
        ];
        let end = ends[(self.random.next() % 3) as usize];
        let queued = self.now - self.random.next() % (1_000 * spread);
        let tasks = &self.tasks;
        if next != 0 {
            wake(queued, task(next), &tasks[next as usize - 1]);
        }
        let switch = Switch {
            now: self.now,
            prev: task(prev),
            prev_state: prev_state_of(end),
            next: Task {
                has_run: self.has_run[next as usize],
                last_queued: queued,
                ..task(next)
            },
            state: &|pid| &tasks[pid as usize - 1],
        };
        self.cpus[cpu]
            .switch::<Dynamic>(&switch, |side| identity(cpu, [prev, next][side as usize]));
        self.has_run[next as usize] = true;
        self.current[cpu] = next;
    }

    /// Returns a snapshot, as the file `raw` has it.
    pub fn raw(&self) -> Vec<u8> {
        let info = Info {
            time: self.now,
            enabled: false,
            metrics: self.metrics,
            scheme: self.scheme,
            cpus: self.cpus.len() as u32,
        };
        let mut bytes = Bytes(Vec::new());
        let cpus = self
            .cpus
            .iter()
            .map(|cpu| (cpu, None::<&Baseline<Vec<u64>>>));
        raw::begin(&mut bytes, &info, cpus, |cpu| self.stay(cpu));
        if let Some(since) = self.groups_since {
            raw::grouping(&mut bytes, since, b"comm", &Head::default(), self.scheme);
        }
        self.tasks_in_progress(&mut bytes);
        raw::end(&mut bytes);
        bytes.0
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
/// names stand, what has a meaning in them, and what is no text.
const PARTS: [&[u8]; 47] = [
    b"[0] d 1.0: a b",
    b"a",
    b"Z",
    b"7",
    b"12",
    b" ",
    b" ",
    b"  ",
    b"\n",
    b"\t",
    b"\r",
    b"\x1b[31m",
    b"\x7f",
    b";",
    b":",
    b": ",
    b"=",
    b",",
    b"/",
    b"#",
    b"-",
    b"-7",
    b"\\",
    b"\\x3b",
    b"\"",
    b"'",
    b"<b>",
    b"&lt;",
    b"{}",
    b"\xff",
    b"\xc3",
    b"\xc3\xa9",
    b"\xe2\x82\xac",
    b"comm=",
    b" pid=7",
    b" cpu=9",
    b"id=1 ",
    b"duration_ns=5",
    b"[001] ",
    b"1.5: ",
    b"0.0: runq: ",
    b"0.0: idle: cpu=",
    b"5 GET: x",
    b"x:y: ",
    b"=> f",
    b"<stack trace>",
    b"_[k]",
];

/// Returns a name of a task, of up to 15 bytes.
pub fn nasty_name(random: &mut Random) -> Vec<u8> {
    let mut name = Vec::new();
    for _ in 0..=random.next() % 5 {
        name.extend(PARTS[random.next() as usize % PARTS.len()]);
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
