// SPDX-License-Identifier: GPL-2.0

//! The binary snapshot, read back: by the command's decoder, and by a program in C that is made
//! from the header alone.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use schedhist_engine::engine::{
    self,
    format::{
        groups::Head,
        raw::{self, Info, Length},
    },
    group::{
        reading::{GroupReading, Members},
        records::group_scheme,
        slices::GroupSlices,
        totals::GroupTotals,
    },
    histogram::{
        bucket::{Precision, Scheme},
        snapshot::Snapshot,
    },
    identity::Identity,
    idle::WaitSums,
    metric::{Counter, Metric, MetricSet, ShownMetric},
    switch::{
        cpu::Occupancy,
        in_progress::{TaskInProgress, Waiters, Waits, LONGEST, WAITS},
        sample::Observer,
        task_state::Waiting,
    },
};
use schedhist_engine::testing::{idle_at, next_random, records, Bytes, Records, SetAtEnd};

mod common;
#[path = "../../../tools/schedhist/core/src/raw/mod.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the command needs more of it"
)]
mod decoder;
mod filled;
mod grouped;
mod listing;

use common::any_scheme;
use decoder::{decode, Histogram, Names, Reader, SliceInProgress};
use filled::Before;
use grouped::Groups;

fn info(scheme: Scheme, cpus: &[Records]) -> Info {
    Info {
        time: 0x0123_4567_89ab_cdef,
        enabled: true,
        metrics: MetricSet::DEFAULT,
        scheme,
        cpus: cpus.len() as u32,
    }
}

fn encode(scheme: Scheme, cpus: &[Records]) -> Vec<u8> {
    let mut bytes = Bytes::default();
    raw::snapshot(&mut bytes, &info(scheme, cpus), filled::never_reset(cpus));
    bytes.0
}

/// Returns the expected contents of a snapshot of `cpus`.
fn expected(scheme: Scheme, cpus: &[Records]) -> decoder::Snapshot {
    let shown = ShownMetric::ALL.iter().map(|shown| decoder::Metric {
        name: shown.name.to_owned(),
        parts: shown.parts.iter().map(|part| *part as u32).collect(),
    });
    let counters = Counter::ALL
        .into_iter()
        .map(|counter| (counter as usize, counter.name().to_owned()));
    let histogram = |cpu: &Records, metric: Metric| Histogram {
        metric: metric as u32,
        sum: cpu.sum(metric),
        min: cpu.min(metric),
        worst: cpu.worst(metric),
        buckets: (0..)
            .zip(cpu.buckets(metric))
            .map(|(index, bucket)| (index, bucket.get()))
            .filter(|(_, count)| *count != 0)
            .collect(),
    };
    let cpus = cpus.iter().map(|cpu| decoder::Cpu {
        number: cpu.number(),
        slice: None,
        counters: Counter::ALL.map(|counter| cpu.counter(counter)).to_vec(),
        histograms: Metric::ALL
            .into_iter()
            .filter(|metric| !cpu.buckets(*metric).is_empty())
            .map(|metric| histogram(cpu, metric))
            .collect(),
    });
    decoder::Snapshot {
        time: 0x0123_4567_89ab_cdef,
        enabled: true,
        metrics_on: MetricSet::DEFAULT.bits(),
        scheme,
        names: Rc::new(Names {
            metrics: shown.collect(),
            counters: counters.collect(),
        }),
        cpus: cpus.collect(),
        waits: Vec::new(),
        tasks: Vec::new(),
        offline: Some(BTreeSet::new()),
        long_waits: None,
    }
}

/// Creates three CPUs that have seen `steps`; one of them has no memory for wakeups.
fn three_cpus(scheme: Scheme, steps: &[filled::Step]) -> Vec<Records> {
    let cpus = vec![
        records(0, scheme, MetricSet::ALL),
        records(1, scheme, MetricSet::DEFAULT),
        records(4_094, scheme, MetricSet::ALL),
    ];
    filled::run(&cpus, steps);
    cpus
}

/// Creates three CPUs that have seen 3000 switches, always the same.
fn three_busy_cpus(scheme: Scheme) -> Vec<Records> {
    let steps = prop::collection::vec(filled::step(3), 3000)
        .new_tree(&mut TestRunner::deterministic())
        .expect("a value")
        .current();
    three_cpus(scheme, &steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn says_all_there_is(
        scheme in any_scheme(),
        steps in prop::collection::vec(filled::step(3), 0..300),
    ) {
        let cpus = three_cpus(scheme, &steps);
        let data = encode(scheme, &cpus);
        prop_assert_eq!(decode(&data), Ok(expected(scheme, &cpus)));
        prop_assert!(data.len() <= raw::max_len(scheme, MetricSet::ALL, cpus.len()));
        let mut length = Length::default();
        raw::snapshot(&mut length, &info(scheme, &cpus), filled::never_reset(&cpus));
        prop_assert_eq!(length, Length(data.len()));
    }

    /// The numbers since loading do not depend on resets: to the last extreme, and its task.
    #[test]
    fn a_reset_changes_nothing(
        scheme in any_scheme(),
        periods in prop::collection::vec(prop::collection::vec(filled::step(3), 0..60), 1..5),
    ) {
        let (untouched, cpus) = (three_cpus(scheme, &[]), three_cpus(scheme, &[]));
        let mut baselines: Vec<Option<Before>> = vec![None, None, None];
        for period in periods {
            filled::run(&untouched, &period);
            filled::run(&cpus, &period);
            let with_baselines = cpus.iter().zip(baselines.iter().map(Option::as_ref));
            let mut bytes = Bytes::default();
            raw::snapshot(&mut bytes, &info(scheme, &cpus), with_baselines.clone());
            prop_assert_eq!(bytes.0, encode(scheme, &untouched));
            for metric in Metric::ALL {
                let counts = || vec![0; scheme.buckets()];
                let mut since_load = Snapshot::new(scheme, counts()).expect("the right size");
                let mut wanted = Snapshot::new(scheme, counts()).expect("the right size");
                for ((cpu, baseline), untouched) in with_baselines.clone().zip(&untouched) {
                    since_load.add_since_load(cpu, baseline, metric);
                    wanted.add(untouched, None::<&Before>, metric);
                }
                prop_assert_eq!(format!("{since_load:?}"), format!("{wanted:?}"));
            }
            for (cpu, baseline) in cpus.iter().zip(&mut baselines) {
                let cells = Records::cells(scheme, cpu.capacity());
                let mut next = Before::new(scheme, vec![0; cells]).expect("the right size");
                if let Some(earlier) = baseline {
                    next.follow(earlier);
                }
                next.take(cpu);
                *baseline = Some(next);
            }
        }
    }

    /// The additions of a later schedhist do not disturb a reader: a longer header, longer records,
    /// records of unknown types.
    #[test]
    fn additions_are_skipped(
        steps in prop::collection::vec(filled::step(3), 0..100),
        extra in prop::collection::vec(any::<u64>(), 1..9),
    ) {
        let cpus = three_cpus(Scheme::DEFAULT, &steps);
        let later = add(&encode(Scheme::DEFAULT, &cpus), &extra);
        prop_assert_eq!(decode(&later), Ok(expected(Scheme::DEFAULT, &cpus)));
    }
}

/// A snapshot with groups is one to readers that do not know groups.
#[test]
fn groups_are_more_records() {
    let scheme = Scheme::DEFAULT;
    let cpus = three_busy_cpus(scheme);
    let mut bytes = Bytes::default();
    let all = filled::never_reset(&cpus);
    raw::begin(&mut bytes, &info(scheme, &cpus), all, |_| None);
    let head = Head {
        time: 3,
        limit: 255,
        refused: 7,
        memory: 1,
        gone: 12,
        unfollowed: 5,
        late: 6,
        no_memory: 4,
    };
    let groups = Groups::new(3, scheme);
    groups.example(900);
    groups.observer().enter(grouped::user(0));
    for _ in 0..5 {
        groups.sample(Metric::Oncpu, 1 << 63, u64::MAX);
    }
    let coarse = group_scheme(scheme);
    raw::grouping(&mut bytes, 77, b"cgroup depth 2", &head, coarse);
    for (number, name) in [(0, &b"other"[..]), (1, b"/a b\\\xff"), (2, b"")] {
        let mut totals = GroupTotals::default();
        totals.add(groups.of(number), |group| group);
        totals.add_placement(groups.placement_of(number));
        let members = Members {
            tasks: number,
            is_live: number != 2,
        };
        let histograms = groups.histograms(number);
        let one = GroupReading {
            group: grouped::group(number),
            name,
            members,
            totals,
            slices: GroupSlices {
                ended: histograms[0].sum(),
                count: number.into(),
                in_progress: 7 * u64::from(number),
            },
            histograms,
        };
        raw::group(&mut bytes, &one);
    }
    let one = Waits { count: 1, sum: 99 };
    for (group, count, unseen) in [(1, 3, Waits::default()), (2, 0, one)] {
        let waits = Waits {
            count,
            sum: 1 << 70,
        };
        raw::in_progress(&mut bytes, grouped::group(group), &waits, &unseen);
    }
    raw::offline(&mut bytes, 4_094);
    let sums = |waits| {
        let one = [1, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16];
        WaitSums(one.map(|sum: u64| sum.wrapping_mul(waits)))
    };
    raw::long_waits(&mut bytes, 0, 1_000, &sums(7));
    raw::long_waits(&mut bytes, 1, 1_000, &sums(1 << 60));
    raw::end(&mut bytes);
    let mut snapshot = expected(scheme, &cpus);
    snapshot.offline = Some([4_094].into());
    snapshot.long_waits = Some(decoder::LongWaits {
        limit: 1_000,
        is_one_limit: false,
        sums: sums((1 << 60) + 7),
    });
    assert_eq!(snapshot.online().as_deref(), Some("0-1"));
    assert_eq!(decode(&bytes.0).as_ref(), Ok(&snapshot));
    // An early module wrote no such record, whether a CPU was offline or not.
    let mut early = bytes.0.clone();
    early[24] &= !2;
    let early = decode(&early).expect("it is whole");
    assert_eq!((early.online(), early.enabled), (None, true));
    let found = decoder::groups(&bytes.0).expect("it is whole");
    let found = found.expect("tasks are grouped");
    let by_c = printed(&c_reader("raw-reader-groups"), &bytes.0);
    let mut wanted = listing::of_snapshot(&snapshot);
    wanted.extend(listing::of_groups(&found));
    assert_eq!(listing::printed(&by_c), wanted);
    let (bits, buckets) = (coarse.precision().bits(), coarse.buckets());
    for line in [
        format!("grouping 77 7 12 255 {bits} {buckets} 6367726f75702064657074682032"),
        "grouping_more 1 4 5 6".to_owned(),
        "offline 4094".to_owned(),
        "long_waits 0 1000 7 105 7 14 21 28 35 42 49 56 63 70 77 84 91 98 112".to_owned(),
        // Tasks, whether it is live, and of each metric: samples, their sum, the longest.
        "group 1 1 1 2 2000 0 1500 4 40000 0 30000 0 0 0 0 \
         2 1 10 1 900 1 1000 1 30000 1 2000 1 7000 1 1 1 20 1 300 1 4000 2f6120625cff"
            .to_owned(),
        format!("group 2 2 0{} ", " 0".repeat(33)),
        "neighbour 1 2 1 30000".to_owned(),
        "group_migrations 1 1 2 3 4".to_owned(),
        "group_long_waits 1 2 200 20 40 60 30 50 0 0 2 200 0 0 0 0 0 0".to_owned(),
        "group_slices 1 1 7".to_owned(),
        "group_slices 2 2 14".to_owned(),
        // The sum is modulo 2^64.
        "group_waiting 1 3 0".to_owned(),
        "group_unseen 2 1 99".to_owned(),
    ] {
        assert!(by_c.lines().any(|found| found == line), "{line}: {by_c}");
    }
    let kept = decoder::only_groups(&bytes.0).expect("tasks are grouped");
    let kept = decoder::groups(&kept)
        .expect("it is whole")
        .expect("they are");
    assert_eq!(kept.groups.len(), 3);
    assert_eq!(kept.groups[1].samples[1], found.groups[1].samples[1]);
    assert_eq!(kept.groups[1].long_waits, found.groups[1].long_waits);
    assert_eq!(kept.groups[1].migrations, [1, 2, 3, 4]);
    let in_histograms = |group: &decoder::Group| -> u64 {
        let buckets = group.samples.iter().flat_map(|samples| &samples.buckets);
        buckets.map(|(_, count)| count).sum()
    };
    assert_eq!(
        found.groups.iter().map(in_histograms).collect::<Vec<_>>(),
        [5, 6, 0]
    );
}

/// A snapshot of one CPU with the most that can be in progress, and the same as it is to be read.
fn in_progress(scheme: Scheme) -> (Vec<u8>, decoder::Snapshot) {
    let cpus = [records(3, scheme, MetricSet::ALL)];
    // Two slices, so that there is a worst sample; the other metrics have none.
    for now in [10, 20, 35] {
        idle_at(&cpus[0], now, |_| Identity::default());
    }
    let task = |metric: Metric, pid: u32| TaskInProgress {
        metric,
        is_sample: pid % 2 == 0,
        cpu: 3,
        now: 1_000,
        duration: 900 - u64::from(pid),
        task: Identity {
            pid: pid as i32,
            prio: -1,
            comm: *b"a\\b\0\0\0\0\0\0\0\0\0\0\0\0\0",
            group: grouped::group(pid),
        },
    };
    let record = |metric: Metric, pid: u32| {
        let task = task(metric, pid);
        decoder::TaskInProgress {
            metric: metric as u32,
            unseen: !task.is_sample,
            cpu: 3,
            now: 1_000,
            duration: task.duration,
            task: task.task,
        }
    };
    let (mut bytes, mut waiters) = (Bytes::default(), Waiters::default());
    for pid in 0..LONGEST as u32 {
        let TaskInProgress { now, cpu, .. } = task(Metric::Throttled, pid);
        let waiting = Waiting {
            metric: Metric::Throttled,
            waited: 900 - u64::from(pid),
            is_sample: pid % 2 == 0,
        };
        waiters.add(&waiting, now, cpu, || task(Metric::Throttled, pid).task);
    }
    let all = filled::never_reset(&cpus);
    raw::begin(&mut bytes, &info(scheme, &cpus), all, |cpu| {
        cpu.current_slice(|| 50)
    });
    raw::task(&mut bytes, &task(Metric::Oncpu, 77));
    raw::waiters(&mut bytes, 2_000, &waiters);
    raw::end(&mut bytes);
    let mut decoded = expected(scheme, &cpus);
    // The first ten were not seen.
    decoded.cpus[0].slice = Some(SliceInProgress {
        occupancy: Occupancy::Idle,
        now: 50,
        since: 35,
        unseen: 10,
    });
    decoded.tasks = vec![record(Metric::Oncpu, 77)];
    let waits = (0..LONGEST as u32).map(|pid| record(Metric::Throttled, pid));
    decoded.tasks.extend(waits);
    decoded.waits = WAITS
        .into_iter()
        .map(|metric| {
            let (count, sum) = match metric {
                Metric::Throttled => (8, 8 * 900 - (2 + 4 + 6 + 8 + 10 + 12 + 14)),
                _ => (0, 0),
            };
            decoder::Waits {
                metric: metric as u32,
                count,
                sum,
            }
        })
        .collect();
    (bytes.0, decoded)
}

/// What is in progress is there.
#[test]
fn in_progress_is_there() {
    let (data, expected) = in_progress(Scheme::DEFAULT);
    assert_eq!(decode(&data), Ok(expected));
}

/// Converts a snapshot into one that a later schedhist might write.
fn add(data: &[u8], extra: &[u64]) -> Vec<u8> {
    let extra: Vec<u8> = extra
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let len = |bytes: &[u8]| (bytes.len() + extra.len()) as u32;
    let (header, mut rest) = data.split_at(56);
    let mut later = [
        &header[..12],
        &len(header).to_le_bytes(),
        &header[16..],
        &extra,
    ]
    .concat();
    while !rest.is_empty() {
        let mut reader = Reader(rest);
        let (kind, record_len) = (
            reader.u32().expect("a type"),
            reader.u32().expect("a length"),
        );
        let (record, next) = rest.split_at(record_len as usize);
        // A record of an unknown type, then this record, with something added at its end.
        later.extend_from_slice(&[1_000_u32.to_le_bytes(), len(&[0; 8]).to_le_bytes()].concat());
        later.extend_from_slice(&extra);
        later.extend_from_slice(&kind.to_le_bytes());
        later.extend_from_slice(&len(record).to_le_bytes());
        later.extend_from_slice(&record[8..]);
        later.extend_from_slice(&extra);
        rest = next;
    }
    later
}

/// Every recorded metric has a name, and every name fits into its field. No two of a kind are the
/// same.
#[test]
fn all_have_names() {
    let names = expected(Scheme::DEFAULT, &[]).names;
    for metric in Metric::ALL {
        let mut shown = names.metrics.iter();
        assert!(shown.any(|shown| shown.parts == [metric as u32]));
    }
    let shown: Vec<_> = names.metrics.iter().map(|shown| &shown.name).collect();
    let counters: Vec<_> = names.counters.iter().map(|(_, name)| name).collect();
    for names in [shown, counters] {
        assert!(names.iter().all(|name| name.len() < 32));
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}

/// At every precision, the longest possible snapshot is exactly as long as the documented maximum.
#[test]
fn length_is_bounded() {
    for bits in [Precision::MIN, Precision::DEFAULT] {
        let scheme = Scheme::new(Precision::new(bits).expect("within bounds"));
        let cpus = [records(0, scheme, MetricSet::ALL)];
        for metric in Metric::ALL {
            for bucket in cpus[0].buckets(metric) {
                bucket.set(u64::MAX);
            }
        }
        // Two slices, so that there is a worst sample; the other metrics have none.
        for now in [1, 2, 3] {
            idle_at(&cpus[0], now, |_| Identity::default());
        }
        let missing = (Metric::COUNT - 1) * 56;
        // The buckets of one CPU, and what is in progress on another.
        let empty = encode(scheme, &[records(0, scheme, MetricSet::ALL)]).len();
        let two_stays = 56 + 24 + 2 * 12;
        let in_progress = in_progress(scheme).0.len() - empty - two_stays;
        // A CPU that goes offline and comes back meanwhile has an OFFLINE record, too.
        let offline = 16;
        let long_waits = 160;
        let most = raw::max_len(scheme, MetricSet::ALL, 1);
        let found = encode(scheme, &cpus).len() + in_progress + offline + long_waits + missing;
        assert_eq!(found, most);
    }
}

/// The probes go on while a snapshot is made: it is complete all the same, and its numbers lie
/// between those before and those after.
#[test]
fn probes_go_on() {
    let scheme = Scheme::DEFAULT;
    let cpus = [records(0, scheme, MetricSet::ALL)];
    let [cpu] = &cpus;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = SetAtEnd(&done);
        scope.spawn(|| {
            let (mut now, mut random) = (1_u64, 1_u64);
            while !done.load(Relaxed) {
                next_random(&mut random);
                now += random >> (30 + random % 34);
                now %= 1 << 62;
                idle_at(cpu, now, |_| Identity::default());
            }
        });
        while cpu.counter(Counter::Switches) < 1000 {
            thread::yield_now();
        }
        let mut last = 0;
        for _ in 0..300 {
            let before = count(&expected(scheme, &cpus));
            let now = count(&decode(&encode(scheme, &cpus)).expect("it is whole"));
            let after = count(&expected(scheme, &cpus));
            assert!(before <= now && now <= after, "{before} {now} {after}");
            assert!(last <= now);
            last = now;
        }
    });
    assert_eq!(decode(&encode(scheme, &cpus)), Ok(expected(scheme, &cpus)));
}

/// Returns the sum of the buckets of all histograms.
fn count(snapshot: &decoder::Snapshot) -> u64 {
    let histograms = snapshot.cpus.iter().flat_map(|cpu| &cpu.histograms);
    let buckets = histograms.flat_map(|histogram| &histogram.buckets);
    buckets.map(|(_, count)| count).sum()
}

/// Runs a reader on `input`.
fn run(reader: &Path, input: &[u8]) -> Output {
    let file = reader.with_extension("raw");
    fs::write(&file, input).expect("it is writable");
    let stdin = fs::File::open(file).expect("it is there");
    Command::new(reader).stdin(stdin).output().expect("it runs")
}

/// Runs a reader on `input`, asserts that it succeeds, and returns its output.
fn printed(reader: &Path, input: &[u8]) -> String {
    let output = run(reader, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Compiles the program that `raw_reader.py` makes from the header, without a warning.
fn c_reader(name: &str) -> PathBuf {
    let reader = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/uapi");
    let made = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/raw_reader.py"))
        .arg(format!("{include}/schedhist_raw.h"))
        .output()
        .expect("it runs");
    assert!(made.status.success());
    let source = reader.with_extension("c");
    fs::write(&source, made.stdout).expect("it is writable");
    let compiled = Command::new(env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args("-std=c11 -Wall -Wextra -pedantic -Werror -O1".split(' '))
        .args(["-I", include, "-o"])
        .args([&reader, &source])
        .status();
    assert!(compiled.expect("there is a C compiler").success());
    reader
}

/// The C header describes the snapshots.
#[test]
fn header_says_how_it_is() {
    let reader = c_reader("raw-reader");
    let printed = |data: &[u8]| printed(&reader, data);
    for bits in Precision::MIN..=Precision::MAX {
        let scheme = Scheme::new(Precision::new(bits).expect("within bounds"));
        let cpus = three_busy_cpus(scheme);
        // The first histogram has samples in all buckets, so that all bounds are checked.
        for bucket in cpus[0].buckets(Metric::Oncpu) {
            bucket.add(1 << 33);
        }
        let data = encode(scheme, &cpus);
        let text = printed(&data);
        let wanted = listing::of_snapshot(&expected(scheme, &cpus));
        assert_eq!(listing::printed(&text), wanted);
        // The time, flags, the scheme, and how many CPUs, metrics and counters there are.
        let buckets = scheme.buckets();
        let (metrics, counters) = (Metric::COUNT, Counter::COUNT);
        let on = MetricSet::DEFAULT.bits();
        let header =
            format!("header 81985529216486895 3 {bits} 40 {buckets} 3 {metrics} {counters} {on}\n");
        assert!(text.starts_with(&header), "{header} is not in {text}");
        let (other, expected) = in_progress(scheme);
        let other = printed(&other);
        assert_eq!(listing::printed(&other), listing::of_snapshot(&expected));
        let (throttled, oncpu) = (Metric::Throttled as u32, Metric::Oncpu as u32);
        for line in [
            "slice 3 0 50 35 10".to_owned(),
            format!("waiting {throttled} 2000 8 7144"),
            format!("task {oncpu} 1 3 77 1000 823 77 -1 615c62"),
        ] {
            assert!(other.lines().any(|found| found == line), "{line}: {other}");
        }
        assert_eq!(printed(&add(&data, &[u64::MAX, 0])), text);
        let cut_off = run(&reader, &data[..data.len() - 8]);
        assert!(!cut_off.status.success());
    }
}
