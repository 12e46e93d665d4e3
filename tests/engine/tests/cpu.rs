// SPDX-License-Identifier: GPL-2.0

//! A CPU's recordings of a few switches: what `model` leaves out, as times that are equal.

mod common;

use common::{any_duration, any_scheme};
use proptest::prelude::*;
use schedhist_engine::engine::{
    cell::Cell,
    histogram::bucket::Scheme,
    identity::Identity,
    metric::{Counter, Metric, MetricSet},
    switch::{
        cpu::{Cpu, Header, Requested},
        settings::Dynamic,
        switch_out::PrevState,
        task_state::TaskState,
    },
};
use schedhist_engine::testing::{
    idle_at, record_switch, records, task, wake, wake_with_proxies, Switch, Task, IDLE,
};

proptest! {
    /// The variant compiled for the defaults does the same with them.
    #[test]
    fn defaults_as_any(
        scheme in any_scheme(),
        lengths in proptest::collection::vec(any_duration(), 1..200),
    ) {
        let [any, defaults] = [(); 2].map(|()| records(0, scheme, MetricSet::DEFAULT));
        let untracked = TaskState::untracked();
        let mut now = 1;
        for (number, length) in lengths.into_iter().enumerate() {
            now = u64::saturating_add(now, length);
            let prev = if number % 2 == 0 { IDLE } else { task(1) };
            let prev_state = PrevState::new(number % 3 == 0, number as u32 % 5);
            let next = Task {
                has_run: false,
                last_queued: now.saturating_sub(length / 2).max(1),
                ..task(2)
            };
            let states = |_| &untracked;
            let switch = Switch::new(now, prev, prev_state, next, &states);
            any.switch::<Dynamic>(&switch, |_| Identity::default());
            record_switch(&defaults, MetricSet::DEFAULT, &switch, |_| Identity::default());
        }
        for metric in Metric::ALL {
            let counts = |cpu: &Cpu<Vec<Cell>>| -> Vec<_> {
                cpu.buckets(metric).iter().map(Cell::get).collect()
            };
            prop_assert_eq!(counts(&any), counts(&defaults));
            prop_assert_eq!(any.sum(metric), defaults.sum(metric));
            prop_assert_eq!(any.min(metric), defaults.min(metric));
            prop_assert_eq!(any.worst(metric), defaults.worst(metric));
        }
        for counter in Counter::ALL {
            prop_assert_eq!(any.counter(counter), defaults.counter(counter));
        }
    }
}

const INTERRUPTIBLE: u32 = 1;

/// A CPU that runs only one task.
struct Alone {
    cpu: Cpu<Vec<Cell>>,
    state: TaskState,
}

impl Alone {
    fn new() -> Self {
        Self {
            cpu: records(0, Scheme::DEFAULT, MetricSet::DEFAULT),
            state: TaskState::new(),
        }
    }

    fn enter(&self, now: u64, is_new: bool, run_delay: u64, last_queued: u64) {
        let next = Task {
            has_run: !is_new,
            run_delay,
            last_queued,
            ..task(1)
        };
        self.switch(now, IDLE, PrevState::new(false, 0), next);
    }

    fn leave(&self, now: u64, state: u32, run_delay: u64) {
        self.leave_as(now, PrevState::new(false, state), run_delay);
    }

    fn leave_preempted(&self, now: u64, state: u32, run_delay: u64) {
        self.leave_as(now, PrevState::new(true, state), run_delay);
    }

    fn leave_as(&self, now: u64, state: PrevState, run_delay: u64) {
        let prev = Task {
            run_delay,
            ..task(1)
        };
        self.switch(now, prev, state, IDLE);
    }

    fn switch(&self, now: u64, prev: Task, prev_state: PrevState, next: Task) {
        let states = |_| &self.state;
        let switch = Switch::new(now, prev, prev_state, next, &states);
        self.cpu.switch::<Dynamic>(&switch, |_| Identity::default());
    }
}

/// A task is preempted with its sleep state set. A waker records the wakeup, and waits for the run
/// queue's lock; meanwhile the task gets the CPU, and blocks. Then the waker puts it on the run
/// queue.
#[test]
fn a_wakeup_from_before_a_sleep_may_end_it() {
    let one = Alone::new();
    one.cpu.begin(1, MetricSet::ALL);
    one.enter(1_000, true, 0, 990);
    one.leave_preempted(2_000, INTERRUPTIBLE, 10);
    wake(2_400, task(1), &one.state);
    one.enter(2_500, false, 10, 0);
    one.leave(3_000, INTERRUPTIBLE, 10);
    one.enter(4_000, false, 10, 3_900);
    assert_eq!(one.cpu.counter(Counter::WakeUnseen), 0);
    assert_eq!(one.cpu.sum(Metric::Wakeup), 4_000 - 2_400);
    assert_eq!(one.cpu.sum(Metric::RunqWakeup), 10 + 100);
    assert_eq!(one.cpu.sum(Metric::Offcpu), 1_000);
    // The wakeup ends one sleep only.
    one.leave(5_000, INTERRUPTIBLE, 110);
    one.enter(6_000, false, 110, 5_950);
    assert_eq!(one.cpu.counter(Counter::WakeUnseen), 1);
}

/// The kernel does not trace the last switch on a CPU that goes offline: the task that leaves there
/// is next seen when it gets a CPU again.
#[test]
fn a_switch_out_counts_once() {
    const PARKED: u32 = 0x40;
    let one = Alone::new();
    let unseen = || one.cpu.counter(Counter::WaitUnseen);
    one.enter(1_000, true, 0, 1_000);
    one.enter(2_000, false, 0, 1_990);
    assert_eq!((one.cpu.sum(Metric::Offcpu), unseen()), (0, 1));
    one.leave(3_000, PARKED, 0);
    one.enter(4_000, false, 0, 3_990);
    assert_eq!((one.cpu.sum(Metric::Offcpu), unseen()), (1_000, 1));
    one.enter(9_000, false, 0, 8_990);
    assert_eq!((one.cpu.sum(Metric::Offcpu), unseen()), (1_000, 2));
    assert_eq!(one.cpu.counter(Counter::ClockBackwards), 0);
}

/// A full and a lazy request.
#[test]
fn requests_of_the_same_time_both_end() {
    let cpu = records(0, Scheme::DEFAULT, MetricSet::ALL);
    for metric in [Metric::Resched, Metric::ReschedLazy] {
        cpu.request(&cpu, metric, Requested::Running, 20);
    }
    let untracked = TaskState::untracked();
    let states = |_| &untracked;
    let switch = Switch::new(50, task(1), PrevState::new(true, 0), IDLE, &states);
    record_switch(&cpu, MetricSet::ALL, &switch, |_| Identity::default());
    assert_eq!(
        [Metric::Resched, Metric::ReschedLazy].map(|metric| cpu.sum(metric)),
        [30, 30]
    );
}

/// The kernel's stamp of a wakeup may be from a clock that is ahead.
#[test]
fn a_stamp_that_is_ahead_is_counted() {
    let one = Alone::new();
    one.enter(1_000, true, 0, 1_001);
    assert_eq!(one.cpu.counter(Counter::ClockBackwards), 1);
    one.leave(2_000, INTERRUPTIBLE, 0);
    one.enter(4_000, false, 0, 4_007);
    assert_eq!(one.cpu.counter(Counter::ClockBackwards), 2);
    assert_eq!(one.cpu.sum(Metric::RunqWakeup), 0);
    // The kernel has accounted 10 ns of the wait already.
    one.leave(5_000, INTERRUPTIBLE, 0);
    one.enter(7_000, false, 10, 7_007);
    assert_eq!(one.cpu.counter(Counter::ClockBackwards), 3);
    assert_eq!(one.cpu.sum(Metric::RunqWakeup), 10);
}

/// A waker's stamp that is ahead is counted if a metric is computed from it, and only once. The
/// kernel's stamp is ahead, too.
#[test]
fn a_waker_that_is_ahead_is_counted_once() {
    for (metrics, queued_before, expected) in [
        (MetricSet::DEFAULT, 0, 1),
        (MetricSet::DEFAULT, 1, 2),
        (MetricSet::ALL, 0, 2),
        (MetricSet::ALL, 1, 2),
    ] {
        let one = Alone::new();
        one.cpu.begin(1, metrics);
        one.enter(1_000, true, 0, 990);
        one.leave(2_000, INTERRUPTIBLE, 10);
        let sleeping = Task {
            last_queued: queued_before,
            ..task(1)
        };
        wake(4_003, sleeping, &one.state);
        one.enter(4_000, false, 10, 4_002);
        let found = one.cpu.counter(Counter::ClockBackwards);
        assert_eq!(found, expected, "{metrics} {queued_before}");
    }
}

/// With proxy execution, a task that sleeps for a mutex stays on a run queue. Its wait begins at
/// its wakeup, also if it was migrated to the CPU of the mutex's owner. It is unknown if the waker
/// was earlier than the task's switch-out. If the owner sleeps, too, the task is off the queue when
/// it is woken, and the kernel has counted its time there: its wait is what is counted later.
#[test]
fn a_donor_waits_from_its_wakeup() {
    const UNINTERRUPTIBLE: u32 = 2;
    // Whether the task is on the queue when it is woken, when that is, and its stamp then; what the
    // kernel has counted of its sleep, what it has counted in all in the end, and the stamp then.
    for (is_donor, woken, stamp, slept, run_delay, queued, wait, unseen) in [
        (true, 4_000, 0, 0, 0, 0, 1_000, 0),
        (true, 4_000, 3_000, 0, 0, 3_000, 1_000, 0),
        (true, 4_000, 0, 0, 700, 0, 1_000, 0),
        (true, 1_999, 0, 0, 0, 0, 0, 1),
        (false, 4_000, 0, 700, 700, 4_001, 999, 0),
        (false, 4_000, 0, 700, 1_200, 4_502, 998, 0),
    ] {
        let one = Alone::new();
        one.enter(1_000, true, 0, 1_000);
        let donor = Task {
            is_donor,
            last_queued: stamp,
            run_delay: slept,
            ..task(1)
        };
        if woken < 2_000 {
            wake_with_proxies(woken, donor, &one.state);
        }
        one.leave(2_000, UNINTERRUPTIBLE, 0);
        if woken > 2_000 {
            wake_with_proxies(woken, donor, &one.state);
        }
        one.enter(5_000, false, run_delay, queued);
        let case = format!("woken {woken}, stamp {stamp}, run_delay {run_delay}");
        assert_eq!(one.cpu.counter(Counter::WaitUnseen), unseen, "{case}");
        assert_eq!(one.cpu.counter(Counter::ClockBackwards), 0, "{case}");
        assert_eq!(one.cpu.sum(Metric::Offcpu), 3_000, "{case}");
        assert_eq!(one.cpu.sum(Metric::RunqWakeup), wait, "{case}");
        let blocked = if unseen == 0 { 3_000 - wait } else { 0 };
        assert_eq!(
            one.cpu.sum(Metric::BlockedUninterruptible),
            blocked,
            "{case}"
        );
    }
}

/// A stamp that equals the time of the switch is not ahead.
#[test]
fn a_stamp_of_the_same_time_is_not_ahead() {
    let one = Alone::new();
    one.cpu.begin(1, MetricSet::ALL);
    one.enter(1_000, true, 0, 1_000);
    one.leave(2_000, INTERRUPTIBLE, 0);
    let sleeping = Task {
        last_queued: 1,
        ..task(1)
    };
    wake(4_000, sleeping, &one.state);
    one.enter(4_000, false, 0, 4_000);
    assert_eq!(one.cpu.counter(Counter::ClockBackwards), 0);
    assert_eq!(one.cpu.sum(Metric::RunqWakeup), 0);
    assert_eq!(one.cpu.sum(Metric::Offcpu), 2_000);
}

/// A task that gets a CPU in the nanosecond in which it left one was away for 0 ns.
#[test]
fn an_absence_may_take_no_time() {
    let one = Alone::new();
    one.enter(1_000, true, 0, 1_000);
    one.leave(2_000, 0, 0);
    one.enter(2_000, false, 0, 0);
    assert_eq!(one.cpu.count_of(Metric::RunqPreempt), 1);
    one.leave(3_000, INTERRUPTIBLE, 0);
    one.enter(3_000, false, 0, 3_000);
    assert_eq!(one.cpu.count_of(Metric::Offcpu), 1);
    assert_eq!(one.cpu.counter(Counter::WaitUnseen), 0);
    assert_eq!(one.cpu.counter(Counter::ClockBackwards), 0);
}

/// The wait of a new task is a sample unless it began before measuring did.
#[test]
fn a_new_task_may_have_waited_since_measuring_began() {
    for (last_queued, samples) in [(499, 0), (500, 1), (501, 1)] {
        let one = Alone::new();
        one.cpu.begin(500, MetricSet::DEFAULT);
        one.enter(1_000, true, 0, last_queued);
        assert_eq!(one.cpu.count_of(Metric::RunqWakeup), samples);
        assert_eq!(one.cpu.counter(Counter::WaitUnseen), 1 - samples);
    }
}

/// The waker of a task that was queued already is believed, unless the wakeup is from before the
/// sleep.
#[test]
fn a_wakeup_at_the_switch_out_ends_the_sleep() {
    for (woken, wait) in [(1_999, 100), (2_000, 2_000), (2_001, 1_999)] {
        let one = Alone::new();
        one.enter(1_000, true, 0, 1_000);
        one.leave(2_000, INTERRUPTIBLE, 0);
        let sleeping = Task {
            last_queued: 1_500,
            ..task(1)
        };
        wake(woken, sleeping, &one.state);
        one.enter(4_000, false, 0, 3_900);
        assert_eq!(one.cpu.sum(Metric::RunqWakeup), wait);
    }
}

/// Without a stamp of the kernel the end of a sleep is not known, however long the task was away.
#[test]
fn a_wait_without_a_stamp_is_not_known() {
    for out in [0, 1, 3_999, 4_000] {
        let one = Alone::new();
        one.leave(out, INTERRUPTIBLE, 0);
        one.enter(4_000, false, 0, 0);
        assert_eq!(one.cpu.sum(Metric::Offcpu), u128::from(4_000 - out));
        assert_eq!(one.cpu.count_of(Metric::RunqWakeup), 0);
        assert_eq!(one.cpu.counter(Counter::WaitUnseen), 1);
    }
}

/// At the defaults, with all cells in one allocation with the header, as in the module.
#[test]
fn a_cpu_takes_64_kib_in_one_piece() {
    const CELLS: usize = Cpu::<[Cell]>::cells(Scheme::DEFAULT, MetricSet::DEFAULT);

    let sized = Cpu::new(3, Scheme::DEFAULT, [const { Cell::new(0) }; CELLS]);
    let cpu: Box<Cpu<[Cell]>> = Box::new(sized.expect("the number of cells is right"));
    assert!(size_of_val(&*cpu) <= 64 * 1024);
    // The buckets follow the header with no gap, and fill the rest except the padding.
    let header = size_of::<Header>();
    let end = (header + CELLS * size_of::<Cell>()).next_multiple_of(64);
    assert_eq!(size_of_val(&*cpu), end);

    assert_eq!(cpu.capacity(), MetricSet::DEFAULT);
    let all = records(0, Scheme::DEFAULT, MetricSet::ALL);
    assert_eq!(all.capacity(), MetricSet::ALL);
    cpu.begin(0, MetricSet::DEFAULT);
    for now in 1..=1000 {
        idle_at(&cpu, now, |_| Identity::default());
    }
    assert_eq!(cpu.count_of(Metric::Idle), 999);
    assert_eq!(cpu.count_of(Metric::Oncpu), 0);
}
