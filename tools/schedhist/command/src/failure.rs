// SPDX-License-Identifier: GPL-2.0

//! How the command fails.

use std::{fmt::Display, io, path::Path};

use schedhist_core::raw::DecodeError;

/// Why the command ends early.
#[derive(Debug)]
pub enum Failure {
    /// The arguments are wrong: status 2.
    Usage(String),
    /// Something cannot be done: status 1. The text names the file and the remedy.
    Error(String),
    /// The output cannot be written: status 1, or 0 if only its reader has gone, as `head` does.
    Output(io::Error),
    /// Nothing is to be said: this status.
    Quiet(u8),
}

impl Failure {
    /// A failure whose text names `what`, such as a file.
    pub fn at(what: impl AsRef<Path>, why: impl Display) -> Self {
        Self::Error(format!("{}: {}", what.as_ref().display(), plain(why)))
    }

    /// Notes why the command ends. Returns its exit status.
    pub fn tell(self) -> u8 {
        match self {
            Self::Usage(text) => {
                note(format!("{text}; see schedhist --help"));
                2
            }
            Self::Error(text) => {
                note(text);
                1
            }
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(error) => {
                note(format!("cannot write the output: {error}"));
                1
            }
            Self::Quiet(status) => status,
        }
    }
}

/// Returns what an error says, without the number that the standard library appends to it.
pub fn plain(error: impl Display) -> String {
    let text = error.to_string();
    let number = text.split_once(" (os error ");
    let rest = number.and_then(|(before, rest)| Some((before, rest.split_once(')')?.1)));
    rest.map_or_else(|| text.clone(), |(before, after)| before.to_owned() + after)
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Error(error.to_string())
    }
}

/// The result of a verb.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// Returns how a verb ends whose exit status is a verdict, such as the number of failures. Other
/// than 0, it wins over all that went wrong besides, which is only noted.
pub fn verdict(status: u8, ended: Result) -> Result {
    match (status, ended) {
        (0, ended) => ended,
        (status, Ok(())) => Err(Failure::Quiet(status)),
        (status, Err(Failure::Quiet(other))) => Err(Failure::Quiet(status.max(other))),
        (status, Err(failure)) => {
            failure.tell();
            Err(Failure::Quiet(status))
        }
    }
}

/// Writes to standard output, at once.
pub fn print(text: &(impl AsRef<[u8]> + ?Sized)) -> Result {
    use io::Write;
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    written.map_err(Failure::Output)
}

/// Replaces what a terminal would take for a command, and ends of lines. A recording may come from
/// someone else.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Writes a note to standard error. Nobody may be there to read it.
pub fn note(text: impl Display) {
    use io::Write;
    let mut lines = String::new();
    // Messages of our own may have several lines.
    let text: Vec<_> = plain(text).split('\n').map(printable).collect();
    wrap(&mut lines, &format!("schedhist: {}", text.join("\n")));
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Says what is wrong with the arguments.
pub fn refused(error: &clap::Error) -> Failure {
    let mut lines = String::new();
    for line in error.render().to_string().lines() {
        wrap(&mut lines, line);
    }
    let _ = io::Write::write_all(&mut io::stderr(), lines.as_bytes());
    Failure::Quiet(2)
}

/// The widest text: 80 columns.
pub const WIDTH: usize = 80;

/// Appends lines, broken at spaces so that none is wider than the screen. Further ones
/// are indented.
pub fn wrap(out: &mut String, text: &str) {
    wrap_after(out, "", 2, text);
}

/// The same, after `begin`, with further lines indented by `indent`.
pub fn wrap_after(out: &mut String, begin: &str, indent: usize, text: &str) {
    out.push_str(begin);
    let mut column = begin.chars().count();
    let mut is_first = true;
    for word in text.split(' ') {
        let width = word.chars().count();
        if !is_first && column + 1 + width > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if !is_first {
            out.push(' ');
            column += 1;
        }
        is_first = false;
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(plain(&error), "No such file or directory");
        let text = format!("a: {error}; mount it");
        assert_eq!(plain(text), "a: No such file or directory; mount it");
        assert_eq!(plain("as it is (os error"), "as it is (os error");
    }
}
