// SPDX-License-Identifier: GPL-2.0

//! Tests of the core: snapshots of a simulated machine, and the engine itself as the oracle.

use std::io::{self, Read};

use base64::{engine::general_purpose::STANDARD, Engine};
use flate2::read::ZlibDecoder;
use schedhist_core::{
    compare::{self, Line},
    distribution::{Distribution, Max, Quantile},
    engine::{
        self,
        group::records::GroupMetric,
        histogram::bucket::{Precision, Scheme},
        idle::{WaitPart, WaitSums},
        switch::cpu::Occupancy,
    },
    exposition::{self, families, text::Dialect},
    groups::{offenders, GroupRow, GroupWindow},
    laws,
    log2::Log2,
    merge, raw,
    recording::{
        course::Course,
        delta,
        file::{Item, Lost, Player, Recorder, TimedSnapshot, MAGIC},
    },
    text, units,
    window::{Reloaded, Window},
};

mod sim;

use sim::{Groups, Machine, Random, GROUP_RUNQ};

fn two(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let mut machine = Machine::new(3, 5, seed);
    machine.run(500);
    let first = machine.raw();
    machine.run(300);
    (first, machine.raw())
}

fn taken(bytes: &[u8], unix_ns: u64) -> TimedSnapshot {
    TimedSnapshot {
        unix_ns,
        read_ns: 1_000,
        snapshot: raw::Snapshot {
            offline: None,
            ..raw::decode(bytes).expect("a snapshot")
        },
    }
}

#[test]
fn laws_hold_since_load_and_between() {
    let (first, second) = two(1);
    let (first, second) = (raw::decode(&first).unwrap(), raw::decode(&second).unwrap());
    let between = Window::between(&first, &second).unwrap();
    for window in [Window::since_load(&second), between.clone()] {
        let checked = laws::check(&window, 0);
        assert_eq!(checked.checked, 5);
        assert_eq!(checked.violations, []);
    }
    assert_eq!(between.counter("switches"), Some(900));
    // A missing sample shows.
    let mut wrong = between;
    wrong.cpus[1].counters[0] += 1;
    let found = laws::check(&wrong, 0).violations;
    assert_eq!(found.len(), 2);
    assert!(found
        .iter()
        .all(|violation| violation.cpu == 1 && violation.off_by == 1));
}

/// A machine whose CPUs are all in the middle of a slice, which does not end for ten seconds: a
/// snapshot at the beginning, in the middle, and after more switches.
fn long_stays(seed: u64) -> (u64, [Vec<u8>; 3]) {
    let mut machine = Machine::new(3, 5, seed);
    machine.tells_progress = true;
    machine.run(200);
    machine.run_until_busy();
    machine.starved_since = Some(machine.now);
    let first = machine.raw();
    machine.now += 10_000_000_000;
    let second = machine.raw();
    machine.run(50);
    (machine.now - 10_000_000_000, [first, second, machine.raw()])
}

/// The number of waiting tasks is that of Little's law: over an interval, over its parts and over
/// its CPUs it is the same time that was waited.
#[test]
fn tasks_waiting_on_average() {
    for seed in 0..20 {
        let (_, snapshots) = long_stays(seed);
        let [first, second, third] =
            snapshots.map(|bytes| raw::decode(&bytes).expect("a snapshot"));
        let runq = first.names.metric("runq").unwrap();
        let between = |old, new| Window::between(old, new).unwrap();
        let waited = |window: &Window| {
            window.waiting(runq, &|_| true).unwrap() * window.elapsed().unwrap() as f64
        };
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b.abs().max(1.0);
        // Nothing ends in the first ten seconds, during which one task waits.
        let (begin, end) = (between(&first, &second), between(&second, &third));
        assert!(is_near(begin.waiting(runq, &|_| true).unwrap(), 1.0));
        assert!(is_near(begin.waiting(runq, &|cpu| cpu == 0).unwrap(), 0.0));
        let whole = between(&first, &third);
        assert!(is_near(waited(&begin) + waited(&end), waited(&whole)));
        let since_load = Window::since_load(&third);
        assert!(is_near(
            waited(&Window::since_load(&first)) + waited(&whole),
            waited(&since_load)
        ));
        // The slices that were seen take all of the time since measuring began.
        let slices = third.cpus.iter().filter_map(|cpu| cpu.slice);
        let measured = slices.map(|slice| slice.now - slice.unseen);
        assert_eq!(since_load.elapsed(), measured.max());
        for window in [&whole, &since_load] {
            let of = |cpu| window.waiting(runq, &|other| other == cpu).unwrap();
            let sum = window.distribution(runq, &|_| true).sum as f64;
            let all: f64 = window.cpus.iter().map(|cpu| of(cpu.number)).sum();
            assert!(is_near(all * window.elapsed().unwrap() as f64, sum));
        }
        // What is no wait for a CPU, or off, has none.
        let mut off = whole.clone();
        off.metrics_on = 0;
        assert_eq!(off.waiting(runq, &|_| true), None);
        let oncpu = first.names.metric("oncpu").unwrap();
        assert_eq!(whole.waiting(oncpu, &|_| true), None);
        assert_eq!(between(&first, &first).waiting(runq, &|_| true), None);
    }
}

/// What a group is blamed for is what others say of it, and the rest is told.
#[test]
fn offenders_of_groups() {
    let row = |name: &str, other: u64, neighbours: &[(&str, u64)]| GroupRow {
        name: name.to_owned(),
        ended_ns: [7, other, 7, 7],
        neighbours: neighbours
            .iter()
            .map(|(name, ns)| (String::from(*name), *ns))
            .collect(),
        ..GroupRow::default()
    };
    let rows = [
        row("a", 100, &[("c", 60), ("b", 30)]),
        row("b", 50, &[("a", 50)]),
        row("c", 0, &[]),
        row("d", u64::MAX, &[("b", 40)]),
    ];
    let (found, unnamed) = offenders(&rows);
    let found: Vec<_> = found
        .iter()
        .map(|it| (&*it.name, it.kept_ns, &*it.waited))
        .collect();
    assert_eq!(
        found,
        [
            ("b", 70, &[(3, 40), (0, 30)][..]),
            ("c", 60, &[(0, 60)]),
            ("a", 50, &[(1, 50)]),
        ]
    );
    assert_eq!(unnamed, u64::MAX - 30);
    assert_eq!(offenders(&[]), (vec![], 0));
}

/// What is in progress is time of the interval in which it passes, and of no other.
#[test]
fn time_in_progress_counts_once() {
    for seed in 0..20 {
        let (_, [first, second, third]) = long_stays(seed);
        let [first, second, third] =
            [first, second, third].map(|bytes| raw::decode(&bytes).expect("a snapshot"));
        let waiting = Window::between(&first, &second).unwrap();
        for (cpu, before) in waiting.cpus.iter().zip(&first.cpus) {
            let time = cpu.time.expect("it is known");
            let is_busy = before.slice.unwrap().occupancy == Occupancy::Task;
            let (oncpu, idle) = if is_busy { (10, 0) } else { (0, 10) };
            assert_eq!(time.span, 10_000_000_000);
            assert_eq!(time.oncpu, oncpu * 1_000_000_000);
            assert_eq!((time.idle, time.unseen), (idle * 1_000_000_000, 0));
            assert_eq!(waiting.busy(cpu), time.oncpu.into());
        }
        // How long the slice had taken when the first snapshot was made.
        let earlier = |cpu: u32| {
            let slice = first.cpus[cpu as usize].slice.unwrap();
            u128::from(slice.of(Occupancy::Task))
        };
        // The whole of the slice is a sample of the next interval, but its time is not.
        let after = Window::between(&second, &third).unwrap();
        for (cpu, whole) in after.cpus.iter().zip(&waiting.cpus) {
            let (time, before) = (cpu.time.unwrap(), whole.time.unwrap());
            assert_eq!(time.oncpu + time.idle, time.span);
            let oncpu = after.names.metric("oncpu").unwrap();
            let ended = after
                .distribution(oncpu, &|number| number == cpu.number)
                .sum;
            let last = cpu.slice.unwrap().of(Occupancy::Task);
            assert_eq!(
                u128::from(time.oncpu),
                ended + u128::from(last) - u128::from(before.oncpu) - earlier(cpu.number)
            );
            assert!(
                before.oncpu == 0 || ended > u128::from(time.span),
                "{ended} {time:?}"
            );
        }
        let runq = first.names.metric("runq").unwrap();
        assert_eq!(first.waits(runq), (1, 0));
        assert_eq!(second.waits(runq), (1, 10_000_000_000));
        let waits = second.in_progress(runq);
        assert_eq!((waits.len(), waits[0].task.pid), (1, 99));
        assert_eq!(
            second.task_on(0).unwrap().duration,
            second.in_progress(second.names.metric("oncpu").unwrap())[0].duration
        );
    }
}

/// The law of time holds to the nanosecond.
#[test]
fn the_law_of_time() {
    let (_, snapshots) = long_stays(5);
    for bytes in &snapshots {
        let snapshot = raw::decode(bytes).unwrap();
        let checked = laws::check(&Window::since_load(&snapshot), 1_000_000);
        assert_eq!((checked.checked, checked.violations), (6, Vec::new()));
        let mut wrong = snapshot.clone();
        let idle = wrong.names.metric("idle").unwrap().parts[0];
        let cpu = &mut wrong.cpus[2];
        cpu.histograms[idle as usize].sum += 1;
        let found = laws::check(&Window::since_load(&wrong), 1_000_000).violations;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].cpu, found[0].off_by), (2, -1));
        // It is not checked without the metric.
        wrong.metrics_on &= !(1 << idle);
        assert!(laws::check(&Window::since_load(&wrong), 0)
            .violations
            .is_empty());
    }
}

/// A slice that began before measuring did is told apart, and yet the CPU is busy.
#[test]
fn stays_that_were_not_seen() {
    let mut machine = Machine::new(2, 5, 3);
    machine.tells_progress = true;
    let first = raw::decode(&machine.raw()).unwrap();
    machine.now += 4_000;
    let second = raw::decode(&machine.raw()).unwrap();
    let window = Window::between(&first, &second).unwrap();
    let time = window.cpus[0].time.unwrap();
    let expected = (4_000, 0, 0, 4_000, 4_000);
    let found = (
        time.span,
        time.oncpu,
        time.idle,
        time.unseen,
        time.unseen_oncpu,
    );
    assert_eq!(found, expected);
    // Unless it is not known that a task has the CPU.
    let mut without = second;
    without.tasks.clear();
    let window = Window::between(&first, &without).unwrap();
    assert_eq!(window.cpus[0].time.unwrap().unseen_oncpu, 0);
    assert!(laws::check(&window, 0).violations.is_empty());
}

/// Recordings keep what is in progress, and readers that do not know it skip it.
#[test]
fn recordings_of_what_is_in_progress() {
    let (_, snapshots) = long_stays(7);
    let mut file = Vec::new();
    let mut recorder = Recorder::new(&mut file).unwrap();
    let all: Vec<_> = { snapshots.iter() }.map(|bytes| taken(bytes, 1)).collect();
    for (taken, bytes) in all.iter().zip(&snapshots) {
        recorder.snapshot(taken, bytes).unwrap();
    }
    let read = |file: &[u8]| -> Vec<raw::Snapshot> {
        let mut player = Player::new(file).unwrap();
        let items = std::iter::from_fn(|| player.next_item());
        let snapshots = items.filter_map(|item| match item {
            Item::Snapshot(taken) => Some(taken.snapshot),
            _ => None,
        });
        snapshots.collect()
    };
    let found = read(&file);
    assert_eq!(found.len(), 3);
    for (found, taken) in found.iter().zip(&all) {
        let mut wanted = taken.snapshot.clone();
        if wanted.time != all[0].snapshot.time {
            // Only long ones are named.
            wanted.tasks.retain(|task| task.duration >= 100_000_000);
        }
        assert_eq!(found, &wanted);
    }
    // Without its chunks, as an earlier command would have written it.
    let (mut old, mut rest) = (file[..16].to_vec(), &file[16..]);
    while !rest.is_empty() {
        let length = 12 + u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let (chunk, next) = rest.split_at(length);
        if chunk[0] != 8 {
            old.extend_from_slice(chunk);
        }
        rest = next;
    }
    assert!(old.len() < file.len());
    let found = read(&old);
    assert_eq!(found.len(), 3);
    assert_eq!(
        found[1].cpus[0].histograms,
        all[1].snapshot.cpus[0].histograms
    );
    assert!(found[1].cpus[0].slice.is_none() && found[1].tasks.is_empty());
}

#[test]
fn maxima_of_intervals_are_true() {
    let (mut exact, mut bounds) = (0, 0);
    for seed in 0..40 {
        let (first, second) = two(seed);
        let (first, second) = (raw::decode(&first).unwrap(), raw::decode(&second).unwrap());
        let between = Window::between(&first, &second).unwrap();
        for part in between.cpus.iter().flat_map(|cpu| &cpu.samples) {
            let Some((highest, _)) = part.buckets.last() else {
                assert_eq!(part.max, Max::None);
                continue;
            };
            let bucket = between.scheme.bounds(*highest as usize);
            match part.max {
                Max::Exact(max) => {
                    exact += 1;
                    assert!((bucket.lower..=bucket.upper).contains(&max));
                    assert_eq!(part.worst.map(|worst| worst.value), Some(max));
                    // The simulated clock stood at the first snapshot's time.
                    assert!(part.worst.unwrap().time > first.time);
                }
                Max::AtMost(bound) => {
                    bounds += 1;
                    assert!(bound >= bucket.lower && bound <= bucket.upper);
                }
                Max::None => panic!("there are samples"),
            }
        }
    }
    assert!(exact > 50 && bounds > 50, "{exact} exact, {bounds} bounds");
}

#[test]
fn a_reload_is_seen() {
    let (first, second) = two(3);
    let (first, second) = (raw::decode(&first).unwrap(), raw::decode(&second).unwrap());
    assert_eq!(Window::between(&second, &first), Err(Reloaded::Clock));
    let mut fresh = first.clone();
    fresh.time = second.time + 1;
    assert_eq!(Window::between(&second, &fresh), Err(Reloaded::Decreased));
    let mut other = Machine::new(3, 4, 3);
    other.run(1000);
    let mut other = raw::decode(&other.raw()).unwrap();
    other.time = second.time + 1;
    assert_eq!(Window::between(&second, &other), Err(Reloaded::Shape));
}

/// The engine's own quantiles, for its own percentages.
#[test]
fn quantiles_agree_with_the_engine() {
    use engine::histogram::snapshot::Quantile as Engine;
    let names: Vec<_> = Engine::ALL.iter().map(|q| q.name.to_owned()).collect();
    let ours: Vec<_> = Quantile::DEFAULT.iter().map(Quantile::to_string).collect();
    assert_eq!(ours, names);
    let mut random = Random(7);
    for round in 0..200_u64 {
        let mut values: Vec<_> = (0..=random.next() % 3000)
            .map(|_| (random.next() >> (random.next() % 56)) & ((1 << 41) - 1))
            .collect();
        values.sort_unstable();
        let mut all = Distribution::new(Scheme::DEFAULT);
        for value in &values {
            all.add(Scheme::DEFAULT.index(*value) as u32, 1).unwrap();
        }
        for quantile in Quantile::DEFAULT {
            // The value of that rank lies in the bucket.
            let rank = quantile.rank(values.len() as u64) as usize;
            let index = Scheme::DEFAULT.index(values[rank - 1]);
            assert_eq!(
                all.quantile(quantile),
                Some(Scheme::DEFAULT.bounds(index)),
                "{round}"
            );
        }
    }
}

#[test]
fn percentages() {
    for (text, name) in [
        ("50", "p50"),
        ("p99.9", "p99.9"),
        ("99.99990", "p99.9999"),
        ("100", "p100"),
    ] {
        assert_eq!(Quantile::parse(text).unwrap().to_string(), name);
    }
    for text in [
        "",
        "0",
        "101",
        "-1",
        "1e1",
        "50.",
        ".5",
        "99.12345678",
        "p",
        "100.1",
        "+5",
    ] {
        assert_eq!(Quantile::parse(text), None, "{text}");
    }
    assert_eq!(
        Quantile::parse("99.9999999").unwrap().rank(u64::MAX),
        18_446_744_055_262_807_542
    );
}

/// What `print_log2_hist()` of BCC prints for these counts.
#[test]
fn the_table_is_that_of_bcc() {
    let mut all = Distribution::new(Scheme::DEFAULT);
    for (us, count) in [(0, 1), (1, 2), (3, 40), (5, 10), (17, 3), (1000, 1)] {
        all.add(Scheme::DEFAULT.index(us * 1_000 + 400) as u32, count)
            .unwrap();
    }
    let mut out = String::new();
    Log2::new(&all, 1_000).write(&mut out, "usecs").unwrap();
    let expected = "     usecs               : count     distribution
         0 -> 1          : 3        |***                                     |
         2 -> 3          : 40       |****************************************|
         4 -> 7          : 10       |**********                              |
         8 -> 15         : 0        |                                        |
        16 -> 31         : 3        |***                                     |
        32 -> 63         : 0        |                                        |
        64 -> 127        : 0        |                                        |
       128 -> 255        : 0        |                                        |
       256 -> 511        : 0        |                                        |
       512 -> 1023       : 1        |*                                       |
";
    assert_eq!(out, expected);
}

/// As many outliers as `outlier_rate` allows, with four culprits each, take less than 10 kB a
/// second.
#[test]
fn outliers_of_a_busy_machine() {
    let mut random = Random(7);
    let mut below = |most: u64| random.next() % most;
    let mut text = String::new();
    for id in 1000..1100 {
        let parts = [(); 4].map(|()| (below(4000), below(50_000_000)));
        let missing = below(10_000);
        let duration = parts.iter().map(|(_, ns)| ns).sum::<u64>() + missing;
        let end = 7_000_000_000_000 + id * 10_000_000 + below(9_000_000);
        let (cpu, pid) = (below(64), below(4000));
        text += &format!(
            "outlier id {id} metric runq_wakeup cause wakeup cpu {cpu} duration_ns {duration} \
             start_ns {} end_ns {end} missing_ns {missing} culprits 4 pid {pid} prio 120 group {} \
             comm worker/{pid}\n",
            end - duration,
            pid % 40
        );
        for (pid, ns) in parts {
            text += &format!(
                "  culprit id {id} ran_ns {ns} slices {} pid {pid} prio 120 group {} \
                 comm worker/{pid}\n",
                1 + ns % 30,
                pid % 40
            );
        }
    }
    let mut recorder = Recorder::append(Vec::new());
    recorder.outliers(&text).unwrap();
    let length = recorder.get_mut().len();
    assert!(
        text.len() > 45_000 && length < 10_000,
        "{}: {length}",
        text.len()
    );
}

/// A recording may come from someone else: its text reaches a terminal.
#[test]
fn no_escapes() {
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    recorder.outliers("a\x1b]0;b\x07\u{9b}c\n\td\r").unwrap();
    let data = std::mem::take(recorder.get_mut());
    let item = Player::new(&data[..]).unwrap().next_item();
    let text = "a\u{fffd}]0;b\u{fffd}\u{fffd}c\n\td\u{fffd}";
    assert_eq!(item, Some(Item::Outliers(text.to_owned())));
    let mut machine = Machine::new(1, 5, 1);
    let rule = "# schedhist groups version 1\ngroup_by cgroup /\x1bx\nrefused 0\n";
    machine.groups = Some(Groups::new(rule, ""));
    let groups = raw::groups(&machine.raw()).unwrap().unwrap();
    assert_eq!(groups.rule, "cgroup /\u{fffd}x");
}

/// The time series `_created` count, too. Groups have none: they begin after the load.
#[test]
fn when_counts_began() {
    let mut machine = Machine::new(8, 5, 1);
    machine.run(100);
    machine.groups = Some(Groups::many(20));
    let bytes = machine.raw();
    let (snapshot, groups) = (raw::decode(&bytes).unwrap(), raw::groups(&bytes).unwrap());
    for limit in (1_000..6_000).step_by(100) {
        let exposition = families::build(&families::Input {
            snapshot: &snapshot,
            groups: groups.as_ref(),
            created: Some(1),
            version: "",
            read_ns: 0,
            per_cpu: &["runq".to_owned()],
            limit,
            group_bytes: 1 << 20,
            native: false,
            with_created: true,
        });
        let text = exposition::text::encode(&exposition, Dialect::OpenMetrics);
        let series: Vec<_> = { text.lines() }.filter(|it| !it.starts_with('#')).collect();
        assert!(series.len() <= limit + 2, "{} of {limit}", series.len());
        let of = |begin: &str| series.iter().any(|it| it.starts_with(begin));
        assert!(
            of("schedhist_runq_seconds_created") && !of("schedhist_group_runq_seconds_created")
        );
    }
}

/// Those of several limits are not called waits of one.
#[test]
fn sums_of_long_waits() {
    let window = |limit| {
        let mut window = Window::since_load(&raw::decode(&Machine::new(1, 5, 1).raw()).unwrap());
        window.long_waits = Some(raw::LongWaits {
            limit,
            is_one_limit: true,
            ..Default::default()
        });
        window
    };
    let sum = |limits: &[u64]| {
        let mut sum = window(limits[0]);
        sum.long_waits = None;
        for limit in limits {
            merge::add(&mut sum, &window(*limit)).unwrap();
        }
        let all = sum.long_waits.unwrap();
        (all.limit, all.is_one_limit)
    };
    assert_eq!(sum(&[5, 5]), (5, true));
    assert_eq!((sum(&[1, 5]), sum(&[5, 1])), ((5, false), (5, false)));
}

#[test]
fn recordings_give_back_what_they_got() {
    let mut machine = Machine::new(4, 5, 9);
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    let mut snapshots = Vec::new();
    recorder.info("kernel 7.3\n").unwrap();
    for i in 0..20 {
        machine.run(i * 7);
        // Long waits are looked at later on, and not at each snapshot there are new ones.
        if i >= 5 {
            let parts = [i / 2 * 1_000; WaitPart::COUNT];
            machine.long_waits = Some((
                1_000_000,
                WaitSums {
                    waits: i / 2,
                    parts,
                    causes: std::array::from_fn(|cause| [i / 2 + cause as u64, i / 2 * 9]),
                },
            ));
        }
        let bytes = machine.raw();
        let taken = taken(&bytes, i);
        assert_eq!(taken.snapshot.long_waits.is_some(), i >= 5);
        recorder.snapshot(&taken, &bytes).unwrap();
        snapshots.push(taken);
    }
    let data = recorder.get_mut().clone();
    let mut player = Player::new(&data[..]).unwrap();
    assert_eq!(
        player.next_item(),
        Some(Item::Info("kernel 7.3\n".to_owned()))
    );
    for taken in &snapshots {
        assert_eq!(player.next_item(), Some(Item::Snapshot(taken.clone())));
    }
    assert_eq!(player.next_item(), None);
    // Cut off anywhere, it gives the snapshots that were complete, and says so.
    let ends: Vec<_> = chunks(&data).iter().map(|chunk| chunk.1).collect();
    for end in (16..data.len()).step_by(37) {
        let (found, lost) = play(&data[..end]);
        let complete = ends.iter().filter(|chunk| **chunk <= end).count();
        let is_snapshot = |at: usize| [2, 3].contains(&data[at]);
        let there = chunks(&data).into_iter();
        let there = there.filter(|(at, its_end)| is_snapshot(*at) && *its_end <= end);
        assert_eq!(found, snapshots[..there.count()]);
        let rest = end - ends[..complete].last().unwrap_or(&16);
        let cut: Vec<_> = lost.iter().map(|lost| (lost.is_cut, lost.bytes)).collect();
        let wanted = (rest != 0).then_some((true, rest as u64));
        assert_eq!(cut, Vec::from_iter(wanted), "at {end}");
    }
}

/// Returns where the chunks of a recording begin and end.
fn chunks(data: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 16;
    while at < data.len() {
        let length = u32::from_le_bytes(data[at + 4..at + 8].try_into().unwrap());
        let end = at + 12 + length as usize;
        found.push((at, end));
        at = end;
    }
    found
}

/// Returns the snapshots of a recording, and what is lost.
fn play(data: impl Read) -> (Vec<TimedSnapshot>, Vec<Lost>) {
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    let Ok(mut player) = Player::new(data) else {
        return (found, lost);
    };
    while let Some(item) = player.next_item() {
        match item {
            Item::Snapshot(taken) => found.push(taken),
            Item::Lost(one) => lost.push(one),
            _ => {}
        }
    }
    (found, lost)
}

/// A recording that cannot be read to its end says why, without the number of the error.
#[test]
fn unreadable() {
    struct Unreadable;
    impl Read for Unreadable {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }
    let (bytes, _) = two(1);
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    recorder.snapshot(&taken(&bytes, 1), &bytes).unwrap();
    let data = recorder.get_mut();
    let (found, lost) = play(data.chain(Unreadable));
    assert_eq!((found, lost.len()), (vec![taken(&bytes, 1)], 1));
    let why = "cannot be read on: Input/output error at byte";
    let wanted = format!("{why} {}: 0 bytes are lost", data.len());
    assert_eq!(lost[0].to_string(), wanted);
}

/// Damages a recording behind its head. Returns the kind of the damage, and the bytes of the good
/// recording that are not as they were.
fn damage(data: &mut Vec<u8>, random: &mut Random) -> (usize, std::ops::Range<usize>) {
    let at = 16 + random.next() as usize % (data.len() - 16);
    let length = (1 << (random.next() % 13)).min(data.len() - at);
    let kind = random.next() as usize % 5;
    let damaged = match kind {
        0 | 1 => {
            data[at] ^= 1 << (random.next() % 8);
            at..at + 1
        }
        2 => {
            data[at..at + length].fill(0);
            at..at + length
        }
        3 => {
            data.drain(at..at + length);
            at..at + length
        }
        _ => {
            data.splice(at..at, (0..length).map(|_| random.next() as u8));
            at..at + 1
        }
    };
    (kind, damaged)
}

/// Damaged anywhere and anyhow, a recording gives nothing wrong, says so, and loses no more than
/// what is between two whole snapshots.
#[test]
fn damage_costs_a_minute() {
    let mut machine = Machine::new(2, 5, 9);
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    let mut snapshots = Vec::new();
    recorder.info("kernel 7.3\n").unwrap();
    for i in 0..40 {
        machine.run(20);
        machine.now = (i + 1) * 5_000_000_000;
        let bytes = machine.raw();
        let taken = taken(&bytes, i);
        recorder.snapshot(&taken, &bytes).unwrap();
        recorder.outliers(&format!("outlier {i}\n")).unwrap();
        snapshots.push(taken);
    }
    let good = recorder.get_mut().clone();
    let chunks = chunks(&good);
    let kinds = chunks.iter().map(|(at, _)| good[*at]);
    let wholes = kinds.clone().filter(|kind| *kind == 2).count();
    assert_eq!(wholes, 4, "one in twelve of forty");
    // Where each snapshot begins, and the whole one that it builds on.
    let mut places: Vec<(usize, usize, usize)> = Vec::new();
    for ((at, end), kind) in chunks.iter().zip(kinds) {
        match kind {
            2 => places.push((*at, *end, *at)),
            3 => places.push((*at, *end, places.last().unwrap().2)),
            _ => {}
        }
    }
    let mut random = Random(41);
    let mut kinds_of_damage = [0; 5];
    for round in 0..1_500 {
        let mut data = good.clone();
        let (kind, damaged) = damage(&mut data, &mut random);
        let at = damaged.start;
        if data == good {
            continue;
        }
        kinds_of_damage[kind] += 1;
        let (found, lost) = play(&data[..]);
        let is_hit = |begin, end| damaged.start < end && damaged.end > begin;
        let mut wanted = Vec::new();
        let mut is_base = false;
        for ((begin, end, whole), taken) in places.iter().zip(&snapshots) {
            is_base = (is_base || begin == whole) && !is_hit(*begin, *end);
            let is_after = damaged.start < *begin && damaged.start > *whole;
            // A difference behind other damage may be left out, too.
            if is_base && !(is_after && begin != whole) {
                wanted.push(taken.clone());
            }
        }
        assert!(
            found.iter().all(|taken| snapshots.contains(taken)),
            "{round}"
        );
        assert!(
            wanted.iter().all(|taken| found.contains(taken)),
            "{round}: {kind} at {at}"
        );
        // What is taken out as a whole, or at the end, cannot be missed.
        assert!(!lost.is_empty() || kind == 3, "{round}: {kind} at {at}");
        assert!(lost.iter().all(|lost| lost.bytes > 0));
    }
    assert!(kinds_of_damage.iter().all(|number| *number > 100));
    // A byte of the head, but for the version.
    for at in (0..8).chain(9..16) {
        let mut data = good.clone();
        data[at] ^= 4;
        let (found, lost) = play(&data[..]);
        assert_eq!((found.len(), lost.len()), (40, 1), "{at}");
    }
}

/// Recordings of the first version of the command: a single whole snapshot.
#[test]
fn old_recordings() {
    let mut machine = Machine::new(2, 5, 9);
    let mut data = b"SCHDHREC\x01\0\0\0\0\0\0\0".to_vec();
    let mut chunk = |kind: u32, contents: &[u8]| {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((contents.len() as u32).to_le_bytes());
        let all = bytes.iter().chain(contents);
        let sum = all.fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        bytes.extend(sum.to_le_bytes());
        bytes.extend(contents);
        data.extend(&bytes);
    };
    chunk(1, b"kernel 7.3\n");
    let mut snapshots: Vec<TimedSnapshot> = Vec::new();
    for i in 0_u64..100 {
        machine.run(20);
        machine.now = (i + 1) * 5_000_000_000;
        let bytes = machine.raw();
        let taken = taken(&bytes, i);
        let mut contents = i.to_le_bytes().to_vec();
        contents.extend(1_000_u64.to_le_bytes());
        match snapshots.last() {
            None => contents.extend(bytes),
            Some(last) => {
                contents.extend(delta::encode(&last.snapshot, &taken.snapshot).unwrap());
            }
        }
        chunk(if i == 0 { 2 } else { 3 }, &contents);
        chunk(5, format!("run {i}\n").as_bytes());
        snapshots.push(taken);
    }
    assert_eq!(play(&data[..]), (snapshots.clone(), Vec::new()));
    // The runs behind damage can be read, the differences cannot.
    let (at, _) = chunks(&data)[1 + 2 * 50];
    data[at + 20] ^= 1;
    let (found, lost) = play(&data[..]);
    assert_eq!(found, snapshots[..50]);
    assert_eq!(
        (lost.len(), lost[0].snapshots, lost[0].is_cut),
        (1, 49, false)
    );
    let mut player = Player::new(&data[..]).unwrap();
    let items = std::iter::from_fn(|| player.next_item());
    let runs = items.filter(|item| matches!(item, Item::Run(_)));
    assert_eq!(runs.count(), 100);
}

/// Times are those of the module's clock, whatever the wall clock does; only if that goes back does
/// the wall clock tell how long it took.
#[test]
fn the_course_of_a_recording() {
    let mut machine = Machine::new(1, 5, 1);
    let mut course = Course::default();
    let mut at = |time: u64, unix_ns: u64| {
        machine.now = time;
        course.place(&taken(&machine.raw(), unix_ns))
    };
    assert_eq!(at(5_000, 1_000_000), 0);
    assert_eq!(at(6_000, 7), 1_000);
    assert_eq!(at(8_000, 9_000_000), 3_000);
    assert_eq!(at(100, 9_000_500), 3_500);
    assert_eq!(at(200, 0), 3_600);
    assert_eq!(at(0, 0), 3_600);
    assert_eq!(at(50, 0), 3_650);
    assert_eq!(course.of(Some(40)), 3_640);
    assert_eq!(course.of(Some(70)), 3_670);
    assert_eq!(course.of(None), 3_650);
    assert_eq!(Course::default().of(Some(9)), 0);
}

#[test]
fn the_time_at_which_groups_began() {
    let mut machine = Machine::new(2, 5, 1);
    machine.run(10);
    let since = |bytes: &[u8]| raw::groups(bytes).map(|groups| groups.and_then(|all| all.since));
    assert_eq!(since(&machine.raw()), Ok(None));
    machine.groups = Some(Groups {
        since: 1 << 40,
        ..Groups::new(GROUPS, GROUP_RUNQ)
    });
    let bytes = machine.raw();
    assert_eq!(since(&bytes), Ok(Some(1 << 40)));
    assert_eq!(
        raw::decode(&bytes).map(|snapshot| snapshot.cpus.len()),
        Ok(2)
    );
    for len in 0..bytes.len() {
        assert!(since(&bytes[..len]).is_err());
    }
}

/// Returns the first item of a recording that has this chunk alone.
fn item_of(kind: u32, contents: &[u8]) -> Option<Item> {
    let (kind, len) = (kind.to_le_bytes(), (contents.len() as u32).to_le_bytes());
    let bytes = kind.iter().chain(&len).chain(contents);
    let sum = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    let head = [&MAGIC[..], &kind, &len, &sum.to_le_bytes()].concat();
    let file = [&head[..], contents].concat();
    Player::new(&file[..]).unwrap().next_item()
}

/// Returns the groups of a recording by an early version, which has the file `groups` as text.
fn early(text: &str) -> Option<raw::Groups> {
    match item_of(6, text.as_bytes())? {
        Item::Groups(groups) => Some(groups),
        other => panic!("{other:?}"),
    }
}

/// Early versions did not deflate outliers.
#[test]
fn outliers_of_recordings() {
    let early = item_of(7, b"outlier");
    assert_eq!(early, Some(Item::Outliers("outlier".to_owned())));
    assert!(matches!(item_of(11, b"outlier"), Some(Item::Lost(_))));
}

fn mutate(random: &mut Random, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..=random.next() % 3 {
        let at = random.next() as usize % data.len().max(1);
        match random.next() % 4 {
            0 => data[at] = random.next() as u8,
            1 => data[at] ^= 1 << (random.next() % 8),
            2 => data.truncate(at.max(1)),
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

/// Nothing panics, whatever the bytes; what is accepted can be used.
#[test]
fn any_bytes() {
    let (first, second) = two(5);
    let snapshot = raw::decode(&first).unwrap();
    let next = raw::decode(&second).unwrap();
    let change = delta::encode(&snapshot, &next).unwrap();
    let mut random = Random(11);
    let (mut accepted, mut with_groups) = (0, 0);
    let mut machine = Machine::new(1, 5, 1);
    machine.groups = Some(Groups::new(GROUPS, GROUP_RUNQ));
    let grouped = raw::only_groups(&machine.raw()).unwrap();
    let all = raw::groups(&grouped).unwrap().unwrap();
    for _ in 0..4_000 {
        if let Ok(found) = raw::decode(&mutate(&mut random, &first)) {
            accepted += 1;
            let _ = found.online();
            let _ = Window::between(&found, &next);
            let window = Window::since_load(&found);
            let _ = laws::check(&window, 0);
            for metric in &found.names.metrics {
                let _ = window.waiting(metric, &|_| true);
                let all = window.distribution(metric, &|_| true);
                let _ = (all.mean(), all.quantile_upper(Quantile::DEFAULT[4]));
            }
            let _ = delta::encode(&found, &next);
        }
        let _ = delta::decode(&snapshot, &mutate(&mut random, &change));
        if let Ok(Some(found)) = raw::groups(&mutate(&mut random, &grouped)) {
            with_groups += 1;
            for old in [None, Some(&all), Some(&found)] {
                let between = GroupWindow::new(old, &found);
                let rows = between.rows();
                let (_, _) = (offenders(&rows), between.lost());
                for group in &found.groups {
                    let _ = between.samples(group, &GroupMetric::ALL);
                    let runq = found.distribution(group, GroupMetric::Runq);
                    let p99 = runq.quantile_upper(Quantile::DEFAULT[2]);
                    let row = rows.iter().find(|row| row.id == group.id);
                    assert!(row.is_none_or(|row| row.runq.0 == p99.or(group.runq_p99)));
                }
            }
        }
        let _ = raw::only_groups(&mutate(&mut random, &grouped));
        let mut text = |good: &str| {
            let bytes = mutate(&mut random, good.as_bytes());
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let _ = early(&text(GROUPS));
        let _ = text::histogram(&text(GROUP_RUNQ));
        for outlier in text::OutlierParser::default().feed(&text(OUTLIERS)) {
            let _ = units::shares(
                &outlier
                    .culprits
                    .iter()
                    .map(|c| c.ran_ns)
                    .collect::<Vec<_>>(),
            );
        }
    }
    assert!(accepted > 100, "{accepted}");
    assert!(with_groups > 100, "{with_groups}");
}

const OUTLIERS: &str = "# schedhist outliers version 1
outlier id 4 metric runq_wakeup cause wakeup cpu 1 duration_ns 30 start_ns 1 end_ns 31 \
missing_ns 5 culprits 2 pid 9 prio 120 comm a b
  culprit id 4 ran_ns 20 slices 1 pid 7 prio 120 comm x
  culprit id 4 ran_ns 5 slices 1 pid 0 prio 120 comm swapper/1
";

const GROUPS: &str = "# schedhist groups version 1
group_by cgroup
limit 255
refused 2
memory_bytes 1000
group id 0 oncpu_count 1 oncpu_sum_ns 5 runq_count 0 runq_p99_ns - name other
group id 1 oncpu_count 7 oncpu_sum_ns 50 runq_count 3 runq_p99_ns 9 name /a b
  neighbour id 0 of 1 ended 2 ended_ns 30 name other
";

/// A number may be another group's by now, and a process may have another name.
#[test]
fn groups_of_two_times() {
    let by = |rule: &str| {
        let text = format!("# schedhist groups version 1\ngroup_by {rule}\nlimit 255\n");
        early(&text).unwrap()
    };
    for (rule, earlier, name, is_same) in [
        ("cgroup", "/a", "/a", true),
        ("cgroup depth 2", "/a", "/b", false),
        ("comm", "1:a", "1:b", false),
        ("process", "12:bash", "12:make", true),
        ("process 12 13", "12:bash", "13:bash", false),
        ("thread", "12:a:b", "12:c", true),
        ("process", "other", "other", true),
        ("process", "gone", "12:bash", false),
    ] {
        assert_eq!(
            by(rule).is_same(earlier, name),
            is_same,
            "{rule}: {earlier}, {name}"
        );
    }
    let groups = by("cgroup");
    assert!(groups.is_gone(256) && !groups.is_gone(255) && !groups.is_gone(0));
    let early = early("# schedhist groups version 1\ngroup_by comm\n").unwrap();
    assert!(!early.is_gone(1));
}

#[test]
fn groups_with_spaces_in_their_names() {
    let mut machine = Machine::new(1, 5, 1);
    machine.groups = Some(Groups::new(GROUPS, ""));
    let of_raw = raw::groups(&machine.raw()).unwrap().unwrap();
    let of_text = early(GROUPS).unwrap();
    assert_eq!(of_text.groups[1].runq_p99, Some(9));
    assert_eq!(of_text.groups[0].runq_p99, None);
    assert_eq!((of_raw.memory, of_raw.since), (Some(1000), Some(1)));
    for groups in [of_raw, of_text] {
        assert_eq!((groups.rule.as_str(), groups.refused), ("cgroup", 2));
        let group = &groups.groups[1];
        assert_eq!(&*group.name, "/a b");
        assert_eq!(group.samples[GroupMetric::Runq as usize].count, 3);
        assert_eq!(group.neighbours[0].ended, (2, 30));
        assert_eq!(&*group.neighbours[0].name, "other");
    }
}

/// A group with a number that another one had, or with counts that went back, is a new one.
#[test]
fn groups_of_an_interval() {
    // Each group has a number, the time on a CPU, waits, their sum, and that of those that idle
    // ended.
    let parse = |rule: &str, all: &[([u64; 5], &str)]| {
        let mut text =
            format!("# schedhist groups version 1\ngroup_by {rule}\nlimit 9\nrefused 0\n");
        for ([id, oncpu, waits, ns, idle], name) in all {
            text += &format!(
                "group id {id} oncpu_sum_ns {oncpu} runq_count {waits} runq_sum_ns {ns} \
                 runq_p99_ns 7 ended_by_idle_ns {idle} name {name}\n"
            );
        }
        early(&text).unwrap()
    };
    let between = |old: Option<&raw::Groups>, new: &raw::Groups| -> Vec<_> {
        let rows = GroupWindow::new(old, new).rows().into_iter();
        rows.map(|row| {
            assert_eq!(row.ended_ns[..3], [0, 0, 0]);
            assert_eq!(row.runq, (Some(7), None));
            let counts = [row.oncpu_ns, row.waits.0, row.waits.1, row.ended_ns[3]];
            (row.id, row.name, row.is_new, counts)
        })
        .collect()
    };
    let row = |id, name: &str, is_new, counts: [u64; 4]| (id, name.to_owned(), is_new, counts);
    let all = [
        ([0, 5, 9, 90, 80], "other"),
        ([1, 5, 2, 20, 20], "1:a"),
        ([3, 5, 2, 20, 20], "0:first by name"),
        ([4, 0, 0, 0, 0], "4:did nothing"),
        ([10, 5, 3, 40, 0], "gone"),
    ];
    let old = parse("process", &all);
    let whole = [
        row(0, "other", true, [5, 9, 90, 80]),
        row(10, "gone", true, [5, 3, 40, 0]),
        row(3, "0:first by name", true, [5, 2, 20, 20]),
        row(1, "1:a", true, [5, 2, 20, 20]),
    ];
    assert_eq!(between(None, &old), whole);
    let new = [
        ([0, 5, 9, 90, 80], "other"),
        ([1, 6, 5, 60, 30], "1:b"),
        ([2, 5, 1, 50, 50], "2:c"),
        ([10, 9, 8, 99, 20], "gone"),
    ];
    let since = [
        row(2, "2:c", true, [5, 1, 50, 50]),
        row(1, "1:b", false, [1, 3, 40, 10]),
    ];
    assert_eq!(between(Some(&old), &parse("process", &new)), since);
    // A cgroup with another name is another one, and another rule begins anew.
    let renamed = row(1, "1:b", true, [6, 5, 60, 30]);
    let cgroups = parse("cgroup", &new);
    assert_eq!(between(Some(&parse("cgroup", &all)), &cgroups)[0], renamed);
    let other = row(0, "other", true, [5, 9, 90, 80]);
    assert_eq!(between(Some(&old), &cgroups)[1], other);
    // One count went back.
    for place in 0..4 {
        let mut counts = [6, 3, 30, 30];
        counts[place] = [4, 1, 19, 19][place];
        let [oncpu, waits, ns, idle] = counts;
        let again = parse("process", &[([1, oncpu, waits, ns, idle], "1:a")]);
        assert_eq!(between(Some(&old), &again), [row(1, "1:a", true, counts)]);
    }
}

/// Of the neighbours of a group, only what they did between two texts counts.
#[test]
fn neighbours_of_an_interval() {
    let text = |other: u64, neighbours: &[(u32, u64, &str)]| {
        let mut text = format!(
            "# schedhist groups version 1\ngroup_by process\nlimit 255\nrefused 0\n\
             group id 1 runq_count {other} ended_by_other_ns {other} name 1:a\n"
        );
        for (id, ns, name) in neighbours {
            text += &format!("  neighbour id {id} of 1 ended 1 ended_ns {ns} name {name}\n");
        }
        early(&text).unwrap()
    };
    let between = |old, new| GroupWindow::new(old, new).rows()[0].neighbours.clone();
    let named = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
        all.iter()
            .map(|(name, ns)| ((*name).to_owned(), *ns))
            .collect()
    };
    // All are named, for 600 ns.
    let old = text(600, &[(2, 300, "2:b"), (3, 210, "3:c"), (256, 90, "gone")]);
    // One is renamed, one is new, and one is another process that has got the number.
    let new = text(
        1500,
        &[
            (2, 700, "2:exec"),
            (5, 60, "5:e"),
            (3, 250, "9:c"),
            (256, 400, "gone"),
        ],
    );
    let since = named(&[("2:exec", 400), ("9:c", 250), ("5:e", 60)]);
    assert_eq!(between(Some(&old), &new), since);
    let whole = [("2:exec", 700), ("gone", 400), ("9:c", 250), ("5:e", 60)];
    assert_eq!(between(None, &new), named(&whole));
    // For 4000 ns, no group was named: all of that may have been the one that is named now.
    let old = text(4600, &[(2, 300, "2:b"), (3, 300, "3:c")]);
    let new = text(
        8600,
        &[(20, 7100, "20:late"), (2, 390, "2:b"), (21, 3900, "21:may")],
    );
    assert_eq!(
        between(Some(&old), &new),
        named(&[("20:late", 3100), ("2:b", 90)])
    );
    // Nobody kept it waiting for longer than all together.
    let new = text(4610, &[(2, 390, "2:b")]);
    assert_eq!(between(Some(&old), &new), named(&[("2:b", 10)]));
    // Another group has the number: all of this is its.
    let new = text(4590, &[(2, 390, "2:b")]);
    assert_eq!(between(Some(&old), &new), named(&[("2:b", 390)]));
}

#[test]
fn outliers_in_pieces() {
    let whole = "# schedhist outliers version 1\n\
        outlier id 4 metric runq_wakeup cause wakeup cpu 1 duration_ns 30 start_ns 1 end_ns 31 \
        missing_ns 5 culprits 2 pid 9 prio 120 comm a b\n  \
        culprit id 4 ran_ns 20 slices 1 pid 7 prio 120 comm x\n  \
        culprit id 4 ran_ns 5 slices 1 pid 0 prio 120 comm swapper/1\n";
    for cut in 0..whole.len() {
        let mut parser = text::OutlierParser::default();
        let mut found = parser.feed(&whole[..cut]);
        found.extend(parser.feed(&whole[cut..]));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].comm.as_str(), found[0].culprits.len()),
            ("a b", 2)
        );
    }
}

#[test]
fn shares_add_up() {
    let mut random = Random(3);
    for n in 1..50 {
        let values: Vec<_> = (0..n)
            .map(|_| random.next() >> (random.next() % 40))
            .collect();
        assert_eq!(units::shares(&values).iter().sum::<u32>(), 1000);
    }
    assert_eq!(units::shares(&[0, 0]), [0, 0]);
    assert_eq!(units::shares(&[u64::MAX, u64::MAX]), [500, 500]);
}

/// A run's quantiles: all move together with the load of the moment, and each by itself.
fn quantiles_of_a_run(random: &mut Random, factor: u64) -> Vec<u64> {
    let percent =
        |random: &mut Random, spread: u64| 100 - spread + random.next() % (2 * spread + 1);
    let load = percent(random, 30);
    [20_000, 90_000, 400_000, 2_000_000, 9_000_000]
        .map(|base| base * factor * load / 100 * percent(random, 15) / 100)
        .to_vec()
}

/// Whether `diff` calls any line different.
fn is_different(random: &mut Random, runs: usize, factor: u64) -> bool {
    let side = |random: &mut Random, factor| {
        (0..runs)
            .map(|_| quantiles_of_a_run(random, factor))
            .collect::<Vec<_>>()
    };
    let (a, b) = (side(random, 1), side(random, factor));
    let lines: Vec<_> = (0..5)
        .map(|i| Line {
            a: a.iter().map(|run| run[i]).collect(),
            b: b.iter().map(|run| run[i]).collect(),
        })
        .collect();
    compare::p_values(&lines)
        .unwrap()
        .iter()
        .any(|p| *p <= compare::LEVEL)
}

#[test]
fn comparisons_do_not_lie() {
    let mut random = Random(17);
    let wrong = (0..400).filter(|_| is_different(&mut random, 6, 1)).count();
    let found = (0..100).filter(|_| is_different(&mut random, 6, 2)).count();
    println!("false: {wrong} of 400; found: {found} of 100");
    // 5 % of 400 is 20; chance adds two deviations.
    assert!(wrong <= 29, "{wrong} of 400 are false");
    assert!(found >= 95, "{found} of 100 are found");
    // Too few runs: no test.
    assert_eq!(
        compare::p_values(&[Line {
            a: vec![1; 3],
            b: vec![9; 3]
        }]),
        None
    );
    // All choices: the least p of 4 + 4 runs, and that of 6 + 6.
    let p = |n: usize| {
        compare::p_values(&[Line {
            a: vec![1; n],
            b: vec![9; n],
        }])
        .unwrap()[0]
    };
    assert!((p(4) - 2.0 / 70.0).abs() < 1e-12);
    assert!((p(6) - 2.0 / 924.0).abs() < 1e-12);
    // A random sample of them.
    assert!(p(12) < 0.001);
    // No difference at all.
    assert!(
        (compare::p_values(&[Line {
            a: vec![5; 6],
            b: vec![5; 6]
        }])
        .unwrap()[0]
            - 1.0)
            .abs()
            < 1e-12
    );
}

/// Decodes a line of HdrHistogram's log: the least value and the count of each place.
fn decode_log_line(line: &str) -> Vec<(u64, u64)> {
    let text = line.trim_end().rsplit(',').next().unwrap();
    let bytes = STANDARD.decode(text).unwrap();
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(number(0), 0x1c84_9314);
    assert_eq!(number(4) as usize, bytes.len() - 8);
    let mut encoded = Vec::new();
    let read = ZlibDecoder::new(&bytes[8..]).read_to_end(&mut encoded);
    read.unwrap();
    assert_eq!(encoded[..4], 0x1c84_9313_u32.to_be_bytes());
    let (mut counts, mut place) = (Vec::new(), 0_u64);
    let mut rest = &encoded[40..];
    while !rest.is_empty() {
        let length = rest.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let number = rest[..length].iter().rev();
        let number = number.fold(0_u64, |all, byte| (all << 7) | u64::from(byte & 0x7f));
        rest = &rest[length..];
        if number & 1 == 1 {
            place += number.div_ceil(2);
            continue;
        }
        let (bucket, sub) = (place >> 10, place & 1023);
        let value = match bucket {
            0 => sub,
            bucket => (sub + 1024) << (bucket - 1),
        };
        counts.push((value, number / 2));
        place += 1;
    }
    counts
}

#[test]
fn hdr_histogram_log() {
    let mut random = Random(29);
    let mut all = Distribution::new(Scheme::DEFAULT);
    for _ in 0..2_000 {
        let value = (random.next() >> (random.next() % 56)) & ((1 << 40) - 1);
        all.add(
            Scheme::DEFAULT.index(value) as u32,
            1 + random.next() % 1_000,
        )
        .unwrap();
    }
    let line = schedhist_core::hdr::log_line(1_500_000_000, 250_000_000, &all);
    assert!(line.starts_with("1.500,0.250,"), "{line}");
    let found = decode_log_line(&line);
    let wanted: Vec<_> = all.buckets().collect();
    assert_eq!(found.len(), wanted.len());
    for ((value, count), (bounds, n)) in found.iter().zip(&wanted) {
        assert_eq!(count, n);
        // Three digits are finer than our buckets.
        assert!((bounds.lower..=bounds.upper).contains(value), "{value}");
    }
}

/// Returns one group with so many waits of 1 ns, of which so many are in its histogram.
fn one_group(name: &str, waits: u64, in_histogram: u64) -> raw::Groups {
    let mut group = raw::Group::new(1, name);
    group.samples[GroupMetric::Runq as usize] = raw::GroupSamples {
        count: waits,
        sum: waits.into(),
        max: 1,
        buckets: { (in_histogram != 0).then_some((1, in_histogram)) }
            .into_iter()
            .collect(),
    };
    raw::Groups {
        rule: "cgroup".to_owned(),
        time: Some(2),
        since: Some(1),
        limit: Some(9),
        refused: 0,
        memory: None,
        scheme: Scheme::new(Precision::new(3).unwrap()),
        groups: vec![group],
    }
}

#[test]
fn waits_of_a_group_in_an_interval() {
    let since = |old: Option<&raw::Groups>, new: &raw::Groups| {
        let between = GroupWindow::new(old, new);
        let samples = between.samples(&new.groups[0], &[GroupMetric::Runq]);
        let missing = between.not_in_histogram(&new.groups[0]);
        let lost = between.lost().len();
        (between.rows()[0].waits.0, samples.count(), missing, lost)
    };
    let old = one_group("/a", 5, 5);
    assert_eq!(since(None, &old), (5, 5, 0, 0));
    assert_eq!(since(Some(&old), &one_group("/a", 7, 7)), (2, 2, 0, 0));
    // Some had no histogram.
    assert_eq!(since(Some(&old), &one_group("/a", 9, 7)), (4, 2, 2, 0));
    let none = one_group("/a", 5, 0);
    assert_eq!(since(Some(&none), &one_group("/a", 7, 2)), (2, 2, 0, 0));
    // The histogram may be ahead, as it is read later.
    assert_eq!(since(Some(&old), &one_group("/a", 6, 7)), (1, 2, 0, 0));
    // Another group has got the number: by its name, or as it went back.
    assert_eq!(since(Some(&old), &one_group("/b", 7, 7)), (7, 7, 0, 1));
    assert_eq!(since(Some(&old), &one_group("/a", 4, 4)), (4, 4, 0, 0));
    // It was grouped anew.
    let mut anew = one_group("/a", 7, 7);
    anew.since = Some(2);
    assert_eq!(since(Some(&old), &anew), (7, 7, 0, 0));
}
