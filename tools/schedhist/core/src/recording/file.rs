// SPDX-License-Identifier: GPL-2.0

//! The header and the chunks of a recording.

use std::{
    fmt,
    io::{self, Read, Write},
};

use flate2::{read::DeflateDecoder, write::DeflateEncoder, Compression};

use crate::{
    raw::{self, DecodeError, Groups, LongWaits, Snapshot},
    recording::{delta, early, progress},
    text, varint,
};

/// The first bytes of a recording: magic and version.
pub const MAGIC: [u8; 16] = *b"SCHDHREC\x01\0\0\0\0\0\0\0";

/// Returns whether a file that begins so is a recording, even of another version. A single byte may
/// be damaged.
pub fn is_recording(begin: &[u8]) -> bool {
    let right = begin.iter().zip(&MAGIC[..8]).filter(|(a, b)| a == b);
    right.count() >= 7
}

/// The length of a chunk's head: type, length of its contents, checksum, each with 32 bits.
const HEAD: usize = 12;

const INFO: u32 = 1;
const WHOLE: u32 = 2;
const DELTA: u32 = 3;
const MARK: u32 = 4;
const RUN: u32 = 5;
const GROUPS: u32 = 6;
const OUTLIERS: u32 = 7;
const IN_PROGRESS: u32 = 8;
const RAW_GROUPS: u32 = 9;
const LONG_WAITS: u32 = 10;
const DEFLATED_OUTLIERS: u32 = 11;

/// The greatest length of a chunk's contents: 256 MiB.
const LONGEST: u32 = 1 << 28;

/// There is a whole snapshot at least so often, in nanoseconds: a damaged byte costs no more.
const WHOLE_EVERY: u64 = 60_000_000_000;

/// How many bytes are read at once, at least.
const PIECE: usize = 1 << 16;

/// How many bytes of wrong chunks are checksummed at most, in search of right ones: 4 GiB.
const MOST_TRIED: u64 = 1 << 32;

const CUT: &str = "its last part is cut off";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedSnapshot {
    /// The wall-clock time at which it was taken, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// How long it took to read the snapshot from the module, in nanoseconds.
    pub read_ns: u64,
    pub snapshot: Snapshot,
}

/// A part of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `key value` lines that describe the machine.
    Info(String),
    /// A snapshot. After [`Item::Mark`] or [`Item::Lost`], it may be of another load of the module.
    Snapshot(TimedSnapshot),
    /// What happened between two snapshots, such as a gap, in words.
    Mark(String),
    /// A run of a command: `key value` lines, and histograms in text.
    Run(String),
    /// The groups at the time of the snapshot before.
    Groups(Groups),
    /// Outliers that were new in the file `outliers` at the time of the snapshot before.
    Outliers(String),
    /// A part that cannot be read, and the snapshots that build on it. The snapshot that follows,
    /// if there is one, is not compared with the one before.
    Lost(Lost),
}

/// A part of a recording that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub why: String,
    /// The offset in the file.
    pub at: u64,
    /// The number of bytes that are of no use: what is damaged, and what builds on it.
    pub bytes: u64,
    /// The number of snapshots that build on what is damaged.
    pub snapshots: u64,
    /// The time between the snapshots around it in nanoseconds, if it is known.
    pub span: Option<u64>,
    /// Whether it is only the last chunk, cut off: what `record` leaves if it is killed.
    pub is_cut: bool,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (why, bytes) = (&self.why, self.bytes);
        if self.is_cut {
            return write!(f, "{why}, {bytes} bytes; all before it was read");
        }
        write!(f, "{why} at byte {}: {bytes} bytes are lost", self.at)?;
        match (self.span, self.snapshots) {
            (Some(ns), _) => write!(f, ", and {:.1} s between two snapshots", ns as f64 / 1e9),
            (None, 0) => Ok(()),
            (None, number) => write!(f, ", and {number} snapshots"),
        }
    }
}

/// The checksum of a chunk: FNV-1a with 32 bits over type, length and contents.
fn checksum(kind: u32, contents: &[u8]) -> u32 {
    let length = (contents.len() as u32).to_le_bytes();
    let head = kind.to_le_bytes().into_iter().chain(length);
    let bytes = head.chain(contents.iter().copied());
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns a chunk, head and contents.
fn chunk(kind: u32, contents: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(HEAD + contents.len());
    chunk.extend(kind.to_le_bytes());
    chunk.extend((contents.len() as u32).to_le_bytes());
    chunk.extend(checksum(kind, contents).to_le_bytes());
    chunk.extend(contents);
    chunk
}

/// Encodes long waits: as LEB128, the limit, how many there are, their parts and causes.
fn long_waits(waits: &LongWaits) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [waits.limit].into_iter().chain(waits.sums.0) {
        varint::write(&mut out, number.into());
    }
    out
}

/// Decodes long waits; `None` if `data` is not valid.
fn decode_long_waits(data: &[u8]) -> Option<LongWaits> {
    let mut input = raw::Reader(data);
    let mut waits = LongWaits {
        limit: input.leb64()?,
        ..LongWaits::default()
    };
    for sum in &mut waits.sums.0 {
        *sum = input.leb64()?;
    }
    Some(waits)
}

/// Appends to a recording: what its output fails with, its methods return. Each chunk is written by
/// a single call of `write_all`.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    last: Option<Snapshot>,
    /// The module's time of the last snapshot that was stored as a whole.
    whole: u64,
}

impl<W: Write> Recorder<W> {
    pub fn new(out: W) -> io::Result<Self> {
        let mut recorder = Self::append(out);
        recorder.begin()?;
        Ok(recorder)
    }

    pub fn begin(&mut self) -> io::Result<()> {
        self.out.write_all(&MAGIC)
    }

    /// Goes on with a recording whose header exists already.
    pub fn append(out: W) -> Self {
        Self {
            out,
            last: None,
            whole: 0,
        }
    }

    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Appends `key value` lines that describe the machine.
    pub fn info(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(INFO, text.as_bytes()))
    }

    /// Appends what happened, in words.
    pub fn mark(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(MARK, text.as_bytes()))
    }

    pub fn run(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(RUN, text.as_bytes()))
    }

    /// Appends the groups of the last snapshot, which `bytes` encode, if tasks are grouped.
    pub fn groups(&mut self, bytes: &[u8]) -> io::Result<()> {
        match raw::only_groups(bytes) {
            Some(groups) => self.out.write_all(&chunk(RAW_GROUPS, &groups)),
            None => Ok(()),
        }
    }

    /// Appends outliers that are new since the snapshot before the last one.
    pub fn outliers(&mut self, text: &str) -> io::Result<()> {
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
        deflated.write_all(text.as_bytes())?;
        let deflated = deflated.finish()?;
        self.out.write_all(&chunk(DEFLATED_OUTLIERS, &deflated))
    }

    /// Appends a snapshot, which `bytes` encode. It is stored as a whole if it is the first one, if
    /// the last whole one is a minute old, or if it cannot be a later one of the same load of the
    /// module.
    pub fn snapshot(&mut self, taken: &TimedSnapshot, bytes: &[u8]) -> io::Result<()> {
        let mut contents = Vec::new();
        contents.extend(taken.unix_ns.to_le_bytes());
        contents.extend(taken.read_ns.to_le_bytes());
        let time = taken.snapshot.time;
        let is_due = time.saturating_sub(self.whole) >= WHOLE_EVERY;
        let last = self.last.as_ref().filter(|_| !is_due);
        let delta = last.and_then(|last| delta::encode(last, &taken.snapshot));
        let kind = match delta {
            Some(delta) => {
                if let Some(progress) = progress::encode(&taken.snapshot) {
                    self.out.write_all(&chunk(IN_PROGRESS, &progress))?;
                }
                let waits = taken.snapshot.long_waits;
                if let Some(waits) = waits.filter(|_| last.is_some_and(|it| it.long_waits != waits))
                {
                    self.out
                        .write_all(&chunk(LONG_WAITS, &long_waits(&waits)))?;
                }
                contents.extend(delta);
                DELTA
            }
            None => {
                contents.extend(bytes);
                self.whole = time;
                WHOLE
            }
        };
        self.out.write_all(&chunk(kind, &contents))?;
        self.last = Some(taken.snapshot.clone());
        Ok(())
    }

    /// Makes the next snapshot be stored as a whole.
    pub fn restart(&mut self) {
        self.last = None;
    }
}

/// Reads a recording, item by item. Behind damage, it goes on at the next chunk whose checksum is
/// right.
#[derive(Debug)]
pub struct Player<R> {
    input: R,
    /// A part of the input, and how much of it is done with.
    buffer: Vec<u8>,
    done: usize,
    /// The offset of `buffer` in the file.
    offset: u64,
    is_at_end: bool,
    /// Why the input cannot be read to its end.
    failed: Option<String>,
    /// The number of bytes of wrong chunks that were checksummed.
    tried: u64,
    last: Option<Snapshot>,
    /// What is being lost: differences are of no use until the next whole snapshot.
    losing: Option<Lost>,
    next: Option<Item>,
    /// What is in progress at the next snapshot.
    progress: Option<Vec<u8>>,
    /// The long waits at the next snapshot, if they are others than at the one before.
    long_waits: Option<LongWaits>,
    is_difference: bool,
}

impl<R: Read> Player<R> {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// Fails if the input is not a recording, or cannot be read.
    pub fn new(mut input: R) -> Result<Self, DecodeError> {
        let mut magic = [0; MAGIC.len()];
        let read = input.read_exact(&mut magic);
        let wrong = magic.iter().zip(MAGIC).filter(|(a, b)| *a != b).count();
        // A single byte may be damaged, unless it is the version.
        if read.is_err() || wrong > 1 || magic[8] != MAGIC[8] {
            let what = if magic.starts_with(b"SCHDHREC") {
                "a recording of another version"
            } else {
                "not a recording of schedhist"
            };
            return Err(DecodeError(what.to_owned()));
        }
        let damage = (wrong != 0).then(|| Lost {
            why: "its head is wrong".to_owned(),
            bytes: 1,
            ..Lost::default()
        });
        Ok(Self {
            input,
            buffer: Vec::new(),
            done: 0,
            offset: MAGIC.len() as u64,
            is_at_end: false,
            failed: None,
            tried: 0,
            last: None,
            losing: None,
            next: damage.map(Item::Lost),
            progress: None,
            long_waits: None,
            is_difference: false,
        })
    }

    /// Returns whether the last snapshot was stored as its differences from the one before: then it
    /// is of the same load of the module, and nothing has decreased.
    pub fn is_difference(&self) -> bool {
        self.is_difference
    }

    /// Returns the next item; `None` at the end.
    pub fn next_item(&mut self) -> Option<Item> {
        if let Some(item) = self.next.take() {
            return Some(item);
        }
        while let Some((kind, length)) = self.chunk() {
            let begin = self.position();
            self.done += HEAD + length;
            let contents = self.buffer[self.done - length..self.done].to_vec();
            match self.item(kind, contents) {
                // A whole one: what follows builds on it.
                Ok(Some(item @ Item::Snapshot(_))) if self.losing.is_some() => {
                    self.next = Some(item);
                    break;
                }
                Ok(Some(item)) => return Some(item),
                // A chunk of a later version.
                Ok(None) => {}
                Err(why) => {
                    let lost = self.lose(begin, &why);
                    lost.snapshots += u64::from(kind == WHOLE || kind == DELTA);
                }
            }
        }
        self.losing.take().map(Item::Lost)
    }

    /// Returns the offset in the file of what is next.
    fn position(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Counts what is between `begin` and here as lost.
    fn lose(&mut self, begin: u64, why: &str) -> &mut Lost {
        let bytes = self.position() - begin;
        let lost = self.losing.get_or_insert_with(|| Lost {
            why: why.to_owned(),
            at: begin,
            ..Lost::default()
        });
        lost.bytes += bytes;
        lost
    }

    /// Reads on until `length` bytes are there to work on. Returns whether they are.
    fn fill(&mut self, length: usize) -> bool {
        let there = self.buffer.len() - self.done;
        if there < length && !self.is_at_end {
            self.buffer.drain(..self.done);
            self.offset += self.done as u64;
            self.done = 0;
            let wanted = (length - there).max(PIECE) as u64;
            let mut limited = (&mut self.input).take(wanted);
            match limited.read_to_end(&mut self.buffer) {
                Ok(read) => self.is_at_end = (read as u64) < wanted,
                Err(error) => {
                    self.is_at_end = true;
                    self.failed = Some(format!("cannot be read on: {}", text::of_error(&error)));
                }
            }
        }
        self.buffer.len() - self.done >= length
    }

    /// Goes to the next chunk whose checksum is right. Returns its type and the length of its
    /// contents; `None` at the end of the file.
    fn chunk(&mut self) -> Option<(u32, usize)> {
        let begin = self.position();
        let mut wrong = None;
        while self.fill(1) {
            match self.chunk_here() {
                Ok(found) => {
                    if let Some(why) = wrong {
                        self.lose(begin, why);
                    }
                    return Some(found);
                }
                Err(why) => wrong = wrong.or(Some(why)),
            }
            self.skip();
        }
        if let Some(why) = self.failed.take() {
            self.lose(begin, &why);
        } else if let Some(why) = wrong {
            let is_first = self.losing.is_none();
            self.lose(begin, why).is_cut = is_first && why == CUT;
        }
        None
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = &self.buffer[self.done + at..];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// Returns the type and the length of the contents of the chunk that begins here, or what is
    /// wrong with it.
    fn chunk_here(&mut self) -> Result<(u32, usize), &'static str> {
        if !self.fill(HEAD) {
            return Err(CUT);
        }
        let (kind, length, sum) = (self.word(0), self.word(4), self.word(8));
        if length > LONGEST {
            return Err("a length is wrong");
        }
        let length = length as usize;
        if !self.fill(HEAD + length) {
            return Err(CUT);
        }
        let begin = self.done + HEAD;
        if checksum(kind, &self.buffer[begin..begin + length]) != sum {
            self.tried += length as u64;
            return Err("a checksum is wrong");
        }
        Ok((kind, length))
    }

    /// Goes on to what may be the head of a chunk, which begins with a small number.
    fn skip(&mut self) {
        self.done += 1;
        while self.fill(HEAD) && self.tried <= MOST_TRIED {
            if (1..=255).contains(&self.word(0)) && self.word(4) <= LONGEST {
                return;
            }
            self.done += 1;
        }
        // Too short for a chunk, or not worth it.
        while self.fill(1) {
            self.done = self.buffer.len();
        }
    }

    fn item(&mut self, kind: u32, contents: Vec<u8>) -> Result<Option<Item>, String> {
        let text = |contents: Vec<u8>| raw::printable_lines(&contents);
        Ok(Some(match kind {
            INFO => Item::Info(text(contents)),
            MARK => Item::Mark(text(contents)),
            RUN => Item::Run(text(contents)),
            // Counts, as of a snapshot: another load of the module may have begun meanwhile.
            GROUPS | RAW_GROUPS if self.losing.is_some() => return Err("lost".to_owned()),
            GROUPS => return Ok(early::groups(&text(contents)).map(Item::Groups)),
            RAW_GROUPS => {
                let groups = raw::groups(&contents).map_err(|error| error.to_string())?;
                return Ok(groups.map(Item::Groups));
            }
            OUTLIERS => Item::Outliers(text(contents)),
            DEFLATED_OUTLIERS => {
                let mut inflated = Vec::new();
                // A few bytes may claim to be more than memory.
                let mut input = DeflateDecoder::new(&*contents).take(LONGEST.into());
                match input.read_to_end(&mut inflated) {
                    Ok(length) if length < LONGEST as usize => Item::Outliers(text(inflated)),
                    _ => return Err("outliers are not valid".to_owned()),
                }
            }
            IN_PROGRESS => {
                self.progress = Some(contents);
                return Ok(None);
            }
            LONG_WAITS => {
                self.long_waits = decode_long_waits(&contents);
                return match self.long_waits {
                    Some(_) => Ok(None),
                    None => Err("the long waits are not valid".to_owned()),
                };
            }
            WHOLE | DELTA => Item::Snapshot(self.taken(kind, &contents)?),
            _ => return Ok(None),
        }))
    }

    fn taken(&mut self, kind: u32, contents: &[u8]) -> Result<TimedSnapshot, String> {
        let mut head = raw::Reader(contents);
        let (Some(unix_ns), Some(read_ns)) = (head.u64(), head.u64()) else {
            return Err("a snapshot has no time".to_owned());
        };
        let progress = self.progress.take();
        let last = self.last.as_ref();
        let mut snapshot = if kind == WHOLE {
            raw::decode(head.0).map_err(|error| error.to_string())?
        } else {
            let base = last.filter(|_| self.losing.is_none());
            base.and_then(|base| delta::decode(base, head.0))
                .ok_or("a difference is wrong")?
        };
        if let (Some(progress), DELTA) = (progress, kind) {
            progress::decode(&mut snapshot, &progress)
                .ok_or("what is in progress at a snapshot is not valid")?;
        }
        // Differences do not tell.
        snapshot.offline = None;
        let waits = self.long_waits.take();
        if kind == DELTA {
            snapshot.long_waits = waits.or(last.and_then(|last| last.long_waits));
        }
        if let Some(lost) = &mut self.losing {
            lost.span = last.and_then(|last| snapshot.time.checked_sub(last.time));
        }
        self.last = Some(snapshot.clone());
        self.is_difference = kind == DELTA;
        Ok(TimedSnapshot {
            unix_ns,
            read_ns,
            snapshot,
        })
    }
}
