// SPDX-License-Identifier: GPL-2.0

//! Outliers: who is blamed, against a reference that keeps everything; thresholds, and the limit; and
//! readers who go from one to the next.

use std::cell::RefCell;

use proptest::{
    collection::vec,
    prelude::*,
    sample::Index, //
};

use schedhist_engine::engine::{
    bucket::{
        Precision,
        Scheme, //
    },
    cell::Cell,
    cpu::{
        Cpu,
        Next,
        Prev, //
    },
    history::{
        History,
        Stay,
        STAYS, //
    },
    identity::Identity,
    metric::{
        Metric,
        MetricSet,
        Shown, //
    },
    outlier::{
        Culprit,
        Limit,
        Log,
        Outlier,
        Thresholds,
        CULPRITS,
        KEPT, //
    },
    sample::{
        Cause,
        Observer,
        Sample,
        Side, //
    },
    slice::SliceEnd,
    task::{
        Entering,
        Leaving,
        Task, //
    },
};
use schedhist_engine::testing::leaving_state;

/// A time span: often none or little, sometimes huge.
fn any_span() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 0..3u64,
        6 => 0..1_000u64,
        1 => (24..64u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift),
    ]
}

/// A task with this PID. It may have another name and priority each time.
fn identity(pid: i32, name: u8) -> Identity {
    let mut comm = [0; 16];
    comm[0] = b'a' + name;
    Identity {
        pid,
        prio: 100 + i32::from(name),
        comm,
    }
}

/// Up to `most` stays, one after the other, some with a gap before, of up to 80 tasks. In some lists,
/// the clock goes backwards now and then.
fn any_stays(most: usize) -> impl Strategy<Value = Vec<Stay>> {
    let gap = prop_oneof![3 => Just(0), 1 => any_span()];
    let back = prop_oneof![30 => Just(0), 1 => any_span()];
    let stay = (gap, back, any_span(), 0..80, 0..3u8);
    let start = prop_oneof![Just(0), any_span(), 0..u64::MAX];
    let all = (start, any::<bool>(), 1..=80, vec(stay, 0..most));
    all.prop_map(|(start, goes_back, pids, stays)| {
        let mut now = start;
        let make = |(gap, back, length, pid, name)| {
            if goes_back {
                now = now.saturating_sub(back);
            }
            let since = now.saturating_add(gap);
            now = since.saturating_add(length);
            Stay {
                task: identity(pid % pids, name),
                since,
                until: now,
            }
        };
        stays.into_iter().map(make).collect()
    })
}

/// A time: near one of those at which a stay begins or ends, or any other.
#[derive(Clone, Debug)]
struct When {
    near: Index,
    is_end: bool,
    off: i64,
    other: Option<u64>,
}

fn any_when() -> impl Strategy<Value = When> {
    let other = prop_oneof![9 => Just(None), 1 => any::<u64>().prop_map(Some)];
    let off = prop_oneof![3 => Just(0), 2 => -2..=2i64, 1 => -2_000..2_000i64];
    (any::<Index>(), any::<bool>(), off, other).prop_map(|(near, is_end, off, other)| When {
        near,
        is_end,
        off,
        other,
    })
}

impl When {
    fn among(&self, stays: &[Stay]) -> u64 {
        match self.other {
            Some(time) => time,
            None if stays.is_empty() => self.off.unsigned_abs(),
            None => {
                let stay = self.near.get(stays);
                let time = if self.is_end { stay.until } else { stay.since };
                time.saturating_add_signed(self.off)
            }
        }
    }
}

/// The last of all `stays` that there ever were, but for those before the clock went backwards,
/// clipped.
fn between(stays: &[Stay], since: u64, until: u64) -> Vec<Stay> {
    let went_back = |pair: &[Stay]| pair[1].since < pair[0].until;
    let forgotten = stays.windows(2).rposition(went_back);
    let oldest = forgotten.map_or(0, |before| before + 1);
    let kept = &stays[oldest.max(stays.len().saturating_sub(STAYS))..];
    let mut clipped = Vec::new();
    for stay in kept {
        let (since, until) = (stay.since.max(since), stay.until.min(until));
        if since < until {
            clipped.push(Stay {
                since,
                until,
                ..*stay
            });
        }
    }
    clipped
}

fn pushed(stays: &[Stay]) -> History {
    let history = History::new();
    for stay in stays {
        history.push(stay);
    }
    history
}

proptest! {
    #[test]
    fn a_history_is_the_last_stays(
        stays in any_stays(3 * STAYS),
        asked in vec((any_when(), any_when()), 20),
    ) {
        let history = pushed(&stays);
        for (since, until) in asked {
            let (since, until) = (since.among(&stays), until.among(&stays));
            let found: Vec<Stay> = history.between(since, until).collect();
            prop_assert_eq!(found, between(&stays, since, until));
        }
        let found: Vec<Stay> = history.between(0, u64::MAX).collect();
        prop_assert_eq!(found, between(&stays, 0, u64::MAX));
    }
}

#[test]
fn a_history_forgets_the_oldest() {
    let last = 2 * STAYS as u64 + 7;
    let stay = |number: u64| Stay {
        task: identity(i32::try_from(number).expect("not so many"), 0),
        since: 10 * number,
        until: 10 * number + 10,
    };
    let stays: Vec<Stay> = (0..last).map(stay).collect();
    for len in [0, 1, STAYS - 1, STAYS, STAYS + 1, 2 * STAYS, 2 * STAYS + 1] {
        let history = pushed(&stays[..len]);
        let found: Vec<Stay> = history.between(0, u64::MAX).collect();
        assert_eq!(found, stays[len.saturating_sub(STAYS)..len]);
    }
}

/// Who had the CPU between `start` and `end`, with how much of the time nobody is named for.
fn blamed(stays: &[Stay], start: u64, end: u64) -> (Vec<Culprit>, u64) {
    let mut culprits: Vec<Culprit> = Vec::new();
    for stay in between(stays, start, end) {
        let ran = stay.until - stay.since;
        let known = culprits
            .iter_mut()
            .find(|culprit| culprit.task.pid == stay.task.pid);
        match known {
            Some(culprit) => {
                culprit.ran += ran;
                culprit.slices += 1;
            }
            None => culprits.push(Culprit {
                task: stay.task,
                ran,
                slices: 1,
            }),
        }
    }
    culprits.truncate(CULPRITS);
    let named: u64 = culprits.iter().map(|culprit| culprit.ran).sum();
    (culprits, end - start - named)
}

fn any_metric() -> impl Strategy<Value = Metric> {
    proptest::sample::select(Metric::ALL.to_vec())
}

fn any_cause() -> impl Strategy<Value = Cause> {
    proptest::sample::select(Cause::ALL.to_vec())
}

/// Reads the outlier `id`.
fn read(log: &Log, id: u64) -> Option<(Outlier, Vec<Culprit>)> {
    // What was there before must not show.
    let junk = Culprit {
        task: identity(-1, 25),
        ran: 7,
        slices: 7,
    };
    let mut culprits = [junk; CULPRITS];
    let outlier = log.read(id, &mut culprits)?;
    Some((outlier, culprits[..outlier.culprits as usize].to_vec()))
}

proptest! {
    #[test]
    fn culprits_are_those_of_the_reference(
        stays in any_stays(2 * STAYS),
        windows in vec((any_when(), any_when(), any_metric(), any_cause()), 2 * KEPT),
    ) {
        let log = Log::new();
        for stay in &stays {
            log.stay(stay);
        }
        for ((one, other, metric, cause), id) in windows.into_iter().zip(1..) {
            let (one, other) = (one.among(&stays), other.among(&stays));
            let (start, end) = (one.min(other), one.max(other));
            let sample = Sample { metric, value: end - start, end, cause };
            let victim = identity(1000, 2);
            let (outlier, culprits) = log.report(id, &sample, &victim).expect("always");
            let culprits: Vec<Culprit> = culprits.collect();

            let (expected, missing) = blamed(&stays, start, end);
            prop_assert_eq!(&culprits, &expected);
            prop_assert_eq!(outlier, Outlier {
                id,
                sample,
                task: victim,
                culprits: u32::try_from(expected.len()).expect("32 at most"),
                missing,
            });
            prop_assert_eq!(outlier.start(), start);

            prop_assert!(culprits.len() <= CULPRITS);
            let ran: u64 = culprits.iter().map(|culprit| culprit.ran).sum();
            prop_assert_eq!(ran + outlier.missing, sample.value);
            let within = between(&stays, start, end);
            let known: u64 = within.iter().map(|stay| stay.until - stay.since).sum();
            let mut pids: Vec<i32> = within.iter().map(|stay| stay.task.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            let is_all_known = known == sample.value && pids.len() <= CULPRITS;
            prop_assert_eq!(outlier.missing == 0, is_all_known);

            prop_assert_eq!(read(&log, id), Some((outlier, culprits)));
        }
    }

    /// Whatever it is told, by a clock that goes as it likes, each nanosecond is blamed on one task,
    /// or missing.
    #[test]
    fn nobody_is_blamed_twice(
        stays in vec((any_span(), any_span(), 0..80), 0..2 * STAYS),
        samples in vec((any_span(), prop_oneof![any_span(), any::<u64>()]), 4),
    ) {
        let log = Log::new();
        for (one, other, pid) in stays {
            let (since, until) = (one.min(other), one.max(other));
            log.stay(&Stay { task: identity(pid, 0), since, until });
        }
        for ((value, end), id) in samples.into_iter().zip(1..) {
            let cause = Cause::Wakeup;
            let sample = Sample { metric: Metric::Offcpu, value, end, cause };
            let task = identity(1, 1);
            let (outlier, culprits) = log.report(id, &sample, &task).expect("always");
            prop_assert_eq!(outlier.start(), end.saturating_sub(value));
            let ran = culprits.map(|culprit| u128::from(culprit.ran)).sum::<u128>();
            prop_assert_eq!(ran + u128::from(outlier.missing), u128::from(value));
        }
    }
}

/// The least and the most: one task in all stays, and one task too many.
#[test]
fn at_most_32_culprits() {
    for (tasks, missing) in [(1, 0), (31, 0), (32, 0), (33, 10), (64, 320)] {
        let log = Log::new();
        for number in 0..tasks {
            log.stay(&Stay {
                task: identity(number, 0),
                since: 10 * u64::try_from(number).expect("not negative"),
                until: 10 * u64::try_from(number).expect("not negative") + 10,
            });
        }
        let end = 10 * u64::try_from(tasks).expect("not negative");
        let sample = Sample {
            metric: Metric::RunqWakeup,
            value: end,
            end,
            cause: Cause::Wakeup,
        };
        let (outlier, culprits) = log.report(1, &sample, &identity(1, 0)).expect("always");
        assert_eq!(outlier.missing, missing);
        // The oldest are named.
        let pids: Vec<i32> = culprits.map(|culprit| culprit.task.pid).collect();
        assert_eq!(pids, (0..tasks.min(32)).collect::<Vec<_>>());
    }
}

/// What is done to a log.
#[derive(Clone, Debug)]
enum Step {
    Stay(u64, i32),
    /// With how many numbers that go to other CPUs before.
    Report(u64, Sample),
    Suppress,
}

fn any_step() -> impl Strategy<Value = Step> {
    let sample = (any_metric(), any_span(), any_span(), any_cause());
    let sample = sample.prop_map(|(metric, value, end, cause)| Sample {
        metric,
        value,
        end,
        cause,
    });
    prop_oneof![
        3 => (any_span(), 0..5).prop_map(|(length, pid)| Step::Stay(length, pid)),
        3 => (0..3u64, sample).prop_map(|(others, sample)| Step::Report(others, sample)),
        1 => Just(Step::Suppress),
    ]
}

proptest! {
    #[test]
    fn the_last_outliers_are_kept(steps in vec(any_step(), 0..150)) {
        let log = Log::new();
        let (mut now, mut id, mut suppressed) = (1, 0, 0);
        let mut reported = Vec::new();
        for step in steps {
            match step {
                Step::Stay(length, pid) => {
                    let until = now + length;
                    log.stay(&Stay { task: identity(pid, 0), since: now, until });
                    now = until;
                }
                Step::Report(others, sample) => {
                    id += 1 + others;
                    let task = identity(i32::try_from(id).expect("not so many"), 1);
                    let (outlier, culprits) = log.report(id, &sample, &task).expect("always");
                    prop_assert_eq!((outlier.id, outlier.sample, outlier.task), (id, sample, task));
                    reported.push((outlier, culprits.collect::<Vec<_>>()));
                }
                Step::Suppress => {
                    log.suppress();
                    suppressed += 1;
                }
            }
            prop_assert_eq!(log.reported(), reported.len() as u64);
            prop_assert_eq!(log.suppressed(), suppressed);

            // All that are kept are found one after the other, as they were, and no others.
            let kept = &reported[reported.len().saturating_sub(KEPT)..];
            for number in 0..=id + 1 {
                let expected = kept.iter().find(|(outlier, _)| outlier.id == number);
                prop_assert_eq!(read(&log, number), expected.cloned());
            }
            let mut seen = 0;
            for (outlier, _) in kept {
                prop_assert_eq!(log.first_after(seen), Some(outlier.id));
                prop_assert_eq!(log.first_after(outlier.id - 1), Some(outlier.id));
                seen = outlier.id;
            }
            for seen in [seen, seen + 1, u64::MAX] {
                prop_assert_eq!(log.first_after(seen), None);
            }
        }
    }

    #[test]
    fn a_sample_must_exceed_a_threshold(
        settings in vec((0..Shown::ALL.len(), any_threshold()), 0..30),
    ) {
        let thresholds = Thresholds::new();
        let mut naive = [0; Shown::ALL.len()];
        for (index, nanoseconds) in settings {
            thresholds.set(Shown::ALL[index], nanoseconds);
            naive[index] = nanoseconds;

            prop_assert_eq!(Shown::ALL.map(|shown| thresholds.get(shown)), naive);
            prop_assert_eq!(thresholds.is_any_set(), naive.iter().any(|it| *it != 0));
            let near = naive.iter().flat_map(|it| [it.saturating_sub(1), *it, it.saturating_add(1)]);
            for value in near.chain([0, u64::MAX]) {
                for metric in Metric::ALL {
                    // Above any of those that are set, and so above the least.
                    let is_above = Shown::ALL.into_iter().zip(naive).any(|(shown, threshold)| {
                        shown.parts.contains(&metric) && threshold != 0 && value > threshold
                    });
                    let sample = Sample { metric, value, end: 1, cause: Cause::Idle };
                    prop_assert_eq!(thresholds.is_exceeded_by(&sample), is_above);
                }
            }
        }
    }

    #[test]
    fn a_limit_is_what_was_last_set(
        limit in any_limit(),
        steps in vec(prop_oneof![1 => any_limit().prop_map(Some), 9 => Just(None)], 0..100),
    ) {
        let counter = Limit::new(limit);
        let mut naive = (limit, (limit != 0).then_some(limit));
        let mut last = 0;
        prop_assert_eq!(counter.last(), 0);
        for step in steps {
            match step {
                Some(limit) => {
                    counter.set(limit);
                    naive = (limit, (limit != 0).then_some(limit));
                }
                None => {
                    let may = naive.1 != Some(0);
                    naive.1 = naive.1.map(|left| left.saturating_sub(1));
                    last += u64::from(may);
                    prop_assert_eq!(counter.take(), may.then_some(last));
                }
            }
            prop_assert_eq!((counter.get(), counter.last()), (naive.0, last));
        }
    }
}

fn any_threshold() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 4 => 1..10u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn any_limit() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 6 => 1..10u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

/// `runq` is the sum of two: both are compared with the least threshold that there is for them.
#[test]
fn the_least_threshold_counts() {
    let shown = |name| {
        let mut all = Shown::ALL.into_iter();
        all.find(|shown| shown.name == name).expect("a name")
    };
    let thresholds = Thresholds::default();
    let least = |metric| {
        let is_above = |value: &u64| {
            thresholds.is_exceeded_by(&Sample {
                metric,
                value: *value,
                end: 1,
                cause: Cause::Wakeup,
            })
        };
        (0..1000).find(is_above)
    };
    let both = || (least(Metric::RunqWakeup), least(Metric::RunqPreempt));
    assert_eq!(both(), (None, None));
    thresholds.set(shown("runq"), 500);
    assert_eq!(both(), (Some(501), Some(501)));
    thresholds.set(shown("runq_wakeup"), 100);
    assert_eq!(both(), (Some(101), Some(501)));
    thresholds.set(shown("runq"), 50);
    assert_eq!(both(), (Some(51), Some(51)));
    thresholds.set(shown("runq"), 0);
    assert_eq!(both(), (Some(101), None));
    assert_eq!(least(Metric::Wakeup), None);
    thresholds.set(shown("runq_wakeup"), 0);
    assert!(!thresholds.is_any_set());
    assert_eq!(both(), (None, None));
}

/// The PIDs of culprits, and how long each ran.
type Blamed = Vec<(i32, u64)>;

/// A CPU on which everything is measured and each sample is an outlier.
struct Watched {
    cpu: Cpu<Vec<Cell>>,
    log: Log,
    /// What has been reported.
    reported: RefCell<Vec<(Outlier, Blamed)>>,
}

/// Watches a switch away from the task of this PID.
struct Watcher<'a>(&'a Watched, i32);

impl Observer for Watcher<'_> {
    fn identify(&self, _: Side) -> Identity {
        identity(self.1, 0)
    }

    fn stay(&self, since: u64, until: u64) {
        self.0.log.stay(&Stay {
            task: identity(self.1, 0),
            since,
            until,
        });
    }

    fn sample(&self, sample: &Sample) {
        let mut reported = self.0.reported.borrow_mut();
        let id = reported.len() as u64 + 1;
        let victim = identity(1, 0);
        let (outlier, culprits) = self.0.log.report(id, sample, &victim).expect("always");
        let culprits = culprits.map(|culprit| (culprit.task.pid, culprit.ran));
        reported.push((outlier, culprits.collect()));
    }
}

impl Watched {
    fn new() -> Self {
        let scheme = Scheme::new(Precision::new(Precision::MIN).expect("within range"));
        let cells = Cpu::<Vec<Cell>>::cells(scheme, MetricSet::ALL);
        let cpu = Cpu::new(0, scheme, (0..cells).map(|_| Cell::new(0)).collect());
        let cpu = cpu.expect("as many cells as asked for");
        cpu.begin(1, MetricSet::ALL);
        Self {
            cpu,
            log: Log::new(),
            reported: RefCell::default(),
        }
    }

    /// The idle task leaves the CPU.
    fn end_of_idle(&self, now: u64) {
        let watcher = Watcher(self, 0);
        self.cpu.switch(now, Prev::Idle, Next::Ignored, &watcher);
    }

    /// The task `pid` leaves the CPU.
    fn leave(&self, now: u64, pid: i32, end: SliceEnd, state: Option<&Task>, next: Next<'_>) {
        let leaving = Leaving {
            id: pid.unsigned_abs().into(),
            exiting: false,
            state: leaving_state(end),
            run_delay: 0,
        };
        let prev = Prev::Task(leaving, state);
        self.cpu.switch(now, prev, next, &Watcher(self, pid));
    }

    /// The one outlier of `metric`, with its culprits.
    fn outlier(&self, metric: Metric) -> (Outlier, Blamed) {
        let reported = self.reported.borrow();
        let mut those = reported
            .iter()
            .filter(|(outlier, _)| outlier.sample.metric == metric);
        let one = those.next().expect("one").clone();
        assert!(those.next().is_none());
        one
    }
}

/// Task 1 gets the CPU after it was put on its queue.
fn task_1(last_queued: u64) -> Entering {
    Entering {
        id: 1,
        exiting: false,
        is_new: false,
        run_delay: 0,
        last_queued,
    }
}

/// Task 1 is preempted at 150, after the clock went back from 200, and waits until 240. Task 2 had
/// the CPU until 200, but that was another 150 to 200.
#[test]
fn what_was_before_the_clock_went_backwards_is_forgotten() {
    let (watched, state) = (Watched::new(), Task::new());
    watched.end_of_idle(100);
    watched.leave(200, 2, SliceEnd::Preempted, None, Next::Ignored);
    watched.leave(150, 1, SliceEnd::Preempted, Some(&state), Next::Ignored);
    let next = Next::Task(task_1(150), Some(&state));
    watched.leave(240, 3, SliceEnd::Preempted, None, next);
    let (outlier, culprits) = watched.outlier(Metric::RunqPreempt);
    assert_eq!((outlier.start(), outlier.sample.end), (150, 240));
    assert_eq!((culprits, outlier.missing), (vec![(3, 90)], 0));
}

/// Task 1 sleeps from 100 to 150, and waits until 400. Task 2 has the CPU until 120, and task 3 from
/// then on.
#[test]
fn a_sleep_ends_at_the_wakeup() {
    for (end, metric) in [
        (SliceEnd::Interruptible, Metric::BlockedInterruptible),
        (SliceEnd::Uninterruptible, Metric::BlockedUninterruptible),
    ] {
        let (watched, state) = (Watched::new(), Task::new());
        watched.end_of_idle(50);
        watched.leave(100, 1, end, Some(&state), Next::Ignored);
        watched.leave(120, 2, SliceEnd::Preempted, None, Next::Ignored);
        let next = Next::Task(task_1(150), Some(&state));
        watched.leave(400, 3, SliceEnd::Preempted, None, next);

        for (metric, start, end, expected) in [
            (metric, 100, 150, [(2, 20), (3, 30)].as_slice()),
            (Metric::RunqWakeup, 150, 400, &[(3, 250)]),
            (Metric::Offcpu, 100, 400, &[(2, 20), (3, 280)]),
        ] {
            let (outlier, culprits) = watched.outlier(metric);
            assert_eq!((outlier.start(), outlier.sample.end), (start, end));
            assert_eq!((culprits.as_slice(), outlier.missing), (expected, 0));
        }
        // The worst is known by when it was seen.
        let worst = watched.cpu.worst(metric).expect("a sample");
        assert_eq!((worst.value, worst.time), (50, 400));
    }
}

#[test]
fn there_is_no_outlier_0() {
    let sample = Sample {
        metric: Metric::Idle,
        value: 1,
        end: 1,
        cause: Cause::Idle,
    };
    let log = Log::new();
    assert_eq!((read(&log, 0), log.first_after(0)), (None, None));
    assert!(log.report(1, &sample, &identity(1, 0)).is_some());
    assert_eq!((read(&log, 0), log.first_after(0)), (None, Some(1)));
}

#[test]
fn awaited_are_the_last_16_until_all_are_done() {
    const LAST: u64 = 20;

    let limit = Limit::new(0);
    // It is not there, but the one after it.
    let is_awaited = |id| {
        let found = limit.next_after(id - 1, |_| Some((id + 1, ())));
        found.is_none()
    };
    for id in 1..=LAST {
        assert_eq!(limit.take(), Some(id));
    }
    for _ in 0..LAST {
        for id in 1..=LAST {
            assert_eq!(is_awaited(id), id > LAST - KEPT as u64, "{id}");
        }
        limit.done();
    }
    for id in 1..=LAST {
        assert!(!is_awaited(id), "{id}");
    }
    assert_eq!(limit.last(), LAST);
}

/// What a CPU is about to do next about an outlier.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Take,
    Report(u64),
    Done,
}

type StageCell = std::cell::Cell<Stage>;

/// That a CPU goes on by so many stages.
type Writes = (usize, usize);

/// CPUs that report outliers, and readers who go from one to the next.
struct Race {
    limit: Limit,
    logs: Vec<Log>,
    stages: Vec<StageCell>,
    /// What each reader has seen.
    readers: Vec<u64>,
}

impl Race {
    fn new(cpus: usize, readers: usize) -> Self {
        Self {
            limit: Limit::new(0),
            logs: (0..cpus).map(|_| Log::new()).collect(),
            stages: vec![StageCell::default(); cpus],
            readers: vec![0; readers],
        }
    }

    /// One CPU goes on.
    fn write(&self, (cpu, stages): Writes) {
        for _ in 0..stages {
            let next = match self.stages[cpu].get() {
                Stage::Take => Stage::Report(self.limit.take().expect("there is no limit")),
                Stage::Report(id) => {
                    let sample = Sample {
                        metric: Metric::Idle,
                        value: id,
                        end: id,
                        cause: Cause::Idle,
                    };
                    let task = identity(7, 0);
                    assert!(self.logs[cpu].report(id, &sample, &task).is_some());
                    Stage::Done
                }
                Stage::Done => {
                    self.limit.done();
                    Stage::Take
                }
            };
            self.stages[cpu].set(next);
        }
    }

    /// Says whether the outlier `id` is kept, or about to be.
    fn is_there(&self, id: u64) -> bool {
        let is_it = |stage: &StageCell| matches!(stage.get(), Stage::Report(it) if it == id);
        self.stages.iter().any(is_it) || self.logs.iter().any(|log| read(log, id).is_some())
    }

    /// One reader looks for the next, and goes there; before each log that it looks into, something
    /// else happens. Fails when it misses one that is kept or on its way.
    fn read(&mut self, reader: usize, meanwhile: &[Writes]) -> Result<Option<u64>, String> {
        let before = self.readers[reader];
        let mut meanwhile = meanwhile.iter();
        let first_after = |seen| {
            let look = |log: &Log| {
                if let Some(writes) = meanwhile.next() {
                    self.write(*writes);
                }
                Some((log.first_after(seen)?, ()))
            };
            self.logs.iter().filter_map(look).min()
        };
        let Some((id, ())) = self.limit.next_after(before, first_after) else {
            return Ok(None);
        };
        let last = self.limit.last();
        assert!(id > before && id <= last);
        self.readers[reader] = id;
        // Who is so far behind cannot know.
        let is_near = last - before <= KEPT as u64;
        match (before + 1..id).find(|missed| self.is_there(*missed)) {
            Some(missed) if is_near || last - missed < KEPT as u64 => {
                Err(format!("{missed} is missed: {id} after {before}"))
            }
            _ => Ok(Some(id)),
        }
    }

    /// All CPUs end what they have begun; then each reader gets to the last.
    fn end(&mut self) -> Result<(), String> {
        for (cpu, stage) in self.stages.iter().enumerate() {
            while !matches!(stage.get(), Stage::Take) {
                self.write((cpu, 1));
            }
        }
        for reader in 0..self.readers.len() {
            while self.read(reader, &[])?.is_some() {}
            let (seen, last) = (self.readers[reader], self.limit.last());
            if seen != last {
                return Err(format!("stuck at {seen} of {last}"));
            }
        }
        Ok(())
    }
}

const RACERS: usize = 4;

fn any_writes() -> impl Strategy<Value = Writes> {
    (0..RACERS, prop_oneof![20 => 1..4usize, 1 => 1..100usize])
}

proptest! {
    /// Whatever happens, and also while it looks: first something, and then one of two readers looks
    /// for the next.
    #[test]
    fn a_reader_misses_none_that_is_on_its_way(
        steps in vec((vec(any_writes(), 0..4), 0..2usize, vec(any_writes(), 0..3 * RACERS)), 0..50),
    ) {
        let mut race = Race::new(RACERS, 2);
        for (before, reader, meanwhile) in steps {
            for writes in before {
                race.write(writes);
            }
            race.read(reader, &meanwhile).map_err(TestCaseError::fail)?;
        }
        race.end().map_err(TestCaseError::fail)?;
    }
}

/// Number 1 goes to CPU 0, and 2 to CPU 1, which is the first to note it. All this happens before the
/// reader looks into the first log, or the second, again into the first, and so on.
#[test]
fn a_reader_waits_for_the_first() -> Result<(), String> {
    const EVENTS: [Writes; 5] = [(0, 1), (1, 2), (1, 1), (0, 1), (0, 1)];

    for looks in 0..=EVENTS.len() {
        for start in 0..=EVENTS.len() {
            let mut race = Race::new(2, 1);
            for writes in &EVENTS[..start] {
                race.write(*writes);
            }
            let meanwhile = &EVENTS[start..EVENTS.len().min(start + looks)];
            let found = race.read(0, meanwhile)?;
            assert!(found.is_none_or(|id| id == 1));
            race.end()?;
        }
    }
    // Step by step: it is not there before the first is.
    let mut race = Race::new(2, 1);
    for writes in &EVENTS[..3] {
        race.write(*writes);
        assert_eq!(race.read(0, &[])?, None);
    }
    race.write(EVENTS[3]);
    for expected in [Some(1), Some(2), None] {
        assert_eq!(race.read(0, &[])?, expected);
    }
    Ok(())
}

/// 1 and 2 are on their way on two CPUs, while a third reports 3 to 17. 1 is out of the window of 16,
/// but 2 is within.
#[test]
fn one_that_is_too_late_takes_no_other_with_it() -> Result<(), String> {
    let mut race = Race::new(3, 1);
    race.write((0, 1));
    race.write((1, 1));
    race.write((2, 3 * 15));
    assert_eq!(race.limit.last(), 17);
    assert_eq!(race.read(0, &[])?, None);
    race.write((1, 2));
    assert_eq!(race.read(0, &[])?, Some(2));
    Ok(())
}

/// How long it takes to find the culprits, in the probe: at worst, of the longest history, in which
/// as many tasks as can be told apart come first.
#[test]
#[ignore = "a measurement"]
fn time_of_a_report() {
    for tasks in [1, 2, 32, 256] {
        let log = Log::new();
        for number in 0..STAYS as u64 {
            let pid = i32::try_from(number).expect("not so many") % tasks;
            log.stay(&Stay {
                task: identity(pid, 0),
                since: number,
                until: number + 1,
            });
        }
        let sample = Sample {
            metric: Metric::RunqWakeup,
            value: STAYS as u64,
            end: STAYS as u64,
            cause: Cause::Wakeup,
        };
        let rounds = 10_000_u32;
        let start = std::time::Instant::now();
        for id in 0..u64::from(rounds) {
            let task = identity(1, 0);
            assert!(log.report(id, &sample, &task).is_some());
        }
        println!("{tasks} tasks: {:?}", start.elapsed() / rounds);
    }
}
