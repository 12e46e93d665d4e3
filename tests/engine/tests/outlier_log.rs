// SPDX-License-Identifier: GPL-2.0

//! The last outliers are kept, and readers go from one to the next.

mod outlier;

use proptest::{collection::vec, prelude::*};

use schedhist_engine::engine::{
    idle::{Distance, Longest},
    metric::Metric,
    outlier::{
        history::Slice,
        limit::{next_after, Limit},
        log::Log,
        KEPT,
    },
    switch::sample::{Cause, Sample},
};

use outlier::{any_cause, any_metric, any_span, identity, read};

/// An operation on a log.
#[derive(Clone, Debug)]
enum Step {
    Slice(u64, i32),
    /// Reports an outlier, after this many numbers went to other CPUs, and the CPU that was idle
    /// longest.
    Report(u64, Sample, Option<Longest>),
    Suppress,
}

fn any_step() -> impl Strategy<Value = Step> {
    let sample = (any_metric(), any_span(), any_span(), any_cause());
    let sample =
        sample.prop_map(|(metric, value, end, cause)| Sample::new(metric, value, cause, end));
    let distance = proptest::sample::select(Distance::ALL.to_vec());
    let longest =
        (any::<u32>(), 1..=u64::MAX, distance).prop_map(|(cpu, idle, distance)| Longest {
            cpu,
            idle,
            distance,
        });
    let report = (0..3u64, sample, proptest::option::of(longest));
    prop_oneof![
        3 => (any_span(), 0..5).prop_map(|(length, pid)| Step::Slice(length, pid)),
        3 => report.prop_map(|(others, sample, longest)| Step::Report(others, sample, longest)),
        1 => Just(Step::Suppress),
    ]
}

proptest! {
    #[test]
    fn the_last_outliers_are_kept(steps in vec(any_step(), 0..150)) {
        let log = Log::default();
        let (mut now, mut id, mut suppressed) = (1, 0, 0);
        let mut reported = Vec::new();
        for step in steps {
            match step {
                Step::Slice(length, pid) => {
                    let until = now + length;
                    log.slice(&Slice { task: identity(pid, 0), since: now, until });
                    now = until;
                }
                Step::Report(others, sample, longest) => {
                    id += 1 + others;
                    let task = identity(i32::try_from(id).expect("not so many"), 1);
                    let (outlier, culprits) = log.report(id, &sample, &task, longest).expect("always");
                    prop_assert_eq!((outlier.id, outlier.sample, outlier.task), (id, sample, task));
                    prop_assert_eq!(outlier.longest, longest);
                    reported.push((outlier, culprits.collect::<Vec<_>>()));
                }
                Step::Suppress => {
                    log.suppress();
                    suppressed += 1;
                }
            }
            prop_assert_eq!(log.reported(), reported.len() as u64);
            prop_assert_eq!(log.suppressed(), suppressed);

            // All kept outliers are found one after the other, unchanged, and no others.
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
}

/// The next step of a CPU that reports an outlier.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Take,
    Report(u64),
    Done,
}

type StageCell = std::cell::Cell<Stage>;

/// A CPU, and the number of stages by which it goes on.
type Writes = (usize, usize);

/// CPUs that report outliers, and readers that go from one to the next.
struct Race {
    limit: Limit,
    logs: Vec<Log>,
    stages: Vec<StageCell>,
    /// The last outlier that each reader has seen.
    readers: Vec<u64>,
}

impl Race {
    fn new(cpus: usize, readers: usize) -> Self {
        Self {
            limit: Limit::new(0),
            logs: (0..cpus).map(|_| Log::default()).collect(),
            stages: vec![StageCell::default(); cpus],
            readers: vec![0; readers],
        }
    }

    /// One CPU goes on by some stages.
    fn write(&self, (cpu, stages): Writes) {
        for _ in 0..stages {
            let next = match self.stages[cpu].get() {
                Stage::Take => {
                    let id = self.logs[cpu].take(&self.limit);
                    Stage::Report(id.expect("there is no limit"))
                }
                Stage::Report(id) => {
                    let sample = Sample::new(Metric::Idle, id, Cause::Idle, id);
                    let task = identity(7, 0);
                    assert!(self.logs[cpu].report(id, &sample, &task, None).is_some());
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

    /// Returns whether the outlier `id` is kept, or about to be.
    fn is_there(&self, id: u64) -> bool {
        let is_it = |stage: &StageCell| matches!(stage.get(), Stage::Report(it) if it == id);
        self.stages.iter().any(is_it) || self.logs.iter().any(|log| read(log, id).is_some())
    }

    /// One reader looks for the next outlier, and goes there; before it looks into each log, the
    /// next of `meanwhile` happens. Fails if the reader misses an outlier that is kept or in
    /// flight.
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
        let is_any_before = |id| self.logs.iter().any(|log| log.may_report_before(id));
        let Some((id, ())) = next_after(before, first_after, is_any_before) else {
            return Ok(None);
        };
        let last = self.limit.last();
        assert!(id > before && id <= last);
        self.readers[reader] = id;
        match (before + 1..id).find(|missed| self.is_there(*missed)) {
            Some(missed) => Err(format!("{missed} is missed: {id} after {before}")),
            None => Ok(Some(id)),
        }
    }

    /// All CPUs finish their outliers; then each reader must get to the last.
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
    /// Any order of events, also while a reader looks: first some event, and then one of two
    /// readers looks for the next outlier.
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

/// An outlier in flight keeps a reader from those after it, and from no other.
#[test]
fn an_outlier_in_flight_comes_before_later_ones() {
    let (limit, log) = (Limit::new(0), Log::default());
    let before = || [1, 2, 3].map(|id| log.may_report_before(id));
    assert_eq!(before(), [false, false, false]);
    assert_eq!(limit.take(), Some(1));
    assert_eq!(log.take(&limit), Some(2));
    assert_eq!(before(), [false, false, true]);
    let sample = Sample::new(Metric::Idle, 1, Cause::Idle, 1);
    assert!(log.report(2, &sample, &identity(7, 0), None).is_some());
    assert_eq!(before(), [false, false, false]);
}
