// SPDX-License-Identifier: GPL-2.0

//! Traces for Perfetto, read back by a decoder of our own.

use std::collections::{BTreeMap, BTreeSet};

use schedhist_core::{engine, engine::idle::WaitSums, raw, text, window::Window};
use schedhist_perfetto::{counters::Counters, events, Trace, Unit};

#[path = "../../core/tests/sim/mod.rs"]
mod sim;

/// What ftrace prints: a task that runs, waits and runs again; the times are late and rounded.
const TRACE: &str = "# tracer: nop
          my app-7     [000] d..2.    10.000300: oncpu: comm=my app pid=7 prio=120 cpu=0 duration_ns=200001 cause=preempted
          <idle>-0     [001] d..2.    10.000350: idle: cpu=1 duration_ns=50000 next_comm=x next_pid=9 next_prio=120
             hog-9     [000] d..2.    10.050320: oncpu: comm=hog pid=9 prio=49 cpu=0 duration_ns=50000123 cause=interruptible
             hog-9     [000] d..2.    10.050330: runq: comm=my app pid=7 prio=120 cpu=0 duration_ns=50000200 cause=preempted group=4
             hog-9     [000] d..2.    10.050340: outlier: id=3 metric=runq_preempt comm=my app pid=7 prio=120 cpu=0 cause=preempted duration_ns=50000200 start_ns=10000300100 end_ns=10050300300 culprits=1 missing_ns=0 group=4
             hog-9     [000] d..2.    10.050341: culprit: id=3 comm=hog pid=9 prio=49 cpu=0 ran_ns=50000123 slices=1 group=12 of_tomorrow=1
          my app-7     [000] d..2.    10.050400: oncpu: comm=my app pid=7 prio=120 cpu=0 duration_ns=90000 cause=interruptible group=4
            perf  7 [000]    10.060000:   schedhist:oncpu: comm=my app pid=7 prio=120 cpu=0 duration_ns=1000 cause=interruptible
";

/// A field of a message.
#[derive(Clone, Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => panic!("no number"),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => panic!("no bytes"),
        }
    }
}

fn varint(data: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = data.split_first().expect("not cut off");
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

/// Decodes a message: its fields with their numbers.
fn decode(mut data: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !data.is_empty() {
        let tag = varint(&mut data);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut data)),
            1 => {
                let (head, rest) = data.split_at(8);
                data = rest;
                Field::Number(u64::from_le_bytes(head.try_into().unwrap()))
            }
            2 => {
                let len = varint(&mut data) as usize;
                let (head, rest) = data.split_at(len);
                data = rest;
                Field::Bytes(head)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn one<'a>(fields: &[(u64, Field<'a>)], number: u64) -> Option<Field<'a>> {
    let mut found = fields.iter().filter(|(field, _)| *field == number);
    found.next().map(|(_, field)| field.clone())
}

fn text(fields: &[(u64, Field<'_>)], number: u64) -> String {
    let bytes = one(fields, number).map(|field| field.bytes().to_vec());
    String::from_utf8(bytes.unwrap_or_default()).unwrap()
}

/// A trace, read back.
#[derive(Debug, Default)]
struct Decoded {
    /// Name, thread id and parent of each track.
    tracks: BTreeMap<u64, (String, Option<u64>, Option<u64>)>,
    /// Track, begin, length and name of each slice.
    slices: Vec<(u64, u64, u64, String)>,
    /// The slices at which each flow begins and ends.
    flows: BTreeMap<u64, [Option<String>; 2]>,
    /// The names of notes, and their numbers or texts.
    notes: BTreeSet<(String, String)>,
    /// Time and value, by track.
    counters: BTreeMap<u64, Vec<(u64, u64)>>,
}

fn read(trace: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let mut open: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let mut last = 0;
    for (number, packet) in decode(trace) {
        assert_eq!(number, 1);
        let packet = decode(packet.bytes());
        assert_eq!(one(&packet, 10).unwrap().number(), 1);
        if let Some(track) = one(&packet, 60) {
            let track = decode(track.bytes());
            let thread = one(&track, 4).map(|thread| decode(thread.bytes()));
            let name = thread
                .as_ref()
                .map_or(text(&track, 2), |thread| text(thread, 5));
            let tid = thread.map(|thread| one(&thread, 2).unwrap().number());
            let parent = one(&track, 5).map(|parent| parent.number());
            assert!(parent.is_none_or(|parent| decoded.tracks.contains_key(&parent)));
            let id = one(&track, 1).unwrap().number();
            assert!(decoded.tracks.insert(id, (name, tid, parent)).is_none());
            continue;
        }
        let time = one(&packet, 8).unwrap().number();
        assert!(time >= last, "out of order");
        last = time;
        let event = decode(one(&packet, 11).unwrap().bytes());
        let track = one(&event, 11).unwrap().number();
        assert!(decoded.tracks.contains_key(&track));
        match one(&event, 9).unwrap().number() {
            1 => {
                let name = text(&event, 23);
                for (_, note) in event.iter().filter(|(field, _)| *field == 4) {
                    let note = decode(note.bytes());
                    let value = match one(&note, 3) {
                        Some(number) => number.number().to_string(),
                        None => text(&note, 6),
                    };
                    decoded.notes.insert((text(&note, 10), value));
                }
                for (field, flow) in &event {
                    if let 47 | 48 = field {
                        let ends = decoded.flows.entry(flow.number()).or_default();
                        // Otherwise trace_processor drops the flow.
                        assert!(
                            *field == 47 || ends[0].is_some(),
                            "it ends before its begin"
                        );
                        ends[(*field - 47) as usize] = Some(name.clone());
                    }
                }
                let before = open.insert(track, (time, name));
                assert!(before.is_none(), "slices overlap");
            }
            2 => {
                let (begin, name) = open.remove(&track).expect("it has begun");
                decoded.slices.push((track, begin, time - begin, name));
            }
            4 => {
                let value = one(&event, 30).unwrap().number();
                let values = decoded.counters.entry(track).or_default();
                let is_same = values.last().is_some_and(|(_, last)| *last == value);
                assert!(!is_same, "it has the value already");
                values.push((time, value));
            }
            other => panic!("type {other}"),
        }
    }
    assert!(open.is_empty());
    decoded
}

#[test]
fn slices_are_exact() {
    let (trace, read_events) = events::trace(TRACE.as_bytes());
    assert_eq!((read_events.events, read_events.late), (8, 0));
    let decoded = read(&trace);
    let ran = |tid| {
        let mine = decoded
            .slices
            .iter()
            .filter(|(track, .., name)| decoded.tracks[track].1 == Some(tid) && name == "running");
        mine.map(|(_, _, duration, _)| duration).sum::<u64>()
    };
    assert_eq!(ran(7), 200_001 + 90_000 + 1_000);
    assert_eq!(ran(9), 50_000_123);
    let names: Vec<_> = decoded
        .tracks
        .values()
        .map(|(name, ..)| name.as_str())
        .collect();
    for name in ["my app", "hog", "CPU 0", "CPU 1", "waits", "outliers"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let wait = decoded
        .slices
        .iter()
        .find(|slice| slice.3 == "waiting, preempted")
        .unwrap();
    assert_eq!(wait.2, 50_000_200);
    // Its group is a note, and no part of the cause.
    assert!(trace.windows(5).any(|bytes| bytes == b"group"));
    // On the CPU's track, the event of hog is later than the begin of the next slice.
    let on_cpu = decoded
        .slices
        .iter()
        .find(|slice| slice.3 == "hog:9")
        .unwrap();
    assert_eq!(
        (on_cpu.1 + on_cpu.2, on_cpu.2),
        (10_050_310_000, 50_000_123)
    );
    // The outlier has its own stamps, and a flow connects it with the slice of its culprit.
    let name = "runq_preempt of my app:7";
    let outlier = decoded.slices.iter().find(|slice| slice.3 == name).unwrap();
    assert_eq!((outlier.1, outlier.2), (10_000_300_100, 50_000_200));
    let flows: Vec<_> = decoded.flows.values().collect();
    assert_eq!(
        flows,
        [&[Some(name.to_owned()), Some("running".to_owned())]]
    );
}

/// A flow begins at the slice that begins first, which may be that of the culprit.
#[test]
fn flows_from_earlier_slices() {
    let text = "\
             hog-9     [000] d..2.    10.030000: oncpu: comm=hog pid=9 prio=120 cpu=0 duration_ns=20000000 cause=preempted
             hog-9     [000] d..2.    10.030002: outlier: id=4 metric=runq_wakeup comm=web pid=7 prio=120 cpu=0 cause=wakeup duration_ns=15000000 start_ns=10015000000 end_ns=10030000000 culprits=1 missing_ns=0
             hog-9     [000] d..2.    10.030003: culprit: id=4 comm=hog pid=9 prio=120 cpu=0 ran_ns=15000000 slices=1
";
    let decoded = read(&events::trace(text.as_bytes()).0);
    let flows: Vec<_> = decoded.flows.into_values().collect();
    let names = ["running", "runq_wakeup of web:7"];
    assert_eq!(flows, [names.map(|name| Some(name.to_owned()))]);
}

#[test]
fn any_text() {
    let mut random = sim::Random(3);
    for _ in 0..300 {
        let mut text = TRACE.as_bytes().to_vec();
        for _ in 0..1 + random.next() % 10 {
            text = sim::mutate(&mut random, &text);
        }
        let (trace, _) = events::trace(&text);
        decode(&trace);
    }
    assert_eq!(events::trace(b"").0, b"");
}

#[test]
fn counters_are_those_of_the_intervals() {
    let mut machine = sim::Machine::new(3, 5, 1);
    let mut snapshots = Vec::new();
    for number in 0..5 {
        machine.run(100);
        // In each interval tasks waited for 700 ns, and CPUs were idle for 60 of these.
        let parts = [700, 0, 50, 10, 0, 640].map(|ns| ns * number);
        let mut sums = WaitSums::default();
        sums.0[0] = number;
        sums.0[1..=parts.len()].copy_from_slice(&parts);
        machine.long_waits = Some((100, sums));
        snapshots.push(raw::decode(&machine.raw()).unwrap());
    }
    let mut counters = Counters::default();
    let windows: Vec<_> = snapshots
        .windows(2)
        .map(|two| Window::between(&two[0], &two[1]).unwrap())
        .collect();
    for number in [0, 1, 3] {
        counters.push(&windows[number]);
    }
    let decoded = read(&counters.finish());
    let track = |name: &str, parent: Option<&str>| {
        let found = decoded.tracks.iter().find(|(_, (track, _, above))| {
            let above = above.map(|above| decoded.tracks[&above].0.as_str());
            track == name && above == parent
        });
        *found.unwrap().0
    };
    let runq = windows[0].names.metric("runq").unwrap().clone();
    let max = |cpu: Option<u32>| -> Vec<(u64, u64)> {
        let of = |window: &Window| {
            window.distribution(&runq, &|number| cpu.is_none_or(|cpu| cpu == number))
        };
        let max = |number: usize| {
            (
                snapshots[number].time,
                of(&windows[number]).max.value().unwrap(),
            )
        };
        // Nothing is known of the third interval, and of what came after the last one.
        let none = |number: usize| (snapshots[number].time, 0);
        vec![max(0), max(1), none(2), max(3), none(4)]
    };
    assert_eq!(decoded.counters[&track("runq max", None)], max(None));
    assert_eq!(
        decoded.counters[&track("runq max", Some("CPU 2"))],
        max(Some(2))
    );
    let rates = &decoded.counters[&track("switches a second", Some("CPU 1"))];
    let span = windows[0].span.unwrap();
    assert_eq!(rates[0].1, 100 * 1_000_000_000 / span);
    for (name, ns) in [
        ("long waits a second", 700),
        ("of these, idle elsewhere", 60),
    ] {
        let rates = &decoded.counters[&track(name, None)];
        assert_eq!(rates[0].1, ns * 1_000_000_000 / span, "{name}");
    }
}

/// A counter that keeps its value takes no room; after a reboot, time begins anew.
#[test]
fn counters_that_stay() {
    let mut trace = Trace::default();
    let track = trace.counter(None, "busy", Unit::Percent);
    for (time, value) in [(20, 5), (30, 5), (40, 6), (10, 6), (15, 6)] {
        trace.count(track, time, value);
    }
    let decoded = read(&trace.finish());
    let values: Vec<_> = decoded.counters.into_values().collect();
    assert_eq!(values, [[(10, 6), (20, 5), (40, 6)]]);
}

/// Outliers are slices with notes; those that overlap have tracks of their own. A chain has a track
/// for each task, with flows.
#[test]
fn outliers_and_chains() {
    let mut counters = Counters::default();
    let outlier =
        "outlier id 1 metric runq_wakeup cause wakeup cpu 2 duration_ns 500 start_ns 1000 \
                end_ns 1500 missing_ns 0 culprits 0 idle_cpu 1 idle_ns 60 distance llc pid 7 prio 120 \
                comm a\n";
    let chain = "chain id 1 metric runq_wakeup cpu 2 duration_ns 500 end start blocked_ns 0 \
                 missing_ns 0 hops 3\n  \
                 hop id 1 via - ran_ns 0 waited_ns 100 preempted_ns 0 throttled_ns 0 slices 1 cpu 1 group 0 pid 7 \
                 comm a\n  \
                 hop id 1 via task ran_ns 0 waited_ns 0 preempted_ns 0 throttled_ns 0 slices 1 cpu 1 group 0 pid 8 \
                 comm b\n  \
                 hop id 1 via task ran_ns 300 waited_ns 100 preempted_ns 0 throttled_ns 0 slices 1 cpu 1 group 0 \
                 pid 9 comm c\n";
    for chain in [chain, ""] {
        counters.outlier(&text::outliers(&format!("{outlier}{chain}"))[0]);
    }
    let decoded = read(&counters.finish());
    let on = |number: usize| {
        let (track, begin, length, name) = &decoded.slices[number];
        (&*decoded.tracks[track].0, *begin, *length, &**name)
    };
    let outlier = ("outliers", 1000, 500, "runq_wakeup of a:7");
    let mut slices: Vec<_> = (0..decoded.slices.len()).map(on).collect();
    slices.sort_unstable();
    let hops = [
        ("chains: a:7", 1400, 100, "a:7"),
        ("chains: c:9", 1000, 400, "c:9"),
    ];
    assert_eq!(slices, [hops[0], hops[1], outlier, outlier]);
    let flows: Vec<_> = decoded.flows.into_values().collect();
    assert_eq!(flows, [["c:9", "a:7"].map(|name| Some(name.to_owned()))]);
    // The second one overlaps the first, and is on another track.
    let outliers = decoded
        .slices
        .iter()
        .filter(|(.., name)| name.starts_with("runq"));
    let tracks: BTreeSet<_> = outliers.map(|(track, ..)| *track).collect();
    assert_eq!(tracks.len(), 2);
    for (name, value) in [("idle_cpu", "1"), ("idle_ns", "60"), ("distance", "llc")] {
        let note = (name.to_owned(), value.to_owned());
        assert!(decoded.notes.contains(&note), "{note:?}");
    }
}

/// A name may look like the fields after it, or like an event. Each task and each CPU has its own
/// times all the same, in all texts that are read.
#[test]
fn names_are_no_fields() {
    let mut random = sim::Random(17);
    for round in 0..400 {
        let (mut trace, mut names) = (Vec::new(), Vec::new());
        for tid in 1..=6_u64 {
            let name = match tid {
                1 => b"job pid=7 cpu=9".to_vec(),
                _ => sim::nasty_name(&mut random),
            };
            let (cpu, time, ns) = (tid % 3, format!("10.{tid:03}000"), 1000 + tid);
            // ftrace, perf script, trace-cmd report.
            let (head, end) = match round % 3 {
                0 => (format!("-{tid:<7} [{cpu:03}] d..2.    {time}: "), " "),
                1 => (format!(" {tid:>7} [{cpu:03}]    {time}: schedhist:"), " "),
                _ => (
                    format!("-{tid:<5} [{cpu:03}]    {time}: "),
                    "                ",
                ),
            };
            let event = |event: &str, before: &str, comm: &str, after: &str| {
                let pad = " ".repeat(16 - name.len());
                let before = format!("{head}{event}:{end}{before}{comm}=");
                let parts = [
                    pad.as_bytes(),
                    &name,
                    before.as_bytes(),
                    &name,
                    after.as_bytes(),
                ];
                [&parts.concat()[..], b"\n"].concat()
            };
            let task = format!(" pid={tid} prio=120 cpu={cpu}");
            let sample = format!("{task} duration_ns={ns} cause=preempted group=0");
            trace.extend(event("oncpu", "", "comm", &sample));
            trace.extend(event("runq", "", "comm", &sample));
            let idle = format!("cpu={cpu} duration_ns={ns} ");
            let next = format!(" next_pid={tid} next_prio=120");
            trace.extend(event("idle", &idle, "next_comm", &next));
            let outlier = format!("id={tid} metric=runq_wakeup ");
            let whole = format!(
                "{task} cause=preempted duration_ns={ns} start_ns=1 end_ns=2 culprits=1 missing_ns=0"
            );
            trace.extend(event("outlier", &outlier, "comm", &whole));
            let culprit = format!("{task} ran_ns={ns} slices=1 group=0");
            trace.extend(event("culprit", &format!("id={tid} "), "comm", &culprit));
            names.push((tid, cpu, ns, sim::shown(&name)));
        }
        let said = String::from_utf8_lossy(&trace).into_owned();
        let (bytes, read_events) = events::trace(&trace);
        assert_eq!((read_events.events, read_events.late), (30, 0), "{said}");
        let decoded = read(&bytes);
        for (tid, cpu, ns, name) in names {
            let mut tracks = decoded.tracks.iter();
            let track = tracks.find(|(_, (_, of, _))| *of == Some(tid));
            let (track, _) = track.unwrap_or_else(|| panic!("{tid}: {said:?}"));
            assert_eq!(decoded.tracks[track].0, name, "{said}");
            let ran: Vec<_> = decoded.slices.iter().filter(|s| s.0 == *track).collect();
            assert_eq!((ran.len(), ran[0].2), (1, ns), "{said}");
            let on_cpu = |wanted: &str, parent: &str| {
                let is_it = |(track, .., name): &&(u64, u64, u64, String)| {
                    let (of, _, above) = &decoded.tracks[track];
                    let of = above.map_or(of, |above| &decoded.tracks[&above].0);
                    name == wanted && of == parent
                };
                decoded
                    .slices
                    .iter()
                    .filter(is_it)
                    .map(|slice| slice.2)
                    .sum::<u64>()
            };
            let cpu = format!("CPU {cpu}");
            assert_eq!(on_cpu(&format!("{name}:{tid}"), &cpu), ns, "{said}");
            assert_eq!(
                on_cpu(&format!("runq_wakeup of {name}:{tid}"), &cpu),
                ns,
                "{said}"
            );
        }
    }
}
