// SPDX-License-Identifier: GPL-2.0

//! Where `run` prints to: standard error, as standard output belongs to the command; or, as with
//! perf stat, another file or file descriptor, apart from what the command itself prints.

use std::{
    cell::{Cell, RefCell},
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use schedhist_core::recording::file::MAGIC;

use crate::{
    cli::Run,
    error::{At, Error, Kind, Result},
    options::{Form, Style},
    sys,
};

/// By default, standard error.
#[derive(Default)]
pub struct Log {
    /// `None` for standard error.
    file: Option<File>,
    how: How,
    has_begun: Cell<bool>,
    failed: RefCell<Option<io::Error>>,
}

/// What becomes of what the file holds already.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum How {
    /// It goes.
    Anew,
    /// It stays, and ours follows.
    Append,
    /// That is up to whoever has opened the file.
    #[default]
    AsItIs,
}

impl Log {
    /// Opens the log. Must come before anything else opens a file, which might get the number of
    /// `--log-fd`.
    pub fn new(args: &Run, style: &Style) -> Result<Self> {
        let appends = args.append;
        let path = args.output.as_ref();
        let path = path.filter(|_| style.form != Form::Text);
        let (file, how) = match (args.log_fd, path) {
            (Some(_), Some(_)) => {
                return Err(Error::usage(
                    "with -j or -x, lines go to the FILE of -o: --log-fd is another place",
                ));
            }
            (Some(fd), None) => {
                let file = sys::duplicate(fd).at(format!("--log-fd {fd}"));
                let file = file.map_err(|error| error.with_kind(Kind::Usage))?;
                (Some(file), if appends { How::Append } else { How::AsItIs })
            }
            (None, Some(path)) => {
                let how = if appends { How::Append } else { How::Anew };
                (Some(open(path, appends)?), how)
            }
            (None, None) => (None, How::AsItIs),
        };
        Ok(Self {
            file,
            how,
            has_begun: Cell::new(false),
            failed: RefCell::new(None),
        })
    }

    /// Prints `head`, unless the file has it already. To be called once the command runs: before
    /// that, an older file stays as it is.
    pub fn begin(&self, head: &str) {
        if self.has_begun.replace(true) {
            return;
        }
        let about = self.file.as_ref().and_then(|file| file.metadata().ok());
        let is_filled = about.is_some_and(|about| about.is_file() && about.len() != 0);
        match (&self.file, self.how) {
            (Some(_), How::Append) if is_filled => return,
            (Some(file), How::Anew) if is_filled => {
                if let Err(error) = file.set_len(0) {
                    self.fail(error);
                }
            }
            _ => {}
        }
        self.print(head);
    }

    fn fail(&self, error: io::Error) {
        self.failed.borrow_mut().get_or_insert(error);
    }

    /// Prints a text. The command goes on if that fails: [`Log::end`] says so.
    pub fn print(&self, text: &str) {
        let written = match self.file.as_ref() {
            Some(mut file) => {
                // O_APPEND would hold for the caller, too. A pipe has no end.
                if self.how == How::Append {
                    let _ = file.seek(SeekFrom::End(0));
                }
                file.write_all(text.as_bytes())
            }
            None => io::stderr().write_all(text.as_bytes()),
        };
        if let Err(error) = written {
            self.fail(error);
        }
    }

    /// Returns whether whoever read what this prints has gone.
    pub fn is_closed(&self) -> bool {
        let failed = self.failed.borrow();
        let kind = failed.as_ref().map(io::Error::kind);
        kind == Some(io::ErrorKind::BrokenPipe)
    }

    /// Returns the first error of printing.
    pub fn end(&self) -> Result {
        let error = self.failed.take();
        error.map_or(Ok(()), |why| Err(Error::new(why).with_kind(Kind::Output)))
    }
}

/// Opens the file of `-o`, and leaves its contents for now.
fn open(path: &Path, appends: bool) -> Result<File> {
    let mut begin = [0; MAGIC.len()];
    let is_regular = fs::metadata(path).is_ok_and(|about| about.is_file());
    if is_regular
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok())
        && begin == MAGIC
    {
        let why = "this is a recording, as -o without -j and -x makes them";
        return Err(Error::at(format!("-o {}", path.display()), why).with_kind(Kind::Usage));
    }
    let mut options = OpenOptions::new();
    options
        .create(true)
        .write(true)
        .truncate(false)
        .append(appends);
    options.open(path).at(path)
}

#[cfg(test)]
mod tests {
    use std::os::{fd::OwnedFd, unix::net::UnixStream};

    use super::*;

    #[test]
    fn readers_that_go() {
        let (writer, reader) = UnixStream::pair().unwrap();
        let log = Log {
            file: Some(OwnedFd::from(writer).into()),
            how: How::AsItIs,
            has_begun: Cell::new(false),
            failed: RefCell::new(None),
        };
        log.print("a");
        assert!(!log.is_closed());
        drop(reader);
        log.print("b");
        assert!(log.is_closed());
        assert!(log.end().is_err());
    }
}
