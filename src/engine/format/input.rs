// SPDX-License-Identifier: GPL-2.0

//! Parses words and numbers written to the files.

use core::fmt;

use crate::engine::chain::{
    MAX_SLICES,
    MIN_SLICES, //
};

/// Returns the words of `text`, which are separated by commas or white space.
pub(in crate::engine) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_separator = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
    text.split(is_separator).filter(|word| !word.is_empty())
}

/// Parses the names of a set of bits, separated by commas or white space, or `none` alone.
///
/// A name may stand for several bits. Returns `None` if a word is not a name, or if there is no
/// word.
pub(in crate::engine) fn read_set(
    text: &[u8],
    names: impl Iterator<Item = (&'static str, u32)> + Clone,
) -> Option<u32> {
    let bits_of = |word: &[u8]| {
        let (_, bits) = names.clone().find(|(name, _)| name.as_bytes() == word)?;
        Some(bits)
    };
    let mut words = words(text);
    match (words.next()?, words.next()) {
        (b"none", None) => Some(0),
        (first, second) => {
            let mut rest = second.into_iter().chain(words);
            rest.try_fold(bits_of(first)?, |set, word| Some(set | bits_of(word)?))
        }
    }
}

/// Writes the names of the bits in `set`, separated by spaces, or `none` if there are none.
pub(in crate::engine) fn write_set(
    f: &mut fmt::Formatter<'_>,
    set: u32,
    names: impl Iterator<Item = (&'static str, u32)>,
) -> fmt::Result {
    let mut separator = "";
    for (name, _) in names.filter(|(_, bit)| set & bit != 0) {
        write!(f, "{separator}{name}")?;
        separator = " ";
    }
    match separator {
        "" => f.write_str("none"),
        _ => Ok(()),
    }
}

/// Splits the first word off, and the white space around it. Returns `None` if there is no word.
pub fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii();
    let end = text.iter().position(u8::is_ascii_whitespace);
    let (word, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    (!word.is_empty()).then_some((word, rest.trim_ascii()))
}

/// Parses a number of decimal digits only. Returns `None` for anything else, and for a number above
/// `u64::MAX`.
pub fn number(word: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(word).ok()?;
    // `parse()` would accept a sign.
    text.parse()
        .ok()
        .filter(|_| text.starts_with(|c: char| c.is_ascii_digit()))
}

/// The actions taken on an outlier, besides reporting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions(u32);

impl Actions {
    const TRACING_OFF: u32 = 1;
    const SNAPSHOT: u32 = 2;
    const NAMES: [(&'static str, u32); 2] = [
        ("tracing_off", Self::TRACING_OFF),
        ("snapshot", Self::SNAPSHOT),
    ];

    /// No actions.
    pub const NONE: Self = Self(0);

    /// Parses names of actions separated by commas or white space, or `none` alone. Returns `None`
    /// for anything else, and for `snapshot` if the kernel offers no snapshots (`has_snapshots` is
    /// false).
    pub fn parse(text: &[u8], has_snapshots: bool) -> Option<Self> {
        let offered = |&(_, bit): &(_, u32)| has_snapshots || bit != Self::SNAPSHOT;
        let names = Self::NAMES.into_iter().filter(offered);
        read_set(text, names).map(Self)
    }

    /// Returns whether an outlier stops the trace.
    pub const fn stops_tracing(self) -> bool {
        self.0 & Self::TRACING_OFF != 0
    }

    /// Returns whether an outlier takes a snapshot of the trace.
    pub const fn takes_snapshot(self) -> bool {
        self.0 & Self::SNAPSHOT != 0
    }

    /// Returns the set as a number, for [`Actions::from_bits`].
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Creates a set from a number. Ignores other bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & (Self::TRACING_OFF | Self::SNAPSHOT))
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_set(f, self.0, Self::NAMES.into_iter())
    }
}

/// A number that is at least 1, or `none`, which is stored as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrNone(pub u64);

impl OrNone {
    /// Parses `none`, or a number from 1 to `most`.
    pub fn parse(word: &[u8], most: u64) -> Option<Self> {
        if word == b"none" {
            return Some(Self(0));
        }
        number(word)
            .filter(|number| (1..=most).contains(number))
            .map(Self)
    }
}

impl fmt::Display for OrNone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("none"),
            number => write!(f, "{number}"),
        }
    }
}

/// How many slices are kept of each CPU for chains: a power of two, or 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices(u64);

impl Slices {
    /// The numbers that are accepted, for the kernel log.
    pub const EXPECTED: &'static str = "0, or a power of two from 16 to 65536";

    /// Returns the number of slices, unless it is none of [`Slices::EXPECTED`].
    pub fn new(slices: u64) -> Option<Self> {
        const { assert!(MIN_SLICES == 16 && MAX_SLICES == 65536) };
        let is_one = (MIN_SLICES..=MAX_SLICES).contains(&slices) && slices.is_power_of_two();
        (slices == 0 || is_one).then_some(Self(slices))
    }

    /// Parses a number.
    pub fn parse(word: &[u8]) -> Option<Self> {
        Self::new(number(word)?)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}
