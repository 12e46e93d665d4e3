// SPDX-License-Identifier: GPL-2.0

//! Trace events in text, as ftrace's file `trace`, `trace-cmd report` and `perf script` print them.
//!
//! A sample's event comes when the sample is complete, or somewhat later: the events of a switch
//! are emitted one after the other, and text has microseconds as a rule. So a slice ends at the
//! time of its event, or where the next one on its track begins if that is earlier, and it began
//! as much earlier as the sample is long. Lengths are exact.

use std::collections::BTreeMap;

use super::{Lanes, Note, Slice, Trace, Track};
use schedhist_core::{
    gather::Gather,
    text::{of_bytes, readable, LONGEST_COMM},
};

/// The events that are read.
const EVENTS: [&str; 6] = ["oncpu", "runq", "idle", "throttled", "outlier", "culprit"];

/// The fields of these events.
const FIELDS: [&str; 18] = [
    "id",
    "metric",
    "comm",
    "pid",
    "prio",
    "cpu",
    "cause",
    "duration_ns",
    "start_ns",
    "end_ns",
    "culprits",
    "missing_ns",
    "ran_ns",
    "slices",
    "next_comm",
    "next_pid",
    "next_prio",
    "group",
];

/// By how much an event may be late, in nanoseconds. More is a sign of another clock.
const LATE: u64 = 10_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    /// The time in nanoseconds, as exact as the text has it.
    time: u64,
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

/// What a text is.
enum Parsed {
    Event(Event),
    /// The begin of an event: the name of a task goes on in the next line.
    Begin,
    Other,
}

/// Returns the time and the name of an event, and its fields. The name of a task, which may precede
/// them, may hold any text, but is too short for all that is looked for here.
fn head(text: &str) -> Option<(u64, &'static str, &str)> {
    let found = EVENTS.iter().filter_map(|name| {
        text.match_indices(&format!("{name}: "))
            .find_map(|(at, begin)| {
                let fields = text[at + begin.len()..].trim_start_matches(' ');
                let keys = match *name {
                    "outlier" => ["id=", " metric="],
                    "culprit" => ["id=", " comm="],
                    "idle" => ["cpu=", " duration_ns="],
                    _ => ["comm=", ""],
                };
                let rest = fields.strip_prefix(keys[0])?;
                let is_there = rest.trim_start_matches(|c: char| c.is_ascii_digit());
                if !keys[1].is_empty() && !is_there.starts_with(keys[1]) {
                    return None;
                }
                let before = text[..at].strip_suffix("schedhist:").unwrap_or(&text[..at]);
                let before = before.trim_end().strip_suffix(':')?;
                let time = seconds(before.rsplit([' ', '\t']).next()?)?;
                Some((at, (time, *name, fields)))
            })
    });
    found.min_by_key(|(at, _)| *at).map(|(_, head)| head)
}

impl Event {
    /// Parses a line, or several if a name has ends of lines.
    fn parse(text: &str) -> Parsed {
        let Some((time, name, rest)) = head(text) else {
            return Parsed::Other;
        };
        // No field before the name, or after it, has a name in it. The last of these keys is there
        // to tell fields from a name that looks like some of them.
        let (comm, pid, last) = match name {
            "idle" => ("next_comm=", " next_pid=", " next_prio="),
            "culprit" => ("comm=", " pid=", " ran_ns="),
            _ => ("comm=", " pid=", " duration_ns="),
        };
        let Some((before, rest)) = rest.split_once(comm) else {
            return Parsed::Other;
        };
        let at = rest.rfind(pid).filter(|at| rest[*at..].contains(last));
        if rest[..at.unwrap_or(rest.len())].chars().count() > LONGEST_COMM {
            return Parsed::Other;
        }
        let Some(at) = at else { return Parsed::Begin };
        let words = before
            .split_whitespace()
            .chain(rest[at..].split_whitespace());
        let pairs = words.filter_map(|word| {
            let (key, value) = word.split_once('=')?;
            let key = FIELDS.iter().find(|known| **known == key)?;
            Some((*key, value.to_owned()))
        });
        let mut fields: BTreeMap<_, _> = pairs.gather();
        fields.insert(comm.trim_end_matches('='), readable(&rest[..at]));
        Parsed::Event(Self { time, name, fields })
    }

    /// Parses all events of a text.
    fn all(bytes: &[u8]) -> Vec<Self> {
        let text = of_bytes(bytes);
        let (mut events, mut begun) = (Vec::new(), None);
        for line in text.split('\n') {
            let joined = begun.take().map(|begun: String| begun + "\n" + line);
            for text in joined.into_iter().chain([line.to_owned()]) {
                match Self::parse(&text) {
                    Parsed::Event(event) => events.push(event),
                    Parsed::Begin => begun = Some(text),
                    Parsed::Other => continue,
                }
                break;
            }
        }
        events
    }

    fn text(&self, key: &str) -> &str {
        self.fields.get(key).map_or("", String::as_str)
    }

    /// Returns a field as a number.
    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key).parse().ok()
    }

    /// Returns a note on the task's group, if it is in one.
    fn group(&self) -> Option<Note> {
        let group: u64 = self.number("group")?;
        (group != 0).then_some(Note::Number("group", group))
    }

    fn task(&self) -> Option<(i32, String)> {
        Some((self.number("pid")?, self.text("comm").to_owned()))
    }
}

/// Parses seconds with decimals; returns nanoseconds.
fn seconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.')?;
    if decimals.is_empty() || decimals.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let rest: u64 = format!("{decimals:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(rest)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub events: u64,
    /// Slices whose event came more than 10 ms too late for the next one of their track.
    pub late: u64,
}

/// The tracks as they are needed.
#[derive(Default)]
struct Builder {
    trace: Trace,
    threads: BTreeMap<i32, (Track, Option<Track>)>,
    cpus: BTreeMap<u32, Track>,
    lanes: BTreeMap<u32, Lanes>,
    slices: Vec<Slice>,
    read: Read,
}

impl Builder {
    fn thread(&mut self, pid: i32, comm: &str) -> Track {
        if let Some((track, _)) = self.threads.get(&pid) {
            return *track;
        }
        let track = self.trace.thread(pid, comm);
        self.threads.insert(pid, (track, None));
        track
    }

    /// The waits of a task have a track of their own below it: rounded times might overlap.
    fn waits(&mut self, pid: i32, comm: &str) -> Track {
        let parent = self.thread(pid, comm);
        if let Some((_, Some(track))) = self.threads.get(&pid) {
            return *track;
        }
        let track = self.trace.track(Some(parent), "waits");
        self.threads.insert(pid, (parent, Some(track)));
        track
    }

    fn cpu(&mut self, cpu: u32) -> Track {
        let trace = &mut self.trace;
        let new = || trace.track(None, &format!("CPU {cpu}"));
        *self.cpus.entry(cpu).or_insert_with(new)
    }

    /// Returns a track of a CPU on which an outlier overlaps no earlier one.
    fn lane(&mut self, cpu: u32, begin: u64, end: u64) -> Track {
        let parent = self.cpu(cpu);
        let new = || self.trace.track(Some(parent), "outliers");
        self.lanes.entry(cpu).or_default().take(begin, end, new)
    }

    /// Adds a slice that ends at a time. Returns its place.
    fn slice(&mut self, track: Track, end: u64, duration: u64, name: String) -> usize {
        self.slices.push(Slice {
            track,
            begin: end.saturating_sub(duration),
            duration,
            name,
            notes: vec![Note::Number("duration_ns", duration)],
            from: Vec::new(),
            to: Vec::new(),
        });
        self.slices.len() - 1
    }

    /// Moves slices to where the next one of their track begins, if that is earlier than their end.
    fn settle(&mut self) {
        let mut next: BTreeMap<Track, u64> = BTreeMap::new();
        for slice in self.slices.iter_mut().rev() {
            let end = slice.begin.saturating_add(slice.duration);
            let limit = next.get(&slice.track).copied().unwrap_or(u64::MAX);
            if end > limit {
                self.read.late += u64::from(end - limit > LATE);
                slice.begin = limit.saturating_sub(slice.duration);
            }
            next.insert(slice.track, slice.begin);
        }
    }
}

/// Returns the trace of all events in a text, and what was read. Names in it may have any bytes.
pub fn trace(text: &[u8]) -> (Vec<u8>, Read) {
    let mut events = Event::all(text);
    events.sort_by_cached_key(|event| event.time);
    let mut builder = Builder::default();
    // The slices of a task on a CPU, which flows connect with outliers.
    let mut runs: BTreeMap<(u32, i32), Vec<usize>> = BTreeMap::new();
    let mut outliers: BTreeMap<u64, usize> = BTreeMap::new();
    let mut culprits = Vec::new();
    for event in &events {
        builder.read.events += 1;
        if add_event(&mut builder, event, &mut runs, &mut outliers).is_some() {
            culprits.extend((event.name == "culprit").then_some(event));
        }
    }
    builder.settle();
    let mut flow = 0;
    for event in culprits {
        let id: Option<u64> = event.number("id");
        let outlier = id.and_then(|id| outliers.get(&id)).copied();
        let (Some(outlier), Some((pid, comm))) = (outlier, event.task()) else {
            continue;
        };
        let (begin, end) = {
            let slice = &builder.slices[outlier];
            (slice.begin, slice.begin.saturating_add(slice.duration))
        };
        let ran: u64 = event.number("ran_ns").unwrap_or_default();
        builder.slices[outlier]
            .notes
            .push(Note::Text("culprit", format!("{comm}:{pid} ran {ran} ns")));
        let key = event.number("cpu").map(|cpu| (cpu, pid));
        let slices = key.and_then(|key| runs.get(&key));
        let overlap = |slice: &Slice| {
            let last = slice.begin.saturating_add(slice.duration).min(end);
            last.saturating_sub(slice.begin.max(begin))
        };
        // The slice that took most of the wait.
        let longest = slices.into_iter().flatten().copied();
        let longest = longest.max_by_key(|place| overlap(&builder.slices[*place]));
        if let Some(place) = longest.filter(|place| overlap(&builder.slices[*place]) > 0) {
            flow += 1;
            // trace_processor drops a flow that ends before it begins.
            let mut ends = [outlier, place];
            ends.sort_unstable_by_key(|end| (builder.slices[*end].begin, *end));
            builder.slices[ends[0]].from.push(flow);
            builder.slices[ends[1]].to.push(flow);
        }
    }
    for slice in &builder.slices {
        builder.trace.slice(slice);
    }
    (builder.trace.finish(), builder.read)
}

/// Adds the slices of an event; `None` if it lacks a field.
fn add_event(
    builder: &mut Builder,
    event: &Event,
    runs: &mut BTreeMap<(u32, i32), Vec<usize>>,
    outliers: &mut BTreeMap<u64, usize>,
) -> Option<()> {
    let cpu: u32 = event.number("cpu")?;
    if event.name == "culprit" {
        return Some(());
    }
    let duration: u64 = event.number("duration_ns")?;
    let cause = event.text("cause").to_owned();
    match event.name {
        "oncpu" => {
            let (pid, comm) = event.task()?;
            let track = builder.thread(pid, &comm);
            let place = builder.slice(track, event.time, duration, "running".to_owned());
            let notes = &mut builder.slices[place].notes;
            notes.push(Note::Number("cpu", u64::from(cpu)));
            notes.push(Note::Text("end", cause));
            notes.extend(event.group());
            runs.entry((cpu, pid)).or_default().push(place);
            let track = builder.cpu(cpu);
            builder.slice(track, event.time, duration, format!("{comm}:{pid}"));
        }
        "idle" => {
            let track = builder.cpu(cpu);
            builder.slice(track, event.time, duration, "idle".to_owned());
        }
        "runq" | "throttled" => {
            let (pid, comm) = event.task()?;
            let track = builder.waits(pid, &comm);
            let name = if event.name == "runq" {
                format!("waiting, {cause}")
            } else {
                "throttled".to_owned()
            };
            let place = builder.slice(track, event.time, duration, name);
            let note = Note::Number("cpu", u64::from(cpu));
            builder.slices[place].notes.push(note);
            builder.slices[place].notes.extend(event.group());
        }
        _ => {
            let (pid, comm) = event.task()?;
            let name = format!("{} of {comm}:{pid}", event.text("metric"));
            // The exact end, if it is by the same clock.
            let exact: Option<u64> = event.number("end_ns");
            let exact = exact.filter(|exact| exact.abs_diff(event.time) <= LATE);
            let end = exact.unwrap_or(event.time);
            let track = builder.lane(cpu, end.saturating_sub(duration), end);
            let place = builder.slice(track, end, duration, name);
            builder.slices[place].notes.extend(event.group());
            outliers.insert(event.number("id")?, place);
        }
    }
    Some(())
}
