// SPDX-License-Identifier: GPL-2.0

//! Data shared between CPUs, in all interleavings up to a number of preemptions, with every value
//! that the language's memory model allows a reader to see: `tests/engine/run loom`.
//!
//! There are two or three steps of each kind, and as many outliers kept, as
//! `engine/outlier/log.rs` has it under `cfg(loom)`; but no interleaving is left out, up to one to
//! three preemptions, or `LOOM_MAX_PREEMPTIONS`.

#![cfg(loom)]

mod grouped;

use std::{
    fmt::Debug,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use loom::{
    model::Builder,
    sync::{
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
        Arc, Mutex,
    },
    thread::{self, JoinHandle},
};

use schedhist_engine::{
    engine::{
        cell::Cell,
        chain::{walk, ChainSlice, Hop, Link, Ring, SliceCells, Start},
        group::{
            fork_marks::ForkMarks,
            hash::Secret,
            index::Entry,
            observer::{CpuGroups, Grouped},
            records::{CulpritKind, GroupCounter, GroupMetric},
            slices::GroupSlices,
            table::{GroupTable, Place},
            task_group::{Group, TaskGroup},
        },
        histogram::{
            bucket::{Precision, Scheme},
            totals::Worst,
        },
        identity::Identity,
        idle::IdlePeriods,
        metric::{Counter, Metric, MetricSet},
        outlier::{
            history::Slice,
            limit::{next_after, Limit},
            log::{Culprit, Log, CULPRITS},
            rate::Rate,
            KEPT,
        },
        seqcount::SeqCount,
        switch::{
            cpu::{Occupancy, Requested},
            sample::{Cause, Observer, Sample},
            settings::{Dynamic, DynamicResched},
            switch_out::PrevState,
            task_state::TaskState,
        },
    },
    modelled::{settle, without_fences},
    testing::{self, idle_at, task, wake, Records, Switch, Task, IDLE},
};

use grouped::{group, user, Groups};

/// Runs `test` in all orders, with at most `preemptions` unless the environment says otherwise.
fn in_all_orders(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    builder.check(test);
}

/// Runs a writer and a reader of a value side by side.
///
/// Loom does not find all orders by itself where the writer loads a cell before it stores it, as
/// [`Cell::add`] does: the writer's own load hides the reader's. So the first order is that in
/// which the writer is done before the reader begins. Nothing synchronizes the two, so the reader
/// may still see each earlier value, and loom tries them all.
fn side_by_side<T: 'static>(
    shared: &Arc<T>,
    writer: impl FnOnce(&T) + 'static,
    reader: impl FnOnce(&T) + 'static,
) {
    let writer = thread_with(shared, move |it| writer(&it));
    let reader = thread_with(shared, move |it| reader(&it));
    join(writer);
    reader.join().expect("assertion of the reader");
}

/// Runs `f` in a thread of its own, with its own share of `shared`.
fn thread_with<T: Clone + 'static, R: 'static>(
    shared: &T,
    f: impl FnOnce(T) -> R + 'static,
) -> JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || f(shared))
}

fn join<R>(thread: JoinHandle<R>) -> R {
    thread.join().expect("the thread does not fail")
}

/// Returns a value to share, whose cells loom knows.
fn settled<T: Debug>(value: T) -> Arc<T> {
    settle(&value);
    Arc::new(value)
}

/// Makes two tests of a model: that it holds, and that it does not without fences, since the proof
/// can fail.
macro_rules! fenced {
    ($preemptions:literal: $model:expr => $holds:ident, $fails:ident) => {
        #[test]
        fn $holds() {
            in_all_orders($preemptions, $model);
        }

        #[test]
        #[should_panic(expected = "assertion")]
        fn $fails() {
            without_fences(|| in_all_orders($preemptions, $model));
        }
    };
}

const SCHEME: Scheme = Scheme::new(match Precision::new(Precision::MIN) {
    Some(precision) => precision,
    None => panic!("the least is a precision"),
});

fn records(number: u32) -> Records {
    testing::records(number, SCHEME, MetricSet::ALL)
}

/// Two cells that are always equal for readers that use the sequence counter.
#[derive(Debug)]
struct Pair {
    seqcount: SeqCount,
    cells: [Cell; 2],
}

impl Pair {
    fn new() -> Arc<Self> {
        settled(Self {
            seqcount: SeqCount::default(),
            cells: [Cell::new(0), Cell::new(0)],
        })
    }

    fn write(&self, value: u64) {
        self.seqcount
            .write(|| self.cells.iter().for_each(|cell| cell.set(value)));
    }

    fn get(&self) -> [u64; 2] {
        [self.cells[0].get(), self.cells[1].get()]
    }
}

fn pair_while_it_changes() {
    let pair = Pair::new();
    let writer = thread_with(&pair, move |pair| {
        (1..=2).for_each(|value| pair.write(value))
    });
    let tried = pair.seqcount.try_read(|| pair.get());
    let [first, second] = pair.seqcount.read(|| pair.get());
    assert_eq!(first, second);
    if let Some([one, other]) = tried {
        assert_eq!(one, other);
        assert!(one <= first);
    }
    join(writer);
    assert_eq!(pair.seqcount.try_read(|| pair.get()), Some([2, 2]));
}

fenced! {
    3: pair_while_it_changes =>
    what_a_sequence_counter_guards_is_never_torn, without_fences_a_sequence_counter_guards_nothing
}

/// A single try fails only if it met the writer.
#[test]
fn a_try_fails_only_where_it_meets_the_writer() {
    static FAILED: AtomicUsize = AtomicUsize::new(0);

    in_all_orders(3, || {
        let pair = Pair::new();
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = thread_with(&(pair.clone(), is_over.clone()), move |(pair, is_over)| {
            pair.write(1);
            is_over.store(true, Release);
        });
        let was_over = is_over.load(Acquire);
        match pair.seqcount.try_read(|| pair.get()) {
            Some(found) => assert!(found == [1, 1] || (!was_over && found == [0, 0])),
            None => {
                assert!(!was_over);
                FAILED.fetch_add(1, Relaxed);
            }
        }
        join(writer);
    });
    assert!(FAILED.load(Relaxed) > 0);
}

/// Returns the task of the `n`th sample: `n` determines all of it.
fn identity(n: u64) -> Identity {
    let byte = n as u8;
    Identity {
        pid: n as i32,
        prio: -(n as i32),
        comm: [byte; 16],
        group: Group::new(n as u32).expect("not too many"),
    }
}

/// Ends the `n`th slice of the idle task, at `now`.
fn end_idle(cpu: &Records, now: u64, n: u64) {
    idle_at(cpu, now, |_| identity(n));
}

/// Creates a CPU that has just gone idle, at 1, and has no sample yet. Its cells are settled.
fn idle_cpu() -> Arc<Records> {
    let cpu = records(0);
    end_idle(&cpu, 1, 0);
    assert_eq!(cpu.worst(Metric::Idle), None);
    assert_eq!(cpu.sum(Metric::Idle), 0);
    assert_eq!(Counter::ALL.map(|counter| cpu.counter(counter))[0], 1);
    assert_eq!(cpu.count_of(Metric::Idle), 0);
    Arc::new(cpu)
}

/// Returns the length of the `n`th slice, each longer than the one before, and its end.
fn slice(n: u64) -> (u64, u64) {
    (10 * n, 1 + 10 * n * (n + 1) / 2)
}

/// Checks that `worst` is one complete sample, and returns its number.
fn number_of(worst: Option<Worst>) -> u64 {
    worst.map_or(0, |worst| {
        let n = worst.value / 10;
        let (value, time) = slice(n);
        let task = identity(n);
        assert_eq!(worst, Worst { value, task, time });
        n
    })
}

fn worst_while_it_changes() {
    let cpu = idle_cpu();
    end_idle(&cpu, slice(1).1, 1);
    let writer = thread_with(&cpu, move |cpu| end_idle(&cpu, slice(2).1, 2));
    // Either the previous sample or the new one; never none.
    let first = number_of(cpu.worst(Metric::Idle));
    assert!(first == 1 || first == 2);
    assert!(number_of(cpu.worst(Metric::Idle)) >= first);
    join(writer);
    assert_eq!(number_of(cpu.worst(Metric::Idle)), 2);
}

fenced! {
    2: worst_while_it_changes =>
    the_worst_sample_is_never_torn, without_fences_the_worst_sample_is_torn
}

/// A reset is another writer of the extremes, on the same CPU.
#[test]
fn the_worst_sample_is_never_torn_by_a_reset() {
    in_all_orders(2, || {
        let cpu = idle_cpu();
        end_idle(&cpu, slice(1).1, 1);
        let writer = thread_with(&cpu, move |cpu| {
            cpu.restart_extremes();
            end_idle(&cpu, slice(2).1, 2);
        });
        number_of(cpu.worst(Metric::Idle));
        join(writer);
        assert_eq!(number_of(cpu.worst(Metric::Idle)), 2);
    });
}

/// Another CPU and the CPU itself request that it be rescheduled, and its scheduler keeps the task:
/// each request ends once.
#[test]
fn a_request_to_reschedule_ends_once() {
    in_all_orders(3, || {
        let [cpu, other] = [0, 1].map(|number| settled(records(number)));
        let request = |by: &Records, cpu: &Records, now| {
            by.request(cpu, Metric::Resched, Requested::Running, now);
        };
        let shares = (cpu.clone(), other.clone());
        let requester = thread_with(&shares, move |(cpu, other)| request(&other, &cpu, 5));
        request(&cpu, &cpu, 3);
        cpu.withdraw_requests(|_| false);
        join(requester);
        let is_pending = cpu.has_requests();
        let state = TaskState::untracked();
        let states = |_| &state;
        let switch = Switch::new(9, task(7), PrevState::new(true, 0), IDLE, &states);
        cpu.switch::<DynamicResched>(&switch, |_| identity(7));
        let samples = cpu.count_of(Metric::Resched);
        assert_eq!(samples, u64::from(is_pending));
        let sum = |counter| cpu.counter(counter) + other.counter(counter);
        assert_eq!(sum(Counter::ReschedSet), 2);
        assert_eq!(sum(Counter::ReschedUnused), 2 - samples);
    });
}

/// Samples whose sum first gets its bit 63 and then wraps: a concurrent reader only sees sums that
/// there were, and never an earlier one after a later one.
#[test]
fn a_sum_that_wraps_is_never_torn() {
    const SAMPLES: [u64; 4] = [(1 << 63) - 5, 10, 1 << 62, 1 << 62];

    in_all_orders(1, || {
        let cpu = idle_cpu();
        let sums: Vec<u128> = SAMPLES
            .iter()
            .scan(0, |sum, sample| {
                *sum += u128::from(*sample);
                Some(*sum)
            })
            .collect();
        let record = |cpu: &Records, sample| {
            cpu.forget();
            end_idle(cpu, 1, 0);
            end_idle(cpu, 1 + sample, 0);
        };
        record(&cpu, SAMPLES[0]);
        let last = sums.last().copied();
        side_by_side(
            &cpu,
            move |cpu| SAMPLES[1..].iter().for_each(|sample| record(cpu, *sample)),
            move |cpu| {
                let mut before = 0;
                for _ in 0..2 {
                    let found = cpu.sum(Metric::Idle);
                    let place = sums.iter().position(|sum| *sum == found);
                    assert!(
                        place >= Some(before),
                        "{found:x} in {sums:x?} after {before}"
                    );
                    before = place.unwrap_or(before);
                }
            },
        );
        assert_eq!(Some(cpu.sum(Metric::Idle)), last);
    });
}

/// The `n`th outlier's sample.
fn sample(n: u64) -> Sample {
    let [metric, cause] = [Metric::COUNT, Cause::COUNT].map(|count| n as usize % count);
    Sample::new(Metric::ALL[metric], 10 * n, Cause::ALL[cause], 100 * n)
}

/// Reports the `n`th outlier, with one culprit, which had the CPU for all but `n` of it.
fn report(log: &Log, n: u64) {
    let sample = sample(n);
    log.slice(&Slice {
        task: identity(n),
        since: sample.end - sample.value,
        until: sample.end - n,
    });
    assert!(log.report(n, &sample, &identity(n), None).is_some());
}

/// Reads the outlier `n`, and returns whether it was there, complete.
fn is_there(log: &Log, n: u64) -> bool {
    let mut culprits = [Culprit::default(); CULPRITS];
    let Some(found) = log.read(n, &mut culprits) else {
        return false;
    };
    assert_eq!((found.id, found.sample), (n, sample(n)));
    assert_eq!((found.task, found.missing), (identity(n), n));
    assert_eq!(found.culprits, 1);
    let culprit = Culprit {
        task: identity(n),
        ran: 9 * n,
        slices: 1,
    };
    assert_eq!(culprits, [culprit; CULPRITS]);
    true
}

/// A reader can read the outlier that it finds, unless another one takes its place.
fn outlier_while_it_is_written() {
    let log = settled(Log::default());
    let writer = thread_with(&log, move |log| report(&log, 1));
    if let Some(found) = log.first_after(0) {
        assert_eq!(found, 1);
        assert!(is_there(&log, 1));
    }
    join(writer);
    assert!(is_there(&log, 1));
}

fenced! {
    2: outlier_while_it_is_written =>
    an_outlier_that_is_found_is_there, without_fences_an_outlier_is_torn
}

#[test]
fn an_outlier_is_never_torn_by_the_next_in_its_place() {
    in_all_orders(1, || {
        let log = settled(Log::default());
        for n in 1..=KEPT as u64 {
            report(&log, n);
        }
        let next = KEPT as u64 + 1;
        let writer = thread_with(&log, move |log| report(&log, next));
        let oldest = log.first_after(0);
        assert!(oldest.is_some_and(|oldest| oldest <= 2));
        is_there(&log, 1);
        join(writer);
        assert!(!is_there(&log, 1) && is_there(&log, next));
    });
}

/// Takes numbers until there are none, and returns them.
fn take_all(limit: &Limit) -> Vec<u64> {
    core::iter::from_fn(|| limit.take()).collect()
}

#[test]
fn a_limit_is_kept_by_all_together() {
    in_all_orders(3, || {
        let limit = settled(Limit::new(2));
        let other = thread_with(&limit, move |limit| take_all(&limit));
        let mut all = take_all(&limit);
        all.extend(join(other));
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert_eq!((limit.get(), limit.last()), (2, 2));
    });
}

/// The limit is set while numbers are taken: no number is given twice, none is left out, and there
/// are never more than were allowed.
#[test]
fn numbers_are_never_used_again() {
    in_all_orders(3, || {
        let limit = settled(Limit::new(1));
        let takers = [0, 1].map(|_| thread_with(&limit, |limit| limit.take()));
        limit.set(1);
        let mut all: Vec<u64> = takers.into_iter().filter_map(join).collect();
        all.extend(take_all(&limit));
        all.sort_unstable();
        assert!(all == [1] || all == [1, 2], "{all:?}");
        assert_eq!(limit.last(), all.len() as u64);
    });
}

/// Returns the number of turns that can be taken at `now`, one after the other.
fn turns(rate: &Rate, now: u64) -> usize {
    core::iter::from_fn(|| rate.take(now).then_some(())).count()
}

#[test]
fn a_rate_is_kept_by_all_together() {
    in_all_orders(3, || {
        let rate = settled(Rate::new(2));
        let other = thread_with(&rate, move |rate| turns(&rate, 10));
        let mine = turns(&rate, 10);
        assert_eq!(mine + join(other), 2);
        // Each takes half a second.
        assert_eq!(turns(&rate, 500_000_009), 0);
        assert_eq!(turns(&rate, 500_000_010), 1);
    });
}

/// The rate is set while turns are taken: the bucket is refilled at most once.
#[test]
fn a_rate_is_set_while_turns_are_taken() {
    in_all_orders(3, || {
        let rate = settled(Rate::new(1));
        let takers = [0, 1].map(|_| thread_with(&rate, |rate| rate.take(10)));
        rate.set(1);
        let taken = takers.into_iter().map(join).filter(|taken| *taken).count();
        let all = taken + turns(&rate, 10);
        assert!((1..=2).contains(&all), "{all}");
        assert_eq!(turns(&rate, 10), 0);
    });
}

/// Takes a number in a thread of its own, and reports its outlier.
fn reporter(limit: &Arc<Limit>, log: &Arc<Log>) -> JoinHandle<()> {
    thread_with(&(limit.clone(), log.clone()), |(limit, log)| {
        let id = log.take(&limit).expect("the limit allows it");
        report(&log, id);
        limit.done();
    })
}

/// A reader that sees that the limit is used up, and looks then, finds the last outlier.
#[test]
fn nothing_comes_after_the_end() {
    in_all_orders(1, || {
        let limit = settled(Limit::new(1));
        let logs = [0, 1].map(|_| settled(Log::default()));
        let writer = reporter(&limit, &logs[1]);
        let has_ended = limit.has_ended();
        let seen = look(&logs, 0);
        assert!(seen == 1 || !has_ended);
        join(writer);
        assert!(limit.is_used_up() && limit.has_ended());
        assert_eq!(look(&logs, 0), 1);
    });
}

/// Goes from the outlier `seen` to the next in `logs`, if it can be read by now. Skips none.
fn look(logs: &[Arc<Log>; 2], seen: u64) -> u64 {
    let first_after = |seen| {
        logs.iter()
            .filter_map(|log| Some((log.first_after(seen)?, log)))
            .min_by_key(|(id, _)| *id)
    };
    let is_any_before = |id| logs.iter().any(|log| log.may_report_before(id));
    next_after(seen, first_after, is_any_before).map_or(seen, |(id, log)| {
        assert_eq!(id, seen + 1);
        assert!(is_there(log, id));
        id
    })
}

/// The second of two outliers can be read while the first is in flight on another CPU.
#[test]
fn an_outlier_on_its_way_is_waited_for() {
    in_all_orders(2, || {
        let limit = settled(Limit::new(0));
        let logs = [0, 1].map(|_| settled(Log::default()));
        assert_eq!(logs[0].take(&limit), Some(1));
        assert_eq!(logs[1].take(&limit), Some(2));
        report(&logs[1], 2);
        limit.done();
        let writer = thread_with(&(limit, logs[0].clone()), |(limit, log)| {
            report(&log, 1);
            limit.done();
        });
        let mut seen = look(&logs, 0);
        join(writer);
        while seen < 2 {
            seen = look(&logs, seen);
        }
    });
}

/// One of two CPUs is done. A reader that sees its outlier also sees whether the other CPU has
/// taken an earlier number.
#[test]
fn an_outlier_with_an_earlier_number_is_on_its_way() {
    in_all_orders(1, || {
        let limit = settled(Limit::new(0));
        let logs = [0, 1].map(|_| settled(Log::default()));
        let [slow, fast] = logs.each_ref().map(|log| reporter(&limit, log));
        join(fast);
        let mut seen = look(&logs, 0);
        join(slow);
        while seen < 2 {
            seen = look(&logs, seen);
        }
    });
}

/// Two CPUs report an outlier each, and a reader that goes from one to the next gets both, in
/// order.
#[test]
fn a_reader_gets_all_outliers() {
    in_all_orders(1, || {
        let limit = settled(Limit::new(0));
        let logs = [0, 1].map(|_| settled(Log::default()));
        let writers = logs.each_ref().map(|log| reporter(&limit, log));
        // Reads while they report, and afterwards.
        let mut seen = look(&logs, 0);
        for writer in writers {
            join(writer);
        }
        while seen < 2 {
            seen = look(&logs, seen);
        }
        assert_eq!(look(&logs, 2), 2);
    });
}

/// A task sleeps on one CPU and is woken for another, by a waker that comes before it has left: the
/// kernel's synchronization between the three, little as it is, orders all its cells.
///
/// `on_cpu` is `task_struct::on_cpu`, which the waker waits for; the end of the waker stands for
/// the lock of the run queue that the task goes to.
#[test]
fn a_task_is_handed_over() {
    const SLEEPER: Task = Task {
        run_delay: 5,
        ..task(7)
    };

    static TIMES: AtomicUsize = AtomicUsize::new(0);

    in_all_orders(3, || {
        let cpus = Arc::new([records(0), records(1)]);
        let task = settled(TaskState::new());
        let on_cpu = Arc::new(AtomicBool::new(true));
        let nobody = |_| Identity::default();
        let sleeper = thread_with(
            &(cpus.clone(), task.clone(), on_cpu.clone()),
            move |(cpus, task, on_cpu)| {
                let states = |_| &*task;
                let switch = Switch::new(100, SLEEPER, PrevState::new(false, 1), IDLE, &states);
                cpus[0].switch::<Dynamic>(&switch, nobody);
                on_cpu.store(false, Release);
            },
        );
        let waker = thread_with(&task, move |task| {
            wake(110, SLEEPER, &task);
            !on_cpu.load(Acquire)
        });
        // If the waker would have to wait, this interleaving ends here: others go on.
        if !join(waker) {
            return;
        }
        TIMES.fetch_add(1, Relaxed);
        let next = Task {
            last_queued: 120,
            ..SLEEPER
        };
        let states = |_| &*task;
        let switch = Switch::new(130, IDLE, PrevState::new(false, 0), next, &states);
        cpus[1].switch::<Dynamic>(&switch, nobody);
        let sums = [
            Metric::Offcpu,
            Metric::Wakeup,
            Metric::RunqWakeup,
            Metric::BlockedInterruptible,
        ]
        .map(|metric| cpus[1].sum(metric));
        assert_eq!(sums, [30, 20, 10, 20]);
        assert_eq!(cpus[1].counter(Counter::Migrations), 1);
        join(sleeper);
    });
    assert!(TIMES.load(Relaxed) > 1);
}

/// A task that has set its sleep state leaves its CPU throttled, and is woken meanwhile. When it
/// gets another CPU, its absence is that of a throttled task, whether the waker was in time or not.
#[test]
fn a_throttled_task_is_handed_over() {
    in_all_orders(3, || {
        let cpus = [records(0), records(1)];
        let task_state = settled(TaskState::new());
        let nobody = |_| Identity::default();
        let throttled = Task {
            is_throttled: true,
            ..task(7)
        };
        let state = |_| &*task_state;
        let switch = |now, prev, prev_state, next| Switch::new(now, prev, prev_state, next, &state);
        let preempted = PrevState::new(true, 1);
        let waker = thread_with(&task_state, move |task_state| {
            wake(110, task(7), &task_state)
        });
        cpus[0].switch::<Dynamic>(&switch(100, throttled, preempted, IDLE), nobody);
        let idle = PrevState::new(false, 0);
        cpus[1].switch::<Dynamic>(&switch(130, IDLE, idle, task(7)), nobody);
        assert_eq!(cpus[0].counter(Counter::Involuntary), 1);
        assert_eq!(cpus[1].counter(Counter::Throttled), 1);
        assert_eq!(cpus[1].sum(Metric::Throttled), 30);
        assert_eq!(cpus[1].count_of(Metric::RunqPreempt), 0);
        join(waker);
    });
}

/// Returns records of two groups, in the second of which the task that has the CPU is.
fn new_groups() -> Arc<Groups> {
    let groups = Groups::without_histograms(2, SCHEME);
    settle(&groups);
    groups.observer().enter(user(1));
    Arc::new(groups)
}

/// Records the `n`th slice for a group.
fn add_to_group(groups: &Groups, n: u64) {
    let (value, end) = slice(n);
    groups.record(
        Grouped::new(|_| identity(n), groups),
        Metric::Oncpu,
        value,
        end,
    );
}

fn worst_of_a_group_while_it_changes() {
    let groups = new_groups();
    add_to_group(&groups, 1);
    let writer = thread_with(&groups, move |groups| {
        (2..=3).for_each(|n| add_to_group(&groups, n))
    });
    let worst = || number_of(groups.of(1).worst(GroupMetric::Oncpu));
    let first = worst();
    assert!(first >= 1);
    assert!(worst() >= first);
    join(writer);
    assert_eq!(worst(), 3);
}

fenced! {
    2: worst_of_a_group_while_it_changes =>
    the_worst_sample_of_a_group_is_never_torn, without_fences_the_worst_sample_of_a_group_is_torn
}

fn sum_of_a_group_while_it_wraps() {
    const SAMPLES: [u64; 4] = [(1 << 63) - 5, 10, (1 << 63) - 1, 4];

    let groups = new_groups();
    let add = |groups: &Groups, sample| groups.sample(Metric::Offcpu, sample, 1);
    SAMPLES[..2].iter().for_each(|sample| add(&groups, *sample));
    let sum = |groups: &Groups| groups.of(1).sum(GroupMetric::Offcpu);
    let sums = (1..=SAMPLES.len()).map(|n| SAMPLES[..n].iter().copied().map(u128::from).sum());
    let sums: Vec<u128> = sums.collect();
    let last = sums.last().copied();
    side_by_side(
        &groups,
        move |groups| SAMPLES[2..].iter().for_each(|sample| add(groups, *sample)),
        move |groups| {
            let places = [(); 2].map(|()| {
                let found = sum(groups);
                let place = sums.iter().position(|sum| *sum == found);
                place.unwrap_or_else(|| panic!("assertion: there never was {found:x}"))
            });
            assert!(places[0] <= places[1]);
        },
    );
    assert_eq!(Some(sum(&groups)), last);
}

fenced! {
    2: sum_of_a_group_while_it_wraps =>
    a_sum_of_a_group_that_wraps_is_never_torn, without_fences_a_sum_of_a_group_is_torn
}

/// A group takes the place of another among those that kept a group waiting: a reader never adds
/// the waits of one to the other.
fn neighbours_while_one_is_replaced() {
    let groups = new_groups();
    // Of each group, one wait, as long as the square of its number.
    let wait = |groups: &Groups, number: u32| {
        groups.wait(1, user(number), u64::from(number * number));
    };
    (2..=5).for_each(|number| wait(&groups, number));
    let named = |groups: &Groups| {
        let all = groups
            .of(1)
            .neighbours()
            .map(|(group, count, nanoseconds)| {
                let number = group.number();
                assert_eq!((count, nanoseconds), (1, u64::from(number * number)));
                number
            });
        all.collect::<Vec<u32>>()
    };
    side_by_side(
        &groups,
        move |groups| wait(groups, 6),
        move |groups| {
            let found = named(groups);
            assert!(
                found == [2, 3, 4, 5] || found == [6, 3, 4, 5],
                "assertion: {found:?}"
            );
        },
    );
    assert_eq!(named(&groups), [6, 3, 4, 5]);
    assert_eq!(groups.of(1).ended_by(CulpritKind::Other).count(), 5);
}

fenced! {
    2: neighbours_while_one_is_replaced =>
    a_neighbour_that_is_replaced_is_never_torn, without_fences_a_neighbour_is_torn
}

/// The process with the only rule has forked another one, and the cgroup of the only group comes
/// again, while a sweep, which found no task in it, folds the group: as `Groups::sweep()`, and
/// `Groups::decide()` for the new task, both with the lock of the directory. The task's group is
/// one that has a place, and never one that gives its place up.
#[test]
fn a_group_that_comes_again_while_it_is_folded() {
    static KEPT_OR_GONE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    const KEY: u128 = 7;
    const PARENT: u128 = 1;
    const CHILD: u128 = 2;
    const TASK: Task = task(9);
    const SECRET: Secret = Secret::new([1, 2]);

    struct GroupRegistry {
        places: GroupTable<Vec<Place>, Vec<Entry>>,
        fork_marks: ForkMarks<Vec<Entry<u64>>>,
    }

    in_all_orders(3, || {
        let entries = GroupTable::<Vec<Place>, Vec<Entry>>::entries(2);
        let mut directory = GroupRegistry {
            places: GroupTable::new(vec![Place::VACANT; 2], vec![None; entries], SECRET),
            fork_marks: ForkMarks::new(vec![None; 4], SECRET),
        };
        let old = directory.places.take(KEY).expect("there is a place");
        assert!(directory.fork_marks.mark(PARENT, 1));
        let directory = Arc::new(Mutex::new(directory));
        let state = settled(TaskState::new());
        // An earlier task of the PID was in the group.
        assert!(state.set_task_group(TASK.id << 1, TaskGroup::new(old, false)));
        let decider = thread_with(
            &(directory.clone(), state.clone()),
            move |(directory, state)| {
                directory
                    .lock()
                    .expect("no poison")
                    .fork_marks
                    .fork(PARENT, CHILD);
                let mut directory = directory.lock().expect("no poison");
                // Its probe may come twice: the recorder's, and that of the groups.
                directory.fork_marks.fork(PARENT, CHILD);
                assert_eq!(directory.fork_marks.marks(CHILD), 1);
                let places = &mut directory.places;
                let found = places.find(KEY);
                // Once it is retired, another group has the name.
                let group = found.unwrap_or_else(|| places.take(KEY).expect("there is a place"));
                state.set_task_group(TASK.id, TaskGroup::new(group, false));
            },
        );
        let lock = || directory.lock().expect("no poison");
        let since = lock().places.now();
        let is_dead = state.task_group(TASK.id).group() != old;
        let mut retired = None;
        lock()
            .places
            .retire(since, 1, |_| is_dead, |group| retired = Some(group));
        if let Some(retired) = retired {
            let _directory = lock();
            state.forget_task_group(|of| of == retired);
        }
        let is_gone = lock().places.vacate(old);
        assert_eq!(retired.is_some(), is_gone);
        join(decider);
        KEPT_OR_GONE[usize::from(is_gone)].fetch_add(1, Relaxed);
        let directory = lock();
        let group = state.task_group(TASK.id).group();
        assert_eq!(directory.places.key(group), Some(KEY));
        assert_eq!(directory.fork_marks.marks(CHILD), 1);
    });
    assert!(KEPT_OR_GONE.iter().all(|number| number.load(Relaxed) > 0));
}

/// The time with preemption off of a CPU's switches: one at a time, and a grace period waits for
/// the one that has begun.
struct Preemption(Mutex<()>);

impl Preemption {
    fn off(&self, section: impl FnOnce()) {
        let _off = self.0.lock().expect("no poison");
        section();
    }

    fn synchronize(&self) {
        self.off(|| {});
    }
}

/// A group gives up its place, as in `Groups::fold()`, while a CPU goes on: the task that was in
/// the group gets the CPU, unless it has it already, and leaves it, and the next one waits for
/// that. The place gets another group as soon as it is vacant, which the second task moves to. What
/// the first task did is gone, or still in the place, and never mixed with what the second one
/// does.
fn a_place_while_it_changes_hands(grace_periods: usize, has_cpu: bool) {
    static LEFT_OR_VACANT: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    const FIRST: Task = task(7);
    const SECOND: Task = task(8);
    const GONE: u32 = 2;

    in_all_orders(2, move || {
        // Besides "other" and the place: what is gone, and the group of the second task at first.
        let groups = settled(Groups::without_histograms(4, SCHEME));
        let states = settled([TaskState::new(), TaskState::new()]);
        let preemption = Arc::new(Preemption(Mutex::new(())));
        // Loom lets a thread begin in the middle of the switch only where both use the same atomic.
        let middle = Arc::new(AtomicBool::new(false));
        let place = Group::new(1).expect("a small number");
        states[0].set_task_group(FIRST.id, user(1));
        states[1].set_task_group(SECOND.id, user(3));
        if has_cpu {
            groups.observer().enter(user(1));
        }
        let cpu = thread::spawn({
            let (groups, states) = (groups.clone(), states.clone());
            let (preemption, middle) = (preemption.clone(), middle.clone());
            move || {
                if !has_cpu {
                    let group = || states[0].task_group(FIRST.id);
                    preemption.off(|| {
                        let _ = groups.observer().enter(group());
                    });
                }
                preemption.off(|| {
                    groups.sample(Metric::Oncpu, 100, 1);
                    let observer = groups.observer().enter(states[1].task_group(SECOND.id));
                    middle.store(true, Relaxed);
                    groups.record(observer, Metric::RunqWakeup, 10, 1);
                });
                preemption.off(|| {
                    groups.sample(Metric::Oncpu, 1, 2);
                    let _ = groups.observer().enter(TaskGroup::IDLE);
                });
            }
        });
        let synchronize = |number| {
            if number < grace_periods {
                preemption.synchronize();
            }
        };
        let gone = Group::new(GONE).expect("a small number");
        let rename = || {
            let mut is_named = false;
            for number in 0..4 {
                let records = groups.of(number);
                records.rename_neighbours(|of| of == place, gone, |_| is_named = true);
            }
            is_named
        };
        states
            .iter()
            .for_each(|state| state.forget_task_group(|of| of == place));
        synchronize(0);
        middle.load(Relaxed);
        let is_busy = (&*groups).occupant().now().group() == place;
        rename();
        synchronize(1);
        let is_named = rename();
        let is_vacant = !is_busy && !is_named;
        if is_vacant {
            groups.of(GONE).absorb(groups.of(1));
            groups.of(1).clear();
            states[1].set_task_group(SECOND.id, user(1));
        }
        join(cpu);
        LEFT_OR_VACANT[usize::from(is_vacant)].fetch_add(1, Relaxed);
        let sum = |number| groups.of(number).sum(GroupMetric::Oncpu);
        assert_eq!((0..4).map(sum).sum::<u128>(), 101);
        assert_eq!(sum(GONE) % 100, 0);
        if is_vacant {
            // What the second task did, if it did it there.
            assert_eq!(sum(1) / 100, 0);
            let waits = |number| groups.of(number).samples(GroupMetric::Runq);
            assert_eq!(waits(GONE), 0);
            for number in 0..4 {
                assert!(groups.of(number).neighbours().all(|(of, ..)| of != place));
            }
        } else {
            assert_eq!(sum(1) % 100, 0);
        }
    });
    assert!(LEFT_OR_VACANT.iter().all(|number| number.load(Relaxed) > 0));
}

#[test]
fn a_place_changes_hands() {
    a_place_while_it_changes_hands(2, false);
    a_place_while_it_changes_hands(2, true);
}

#[test]
#[should_panic(expected = "assertion")]
fn without_grace_periods_a_place_is_mixed_up() {
    a_place_while_it_changes_hands(0, false);
}

#[test]
#[should_panic(expected = "assertion")]
fn with_one_grace_period_a_place_is_mixed_up() {
    a_place_while_it_changes_hands(1, true);
}

/// A task is moved to another group on one CPU, while it gets another CPU and leaves it: its wait
/// and its slice belong to the same group, either the old one or the new one.
#[test]
fn a_task_is_moved_while_it_gets_a_cpu() {
    static MOVED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    const TASK: Task = Task {
        run_delay: 5,
        ..task(7)
    };

    in_all_orders(3, || {
        let groups = Groups::without_histograms(3, SCHEME);
        settle(&groups);
        let state = settled(TaskState::new());
        let cpu = records(0);
        let switch = |now, prev, next: Task| {
            let states = |_| &*state;
            let switch = Switch::new(now, prev, PrevState::new(false, 0), next, &states);
            let nobody = |_| Identity::default();
            let grouped = Grouped::new(nobody, &groups);
            cpu.switch::<Dynamic>(&switch, grouped);
        };
        state.set_task_group(TASK.id, user(1));
        switch(100, TASK, IDLE);
        let mover = thread_with(&state, move |state| state.set_task_group(TASK.id, user(2)));
        switch(130, IDLE, TASK);
        switch(150, TASK, IDLE);
        assert!(join(mover));
        let of = |number| {
            let records = groups.of(number);
            (
                records.samples(GroupMetric::Runq),
                records.sum(GroupMetric::Runq),
                records.samples(GroupMetric::Oncpu),
                records.sum(GroupMetric::Oncpu),
                records.counter(GroupCounter::Involuntary),
            )
        };
        let (none, all) = ((0, 0, 0, 0, 0), (1, 30, 1, 20, 1));
        // The task had the CPU before it was decided of it: group 0 has that slice.
        assert_eq!(of(0), (0, 0, 0, 0, 1));
        let is_new = of(2) == all;
        assert_eq!(
            [of(1), of(2)],
            if is_new { [none, all] } else { [all, none] }
        );
        MOVED[usize::from(is_new)].fetch_add(1, Relaxed);
        assert_eq!(state.task_group(TASK.id), user(2));
    });
    assert!(MOVED.iter().all(|times| times.load(Relaxed) > 0));
}

/// A CPU is idle from 10 to 20, from 30 to 40 and so on; a reader looks meanwhile.
fn stays_while_they_come() {
    const STARTS: [u64; 3] = [10, 30, 50];
    let periods = IdlePeriods::default();
    settle(&periods);
    periods.start(1, false);
    let ended = loom::sync::atomic::AtomicUsize::new(0);
    side_by_side(
        &Arc::new((periods, ended)),
        |(periods, ended)| {
            for (number, from) in (1..).zip(STARTS) {
                periods.begin(from);
                periods.end(from + 10);
                ended.store(number, Release);
            }
        },
        |(periods, ended)| {
            let ended = ended.load(Acquire);
            let (mut oldest, mut found) = (100, 0);
            let known_from = periods.walk_back(5, 100, |from, until| {
                // One in progress lasts on, for all that is known.
                assert!(until == from + 10 || (until == 100 && found == 0));
                assert!(STARTS.contains(&from) && until <= oldest);
                (oldest, found) = (from, found + 1);
                true
            });
            assert!(5 <= known_from && known_from <= oldest);
            // All that had ended before are there, or known to be missing.
            let mut ended = STARTS.into_iter().take(ended);
            assert!(ended.all(|from| from < known_from || from >= oldest));
        },
    );
}

fenced! {
    2: stays_while_they_come =>
    an_idle_stay_is_never_torn, without_fences_an_idle_stay_is_torn
}

/// A CPU that is idle since 10 leaves its idle task at 20; a reader looks meanwhile.
fn stay_that_ends() {
    let periods = settled(IdlePeriods::default());
    periods.start(5, false);
    periods.begin(10);
    side_by_side(
        &periods,
        |periods| periods.end(20),
        |periods| assert!(!periods.was_busy(12, 28)),
    );
}

fenced! {
    2: stay_that_ends =>
    a_stay_that_ends_is_not_taken_for_work, without_fences_a_stay_that_ends_is_taken_for_work
}

/// A CPU that is idle from 10 to 30 is forgotten and known again meanwhile, either at 20 or when it
/// leaves its idle task; a reader looks.
fn stay_that_is_forgotten(is_started: bool) {
    let periods = settled(IdlePeriods::default());
    periods.start(5, false);
    periods.begin(10);
    side_by_side(
        &periods,
        move |periods| {
            periods.forget();
            if is_started {
                periods.start(20, true);
            }
            periods.end(30);
        },
        |periods| {
            let mut idle = 0;
            let known_from = periods.walk_back(12, 28, |from, until| {
                idle += until - from;
                true
            });
            assert_eq!(idle, 28 - known_from);
            assert!(!periods.was_busy(12, 28) && !periods.was_busy(22, 28));
        },
    );
}

fenced! {
    3: || stay_that_is_forgotten(true) =>
    a_stay_that_is_started_anew_is_not_taken_for_work, without_fences_it_is_taken_for_work
}

fenced! {
    3: || stay_that_is_forgotten(false) =>
    a_forgotten_stay_is_not_taken_for_work, without_fences_a_forgotten_stay_is_taken_for_work
}

/// A task gives its CPU to the idle task, and that gives it back; a reader looks meanwhile. It sees
/// a slice with its occupant, or, of the switch that it meets, the new slice with the occupant of
/// the one before; and what had ended. Slices take as long as those before them, so what a reader
/// misses of the one could be made up for by the other. Beside the reader, the slice of a task ends
/// at switch `first`, or of the idle task, and then one of the other.
fn slice_while_it_changes(first: usize) {
    // There are more fences where a sample is the least or the greatest.
    const STARTS: [u64; 9] = [10, 20, 30, 80, 130, 150, 170, 190, 210];
    let metrics = MetricSet::parse(b"oncpu idle", MetricSet::ALL).expect("these are two");
    let cpu = testing::records(0, SCHEME, metrics);
    settle(&cpu);
    let is_idle = |n: usize| n % 2 == 0;
    let run = move |cpu: &Records, n: usize| {
        let state = TaskState::untracked();
        let who = |n| if is_idle(n) { IDLE } else { task(1) };
        let prev_state = PrevState::new(false, u32::from(is_idle(n)));
        let states = |_| &state;
        let switch = Switch::new(STARTS[n], who(n - 1), prev_state, who(n), &states);
        cpu.switch::<Dynamic>(&switch, |_| identity(1));
    };
    idle_at(&cpu, STARTS[0], |_| identity(0));
    (1..first).for_each(|n| run(&cpu, n));
    let done = loom::sync::atomic::AtomicUsize::new(first - 1);
    side_by_side(
        &Arc::new((cpu, done)),
        move |(cpu, done)| {
            for n in first..first + 2 {
                run(cpu, n);
                done.store(n, Release);
            }
        },
        move |(cpu, done)| {
            let done = done.load(Acquire);
            let slice = cpu.current_slice(|| 300).expect("there are breaks");
            let n = STARTS.iter().position(|since| *since == slice.since);
            let n = n.expect("it is one of them");
            let found = slice.occupancy == Occupancy::Idle;
            let is_right = found == is_idle(n) || n > done && found == is_idle(n - 1);
            assert!(n >= done && is_right);
            let ended = |of_idle| {
                let all = (1..=n).filter(|n| is_idle(n - 1) == of_idle);
                all.map(|n| u128::from(STARTS[n] - STARTS[n - 1])).sum()
            };
            assert_eq!([slice.oncpu, slice.idle], [ended(false), ended(true)]);
        },
    );
}

fenced! {
    2: || slice_while_it_changes(6) =>
    a_slice_is_not_taken_for_another, without_fences_a_slice_is_taken_for_another
}

fenced! {
    2: || slice_while_it_changes(7) =>
    an_idle_slice_is_not_taken_for_another, without_fences_an_idle_slice_is_taken_for_another
}

/// A task of a group gives its CPU to one of another; a reader of the group's slices looks
/// meanwhile. The slice has ended, or it is in progress, and never both or neither. No time passes
/// in the switch.
fn slice_of_a_group_while_it_ends() {
    let metrics = MetricSet::parse(b"oncpu idle", MetricSet::ALL).expect("these are two");
    let cpu = testing::records(0, SCHEME, metrics);
    let groups = Groups::without_histograms(2, SCHEME);
    let state = TaskState::new();
    settle(&cpu);
    settle(&groups);
    settle(&state);
    let switch = |cpu: &Records, groups: &Groups, state: &TaskState, now, prev: Task, next| {
        let prev_state = PrevState::new(false, u32::from(prev.pid != 0));
        let states = |_| state;
        let switch = Switch::new(now, prev, prev_state, next, &states);
        cpu.switch::<Dynamic>(&switch, Grouped::new(|_| identity(1), groups));
    };
    state.set_task_group(task(1).id, user(1));
    idle_at(&cpu, 10, |_| identity(0));
    // There are more fences where a sample is the least or the greatest.
    for (begin, end) in [(20, 120), (130, 140)] {
        switch(&cpu, &groups, &state, begin, IDLE, task(1));
        switch(&cpu, &groups, &state, end, task(1), IDLE);
    }
    switch(&cpu, &groups, &state, 150, IDLE, task(1));
    side_by_side(
        &Arc::new((cpu, groups, state)),
        move |(cpu, groups, state)| switch(cpu, groups, state, 220, task(1), task(2)),
        |(cpu, groups, _)| {
            let mut slices = GroupSlices::default();
            slices.add(group(1), groups.of(1), groups.occupant(), || {
                cpu.current_slice(|| 220)
            });
            assert_eq!(slices.ended + u128::from(slices.in_progress), 100 + 10 + 70);
        },
    );
}

fenced! {
    2: slice_of_a_group_while_it_ends =>
    a_slice_of_a_group_has_ended_or_not, without_fences_a_slice_of_a_group_is_lost
}

/// The slice `number` of a CPU: of the task with this PID, woken in the slice before it.
fn chain_slice(number: u64) -> ChainSlice {
    ChainSlice {
        group: Group::OTHER,
        pid: number as i32,
        comm: [number as u8; 16],
        start: Start::Woken,
        since: 10 * number,
        waiting: 10 * number - 5,
        link: Link::new(0, number - 1),
    }
}

/// The ring of a CPU that keeps two slices.
fn new_ring() -> Ring<Vec<SliceCells>> {
    let entries: Vec<_> = (0..2).map(|_| SliceCells::default()).collect();
    entries.iter().for_each(settle);
    Ring::new(0, entries).expect("a power of two")
}

/// A CPU keeps two slices while it has three; a reader walks back from one that has begun.
fn slices_while_they_come() {
    let ring = new_ring();
    let begun = loom::sync::atomic::AtomicUsize::new(0);
    side_by_side(
        &Arc::new((ring, begun)),
        |(ring, begun)| {
            for number in 1..=3 {
                ring.enter(&chain_slice(number));
                begun.store(number as usize, Release);
            }
        },
        |(ring, begun)| {
            let begun = begun.load(Acquire) as u64;
            let mut hops: Vec<Hop> = Vec::new();
            let read = |link: Link| {
                let slice = ring.read(link.number())?;
                assert_eq!(slice, chain_slice(link.number()));
                Ok(slice)
            };
            let walked = walk(Link::new(0, begun), 1, 30, read, |number, hop| {
                hops.truncate(number);
                hops.push(*hop);
            });
            let sum: u64 = hops.iter().map(Hop::sum).sum();
            assert_eq!(sum + walked.blocked + walked.missing, 29);
            assert_eq!(hops.len(), walked.hops as usize);
        },
    );
}

fenced! { 2: slices_while_they_come => a_slice_is_never_torn, without_fences_a_slice_is_torn }

/// A CPU keeps two slices while it becomes idle after its first one, and has two more; a reader
/// takes all there are.
fn slices_with_their_ends() {
    let ring = new_ring();
    ring.enter(&chain_slice(1));
    side_by_side(
        &Arc::new(ring),
        |ring| {
            ring.enter_idle(15);
            ring.enter(&chain_slice(2));
            ring.enter(&chain_slice(3));
        },
        |ring| {
            let kept: Vec<_> = ring.kept().collect();
            let idle = |number| if number == 1 { 15 } else { 0 };
            for kept in &kept {
                assert_eq!(kept.slice, chain_slice(kept.number));
                assert!(kept.idle == 0 || kept.idle == idle(kept.number));
            }
            // The last one may not have ended.
            for pair in kept.windows(2) {
                assert_eq!(pair[0].number + 1, pair[1].number);
                assert_eq!(pair[0].idle, idle(pair[0].number));
            }
        },
    );
}

fenced! { 1: slices_with_their_ends => a_kept_slice_has_its_end, without_fences_it_has_no_end }
