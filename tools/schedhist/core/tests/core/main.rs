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
        idle::WaitSums,
        switch::cpu::Occupancy,
    },
    exposition::{self, families, text::Dialect},
    groups::{offenders, GroupRow, GroupWindow, SureNames},
    laws,
    limits::{Limit, Samples},
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

mod groups;
mod path;
mod recordings;
#[path = "../sim/mod.rs"]
mod sim;

use sim::{mutate, Groups, Machine, Random, GROUP_RUNQ};

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
    for text in " 0 101 -1 1e1 50. .5 99.12345678 p 100.1 +5".split(' ') {
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
        let series: Vec<_> = text.lines().filter(|it| !it.starts_with('#')).collect();
        assert!(series.len() <= limit + 2, "{} of {limit}", series.len());
        let of = |begin: &str| series.iter().any(|it| it.starts_with(begin));
        assert!(
            of("schedhist_runq_seconds_created") && !of("schedhist_group_runq_seconds_created")
        );
    }
}

/// What CPUs of the same number did adds up, and so does its time.
#[test]
fn times_of_added_windows() {
    let (_, [first, second, third]) = long_stays(1);
    let [first, second, third] = [first, second, third].map(|bytes| raw::decode(&bytes).unwrap());
    let (begin, end) = (
        Window::between(&first, &second).unwrap(),
        Window::between(&second, &third).unwrap(),
    );
    let mut sum = begin.clone();
    merge::add(&mut sum, &end).unwrap();
    for ((sum, begin), end) in sum.cpus.iter().zip(&begin.cpus).zip(&end.cpus) {
        let (sum, begin, end) = (sum.time.unwrap(), begin.time.unwrap(), end.time.unwrap());
        assert_eq!(sum.span, begin.span + end.span);
        assert_eq!(sum.oncpu + sum.idle + sum.unseen, sum.span);
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

/// Returns the first item of a recording that has this chunk alone.
fn item_of(kind: u32, contents: &[u8]) -> Option<Item> {
    let file = [&MAGIC[..], &sim::chunk(kind, contents)].concat();
    Player::new(&file[..]).unwrap().next_item()
}

/// Returns the groups of a recording by an early version, which has the file `groups` as text.
fn early(text: &str) -> Option<raw::Groups> {
    match item_of(6, text.as_bytes())? {
        Item::Groups(groups) => Some(groups),
        other => panic!("{other:?}"),
    }
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

#[test]
fn outliers_in_pieces() {
    for cut in 0..OUTLIERS.len() {
        let mut parser = text::OutlierParser::default();
        let mut found = parser.feed(&OUTLIERS[..cut]);
        found.extend(parser.feed(&OUTLIERS[cut..]));
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
    let p = |a: u64, b: u64, n| {
        let (a, b) = (vec![a; n], vec![b; n]);
        compare::p_values(&[Line { a, b }]).map(|all| all[0])
    };
    let is = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-12;
    // Too few runs: no test.
    assert_eq!(p(1, 9, 3), None);
    // All choices: the least p of 4 + 4 runs, and that of 6 + 6.
    assert!(is(p(1, 9, 4), 2.0 / 70.0) && is(p(1, 9, 6), 2.0 / 924.0));
    // A random sample of them.
    assert!(p(1, 9, 12).unwrap() < 0.001);
    // No difference at all.
    assert!(is(p(5, 5, 6), 1.0));
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
