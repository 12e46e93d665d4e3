// SPDX-License-Identifier: GPL-2.0

//! Writes traces for Perfetto: messages of the type `perfetto.protos.Trace`, with track events.
//!
//! - [`events`]: trace events in text. Slices of each task: running, waiting; tasks of each CPU;
//!   outliers, with flows between them and the slices of their culprits.
//! - [`counters`]: a recording. Counters of the machine and of each CPU; outliers.

pub mod counters;
pub mod events;

use std::collections::BTreeMap;

use schedhist_core::exposition::protobuf::{bytes, number, varint};

/// The sequence of packets: there is one.
const SEQUENCE: u64 = 1;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

/// A track, by a number that is unique in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Track(u64);

/// The unit of a counter.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Nanoseconds,
    /// A plain number.
    Count,
    /// A percentage.
    Percent,
}

/// A note on a slice.
#[derive(Clone, Debug)]
pub enum Note {
    Number(&'static str, u64),
    Text(&'static str, String),
}

#[derive(Clone, Debug)]
pub struct Slice {
    /// Its track. Slices of a track do not overlap.
    pub track: Track,
    /// Its begin, in nanoseconds.
    pub begin: u64,
    /// Its length, in nanoseconds.
    pub duration: u64,
    pub name: String,
    pub notes: Vec<Note>,
    /// The flows that lead from it.
    pub from: Vec<u64>,
    /// The flows that end at it.
    pub to: Vec<u64>,
}

/// Tracks of one name for slices that may overlap, each with the end of its last one.
#[derive(Debug, Default)]
struct Lanes(Vec<(Track, u64)>);

impl Lanes {
    /// Returns the first one that is free, or a new one.
    fn take(&mut self, begin: u64, end: u64, new: impl FnOnce() -> Track) -> Track {
        match self.0.iter_mut().find(|(_, busy)| *busy <= begin) {
            Some((track, busy)) => {
                *busy = end;
                *track
            }
            None => {
                let track = new();
                self.0.push((track, end));
                track
            }
        }
    }
}

/// A trace as it grows.
#[derive(Debug, Default)]
pub struct Trace {
    descriptors: Vec<u8>,
    /// Time, order at that time, and packet.
    packets: Vec<(u64, u8, Vec<u8>)>,
    tracks: u64,
    /// The time and the value that each counter was set to last.
    counters: BTreeMap<Track, (u64, u64)>,
}

impl Trace {
    /// Creates a track below another one, or at the top.
    pub fn track(&mut self, parent: Option<Track>, name: &str) -> Track {
        self.describe(parent, name, |_| {})
    }

    /// Creates the track of a thread.
    pub fn thread(&mut self, tid: i32, name: &str) -> Track {
        // The events do not say to which process a thread belongs.
        let id = u64::try_from(tid).unwrap_or_default();
        self.describe(None, "", |out| {
            let mut thread = Vec::new();
            number(&mut thread, 1, id);
            number(&mut thread, 2, id);
            bytes(&mut thread, 5, name.as_bytes());
            bytes(out, 4, &thread);
        })
    }

    /// Creates the track of a counter.
    pub fn counter(&mut self, parent: Option<Track>, name: &str, unit: Unit) -> Track {
        self.describe(parent, name, |out| {
            let mut counter = Vec::new();
            match unit {
                Unit::Nanoseconds => number(&mut counter, 3, 1),
                Unit::Count => number(&mut counter, 3, 2),
                Unit::Percent => bytes(&mut counter, 6, b"%"),
            }
            bytes(out, 8, &counter);
        })
    }

    fn describe(
        &mut self,
        parent: Option<Track>,
        name: &str,
        more: impl FnOnce(&mut Vec<u8>),
    ) -> Track {
        self.tracks += 1;
        let mut track = Vec::new();
        number(&mut track, 1, self.tracks);
        if !name.is_empty() {
            bytes(&mut track, 2, name.as_bytes());
        }
        if let Some(Track(parent)) = parent {
            number(&mut track, 5, parent);
        }
        more(&mut track);
        let mut packet = Vec::new();
        number(&mut packet, 10, SEQUENCE);
        if self.tracks == 1 {
            // The state of the sequence begins here.
            number(&mut packet, 13, 1);
        }
        bytes(&mut packet, 60, &track);
        bytes(&mut self.descriptors, 1, &packet);
        Track(self.tracks)
    }

    fn event(&mut self, time: u64, order: u8, event: &[u8]) {
        let mut packet = Vec::new();
        number(&mut packet, 8, time);
        number(&mut packet, 10, SEQUENCE);
        bytes(&mut packet, 11, event);
        let mut out = Vec::new();
        bytes(&mut out, 1, &packet);
        self.packets.push((time, order, out));
    }

    /// Sets a counter from a time on. Takes no memory if that is its value already.
    pub fn count(&mut self, track: Track, time: u64, value: u64) {
        let last = self.counters.insert(track, (time, value));
        // After a reboot, time begins anew.
        if last.is_some_and(|last| last.1 == value && last.0 <= time) {
            return;
        }
        let mut event = Vec::new();
        number(&mut event, 9, COUNTER);
        number(&mut event, 11, track.0);
        number(&mut event, 30, value);
        self.event(time, 1, &event);
    }

    /// Adds a slice. One without a length is left out.
    pub fn slice(&mut self, slice: &Slice) {
        if slice.duration == 0 {
            return;
        }
        let mut event = Vec::new();
        for note in &slice.notes {
            let mut one = Vec::new();
            match note {
                Note::Number(name, value) => {
                    number(&mut one, 3, *value);
                    bytes(&mut one, 10, name.as_bytes());
                }
                Note::Text(name, value) => {
                    bytes(&mut one, 6, value.as_bytes());
                    bytes(&mut one, 10, name.as_bytes());
                }
            }
            bytes(&mut event, 4, &one);
        }
        number(&mut event, 9, SLICE_BEGIN);
        number(&mut event, 11, slice.track.0);
        bytes(&mut event, 23, slice.name.as_bytes());
        for (field, flows) in [(47, &slice.from), (48, &slice.to)] {
            for flow in flows {
                varint(&mut event, (field << 3) | 1);
                event.extend(flow.to_le_bytes());
            }
        }
        self.event(slice.begin, 2, &event);
        let mut event = Vec::new();
        number(&mut event, 9, SLICE_END);
        number(&mut event, 11, slice.track.0);
        self.event(slice.begin.saturating_add(slice.duration), 0, &event);
    }

    /// Returns the trace: what ends at a time comes before what begins then.
    pub fn finish(mut self) -> Vec<u8> {
        self.packets
            .sort_by_cached_key(|(time, order, _)| (*time, *order));
        let mut out = self.descriptors;
        for (_, _, packet) in self.packets {
            out.extend(packet);
        }
        out
    }
}
