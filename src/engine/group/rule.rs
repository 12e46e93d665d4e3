// SPDX-License-Identifier: GPL-2.0

//! Rules: what the tasks of a group have in common.

use core::fmt;

use crate::engine::format::{
    input::words,
    number,
    split_word,
    Escaped, //
};

/// The rule by which tasks are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule<'a> {
    /// Tasks are not grouped.
    None,
    /// Their cgroup in the default hierarchy (v2).
    Cgroup {
        /// The path of the cgroup below which tasks are grouped, as `/proc/PID/cgroup` shows it.
        under: &'a [u8],
        /// The number of levels below `under` that count.
        depth: u32,
    },
    /// Their thread's name.
    Comm,
    /// Their process.
    Process(Pids<'a>),
    /// They are the same thread.
    Thread(Pids<'a>),
    /// They match the same rule of a [list](crate::engine::group::list).
    List,
}

impl<'a> Rule<'a> {
    /// The text that [`Rule::parse`] accepts, for error messages.
    pub const EXPECTED: &'static str = "none, cgroup [under PATH] [depth N], comm, \
                                          process [PID...], thread [PID...], or list";

    /// The depth of all levels.
    pub const ALL_LEVELS: u32 = u32::MAX;

    /// Parses a rule. Returns `None` if `text` is not a rule.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (first, rest) = split_word(text)?;
        let mut words = rest
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let rule = match first {
            b"none" => Self::None,
            b"process" => return Pids::parse(rest).map(Self::Process),
            b"thread" => return Pids::parse(rest).map(Self::Thread),
            b"comm" => Self::Comm,
            b"list" => Self::List,
            b"cgroup" => {
                let (mut under, mut depth) = (None, None);
                while let Some(word) = words.next() {
                    let value = words.next()?;
                    match word {
                        b"under" if under.is_none() && is_path(value) => under = Some(value),
                        b"depth" if depth.is_none() => depth = Some(Self::parse_depth(value)?),
                        _ => return None,
                    }
                }
                Self::Cgroup {
                    under: under.unwrap_or(b"/"),
                    depth: depth.unwrap_or(Self::ALL_LEVELS),
                }
            }
            _ => return None,
        };
        words.next().is_none().then_some(rule)
    }

    fn parse_depth(word: &[u8]) -> Option<u32> {
        let depth = number(word)?;
        (1..u64::from(Self::ALL_LEVELS))
            .contains(&depth)
            .then_some(depth as u32)
    }
}

/// Returns whether `word` can be the path of a cgroup.
pub(super) fn is_path(word: &[u8]) -> bool {
    word.starts_with(b"/")
        && !word
            .iter()
            .any(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

/// Writes the rule as [`Rule::parse`] reads it. Only in a path with bytes that are not printable
/// are these written as `\xNN`; a backslash, which systemd has in its names, stays as it is.
impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Comm => f.write_str("comm"),
            Self::List => f.write_str("list"),
            Self::Process(pids) => write!(f, "process{pids}"),
            Self::Thread(pids) => write!(f, "thread{pids}"),
            Self::Cgroup { under, depth } => {
                f.write_str("cgroup")?;
                if under != b"/" {
                    f.write_str(" under ")?;
                    let mut separator = "";
                    for part in under.split(|byte| *byte == b'\\') {
                        write!(f, "{separator}{}", Escaped(part))?;
                        separator = "\\";
                    }
                }
                if depth != Self::ALL_LEVELS {
                    write!(f, " depth {depth}")?;
                }
                Ok(())
            }
        }
    }
}

/// The PIDs of processes; none stands for all processes.
///
/// # Invariants
///
/// The text consists of at most [`Pids::MAX`] PIDs, with white space or commas between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pids<'a>(&'a [u8]);

impl<'a> Pids<'a> {
    /// The maximum number of PIDs.
    pub const MAX: usize = 64;

    /// The kernel allocates PIDs below this number only.
    const LIMIT: u64 = 1 << 22;

    /// Parses PIDs. Returns `None` if a word is not a PID, if there are too many, and if there are
    /// only commas: then some command has found no process, and all are not meant.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let mut count: usize = 0;
        for word in words(text) {
            Self::parse_one(word)?;
            count += 1;
        }
        let is_empty = count == 0 && !text.is_empty();
        // INVARIANT: These are as many PIDs.
        (count <= Self::MAX && !is_empty).then_some(Self(text))
    }

    fn parse_one(word: &[u8]) -> Option<i32> {
        let pid = number(word)?;
        (1..Self::LIMIT).contains(&pid).then_some(pid as i32)
    }

    /// Returns the text that was parsed.
    pub fn text(&self) -> &'a [u8] {
        self.0
    }

    /// Iterates over the PIDs.
    pub fn iter(&self) -> impl Iterator<Item = i32> + 'a {
        words(self.0).filter_map(Self::parse_one)
    }
}

/// Writes each PID after a space.
impl fmt::Display for Pids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|pid| write!(f, " {pid}"))
    }
}
