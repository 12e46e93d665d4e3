// SPDX-License-Identifier: GPL-2.0

//! Chains: rings of slices, softirqs, and the walk, against a simulation that knows what each task
//! did at each step of the time.

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use schedhist_engine::engine::{
    chain::{
        walk, Chain, ChainSlice, Context, End, Hop,
        Interrupted::{self, Hard, No, Softirq},
        LastChains, Link, Ring, SliceCells, SoftirqOf, Start, Walked, HOPS, STEPS,
    },
    format::{raw, text, Slices},
    group::Group,
    metric::Metric,
    outlier::KEPT,
    switch::sample::{Cause, Sample},
};
use schedhist_engine::testing::Bytes;

type Rings = Vec<Ring<Vec<SliceCells>>>;

fn ring(cpu: u32, slices: usize) -> Ring<Vec<SliceCells>> {
    let entries = (0..slices).map(|_| SliceCells::default()).collect();
    Ring::new(cpu, entries).expect("a power of two")
}

fn slice(pid: i32, start: Start, waiting: u64, since: u64, link: Link) -> ChainSlice {
    ChainSlice {
        pid,
        comm: *b"a task\0\0\0\0\0\0\0\0\0\0",
        group: Group::new(pid as u32 * 10).expect("a small number"),
        start,
        since,
        waiting,
        link,
    }
}

fn walk_all(rings: &Rings, first: Link, start: u64, end: u64) -> (Walked, Vec<Hop>) {
    let mut hops = Vec::new();
    let read = |link: Link| match rings.get(link.cpu() as usize) {
        Some(ring) => ring.read(link.number()),
        None => Err(End::Unknown),
    };
    let walked = walk(first, start, end, read, |number, hop| {
        hops.truncate(number);
        hops.push(*hop);
    });
    assert_eq!(hops.len(), walked.hops as usize);
    hops.iter()
        .for_each(|hop| assert_eq!(hop.group.number(), hop.pid as u32 * 10));
    let sum: u64 = hops.iter().map(Hop::sum).sum();
    assert_eq!(
        sum + walked.blocked + walked.missing,
        end - start,
        "the law"
    );
    (walked, hops)
}

#[test]
fn links() {
    for (cpu, number) in [(0, 1), (8191, (1 << 46) - 1), (5, 77)] {
        let link = Link::new(cpu, number);
        assert_eq!((link.cpu(), link.number()), (cpu, number));
        assert_eq!(link.context(), Context::Task);
        for context in Context::ALL {
            let within = link.within(context);
            assert_eq!((within.cpu(), within.number()), (cpu, number));
            assert_eq!(within.context(), context);
            assert_eq!(Link::from_bits(within.bits()), Some(within));
        }
    }
    // A group of tasks is a small number.
    assert_eq!(Link::from_bits((1 << 23) - 1), None);
    assert_eq!(Link::new(3, 0).context(), Context::Unknown);
    assert_eq!(Link::UNKNOWN.context(), Context::Unknown);
}

#[test]
fn numbers_of_slices() {
    for (text, number) in [("0", 0), ("16", 16), ("1024", 1024), ("65536", 65536)] {
        assert_eq!(
            Slices::parse(text.as_bytes()).map(Slices::get),
            Some(number)
        );
    }
    for wrong in ["", "8", "17", "131072", "none", "-16", "1024 "] {
        assert_eq!(Slices::parse(wrong.as_bytes()), None, "{wrong:?}");
    }
}

#[test]
fn a_ring_keeps_its_last_slices() {
    let ring = ring(3, 16);
    assert_eq!(ring.now().context(), Context::Unknown);
    assert_eq!(ring.now().cpu(), 3);
    assert_eq!(ring.memory(), 16 * 64);
    assert_eq!(ring.read(0), Err(End::Unknown));
    for number in 1..=40 {
        let pid = number as i32;
        ring.enter(&slice(pid, Start::Woken, number, number + 1, Link::UNKNOWN));
        assert_eq!(ring.now(), Link::new(3, number));
    }
    for number in 0..=40 {
        let found = ring.read(number).ok().map(|slice| slice.pid);
        assert_eq!(found, (number > 24).then_some(number as i32));
    }
    assert_eq!(ring.read(24), Err(End::Overwritten));
    ring.enter_idle(1);
    assert_eq!(ring.now(), Link::new(3, 40).within(Context::Idle));
    ring.forget();
    assert_eq!(ring.now(), Link::new(3, 0));
    // Nothing follows on what was forgotten.
    ring.enter(&slice(7, Start::Woken, 41, 42, Link::UNKNOWN));
    let found: Vec<_> = ring.kept().map(|kept| kept.number).collect();
    assert_eq!((found, ring.count()), (vec![42], 1));
    assert!((25..=41).all(|number| ring.read(number) == Err(End::Unknown)));
    assert!(Ring::new(0, vec![]).is_none() && Ring::new(0, vec![SliceCells::default()]).is_some());
}

#[test]
fn slices_that_are_kept() {
    let ring = ring(2, 16);
    assert_eq!(ring.kept().count(), 0);
    for number in 1..=20 {
        ring.enter(&slice(number, Start::Woken, 1, 1, Link::UNKNOWN));
        if number % 2 == 0 {
            ring.enter_idle(number as u64);
        }
        let kept: Vec<_> = ring.kept().collect();
        let oldest = (number - 15).max(1);
        let pids: Vec<_> = kept.iter().map(|kept| kept.slice.pid).collect();
        assert_eq!(pids, (oldest..=number).collect::<Vec<_>>());
        for kept in kept {
            let idle = if kept.number % 2 == 0 { kept.number } else { 0 };
            assert_eq!((kept.number, kept.idle), (kept.slice.pid as u64, idle));
        }
    }
    ring.forget();
    assert_eq!(ring.kept().count(), 0);
}

/// Applies a script to a ring with a slice, and returns the contexts that it asks for. A number is
/// a kind of softirq. It is raised by the task (t), by a hard interrupt (h) or by a softirq (s), or
/// by these for others, too (a, H, A); it runs as one of its raiser (r), of timers (m) or in a
/// thread (k). A slice (e), the idle task (i) or a timer (T) begins, or a timer ends (X).
fn contexts(script: &str) -> String {
    let ring = ring(0, 16);
    let enter = || ring.enter(&slice(1, Start::Woken, 1, 1, Link::UNKNOWN));
    enter();
    let mut found = Vec::new();
    for word in script.split(' ') {
        let (what, kind) = word.split_at(1);
        let kind = kind.parse().unwrap_or_default();
        let raise = |interrupted, for_others| ring.raise_softirq(kind, interrupted, for_others);
        let link = match what {
            "." => ring.waker(No),
            "!" => ring.waker(Hard),
            "?" => ring.waker(Softirq),
            "w" => ring.softirqs_waker(),
            _ => {
                match what {
                    "t" => raise(No, false),
                    "h" => raise(Hard, false),
                    "s" => raise(Softirq, false),
                    "a" => raise(No, true),
                    "H" => raise(Hard, true),
                    "A" => raise(Softirq, true),
                    "r" => ring.run_softirq(kind, SoftirqOf::Raiser),
                    "m" => ring.run_softirq(kind, SoftirqOf::Timers),
                    "k" => ring.run_softirq(kind, SoftirqOf::Thread),
                    "e" => enter(),
                    "i" => ring.enter_idle(1),
                    _ => ring.run_timer(what == "T"),
                }
                continue;
            }
        };
        let context = link.context();
        if context != Context::UnknownSoftirq {
            let last = Link::new(0, ring.now().number());
            assert_eq!(link, last.within(context), "{script}");
        }
        found.push(format!("{context:?}"));
    }
    found.join(" ")
}

#[test]
fn wakers() {
    for (script, expected) in [
        // No softirq was seen yet.
        (". ! ?", "Task Interrupt UnknownSoftirq"),
        // One that the task raised, one raised in that softirq, and one that nobody raised.
        ("t3 r3 ? s4 r4 ? r4 ?", "Softirq Softirq UnknownSoftirq"),
        // Raised in a hard interrupt, or in a softirq of one.
        ("h1 h1 r1 ? s2 r2 ?", "InterruptSoftirq InterruptSoftirq"),
        // Raised by an interrupt and by the task, or in two slices: nobody knows for whom it wakes.
        ("h1 t1 r1 ?", "UnknownSoftirq"),
        ("t1 e t1 r1 ?", "UnknownSoftirq"),
        // What a timer does in a hard interrupt, and what it raises there.
        ("T ! h1 X ! r1 ?", "Timer Interrupt InterruptSoftirq"),
        // And in a softirq, and in what it raises there, now and in a later slice.
        ("h1 m1 ? s2 e m1 s2 r2 ?", "Timer Timer"),
        // RCU's: a task that raises it asks for what others wait for, too.
        ("t3 r3 a9 r9 ?", "UnknownSoftirq"),
        ("t3 r3 A9 r9 ?", "UnknownSoftirq"),
        // But not the timer's interrupt.
        ("t3 r3 H9 r9 ?", "InterruptSoftirq"),
        // A thread for softirqs is woken for those that have not run, not for the last that did.
        ("t3 r3 w", "UnknownSoftirq"),
        ("t3 r3 h1 w h2 w", "InterruptSoftirq InterruptSoftirq"),
        ("h1 t4 w r1 w e w", "UnknownSoftirq Softirq UnknownSoftirq"),
        // The task that raised it has left the CPU.
        ("t1 e r1 ?", "UnknownSoftirq"),
        // The CPU is idle since, and has the number of its last slice.
        ("t1 i r1 ?", "UnknownSoftirq"),
        // The task was preempted within the softirq: nobody knows which one it goes on with.
        ("t1 r1 ? e ?", "Softirq UnknownSoftirq"),
        ("t1 r1 ? i ?", "Softirq UnknownSoftirq"),
        // A thread for softirqs is a task like any other.
        ("h1 k1 ?", "Task"),
        // Interrupts of the idle task.
        ("i . ! h1 r1 ?", "Idle Interrupt InterruptSoftirq"),
        // Softirqs that do not exist.
        ("t99 r99 ?", "UnknownSoftirq"),
    ] {
        assert_eq!(contexts(script), expected, "{script}");
    }
}

/// A ran from 10, was preempted at 20, got the CPU at 25 and woke B at 30; B waited until 37, and
/// woke C at 50, which waited until 54.
fn abc() -> (Rings, Link) {
    let rings = vec![ring(0, 16), ring(1, 16)];
    rings[0].enter(&slice(
        1,
        Start::Woken,
        8,
        10,
        Link::new(1, 0).within(Context::Interrupt),
    ));
    let first = rings[0].now();
    rings[1].enter(&slice(1, Start::Preempted, 20, 25, first));
    let a = rings[1].waker(Interrupted::No);
    rings[0].enter(&slice(2, Start::Woken, 30, 37, a));
    let b = rings[0].waker(Interrupted::No);
    rings[1].enter(&slice(3, Start::Woken, 50, 54, b));
    let c = rings[1].now();
    (rings, c)
}

#[test]
fn a_chain_by_hand() {
    let (rings, c) = abc();
    let times = |hop: &Hop| (hop.pid, hop.ran, hop.waited, hop.preempted, hop.slices);
    let (walked, hops) = walk_all(&rings, c, 6, 54);
    assert_eq!(walked.end, End::Interrupt);
    assert_eq!((walked.blocked, walked.missing), (2, 0));
    let found: Vec<_> = hops.iter().map(times).collect();
    assert_eq!(found, [(3, 0, 4, 0, 1), (2, 13, 7, 0, 1), (1, 15, 2, 5, 2)]);
    assert_eq!(hops[1].via, Context::Task);
    // A sleep ends with the wakeup.
    let (_, hops) = walk_all(&rings, c, 12, 50);
    assert_eq!(hops[0].sum(), 0);
}

#[test]
fn ends() {
    let end_of = |link, start| {
        let rings = vec![ring(0, 16)];
        rings[0].enter(&slice(1, start, 20, 30, link));
        walk_all(&rings, rings[0].now(), 10, 40).0
    };
    for (context, end) in [
        (Context::Interrupt, End::Interrupt),
        (Context::InterruptSoftirq, End::InterruptSoftirq),
        (Context::UnknownSoftirq, End::UnknownSoftirq),
        (Context::Idle, End::Idle),
        (Context::Timer, End::Timer),
    ] {
        let walked = end_of(Link::new(0, 7).within(context), Start::Woken);
        assert_eq!((walked.end, walked.blocked, walked.missing), (end, 10, 0));
    }
    // A slice from before the CPU came online.
    let rings = vec![ring(0, 16)];
    rings[0].enter(&slice(1, Start::Woken, 20, 20, Link::UNKNOWN));
    let before = rings[0].now();
    rings[0].forget();
    rings[0].enter(&slice(2, Start::Woken, 20, 30, before));
    let walked = walk_all(&rings, rings[0].now(), 10, 40).0;
    assert_eq!((walked.end, walked.missing), (End::Unknown, 10));
    let walked = end_of(Link::UNKNOWN, Start::Woken);
    assert_eq!((walked.end, walked.missing), (End::Unknown, 10));
    let walked = end_of(Link::new(0, 1), Start::Unknown);
    assert_eq!((walked.end, walked.missing), (End::Unknown, 10));
    // A clock that is ahead of another one.
    let rings = vec![ring(0, 16)];
    rings[0].enter(&slice(1, Start::Throttled, 90, 80, Link::UNKNOWN));
    let (walked, hops) = walk_all(&rings, rings[0].now(), 10, 40);
    assert_eq!((walked.missing, hops[0].sum()), (30, 0));
}

#[test]
fn limits() {
    let chain_of = |number: u64, start: Start| {
        let rings = vec![ring(0, 256)];
        for at in 1..=number {
            let link = rings[0].now();
            rings[0].enter(&slice(at as i32, start, at * 10, at * 10 + 3, link));
        }
        walk_all(&rings, rings[0].now(), 1, number * 10 + 3)
    };
    let (walked, hops) = chain_of(HOPS as u64 + 1, Start::Woken);
    assert_eq!((walked.end, hops.len()), (End::Limit, HOPS));
    let (walked, _) = chain_of(HOPS as u64, Start::Woken);
    assert_eq!(walked.end, End::Unknown);
    let (walked, hops) = chain_of(u64::from(STEPS) + 1, Start::Preempted);
    assert_eq!((walked.end, hops.len()), (End::Limit, 1));
    assert_eq!(hops[0].slices, STEPS);
}

/// What a task does at a step of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Waits,
    IsPreempted,
    Runs,
}

/// Tasks that wake one another on CPUs, step by step.
struct Simulation {
    rings: Rings,
    /// Of each task, what it does at each step, and who woke it for the stretch of that step.
    history: Vec<Vec<(Doing, Option<usize>)>>,
    /// Of each CPU, the task that has it.
    current: Vec<Option<usize>>,
    queue: Vec<usize>,
    /// Of each task: since when it waits, for what reason, and the link.
    waiting: Vec<(u64, Start, Link)>,
    place: Vec<Link>,
    waker: Vec<Option<usize>>,
    left: Vec<u64>,
}

impl Simulation {
    fn new(cpus: usize, tasks: usize, slices: usize) -> Self {
        Self {
            rings: (0..cpus).map(|cpu| ring(cpu as u32, slices)).collect(),
            history: vec![Vec::new(); tasks],
            current: vec![None; cpus],
            queue: Vec::new(),
            waiting: vec![(0, Start::Unknown, Link::UNKNOWN); tasks],
            place: vec![Link::UNKNOWN; tasks],
            waker: vec![None; tasks],
            left: vec![0; tasks],
        }
    }

    fn wake(&mut self, task: usize, now: u64, by: Option<usize>, link: Link) {
        let is_asleep = !self.queue.contains(&task) && !self.current.contains(&Some(task));
        if is_asleep {
            self.waker[task] = by;
            self.waiting[task] = (now, Start::Woken, link);
            self.queue.push(task);
        }
    }

    /// Takes the steps that `choices` says, and checks each absence that ends.
    fn run(&mut self, choices: &[(u8, u8, u8)]) -> usize {
        let mut checked = 0;
        for (now, (what, cpu, task)) in (1..).zip(choices) {
            let cpu = usize::from(*cpu) % self.rings.len();
            let task = usize::from(*task) % self.history.len();
            match (what % 8, self.current[cpu]) {
                (0, _) => {
                    let link = self.rings[cpu].waker(Interrupted::Hard);
                    self.wake(task, now, None, link);
                }
                (1..=3, Some(by)) => {
                    let link = self.rings[cpu].waker(Interrupted::No);
                    self.wake(task, now, Some(by), link);
                }
                (4 | 5, Some(leaving)) => {
                    self.left[leaving] = now;
                    self.current[cpu] = None;
                    self.rings[cpu].enter_idle(now);
                }
                (6, Some(leaving)) if !self.queue.is_empty() => {
                    self.waiting[leaving] = (now, Start::Preempted, self.rings[cpu].now());
                    self.current[cpu] = None;
                    self.queue.push(leaving);
                }
                _ => {}
            }
            if self.current[cpu].is_none() && !self.queue.is_empty() {
                let next = self.queue.remove(0);
                let (waiting, start, link) = self.waiting[next];
                self.rings[cpu].enter(&slice(next as i32, start, waiting, now, link));
                self.place[next] = self.rings[cpu].now();
                self.current[cpu] = Some(next);
                if start == Start::Woken && self.left[next] != 0 {
                    self.check(next, now);
                    checked += 1;
                }
            }
            for task in 0..self.history.len() {
                let doing = if self.current.contains(&Some(task)) {
                    Doing::Runs
                } else if !self.queue.contains(&task) {
                    Doing::Nothing
                } else if self.waiting[task].1 == Start::Preempted {
                    Doing::IsPreempted
                } else {
                    Doing::Waits
                };
                self.history[task].push((doing, self.waker[task]));
            }
        }
        checked
    }

    /// Returns who had woken `task` last at a step, of which the one in progress is the last.
    fn waker_at(&self, task: usize, step: u64) -> Option<usize> {
        match self.history[task].get(step as usize - 1) {
            Some((_, waker)) => *waker,
            None => self.waker[task],
        }
    }

    /// Compares the chain of `task`, which gets a CPU at `now`, with the history.
    fn check(&self, task: usize, now: u64) {
        let start = self.left[task];
        let (walked, hops) = walk_all(&self.rings, self.place[task], start, now);
        let mut expected: Vec<(i32, [u64; 3])> = vec![(task as i32, [0; 3])];
        let mut at = now - 1;
        let mut of = task;
        let mut rest = 0;
        while at >= start {
            let (doing, _) = self.history[of][at as usize - 1];
            let times = &mut expected.last_mut().expect("one at least").1;
            match doing {
                Doing::Runs => times[0] += 1,
                Doing::Waits => times[1] += 1,
                Doing::IsPreempted => times[2] += 1,
                // It was woken at the end of this step.
                Doing::Nothing => match self.waker_at(of, at + 1) {
                    Some(by) => {
                        of = by;
                        expected.push((by as i32, [0; 3]));
                        continue;
                    }
                    None => {
                        rest = at - start + 1;
                        break;
                    }
                },
            }
            at -= 1;
        }
        let found = hops
            .iter()
            .map(|hop| (hop.pid, [hop.ran, hop.waited, hop.preempted]));
        let found: Vec<_> = found.collect();
        match walked.end {
            End::Start => assert_eq!((found, rest), (expected, 0)),
            End::Interrupt => assert_eq!((found, rest), (expected, walked.blocked)),
            _ => {
                // All but the last hop, of which parts may be missing.
                let last = found.len() - 1;
                assert_eq!(found[..last], expected[..last], "{walked:?}");
                assert_eq!(found[last].0, expected[last].0);
            }
        }
    }
}

#[test]
fn chains_of_a_simulation() {
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(400)
    });
    let choices = prop::collection::vec(any::<(u8, u8, u8)>(), 50..600);
    let checked = std::cell::Cell::new(0);
    runner
        .run(
            &(choices, 1..4_usize, 2..7_usize, 0..3_u32),
            |(choices, cpus, tasks, shift)| {
                let mut simulation = Simulation::new(cpus, tasks, 256 >> (2 * shift));
                checked.set(checked.get() + simulation.run(&choices));
                Ok(())
            },
        )
        .unwrap();
    assert!(checked.get() > 1000, "only {} chains", checked.get());
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(3000) })]

    #[test]
    fn sums_are_exact_whatever_the_slices_are(
        slices in prop::collection::vec(
            (0..4_i32, 0..5_usize, any::<u16>(), any::<u16>(), 0..40_u64, 0..8_usize),
            1..40,
        ),
        start: u16,
        len: u16,
    ) {
        let rings = vec![ring(0, 16)];
        for (pid, kind, waiting, since, number, context) in slices {
            let link = Link::new(0, number).within(Context::ALL[context]);
            rings[0].enter(&slice(pid, Start::ALL[kind], waiting.into(), since.into(), link));
        }
        walk_all(&rings, rings[0].now(), start.into(), u64::from(start) + u64::from(len));
    }
}

fn sample(value: u64) -> Sample {
    Sample::new(Metric::Offcpu, value, Cause::Interruptible, 54)
}

#[test]
fn only_waits_and_sleeps_have_a_chain() {
    let chains = LastChains::default();
    for metric in Metric::ALL {
        let sample = Sample::new(metric, 48, Cause::Interruptible, 54);
        let kept = chains.keep(1, &sample, Link::UNKNOWN, |_| Err(End::Unknown));
        let is_other = {
            use Metric::{Idle, Oncpu, Resched, ReschedLazy};
            matches!(metric, Oncpu | Idle | Resched | ReschedLazy)
        };
        assert_eq!(kept.is_none(), is_other, "{metric:?}");
    }
}

fn keep(chains: &LastChains, id: u64) {
    let (rings, c) = abc();
    let read = |link: Link| rings[link.cpu() as usize].read(link.number());
    let sample = sample(48);
    let (walked, kept) = chains.keep(id, &sample, c, read).expect("there is a place");
    let mut hops = [Hop::NONE; HOPS];
    assert_eq!(
        chains.read(id, &mut hops).map(|chain| chain.walked),
        Some(walked)
    );
    assert!(kept.eq(hops.into_iter().take(3)));
}

#[test]
fn kept_chains() {
    let chains = LastChains::default();
    let mut hops = [Hop::NONE; HOPS];
    assert_eq!(
        (chains.ids().next(), chains.read(1, &mut hops)),
        (None, None)
    );
    let last = KEPT as u64 + 3;
    (1..=last).for_each(|id| keep(&chains, id));
    let mut ids: Vec<_> = chains.ids().collect();
    ids.sort();
    assert_eq!(ids, Vec::from_iter(4..=last));
    assert_eq!(
        (chains.read(3, &mut hops), chains.read(0, &mut hops)),
        (None, None)
    );
    let chain = chains.read(last, &mut hops).expect("it is kept");
    assert_eq!((chain.id, chain.sample), (last, sample(48)));
    assert_eq!((chain.walked.end, chain.walked.hops), (End::Interrupt, 3));
    assert_eq!(chain.walked.blocked, 2);
    let mut out = String::new();
    text::chains_head(&mut out, 1024).unwrap();
    text::chain(&mut out, 1, &chain, &hops[..3]).unwrap();
    assert_eq!(
        out,
        "# schedhist chains version 1\n\
         # chain 1024\n\
         chain id 19 metric offcpu cpu 1 duration_ns 48 end interrupt blocked_ns 2 missing_ns 0 \
         hops 3\n  \
         hop id 19 via - ran_ns 0 waited_ns 4 preempted_ns 0 throttled_ns 0 slices 1 cpu 1 group 30 \
         pid 3 comm a task\n  \
         hop id 19 via task ran_ns 13 waited_ns 7 preempted_ns 0 throttled_ns 0 slices 1 cpu 0 \
         group 20 pid 2 comm a task\n  \
         hop id 19 via task ran_ns 15 waited_ns 2 preempted_ns 5 throttled_ns 0 slices 2 cpu 1 \
         group 10 pid 1 comm a task\n"
    );
}

#[test]
fn chains_in_raw() {
    let chains = LastChains::default();
    keep(&chains, 7);
    let mut hops = [Hop::NONE; HOPS];
    let chain: Chain = chains.read(7, &mut hops).expect("it is kept");
    let mut out = Bytes::default();
    raw::chain(&mut out, 1, &chain, &hops[..3]);
    let words: Vec<u32> = out
        .0
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(words.len() * 4, 64 + 3 * 88);
    let metric = Metric::Offcpu as u32;
    assert_eq!(words[..8], [30, 64, 7, 0, 1, metric, 48, 0]);
    assert_eq!(words[8..16], [54, 0, 2, 0, 0, 0, End::Interrupt as u32, 3]);
    let last = &words[16 + 44..];
    assert_eq!(last[..8], [31, 88, 7, 0, 2, 0, 1, 2]);
    assert_eq!(last[8..16], [15, 0, 2, 0, 5, 0, 0, 0]);
    assert_eq!(last[20..], [1, 10]);
    assert_eq!(words[16 + 5], Context::Unknown as u32);
}
