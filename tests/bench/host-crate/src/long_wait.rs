// SPDX-License-Identifier: GPL-2.0

//! Long waits that take much to look at.

use schedhist_engine::engine::{
    idle::{
        gaps::{Gaps, MAX},
        split::{split, Candidates, LongWait, Wait, CPUS, IDLE_CPUS, PERIODS, STEPS},
        Distance, IdlePeriods,
    },
    switch::sample::Cause,
};

const END: u64 = 100_000;

/// A wait, and the CPUs that the task may use: one of `apart` shares the cache of its own.
pub struct Long {
    records: Vec<IdlePeriods>,
    apart: u32,
    gaps: Gaps,
}

/// Idle `number` times, from `first` on.
fn record(number: u64, first: u64) -> IdlePeriods {
    let record = IdlePeriods::default();
    record.start(1, false);
    for at in 0..number {
        record.begin(first + 10 * at);
        record.end(first + 10 * at + 1);
    }
    record
}

impl Long {
    /// All CPUs that are looked at were busy.
    pub fn busy() -> Self {
        Self {
            records: (0..=CPUS).map(|_| record(0, 0)).collect(),
            apart: 1,
            gaps: Gaps::default(),
        }
    }

    /// As much of everything as is looked at.
    pub fn most() -> Self {
        let apart = STEPS / CPUS;
        // The first one cuts the wait into nearly as many gaps as there may be, and the others were
        // idle at the same times as it was at first.
        let most = MAX as u64 - 3;
        let each = u64::from((PERIODS - most as u32) / (IDLE_CPUS - 1));
        let records = (0..=STEPS)
            .map(|cpu| match (cpu % apart, cpu / apart) {
                (0, 1) => record(most, 100),
                (0, 2..=IDLE_CPUS) => record(each, 100),
                _ => record(0, 0),
            })
            .collect();
        Self {
            records,
            apart,
            gaps: Gaps::default(),
        }
    }

    /// Splits the wait.
    pub fn split(&self) -> LongWait {
        let wait = Wait {
            start: 2,
            end: END,
            queued: 2,
            cause: Cause::Wakeup,
            moved: false,
        };
        split(&wait, &self.records[0], &self.gaps, self)
    }
}

impl Candidates for Long {
    fn next(&self, cpu: Option<u32>) -> Option<u32> {
        let next = cpu.map_or(0, |cpu| cpu + 1);
        ((next as usize) < self.records.len()).then_some(next)
    }

    fn own_cpu(&self) -> u32 {
        0
    }

    fn is_near(&self, cpu: u32) -> bool {
        cpu % self.apart == 0
    }

    fn periods(&self, cpu: u32) -> Option<&IdlePeriods> {
        self.records.get(cpu as usize)
    }

    fn distance(&self, _: u32) -> Distance {
        Distance::Llc
    }
}
