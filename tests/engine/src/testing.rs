// SPDX-License-Identifier: GPL-2.0

//! Test support: made-up switches and wakeups, in place of those that the tracepoints show. They
//! enter the engine the same way as the module's.

extern crate alloc;

use alloc::{string::String, vec::Vec};
use core::{
    fmt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::engine::{
    cell::Cell,
    format::raw::Sink,
    group::task_group::Group,
    histogram::bucket::Scheme,
    idle::Distance,
    metric::MetricSet,
    switch::{
        cpu::Cpu,
        sample::{Cause, Observer},
        settings::{Dynamic, DynamicResched, Fixed, Settings},
        switch_out::PrevState,
        task_state::{record_wakeup, AllWakeups, QueuedWakeups, TaskState},
        view,
    },
};

/// The records of a CPU.
pub type Records = Cpu<Vec<Cell>>;

/// Creates the records of CPU `number`, with memory for `metrics`, none of which is on yet.
pub fn new_records(number: u32, scheme: Scheme, metrics: MetricSet) -> Records {
    let cells = Records::cells(scheme, metrics);
    let buckets = (0..cells).map(|_| Cell::new(0)).collect();
    Records::new(number, scheme, buckets).expect("as many cells as asked for")
}

/// Creates the same with `metrics` on since 1.
pub fn records(number: u32, scheme: Scheme, metrics: MetricSet) -> Records {
    let cpu = new_records(number, scheme, metrics);
    cpu.begin(1, metrics);
    cpu
}

/// Returns the group `number`.
pub fn group(number: u32) -> Group {
    Group::new(number).expect("a small number")
}

/// Returns a name without the escapes of the text files.
pub fn unescaped(name: &str) -> Vec<u8> {
    let mut parts = name.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend(&part.as_bytes()[2..]);
    }
    bytes
}

/// Replaces a pseudo-random number by the next one, and returns that.
pub fn next_random(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    *random
}

/// Returns what `write` writes.
pub fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("a String takes all");
    text
}

/// A binary snapshot.
#[derive(Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl Sink for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Sets its flag at the end, even of a test that fails.
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A task, as the kernel shows it.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// See [`view::Task`].
    pub pid: i32,
    /// See [`view::Task`].
    pub id: u64,
    /// See [`view::Task`].
    pub is_exiting: bool,
    /// See [`view::Task`].
    pub has_run: bool,
    /// See [`view::Task`].
    pub run_delay: u64,
    /// See [`view::Task`].
    pub last_queued: u64,
    /// Whether the task is on a run queue without a stamp: see [`view::Task::is_queued`].
    pub is_donor: bool,
    /// See [`view::Task`].
    pub is_throttled: bool,
}

/// Declares methods that return the fields of their names.
macro_rules! getters {
    (&$self:ident: $($name:ident: $type:ty),*) => { $(fn $name(&$self) -> $type { $self.$name })* };
    ($self:ident: $($name:ident: $type:ty),*) => { $(fn $name($self) -> $type { $self.$name })* };
}

impl view::Task for Task {
    getters!(self: pid: i32, id: u64, is_exiting: bool, has_run: bool, is_throttled: bool);
    getters!(self: run_delay: u64, last_queued: u64);

    fn is_queued(self) -> bool {
        self.is_donor || self.last_queued != 0
    }
}

/// A task with only a PID, which also makes its address; 0 for the idle task.
pub const fn task(pid: i32) -> Task {
    Task {
        pid,
        id: (pid as u64) << 6,
        is_exiting: false,
        has_run: true,
        run_delay: 0,
        last_queued: 0,
        is_donor: false,
        is_throttled: false,
    }
}

/// The idle task.
pub const IDLE: Task = task(0);

/// A switch.
pub struct Switch<'a> {
    /// The time of the switch.
    now: u64,
    /// The task that leaves the CPU.
    prev: Task,
    /// How it leaves; for the idle task, which is always runnable, this does not matter.
    prev_state: PrevState,
    /// The task that gets the CPU.
    next: Task,
    /// Finds the state of a task by its PID.
    state: &'a dyn Fn(i32) -> &'a TaskState,
}

impl<'a> Switch<'a> {
    /// Returns a switch from `prev`, which leaves in the state `prev_state`, to `next`.
    pub const fn new(
        now: u64,
        prev: Task,
        prev_state: PrevState,
        next: Task,
        state: &'a dyn Fn(i32) -> &'a TaskState,
    ) -> Self {
        Self {
            now,
            prev,
            prev_state,
            next,
            state,
        }
    }
}

impl view::Switch for Switch<'_> {
    type Task = Task;

    getters!(&self: now: u64, prev: Task, next: Task);

    fn prev_state(&self) -> PrevState {
        match self.prev.pid {
            0 => PrevState::new(false, 0),
            _ => self.prev_state,
        }
    }

    fn distance(&self, cpu: u32) -> Distance {
        distance(cpu)
    }

    fn state(&self, pid: i32) -> &TaskState {
        (self.state)(pid)
    }
}

/// Returns how far `cpu` is from any other CPU: something of each kind.
pub fn distance(cpu: u32) -> Distance {
    Distance::BETWEEN_CPUS[cpu as usize % Distance::BETWEEN_CPUS.len()]
}

/// Records `switch` on `cpu` in the variant of the probe that the module chooses for `metrics`,
/// which are on.
pub fn record_switch(
    cpu: &Cpu<impl AsRef<[Cell]> + ?Sized>,
    metrics: MetricSet,
    switch: &impl view::Switch,
    observer: impl Observer,
) {
    if metrics.needs_resched() {
        return cpu.switch::<DynamicResched>(switch, observer);
    }
    if metrics != MetricSet::DEFAULT {
        return cpu.switch::<Dynamic>(switch, observer);
    }
    match cpu.scheme().precision().bits() {
        1 => cpu.switch::<Fixed<1>>(switch, observer),
        2 => cpu.switch::<Fixed<2>>(switch, observer),
        3 => cpu.switch::<Fixed<3>>(switch, observer),
        4 => cpu.switch::<Fixed<4>>(switch, observer),
        5 => cpu.switch::<Fixed<5>>(switch, observer),
        6 => cpu.switch::<Fixed<6>>(switch, observer),
        7 => cpu.switch::<Fixed<7>>(switch, observer),
        _ => cpu.switch::<Dynamic>(switch, observer),
    }
}

/// Records a switch from the idle task to itself at `now`, which only ends a slice.
pub fn idle_at(cpu: &Cpu<impl AsRef<[Cell]> + ?Sized>, now: u64, observer: impl Observer) {
    record_idle::<Dynamic>(cpu, now, &TaskState::untracked(), observer);
}

/// Like [`idle_at`], compiled for the settings `S`, and with the state of the idle task.
#[inline]
pub fn record_idle<S: Settings>(
    cpu: &Cpu<impl AsRef<[Cell]> + ?Sized>,
    now: u64,
    idle: &TaskState,
    observer: impl Observer,
) {
    let states = |_| idle;
    let switch = Switch::new(now, IDLE, PrevState::new(false, 0), IDLE, &states);
    cpu.switch::<S>(&switch, observer);
}

/// A wakeup, by a kernel that counts parts of sleeps as waits, or by one that does not.
#[derive(Clone, Copy, Debug)]
pub struct Wakeup<'a, const COUNTS_SLEEPS: bool> {
    /// The time of the wakeup, by the waker's clock.
    pub now: u64,
    /// The task that is woken.
    pub task: Task,
    /// The task's state.
    pub state: &'a TaskState,
}

impl<const COUNTS_SLEEPS: bool> view::Wakeup for Wakeup<'_, COUNTS_SLEEPS> {
    type Task = Task;

    const COUNTS_SLEEPS: bool = COUNTS_SLEEPS;

    getters!(&self: now: u64, task: Task);

    fn state(&self, _: i32) -> &TaskState {
        self.state
    }
}

/// Wakes `task` at `now`, with all wakeups recorded.
pub fn wake(now: u64, task: Task, state: &TaskState) {
    record_wakeup::<AllWakeups, _>(Wakeup::<false> { now, task, state });
}

/// Wakes `task` at `now` in a kernel with proxy execution, with only those wakeups recorded that
/// the default metrics need.
pub fn wake_with_proxies(now: u64, task: Task, state: &TaskState) {
    record_wakeup::<QueuedWakeups, _>(Wakeup::<true> { now, task, state });
}

/// Returns a state with which a task may have left a CPU, for a slice that ended this way. The
/// state of a throttled task is that of a preempted one: see [`view::Task::is_throttled`].
pub const fn prev_state_of(end: Cause) -> PrevState {
    PrevState::new(
        false,
        match end {
            Cause::Preempted | Cause::Throttled => 0,
            Cause::Interruptible => 1,
            Cause::Uninterruptible => 2,
            Cause::IdleWait => 0x402,
            Cause::Stopped => 4,
            Cause::Traced => 8,
            Cause::Parked => 0x40,
            Cause::Frozen => 0x8000,
            Cause::Dead => 0x80,
            Cause::Other => 0x1_0000,
            Cause::Wakeup | Cause::Fork | Cause::Idle => panic!("not of a slice"),
        },
    )
}
