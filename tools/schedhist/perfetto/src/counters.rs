// SPDX-License-Identifier: GPL-2.0

//! The counters of a recording: of each interval, for the machine and for each CPU.

use std::collections::BTreeMap;

use super::{Lanes, Note, Slice, Trace, Track, Unit};
use schedhist_core::{
    distribution::Quantile,
    engine::idle::WaitPart,
    raw::LongWaits,
    text::Outlier,
    units::{clamp, percent},
    window::Window,
};

/// The metrics of which the machine has quantiles.
const METRICS: [&str; 3] = ["runq", "oncpu", "offcpu"];

struct CpuTracks {
    busy: Track,
    switches: Track,
    p99: Track,
    max: Track,
}

/// A trace of counters as it grows.
#[derive(Default)]
pub struct Counters {
    trace: Trace,
    machine: BTreeMap<String, [Track; 3]>,
    switches: Option<Track>,
    /// Of a second: how long tasks waited long, and for how much of that CPUs were idle elsewhere.
    long_waits: Option<[Track; 2]>,
    cpus: BTreeMap<u32, CpuTracks>,
    lanes: Lanes,
    /// The tracks of the tasks in chains, by PID.
    hops: BTreeMap<i32, Lanes>,
    flows: u64,
    /// The end of the last interval.
    end: Option<u64>,
}

impl Counters {
    /// Adds an interval. Its counters hold from its beginning on. The times are those of the
    /// module's clock.
    pub fn push(&mut self, window: &Window) {
        let Some(span) = window.span.filter(|span| *span != 0) else {
            return;
        };
        let begin = window.end.saturating_sub(span);
        if self.end.is_some_and(|end| end < begin) {
            self.end();
        }
        self.end = Some(window.end);
        let rate = |count: u64| {
            let rate = u128::from(count) * 1_000_000_000 / u128::from(span);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let shares = ["50", "99"].map(Quantile::parse);
        for name in METRICS {
            let Some(metric) = window.names.metric(name) else {
                continue;
            };
            let all = window.distribution(metric, &|_| true);
            let trace = &mut self.trace;
            let tracks = self.machine.entry(name.to_owned()).or_insert_with(|| {
                ["p50", "p99", "max"]
                    .map(|what| trace.counter(None, &format!("{name} {what}"), Unit::Nanoseconds))
            });
            let values = shares.map(|share| share.and_then(|share| all.quantile_upper(share)));
            let values = [values[0], values[1], all.max.value()];
            for (track, value) in tracks.iter().zip(values) {
                trace.count(*track, begin, value.unwrap_or(0));
            }
        }
        let trace = &mut self.trace;
        let switches = self
            .switches
            .get_or_insert_with(|| trace.counter(None, "switches a second", Unit::Count));
        let all = window.counter("switches").unwrap_or_default();
        trace.count(*switches, begin, rate(all));
        // Once there are tracks, each interval has a value.
        let has_tracks = self.long_waits.is_some();
        let is_counted = |all: &LongWaits| has_tracks || all.limit != 0 || all.sums.waits() != 0;
        if let Some(all) = window.long_waits.filter(is_counted) {
            let tracks = *self.long_waits.get_or_insert_with(|| {
                ["long waits a second", "of these, idle elsewhere"]
                    .map(|name| trace.counter(None, name, Unit::Nanoseconds))
            });
            let part = |part| all.sums.part(part);
            let idle = part(WaitPart::LlcIdle).saturating_add(part(WaitPart::RemoteIdle));
            trace.count(tracks[0], begin, rate(part(WaitPart::Waited)));
            trace.count(tracks[1], begin, rate(idle));
        }
        let place = window.names.counter("switches");
        for cpu in &window.cpus {
            let number = cpu.number;
            let of = |name: &str| {
                let metric = window.names.metric(name);
                metric.map(|metric| window.distribution(metric, &|other| other == number))
            };
            let Some(runq) = of("runq") else {
                continue;
            };
            let trace = &mut self.trace;
            let tracks = self.cpus.entry(number).or_insert_with(|| {
                let parent = Some(trace.track(None, &format!("CPU {number}")));
                CpuTracks {
                    busy: trace.counter(parent, "busy", Unit::Percent),
                    switches: trace.counter(parent, "switches a second", Unit::Count),
                    p99: trace.counter(parent, "runq p99", Unit::Nanoseconds),
                    max: trace.counter(parent, "runq max", Unit::Nanoseconds),
                }
            });
            let busy = percent(clamp(window.busy(cpu)), span).min(100);
            let count = place.and_then(|place| cpu.counters.get(place)).copied();
            let p99 = shares[1].and_then(|share| runq.quantile_upper(share));
            trace.count(tracks.busy, begin, busy);
            trace.count(tracks.switches, begin, rate(count.unwrap_or_default()));
            trace.count(tracks.p99, begin, p99.unwrap_or(0));
            trace.count(tracks.max, begin, runq.max.value().unwrap_or(0));
        }
    }

    /// Adds an outlier, on a track where it overlaps no earlier one.
    pub fn outlier(&mut self, outlier: &Outlier) {
        let (Some(begin), Some(end)) = (outlier.start_ns, outlier.end_ns) else {
            return;
        };
        let trace = &mut self.trace;
        let new = || trace.track(None, "outliers");
        let track = self.lanes.take(begin, end, new);
        let mut notes = vec![
            Note::Number("duration_ns", outlier.duration_ns),
            Note::Number("cpu", u64::from(outlier.cpu)),
        ];
        notes.extend(outlier.culprits.iter().map(|culprit| {
            let text = format!("{}:{} ran {} ns", culprit.comm, culprit.pid, culprit.ran_ns);
            Note::Text("culprit", text)
        }));
        if let Some(idle) = &outlier.idle {
            notes.extend([
                Note::Number("idle_cpu", idle.cpu.into()),
                Note::Number("idle_ns", idle.ns),
                Note::Text("distance", idle.distance.clone()),
            ]);
        }
        self.trace.slice(&Slice {
            track,
            begin,
            duration: end.saturating_sub(begin),
            name: format!("{} of {}:{}", outlier.metric, outlier.comm, outlier.pid),
            notes,
            from: Vec::new(),
            to: Vec::new(),
        });
        self.chain(outlier, end);
    }

    /// Adds what each task in the chain of an outlier did before `end`, with flows from each to the
    /// one that it woke.
    fn chain(&mut self, outlier: &Outlier, mut end: u64) {
        let Some(chain) = &outlier.chain else {
            return;
        };
        // Without a length there is no slice.
        let hops: Vec<_> = chain.hops.iter().filter(|hop| hop.sum_ns() != 0).collect();
        let mut from = Vec::new();
        for (place, hop) in (1..).zip(&hops) {
            let begin = end.saturating_sub(hop.sum_ns());
            let trace = &mut self.trace;
            let name = hop.task();
            let lanes = self.hops.entry(hop.pid).or_default();
            let track = lanes.take(begin, end, || trace.track(None, &format!("chains: {name}")));
            self.flows += 1;
            let is_last = place == hops.len();
            let next = (!is_last).then_some(self.flows);
            self.trace.slice(&Slice {
                track,
                begin,
                duration: end - begin,
                name,
                notes: hop
                    .parts()
                    .into_iter()
                    .map(|(what, ns)| Note::Number(what, ns))
                    .collect(),
                from: std::mem::take(&mut from),
                to: next.into_iter().collect(),
            });
            from.extend(next);
            end = begin;
        }
    }

    /// Ends the last interval: no counter holds during a gap.
    fn end(&mut self) {
        let Some(end) = self.end.take() else { return };
        let of_cpu = |cpu: &CpuTracks| [cpu.busy, cpu.switches, cpu.p99, cpu.max];
        let tracks = self.machine.values().flatten().copied();
        let tracks = tracks.chain(self.switches);
        let tracks = tracks.chain(self.long_waits.into_iter().flatten());
        for track in tracks.chain(self.cpus.values().flat_map(of_cpu)) {
            self.trace.count(track, end, 0);
        }
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.end();
        self.trace.finish()
    }
}
