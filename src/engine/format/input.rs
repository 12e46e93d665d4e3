// SPDX-License-Identifier: GPL-2.0

//! What is written to the files that take words or numbers.

use core::fmt;

/// Returns the words of `text`, which are separated by commas or white space.
pub(in crate::engine) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_separator = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
    text.split(is_separator).filter(|word| !word.is_empty())
}

/// Returns whether `text` is the word `none`, and nothing else.
pub(in crate::engine) fn is_none(text: &[u8]) -> bool {
    let mut words = words(text);
    words.next() == Some(b"none") && words.next().is_none()
}

/// Reads a number of nothing but decimal digits, if it is one and not too large.
pub fn number(word: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(word).ok()?;
    // A sign would be fine with `parse`.
    text.parse()
        .ok()
        .filter(|_| text.starts_with(|c: char| c.is_ascii_digit()))
}

/// What is done at an outlier besides reporting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions(u32);

impl Actions {
    /// The name of each, in the order of their bits.
    const NAMES: [&'static str; 2] = ["tracing_off", "snapshot"];
    const TRACING_OFF: u32 = 1;
    const SNAPSHOT: u32 = 2;

    /// None.
    pub const NONE: Self = Self(0);

    /// Reads names separated by white space or commas, or `none` alone; `None` for anything else, and
    /// for `snapshot` where the kernel takes none.
    pub fn parse(text: &[u8], has_snapshots: bool) -> Option<Self> {
        if is_none(text) {
            return Some(Self::NONE);
        }
        let mut actions = None;
        for word in words(text) {
            let bit = match word {
                b"snapshot" if !has_snapshots => return None,
                _ => {
                    1 << Self::NAMES
                        .iter()
                        .position(|name| name.as_bytes() == word)?
                }
            };
            actions = Some(actions.unwrap_or(0) | bit);
        }
        actions.map(Self)
    }

    /// Says whether the trace is stopped.
    pub const fn stops_tracing(self) -> bool {
        self.0 & Self::TRACING_OFF != 0
    }

    /// Says whether a snapshot of the trace is taken.
    pub const fn takes_snapshot(self) -> bool {
        self.0 & Self::SNAPSHOT != 0
    }

    /// Returns them as a number, for [`Actions::from_bits`].
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Reads them back.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & (Self::TRACING_OFF | Self::SNAPSHOT))
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (bit, name) in Self::NAMES.into_iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{separator}{name}")?;
                separator = " ";
            }
        }
        if self.0 == 0 {
            f.write_str("none")?;
        }
        Ok(())
    }
}

/// A number from 1 up, or `none`, which is 0 in here and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrNone(pub u64);

impl OrNone {
    /// Reads `none`, or a number from 1 to `most`.
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
