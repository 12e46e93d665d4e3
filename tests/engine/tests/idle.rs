// SPDX-License-Identifier: GPL-2.0

//! Long waits, split by what other CPUs did meanwhile: against a reference that goes through the
//! time step by step.

use std::{cell::Cell, collections::BTreeSet, ops::Range};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use schedhist_engine::engine::format::{openmetrics, text, Scope};
use schedhist_engine::engine::idle::{
    gaps::{self, Gaps},
    periods::{IdlePeriods, KEPT},
    split::{self, split, Candidates, LongWait, Longest, Wait},
    totals::{LongWaits, WaitCause, WaitPart, WaitSums},
    Distance,
};
use schedhist_engine::engine::switch::sample::Cause;
use schedhist_engine::testing::{next_random, written};
use WaitPart::{Busy, LlcIdle, OwnIdle, RemoteIdle, Unknown, Waited};

/// What a CPU did.
#[derive(Clone, Debug)]
struct Cpu {
    /// Its idle periods: gap before, and length.
    periods: Vec<(u64, u64)>,
    /// It stays idle at the end.
    is_idle: bool,
    /// Nothing is known before this.
    known: u64,
    llc: u32,
    is_allowed: bool,
}

/// The time at which the recording begins: 0 is none.
const FIRST: u64 = 1;

/// Random numbers from a seed, for cases that are too many and too large for strategies.
struct Random(u64);

impl Random {
    /// Returns a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        (next_random(&mut self.0) >> 33) % end
    }

    fn cpu(&mut self) -> Cpu {
        let (most, longest) = match self.below(5) {
            0 => (KEPT as u64 * 3, 2),
            1 => (KEPT as u64 * 2, 80),
            _ => (8, 80),
        };
        let number = self.below(most);
        let length = |random: &mut Self| {
            let is_short = random.below(4) != 0;
            1 + random.below(if is_short { longest.min(5) } else { longest })
        };
        Cpu {
            periods: (0..number).map(|_| (length(self), length(self))).collect(),
            is_idle: self.below(2) == 0,
            known: if self.below(4) == 0 {
                FIRST + self.below(200)
            } else {
                FIRST
            },
            llc: self.below(2) as u32,
            is_allowed: self.below(8) != 0,
        }
    }

    /// Returns a wait, and the time at which it is looked at.
    fn wait(&mut self) -> (u64, Wait) {
        let longest = if self.below(2) == 0 { 30 } else { 400 };
        let start = FIRST + self.below(300);
        let end = start + 1 + self.below(longest);
        let queued = self.below(600);
        let wait = Wait {
            start,
            end,
            queued,
            cause: [Cause::Wakeup, Cause::Preempted, Cause::Fork][self.below(3) as usize],
            moved: self.below(4) == 0,
        };
        (end + self.below(20), wait)
    }
}

/// Whether a CPU is idle at each time.
struct Idle(Vec<bool>);

impl Idle {
    fn extend(&mut self, when: Range<u64>) {
        self.0[when.start as usize..when.end as usize].fill(true);
    }
}

impl Cpu {
    /// Records what the CPU did until `now`. Returns the record, and when it was idle.
    fn play(&self, now: u64) -> (IdlePeriods, Idle) {
        let (record, mut idle) = (IdlePeriods::default(), Idle(vec![false; now as usize + 1]));
        let mut is_started = false;
        let mut start = |at: u64, is_idle: bool| {
            // Called between two switches: as soon as the time has come.
            if at >= self.known && !is_started {
                record.start(self.known, is_idle);
                is_started = true;
            }
        };
        let mut at = FIRST;
        for (busy, length) in &self.periods {
            let (from, until) = (at + busy, at + busy + length);
            if until >= now {
                break;
            }
            start(from - 1, false);
            record.begin(from);
            start(until - 1, true);
            record.end(until);
            idle.extend(from..until);
            at = until;
        }
        if self.is_idle && at + 1 < now {
            start(at, false);
            record.begin(at + 1);
            idle.extend(at + 1..now);
        }
        start(now, self.is_idle && at + 1 < now);
        (record, idle)
    }
}

struct Machine {
    records: Vec<IdlePeriods>,
    is_allowed: Vec<bool>,
    llcs: Vec<u32>,
    calls: Cell<u32>,
    own: u32,
}

impl Candidates for Machine {
    fn next(&self, cpu: Option<u32>) -> Option<u32> {
        self.calls.set(self.calls.get() + 1);
        let first = cpu.map_or(0, |cpu| cpu as usize + 1);
        let next = (first..self.records.len()).find(|cpu| self.is_allowed[*cpu])?;
        Some(next as u32)
    }

    fn is_near(&self, cpu: u32) -> bool {
        self.llcs[cpu as usize] == self.llcs[self.own as usize]
    }

    fn periods(&self, cpu: u32) -> Option<&IdlePeriods> {
        self.records.get(cpu as usize)
    }

    fn own_cpu(&self) -> u32 {
        self.own
    }

    fn distance(&self, cpu: u32) -> Distance {
        match cpu == self.own {
            true => Distance::Own,
            false => Distance::Core,
        }
    }
}

/// Splits a wait step by step. Not limited by what a CPU remembers.
fn truth(wait: &Wait, idle: &[Idle], cpus: &[Cpu]) -> LongWait {
    let mut found = LongWait::default();
    for at in wait.start..wait.end {
        let is_idle =
            |cpu: &usize| idle[*cpu].0[at as usize] && (*cpu == 0 || cpus[*cpu].is_allowed);
        let near = |cpu: &usize| cpus[*cpu].llc == cpus[0].llc;
        if at >= wait.queued && is_idle(&0) {
            found.parts[OwnIdle as usize] += 1;
            continue;
        }
        let mut others =
            (0..cpus.len()).filter(|cpu| (*cpu != 0 || at < wait.queued) && is_idle(cpu));
        let part = match (others.clone().any(|cpu| near(&cpu)), others.next()) {
            (true, _) => LlcIdle,
            (false, Some(_)) => RemoteIdle,
            (false, None) => Busy,
        };
        found.parts[part as usize] += 1;
    }
    found.parts[Waited as usize] = wait.end - wait.start;
    let was_idle = |at| at >= wait.queued && idle[0].0[at as usize];
    found.why = match wait.cause {
        _ if wait.moved => WaitCause::Moved,
        Cause::Fork => WaitCause::Forked,
        Cause::Preempted => WaitCause::Preempted,
        _ if (wait.start..wait.end).all(was_idle) => WaitCause::WokenIdle,
        _ => WaitCause::WokenBusy,
    };
    found
}

/// Checks that what was found is exact or a lower bound, and the rest within what is unknown.
fn check(found: &LongWait, truth: &LongWait) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.part(Waited), truth.part(Waited));
    let unknown = found.part(Unknown);
    let sum = found.part(OwnIdle) + found.idle_elsewhere() + unknown + found.part(Busy);
    prop_assert_eq!(sum, found.part(Waited));
    for (part, exact) in [
        (found.part(OwnIdle), truth.part(OwnIdle)),
        (found.idle_elsewhere(), truth.idle_elsewhere()),
        (found.part(Busy), truth.part(Busy)),
    ] {
        prop_assert!(
            part <= exact && exact <= part + unknown,
            "{found:?} {truth:?}"
        );
        prop_assert!(unknown != 0 || part == exact);
    }
    prop_assert!(found.part(LlcIdle) <= truth.part(LlcIdle));
    let may_be_idle = unknown != 0 && truth.why == WaitCause::WokenIdle;
    prop_assert!(found.why == truth.why || (may_be_idle && found.why == WaitCause::WokenBusy));
    Ok(())
}

#[test]
fn parts_are_exact_or_bounds() {
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(60_000)
    };
    let mut runner = TestRunner::new(config);
    let (exact, partly) = (Cell::new(0), Cell::new(0));
    runner
        .run(&any::<u64>(), |seed| {
            let mut random = Random(seed);
            let (now, wait) = random.wait();
            let number = 1 + random.below(5);
            let mut cpus: Vec<_> = (0..number).map(|_| random.cpu()).collect();
            // The task got this one.
            cpus[0].is_allowed = true;
            let (records, idle): (Vec<_>, Vec<_>) = cpus.iter().map(|cpu| cpu.play(now)).unzip();
            let machine = Machine {
                records,
                is_allowed: cpus.iter().map(|cpu| cpu.is_allowed).collect(),
                llcs: cpus.iter().map(|cpu| cpu.llc).collect(),
                calls: Cell::new(0),
                own: 0,
            };
            let found = split(&wait, &machine.records[0], &Gaps::default(), &machine);
            check(&found, &truth(&wait, &idle, &cpus))?;
            if let Some(Longest {
                cpu, idle: length, ..
            }) = found.longest
            {
                let all = idle[cpu as usize].0[wait.start as usize..wait.end as usize].iter();
                let all = all.filter(|is_idle| **is_idle).count();
                prop_assert!(length <= all as u64);
                prop_assert!(cpu == 0 || cpus[cpu as usize].is_allowed);
            } else {
                prop_assert_eq!(found.idle_elsewhere(), 0);
            }
            for (record, idle) in machine.records.iter().zip(&idle) {
                let all = &idle.0[wait.start as usize..wait.end as usize];
                prop_assert!(!record.was_busy(wait.start, wait.end) || !all.contains(&true));
            }
            let kind = if found.part(Unknown) == 0 {
                &exact
            } else {
                &partly
            };
            kind.set(kind.get() + 1);
            Ok(())
        })
        .expect("exact, or a bound");
    // The cases test both.
    assert!(
        exact.get() > 20_000 && partly.get() > 5_000,
        "{exact:?} {partly:?}"
    );
}

proptest! {
    #[test]
    fn gaps_are_what_is_left(
        end in 1u64..500,
        taken in proptest::collection::vec((0u64..500, 1u64..20), 0..100),
    ) {
        let gaps = Gaps::default();
        gaps.begin(0, end);
        let mut left: BTreeSet<u64> = (0..end).collect();
        for (from, length) in taken {
            let until = from + length;
            let before = left.len();
            match gaps.take(&mut 0, from, until) {
                Some(taken) => {
                    left.retain(|at| !(from..until).contains(at));
                    prop_assert_eq!(taken as usize, before - left.len());
                }
                None => prop_assert_eq!(gaps.len(), gaps::MAX),
            }
            prop_assert_eq!(gaps.is_empty(), left.is_empty());
        }
        for time in 0..=end {
            prop_assert_eq!(gaps.before(time) as usize, left.range(..time).count());
        }
    }
}

/// Idle at `from` to `until`, again and again, `number` times.
fn often_idle(number: u64, first: u64) -> IdlePeriods {
    let record = IdlePeriods::default();
    record.start(FIRST, false);
    for at in 0..number {
        record.begin(first + 4 * at);
        record.end(first + 4 * at + 1);
    }
    record
}

fn machine(records: Vec<IdlePeriods>) -> Machine {
    Machine {
        is_allowed: vec![true; records.len()],
        llcs: vec![0; records.len()],
        records,
        calls: Cell::new(0),
        own: 0,
    }
}

fn split_on(machine: &Machine, wait: &Wait) -> LongWait {
    let own = &machine.records[machine.own as usize];
    split(wait, own, &Gaps::default(), machine)
}

#[test]
fn splitting_is_bounded() {
    let wait = Wait {
        start: 10,
        end: 10_000,
        queued: 10,
        cause: Cause::Wakeup,
        moved: false,
    };
    // As many as are looked at, and busy all the time: that is known.
    let busy = |number| (0..number).map(|_| often_idle(0, 0)).collect::<Vec<_>>();
    let found = |records| split_on(&machine(records), &wait);
    let exact = found(busy(split::CPUS + 1));
    assert_eq!((exact.part(Unknown), exact.part(Busy)), (0, 9990));
    // One more is not.
    assert_eq!(found(busy(split::CPUS + 2)).part(Unknown), 9990);
    // Likewise those that were idle.
    let idle = |number| {
        let periods = (0..number).map(|_| often_idle(1, 20));
        busy(1).into_iter().chain(periods).collect()
    };
    let exact = found(idle(split::IDLE_CPUS));
    assert_eq!((exact.part(Unknown), exact.part(Busy)), (0, 9989));
    let more = found(idle(split::IDLE_CPUS + 1));
    assert_eq!((more.part(Unknown), more.part(LlcIdle)), (9989, 1));
    // However many there are.
    let mut many = machine(busy(5000));
    many.llcs[1..].fill(1);
    assert_eq!(split_on(&many, &wait).part(Unknown), 9990);
    assert!(many.calls.get() <= split::STEPS + 4);
    // All have more periods than are looked at: those that were are counted.
    let periods = (0..20)
        .map(|cpu| often_idle(KEPT as u64 - 1, 20 + cpu % 4))
        .collect();
    let bounded = split_on(&machine(periods), &wait);
    assert!(
        (50..260).contains(&bounded.part(Unknown)) && bounded.part(OwnIdle) > 0,
        "{bounded:?}"
    );
}

#[test]
fn a_look_begins_at_the_own_cpu() {
    let wait = Wait {
        start: 10,
        end: 50,
        queued: 10,
        cause: Cause::Wakeup,
        moved: false,
    };
    // The first CPU that is idle is the one that was so longest, if all are alike.
    let longest = |own, allowed: &[u32]| {
        let mut machine = machine((0..5).map(|_| often_idle(1, 20)).collect());
        machine.own = own;
        machine.records[own as usize] = often_idle(0, 0);
        for cpu in 0..5 {
            machine.is_allowed[cpu as usize] = allowed.contains(&cpu);
        }
        split_on(&machine, &wait).longest.map(|longest| longest.cpu)
    };
    assert_eq!(longest(2, &[0, 1, 2, 3, 4]), Some(3));
    assert_eq!(longest(2, &[0, 1, 2]), Some(0));
    assert_eq!(longest(2, &[1, 4]), Some(4));
    assert_eq!(longest(4, &[1, 2, 4]), Some(1));
    assert_eq!(longest(0, &[0, 4]), Some(4));
    assert_eq!(longest(2, &[2]), None);
}

#[test]
fn a_cpu_tells_nothing_of_before_it_is_known() {
    let record = IdlePeriods::default();
    let wait = Wait {
        start: 10,
        end: 20,
        queued: 10,
        cause: Cause::Wakeup,
        moved: false,
    };
    let unknown = |record| split_on(&machine(vec![often_idle(0, 0), record]), &wait).part(Unknown);
    // Neither does one that was not started, though it gets idle.
    record.begin(12);
    assert_eq!(unknown(record), 10);
    // One that comes online is known from its first switch from idle on.
    let record = IdlePeriods::default();
    record.end(14);
    assert_eq!(unknown(record), 4);
    // One that forgets does not know what it forgot.
    let record = often_idle(3, 2);
    record.forget();
    record.start(15, false);
    assert_eq!(unknown(record), 5);
    // One that was idle when it began to be known was so from then on.
    let record = IdlePeriods::default();
    record.start(13, true);
    let found = split_on(&machine(vec![often_idle(0, 0), record]), &wait);
    assert_eq!((found.part(Unknown), found.part(LlcIdle)), (3, 7));
    let longest = Longest {
        cpu: 1,
        idle: 7,
        distance: Distance::Core,
    };
    assert_eq!(found.longest, Some(longest));
}

#[test]
fn sums_add_up() {
    let sums = LongWaits::default();
    let wait = LongWait {
        parts: [100, 1, 20, 30, 4, 45],
        longest: None,
        why: WaitCause::WokenIdle,
    };
    sums.add(&wait);
    let before = sums.read();
    sums.add(&wait);
    let mut both = sums.read();
    assert_eq!(both.waits(), 2);
    assert_eq!(
        WaitPart::ALL.map(|part| both.part(part)),
        [200, 2, 40, 60, 8, 90]
    );
    let causes = WaitCause::ALL.map(|cause| both.cause(cause));
    assert_eq!(causes, [(0, 0), (0, 0), (0, 0), (2, 200), (0, 0)]);
    both.subtract(&before);
    assert_eq!(both, before);
    both.add(&before);
    assert_eq!(both, sums.read());
}

#[test]
fn texts_name_each_part() {
    const S: u64 = 2_000_000_000;

    let sums = WaitSums([
        3,
        S + 15,
        1,
        2,
        3,
        4,
        S + 5,
        1,
        6,
        0,
        0,
        0,
        0,
        0,
        0,
        2,
        S + 9,
    ]);
    let mut text = String::new();
    text::long_waits_head(&mut text, 0).expect("a String takes all");
    text::long_waits_head(&mut text, 1000).expect("a String takes all");
    text::long_waits(&mut text, Scope::All, &sums).expect("a String takes all");
    text::long_waits(&mut text, Scope::Cpu(7), &sums).expect("a String takes all");
    let parts = "waits 3 waited_ns 2000000015 own_idle_ns 1 llc_idle_ns 2 remote_idle_ns 3 \
                 unknown_ns 4 busy_ns 2000000005 moved 1 moved_ns 6 forked 0 forked_ns 0 preempted 0 \
                 preempted_ns 0 woken_idle 0 woken_idle_ns 0 woken_busy 2 woken_busy_ns 2000000009";
    let head = "# schedhist long_waits version 1\n# long_wait_ns ";
    assert_eq!(
        text,
        format!("{head}none\n{head}1000\nall {parts}\ncpu7 {parts}\n")
    );
    let text = written(|out| openmetrics::long_waits(out, Scope::Cpu(7), &sums));
    let family = "\n# UNIT schedhist_long_wait_busy_seconds seconds\n\
                  schedhist_long_wait_busy_seconds_total{cpu=\"7\"} 2.000000005\n";
    assert!(text.contains("schedhist_long_waits_total{cpu=\"7\"} 3\n"));
    assert!(text.contains(family), "{text}");
    assert!(text.contains("schedhist_long_waits_moved_seconds_total{cpu=\"7\"} 0.000000006\n"));
    assert!(text.ends_with("schedhist_long_waits_woken_busy_total{cpu=\"7\"} 2\n"));
    let lines = 3 + 4 * WaitPart::COUNT + 7 * WaitCause::COUNT;
    assert_eq!(text.lines().count(), lines);
}
