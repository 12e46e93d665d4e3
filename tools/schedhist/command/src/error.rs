// SPDX-License-Identifier: GPL-2.0

//! Errors as values, and the exit statuses that they stand for.

use std::{
    ffi::OsStr,
    fmt, io,
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use schedhist_core::{raw::DecodeError, text, window::Reloaded};

use crate::output::note;

/// Decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The arguments are wrong: status 2.
    Usage,
    /// Something cannot be done: status 1.
    Failed,
    /// The output cannot be written: status 1, or 0 if only its reader has gone, as `head` does.
    Output,
    /// What has a status of its own, such as 127 for a command that is not there.
    Status(u8),
}

/// The reason of an error.
#[derive(Debug)]
pub enum Why {
    Io(io::Error),
    Text(String),
}

/// What cannot be done.
#[derive(Debug)]
pub struct Error {
    pub kind: Kind,
    /// The file that it is about, or what else.
    pub path: Option<PathBuf>,
    pub why: Why,
    pub remedy: Option<&'static str>,
}

pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// Something that cannot be done.
    pub fn new(why: impl Into<Why>) -> Self {
        Self {
            kind: Kind::Failed,
            path: None,
            why: why.into(),
            remedy: None,
        }
    }

    /// Wrong arguments.
    pub fn usage(why: impl Into<Why>) -> Self {
        Self::new(why).with_kind(Kind::Usage)
    }

    /// Something that cannot be done with `path`.
    pub fn at(path: impl AsRef<Path>, why: impl Into<Why>) -> Self {
        Self::new(why).about(path.as_ref())
    }

    /// Adds the file that it is about.
    pub fn about(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// A command that cannot be executed, with the status that a shell has for that.
    pub fn of_spawn(program: &OsStr, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => {
                Self::at(program, "command not found").with_kind(Kind::Status(127))
            }
            _ => Self::at(program, error).with_kind(Kind::Status(126)),
        }
    }

    /// As diff(1) has it, where status 1 is a verdict: trouble has 2.
    pub fn of_trouble(self) -> Self {
        let trouble = match self.kind {
            Kind::Failed => self,
            Kind::Output if !self.why.is_closed_pipe() => Self::new(self.text_of_output()),
            _ => return self,
        };
        trouble.with_kind(Kind::Status(2))
    }

    fn text_of_output(&self) -> String {
        format!("cannot write the output: {self}")
    }

    pub fn with_remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = Some(remedy);
        self
    }

    /// Notes the error unless nobody needs to know it. Returns the exit status.
    pub fn tell(&self) -> u8 {
        match self.kind {
            Kind::Usage => note(format!("{self}; see schedhist --help")),
            Kind::Failed | Kind::Status(_) => note(self),
            Kind::Output if self.why.is_closed_pipe() => return 0,
            Kind::Output => note(self.text_of_output()),
        }
        match self.kind {
            Kind::Usage => 2,
            Kind::Failed | Kind::Output => 1,
            Kind::Status(status) => status,
        }
    }
}

/// As `PATH: WHY; REMEDY`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        self.why.fmt(f)?;
        self.remedy.map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl Why {
    fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Io(error) => f.write_str(&text::of_error(error)),
        }
    }
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Why {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

macro_rules! texts {
    ($($type:ty),*) => {$(
        impl From<$type> for Why {
            fn from(why: $type) -> Self {
                Self::Text(why.to_string())
            }
        }
    )*};
}

texts!(&str, String, DecodeError, Reloaded);

/// Adds the path to the error of a result.
pub trait At<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<Why>> At<T> for std::result::Result<T, E> {
    fn at(self, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|why| Error::at(path, why))
    }
}

/// Returns the value of a result, or notes the error.
pub fn noted<T>(result: Result<T>) -> Option<T> {
    result.map_err(note).ok()
}

/// Notes the error of a result unless nobody needs to know it. Returns the exit status.
pub fn told(ended: Result) -> u8 {
    ended.map_or_else(|error| error.tell(), |()| 0)
}

/// Returns the exit status of a verb whose status is a verdict, such as the number of failures:
/// what went wrong besides is noted, and cannot hide the verdict.
pub fn verdict(status: u8, ended: Result) -> u8 {
    match (status, told(ended)) {
        (0, told) => told,
        (status, _) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_as_text() {
        let missing = || io::Error::from_raw_os_error(libc::ENOENT);
        let error = Error::at("a", missing()).with_remedy("mount it");
        assert_eq!(error.to_string(), "a: No such file or directory; mount it");
        assert_eq!(Error::new("a (os error 2)").to_string(), "a (os error 2)");
        let other = io::Error::other("no (os error 2) at all");
        assert_eq!(Error::new(other).to_string(), "no (os error 2) at all");
    }

    #[test]
    fn statuses() {
        let output =
            |kind: io::ErrorKind| Error::new(io::Error::from(kind)).with_kind(Kind::Output);
        let closed = || Err(output(io::ErrorKind::BrokenPipe));
        let full = || Err(output(io::ErrorKind::StorageFull));
        for (status, ended, wanted) in [
            (0, Ok(()), 0),
            (0, closed(), 0),
            (0, full(), 1),
            (0, Err(Error::usage("x")), 2),
            (3, Ok(()), 3),
            (3, closed(), 3),
            (3, full(), 3),
            (1, closed(), 1),
            (1, Err(Error::usage("x")), 1),
            (0, Err(Error::new("x").with_kind(Kind::Status(127))), 127),
            (3, Err(Error::new("x").with_kind(Kind::Status(127))), 3),
        ] {
            assert_eq!(verdict(status, ended), wanted, "{status}");
        }
        let trouble = |status, ended: Result| verdict(status, ended.map_err(Error::of_trouble));
        assert_eq!([0, 1].map(|status| trouble(status, full())), [2, 1]);
        assert_eq!([0, 1].map(|status| trouble(status, closed())), [0, 1]);
    }
}
