// SPDX-License-Identifier: GPL-2.0

//! The header and the chunks of a recording.

use std::io::{
    self,
    Read,
    Write, //
};

use crate::{
    raw::{
        self,
        Broken,
        Snapshot, //
    },
    recording::delta, //
};

/// The first bytes of a recording: magic and version.
pub const MAGIC: [u8; 16] = *b"SCHDHREC\x01\0\0\0\0\0\0\0";

/// The length of a chunk's head: type, length of its contents, checksum, each with 32 bits.
const HEAD: usize = 12;

const INFO: u32 = 1;
const WHOLE: u32 = 2;
const DELTA: u32 = 3;
const MARK: u32 = 4;
const RUN: u32 = 5;
const GROUPS: u32 = 6;
const OUTLIERS: u32 = 7;

/// The greatest length of a chunk's contents: 1 GiB.
const LONGEST: u32 = 1 << 30;

/// A snapshot of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The wall-clock time at which it was taken, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// How long it took to read the snapshot from the module, in nanoseconds.
    pub read_ns: u64,
    /// The snapshot.
    pub snapshot: Snapshot,
}

/// A part of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `key value` lines that describe the machine.
    Info(String),
    /// A snapshot. After a [`Item::Mark`], it may belong to another load of the module.
    Snapshot(Taken),
    /// What happened between two snapshots, such as a gap, in words.
    Mark(String),
    /// A run of a command: `key value` lines, and histograms in text.
    Run(String),
    /// The file `groups` at the time of the snapshot before.
    Groups(String),
    /// Outliers that were new in the file `outliers` at the time of the snapshot before.
    Outliers(String),
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

/// Appends to a recording. Each chunk is written by a single call of `write_all`.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    last: Option<Snapshot>,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording.
    ///
    /// # Errors
    ///
    /// Fails if `out` does.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        Ok(Self { out, last: None })
    }

    /// Goes on with a recording whose header exists already.
    pub fn append(out: W) -> Self {
        Self { out, last: None }
    }

    /// Returns what it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Appends `key value` lines that describe the machine.
    ///
    /// # Errors
    ///
    /// Fails if the output does.
    pub fn info(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(INFO, text.as_bytes()))
    }

    /// Appends what happened, in words.
    ///
    /// # Errors
    ///
    /// Fails if the output does.
    pub fn mark(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(MARK, text.as_bytes()))
    }

    /// Appends a run of a command.
    ///
    /// # Errors
    ///
    /// Fails if the output does.
    pub fn run(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(RUN, text.as_bytes()))
    }

    /// Appends the file `groups`, as it was at the last snapshot.
    ///
    /// # Errors
    ///
    /// Fails if the output does.
    pub fn groups(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(GROUPS, text.as_bytes()))
    }

    /// Appends outliers that are new since the snapshot before the last one.
    ///
    /// # Errors
    ///
    /// Fails if the output does.
    pub fn outliers(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(&chunk(OUTLIERS, text.as_bytes()))
    }

    /// Appends a snapshot, which `bytes` encode. It is stored as a whole if it is the first one, or
    /// if it cannot be a later one of the same load of the module.
    ///
    /// # Errors
    ///
    /// Fails if the output does.
    pub fn snapshot(&mut self, taken: &Taken, bytes: &[u8]) -> io::Result<()> {
        let mut contents = Vec::new();
        contents.extend(taken.unix_ns.to_le_bytes());
        contents.extend(taken.read_ns.to_le_bytes());
        let delta = self
            .last
            .as_ref()
            .and_then(|last| delta::encode(last, &taken.snapshot));
        let kind = match delta {
            Some(delta) => {
                contents.extend(delta);
                DELTA
            }
            None => {
                contents.extend(bytes);
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

/// Reads a recording, item by item.
#[derive(Debug)]
pub struct Player<R> {
    input: R,
    last: Option<Snapshot>,
    /// Why the recording ended before its end, if it did.
    lost: Option<String>,
    done: bool,
}

impl<R: Read> Player<R> {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// Fails if the input is not a recording, or cannot be read.
    pub fn new(mut input: R) -> Result<Self, Broken> {
        let mut magic = [0; MAGIC.len()];
        let read = input.read_exact(&mut magic);
        if read.is_err() || magic != MAGIC {
            let what = if magic.starts_with(b"SCHDHREC") {
                "a recording of another version"
            } else {
                "not a recording of schedhist"
            };
            return Err(Broken(what.to_owned()));
        }
        Ok(Self {
            input,
            last: None,
            lost: None,
            done: false,
        })
    }

    /// Returns why the rest of the recording cannot be read; `None` if it has been read to its end.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Returns the next item; `None` at the end. A chunk that is cut off or damaged is the end,
    /// too: see [`Player::lost`].
    pub fn next_item(&mut self) -> Option<Item> {
        while !self.done {
            match self.chunk() {
                Ok(Some((kind, contents))) => match self.item(kind, contents) {
                    Ok(Some(item)) => return Some(item),
                    // A chunk of a later version.
                    Ok(None) => {}
                    Err(why) => self.stop(&why),
                },
                Ok(None) => self.done = true,
                Err(why) => self.stop(&why),
            }
        }
        None
    }

    fn stop(&mut self, why: &str) {
        self.done = true;
        self.lost = Some(why.to_owned());
    }

    /// Reads a chunk; returns `None` at the end of the file.
    fn chunk(&mut self) -> Result<Option<(u32, Vec<u8>)>, String> {
        let wrong = |error: io::Error| format!("cannot be read on: {error}");
        let mut head = Vec::with_capacity(HEAD);
        let mut limited = (&mut self.input).take(HEAD as u64);
        limited.read_to_end(&mut head).map_err(wrong)?;
        if head.is_empty() {
            return Ok(None);
        }
        let Ok(head) = <[u8; HEAD]>::try_from(head) else {
            return Err("its last part is cut off".to_owned());
        };
        let word = |i: usize| {
            let bytes = [head[i], head[i + 1], head[i + 2], head[i + 3]];
            u32::from_le_bytes(bytes)
        };
        let (kind, length, sum) = (word(0), word(4), word(8));
        if length > LONGEST {
            return Err(format!("it has a part of {length} bytes"));
        }
        let mut contents = Vec::new();
        let mut limited = (&mut self.input).take(u64::from(length));
        limited.read_to_end(&mut contents).map_err(wrong)?;
        if contents.len() != length as usize {
            return Err("its last part is cut off".to_owned());
        }
        if checksum(kind, &contents) != sum {
            return Err("a checksum is wrong".to_owned());
        }
        Ok(Some((kind, contents)))
    }

    fn item(&mut self, kind: u32, contents: Vec<u8>) -> Result<Option<Item>, String> {
        let text = |contents: Vec<u8>| String::from_utf8_lossy(&contents).into_owned();
        Ok(Some(match kind {
            INFO => Item::Info(text(contents)),
            MARK => Item::Mark(text(contents)),
            RUN => Item::Run(text(contents)),
            GROUPS => Item::Groups(text(contents)),
            OUTLIERS => Item::Outliers(text(contents)),
            WHOLE | DELTA => Item::Snapshot(self.taken(kind, &contents)?),
            _ => return Ok(None),
        }))
    }

    fn taken(&mut self, kind: u32, contents: &[u8]) -> Result<Taken, String> {
        let mut head = raw::Reader(contents);
        let (Some(unix_ns), Some(read_ns)) = (head.u64(), head.u64()) else {
            return Err("it has a snapshot without a time".to_owned());
        };
        let snapshot = if kind == WHOLE {
            raw::decode(head.0).map_err(|error| error.to_string())?
        } else {
            let last = self.last.as_ref();
            last.and_then(|last| delta::decode(last, head.0))
                .ok_or("it has a bad difference")?
        };
        self.last = Some(snapshot.clone());
        Ok(Taken {
            unix_ns,
            read_ns,
            snapshot,
        })
    }
}
