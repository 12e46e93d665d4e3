// SPDX-License-Identifier: GPL-2.0

//! The kernel stacks of tasks that an outlier delayed, by an instance of ftrace that exists for as
//! long as they are wanted.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use schedhist_core::stacks::{below_scheduler, Stack, StackParser};

use crate::{
    error::{Error, Result},
    output::note,
    setting::owner::{Owner, State},
    source::Source,
    sys,
};

pub const TRACEFS: &str = "/sys/kernel/tracing";

/// The names of instances begin so; their [`Owner`] follows.
const PREFIX: &str = "schedhist-watch-";

/// How long to wait for the stack of an outlier: the event comes a moment after it, when the task
/// runs.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// What the new instance may have taken over from the top-level one, and must not have.
const PLAIN: &str = "noraw nohex nobin noverbose nofields nosym-offset nosym-addr context-info";

/// An instance of ftrace that records outliers with their stacks. It is removed when this is
/// dropped.
#[derive(Debug)]
pub struct Stacks {
    instance: PathBuf,
    /// `None` while it is set up, and while it is removed.
    pipe: Option<File>,
    parser: StackParser,
}

impl Stacks {
    /// Creates the instance. Signals must be blocked before, and no threshold be set: see
    /// [`super::Stream`].
    pub fn new(source: &Source) -> Result<Self> {
        if !source.is_live() {
            return Err(Error::usage(
                "--stacks: these are copies of the module's files",
            ));
        }
        let instances = Path::new(TRACEFS).join("instances");
        let instance = instances.join(format!("{PREFIX}{}", Owner::this()?));
        fs::create_dir(&instance).map_err(|error| explain(&instance, error))?;
        let mut stacks = Self {
            instance,
            pipe: None,
            parser: StackParser::default(),
        };
        // Its size stays as it is, 1.4 MB for each CPU: another one would have to wait for a kernel
        // worker on each CPU (`ring_buffer_resize()`), and so for real-time tasks that keep one.
        for option in PLAIN.split(' ') {
            // A kernel need not have all of them.
            let _ = stacks.write("trace_options", option);
        }
        stacks.write("trace_options", "stacktrace")?;
        stacks.write("events/schedhist/outlier/enable", "1")?;
        let path = stacks.instance.join("trace_pipe");
        let pipe = sys::open_pipe(&path);
        stacks.pipe = Some(pipe.map_err(|error| explain(&path, error))?);
        Ok(stacks)
    }

    fn write(&self, name: &str, text: &str) -> Result {
        let path = self.instance.join(name);
        fs::write(&path, text).map_err(|error| explain(&path, error))
    }

    /// Returns the stack with which the task of an outlier had left its CPU, innermost frame first.
    /// Returns `None` if ftrace does not have it by `end`, as when it lost the event.
    pub fn of(&mut self, id: u64, end: Instant) -> Option<Stack> {
        loop {
            self.read();
            if let Some(stack) = self.parser.take(id) {
                return Some(below_scheduler(&stack).to_vec());
            }
            if Instant::now() >= end {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut buffer = [0; 1 << 13];
        loop {
            match pipe.read(&mut buffer) {
                // Nothing was recorded yet.
                Ok(0) => break,
                Ok(read) => self.parser.feed(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.parser.pause();
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // An instance that is in use cannot be removed.
        self.pipe = None;
        if let Err(error) = fs::remove_dir(&self.instance) {
            note(Error::at(
                format!("{} stays", self.instance.display()),
                error,
            ));
        }
    }
}

/// Finds the instances of processes that were killed, each of which keeps the module loaded, and
/// removes them if `removes` is true.
pub fn left(removes: bool) -> Vec<String> {
    let entries = fs::read_dir(Path::new(TRACEFS).join("instances"));
    let paths = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let owner = name.and_then(|name| Owner::of(name, PREFIX));
        owner.is_some_and(|owner| owner.state() == State::Ended)
            && (!removes || fs::remove_dir(path).is_ok())
    };
    let paths = paths.filter(is_left);
    paths
        .map(|path| format!("{} is of a schedhist watch that was killed", path.display()))
        .collect()
}

/// Returns an error of tracefs, with its remedy.
fn explain(path: &Path, error: io::Error) -> Error {
    let remedy = match error.kind() {
        _ if !Path::new(TRACEFS).join("instances").exists() => {
            "tracefs is not mounted: mount -t tracefs none /sys/kernel/tracing"
        }
        ErrorKind::PermissionDenied => {
            "only root may write it, and nobody if the kernel is locked down"
        }
        _ => "leave out --stacks",
    };
    Error::at(path, error).with_remedy(remedy)
}
