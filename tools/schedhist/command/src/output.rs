// SPDX-License-Identifier: GPL-2.0

//! Standard output and standard error.

use std::{
    fmt::Display,
    io::{self, Write},
};

use schedhist_core::units::{tenths, Unit};

use crate::error::{Error, Kind, Result};

/// Writes to standard output, at once.
pub fn print(text: &(impl AsRef<[u8]> + ?Sized)) -> Result {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    written.map_err(|error| Error::new(error).with_kind(Kind::Output))
}

/// Standard output of a verb that has a verdict. After the first error it writes nothing more, and
/// the verb goes on to its verdict.
#[derive(Debug, Default)]
pub struct Printer {
    error: Option<Error>,
}

impl Printer {
    pub fn print(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = print(text).err();
        }
    }

    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    pub fn end(self) -> Result {
        self.error.map_or(Ok(()), Err)
    }
}

/// Replaces what a terminal would take for a command, and ends of lines. A recording may come from
/// someone else.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Writes a note to standard error. Ignores errors: its reader may have gone.
pub fn note(text: impl Display) {
    let mut lines = String::new();
    // Messages of our own may have several lines.
    let text = text.to_string();
    let text: Vec<_> = text.split('\n').map(printable).collect();
    wrap(&mut lines, &format!("schedhist: {}", text.join("\n")));
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Prints what clap finds wrong with the arguments.
pub fn note_usage(error: &clap::Error) {
    let mut lines = String::new();
    for line in error.render().to_string().lines() {
        wrap(&mut lines, line);
    }
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// The columns of a screen.
pub const WIDTH: usize = 80;

/// Appends a text, broken at spaces so that no line is wider than the screen. Further lines are
/// indented.
pub fn wrap(out: &mut String, text: &str) {
    wrap_after(out, "", 2, text);
}

/// The same, after `begin`, with further lines indented by `indent`.
pub fn wrap_after(out: &mut String, begin: &str, indent: usize, text: &str) {
    out.push_str(begin);
    let mut column = begin.chars().count();
    for (place, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if place != 0 && column + 1 + width > WIDTH {
            *out += &format!("\n{:indent$}", "");
            column = indent;
        } else if place != 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

/// Appends a line of a share, in thousandths, and its time. What does not fit goes on below the
/// text.
pub fn share_line(out: &mut String, share: u32, ns: u64, text: &str) {
    let time = Unit::Fitting.text(Some(ns));
    let begin = format!("  {:>5}% {time:>8}  ", tenths(share));
    wrap_after(out, &begin, begin.len() + 2, text);
}
