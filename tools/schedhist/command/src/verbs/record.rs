// SPDX-License-Identifier: GPL-2.0

//! `record`: snapshots in a file that is valid at each instant.

use std::{
    ffi::OsString,
    fs::{
        self,
        File,
        OpenOptions, //
    },
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{
        Child,
        Command, //
    },
    time::{
        Duration,
        Instant, //
    },
};

use clap::ArgMatches;
use schedhist_core::{
    recording::file::Recorder,
    window::Window, //
};

use crate::{
    failure::{
        note,
        verdict,
        Failure,
        Result, //
    },
    files, options,
    source::{
        unix_ns,
        Reading,
        Source, //
    },
    sys::{
        self,
        Signal,
        Waiter,
        Woken, //
    },
    verbs::{
        outliers::{
            newest,
            number, //
        },
        runs, //
    },
};

/// A recording that is written. It begins as `FILE.PID.new`, which is removed again unless it gets
/// its name.
pub struct Output {
    recorder: Recorder<File>,
    path: String,
    is_named: bool,
    /// Whether to go on with the recording of this name, if there is one.
    appends: bool,
}

/// The name of a recording that has begun.
fn aside(path: &str) -> String {
    format!("{path}.{}.new", std::process::id())
}

impl Output {
    /// Begins a recording. As `perf.data`, only its owner can read it. An older one of this name is
    /// to get the ending `old`.
    pub fn begin(path: &str, old: &str) -> Result<Self> {
        files::check_replaceable(path)?;
        files::check_replaceable(&format!("{path}.{old}"))?;
        let failed = |error| Failure::at(path, error);
        let new = aside(path);
        let _ = fs::remove_file(&new);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .map_err(failed)?;
        let mut output = Self {
            recorder: Recorder::new(file).map_err(failed)?,
            path: path.to_owned(),
            is_named: false,
            appends: false,
        };
        output.recorder.info(&info()).map_err(failed)?;
        Ok(output)
    }

    /// Goes on with a recording, or begins one if there is none.
    pub fn append(path: &str) -> Result<Self> {
        if !Path::new(path).exists() {
            let mut output = Self::begin(path, "old")?;
            output.appends = true;
            return Ok(output);
        }
        Ok(Self {
            recorder: reopen(path)?,
            path: path.to_owned(),
            is_named: true,
            appends: true,
        })
    }

    /// Gives the recording its name, unless it has it. An older file of this name becomes `FILE`
    /// with the ending `old`. Whatever happens meanwhile, a file of this name can be read.
    pub fn publish(&mut self, old: &str) -> Result {
        if self.is_named {
            return Ok(());
        }
        let path = &self.path;
        let failed = |error| Failure::at(path, error);
        files::check_replaceable(path)?;
        let new = aside(path);
        if self.appends && Path::new(path).exists() {
            // Another run has begun it meanwhile.
            self.recorder = reopen(path)?;
            let _ = fs::remove_file(new);
            self.is_named = true;
            return Ok(());
        }
        if Path::new(path).exists() {
            let old = format!("{path}.{old}");
            let _ = fs::remove_file(&old);
            // A file system may lack links.
            fs::hard_link(path, &old)
                .or_else(|_| fs::rename(path, &old))
                .map_err(failed)?;
        }
        fs::rename(new, path).map_err(failed)?;
        self.is_named = true;
        Ok(())
    }

    /// Appends to the recording.
    pub fn write(
        &mut self,
        write: impl FnOnce(&mut Recorder<File>) -> std::io::Result<()>,
    ) -> Result {
        write(&mut self.recorder).map_err(|error| Failure::at(&self.path, error))
    }
}

/// Opens a recording to append to it; fails unless it is one that is whole.
fn reopen(path: &str) -> Result<Recorder<File>> {
    let lost = {
        let mut player = runs::open(path)?;
        while player.next_item().is_some() {}
        player.lost().map(str::to_owned)
    };
    if let Some(why) = lost {
        return Err(Failure::at(path, format!("{why}: nothing can be appended")));
    }
    let file = OpenOptions::new().append(true).open(path);
    Ok(Recorder::append(
        file.map_err(|error| Failure::at(path, error))?,
    ))
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = fs::remove_file(aside(&self.path));
        }
    }
}

/// Returns `key value` lines that describe this machine and this moment.
pub fn info() -> String {
    let read = |path: &str| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    format!(
        "begun_unix_ns {}\nkernel {}\nmodule {}\ncommand {}\n",
        unix_ns(),
        read("/proc/sys/kernel/osrelease"),
        read("/sys/module/schedhist/version"),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Records until the time is over, the command ends, or SIGINT.
pub fn record(args: &ArgMatches, source: &Source) -> Result {
    let path = args.get_one::<String>("output").map_or("", String::as_str);
    let millis = args
        .get_one::<String>("interval")
        .map_or("", String::as_str);
    let millis: u64 = millis
        .parse()
        .ok()
        .filter(|ms| (10..=3_600_000).contains(ms))
        .ok_or_else(|| Failure::Usage(format!("-I {millis}: milliseconds, from 10 to 3600000")))?;
    let duration = |name| {
        args.get_one::<String>(name)
            .map(|d| options::duration(d))
            .transpose()
    };
    let (limit, ring) = (duration("duration")?, duration("ring")?);
    let first = source.read()?;
    let waiter = Waiter::new().map_err(|error| Failure::at("signals", error))?;
    let mut tape = Tape::new(path, ring)?;
    tape.take(&first)?;
    tape.details(source, true)?;
    let mut child = match args
        .get_many::<OsString>("command")
        .map(Iterator::collect::<Vec<_>>)
    {
        Some(words) => Some(spawn(&words)?),
        None => None,
    };
    // Not before: an older recording stays if there is no such command.
    if let Err(failure) = tape.output.publish("old") {
        if let Some(child) = &child {
            let _ = sys::kill(i32::try_from(child.id()).unwrap_or_default(), libc::SIGTERM);
        }
        return Err(failure);
    }
    let interval = Duration::from_millis(millis);
    let recorded = tape.record(source, &waiter, child.as_mut(), interval, limit);
    let recorded = recorded.map_err(|failure| match failure {
        // At once: the command may go on for long.
        Failure::Error(text) => {
            note(text);
            Failure::Quiet(1)
        }
        other => other,
    });
    let size = fs::metadata(path).map_or(0, |about| about.len());
    note(format!("{path}: {} snapshots, {size} bytes", tape.taken));
    if let Some(mut child) = child {
        // A signal asks the command to end, too: by itself, or from the terminal. If only the time
        // is over, the command goes on.
        while matches!(child.try_wait(), Ok(None)) {
            if let Woken::Signal(signal) = waiter.wait(None, None) {
                pass_on(&child, &signal);
            }
        }
        let status = child.try_wait();
        if let Ok(Some(status)) = status {
            return verdict(super::run::exit_status(status), recorded);
        }
    }
    recorded
}

/// Sends a signal to the command, unless the terminal has done so.
fn pass_on(child: &Child, signal: &Signal) {
    if !signal.is_from_terminal {
        let _ = sys::kill(i32::try_from(child.id()).unwrap_or_default(), signal.number);
    }
}

fn spawn(words: &[&OsString]) -> Result<Child> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::Usage("a command is missing".to_owned()));
    };
    let child = sys::with_signals(Command::new(program).args(arguments)).spawn();
    child.map_err(|error| Failure::at(program.to_string_lossy(), error))
}

/// The time between two records of the groups.
const GROUPS_EVERY: Duration = Duration::from_secs(10);

/// Returns the lines of those outliers in the file `outliers` whose numbers are above `last`, and
/// the highest number. Numbers that all are lower belong to another load of the module.
fn new_outliers(text: &str, last: u64) -> (String, u64) {
    let newest = newest(text).unwrap_or(last);
    let last = if newest < last { 0 } else { last };
    let new = text
        .lines()
        .filter(|line| number(line).is_some_and(|id| id > last));
    (new.flat_map(|line| [line, "\n"]).collect(), newest)
}

/// The recording as it grows.
struct Tape {
    ring: Option<Duration>,
    begun: Instant,
    output: Output,
    last: Option<Reading>,
    in_gap: bool,
    taken: u64,
    /// When the groups were recorded last.
    grouped: Option<Instant>,
    /// The number of the last outlier.
    outlier: Option<u64>,
}

impl Tape {
    fn new(path: &str, ring: Option<Duration>) -> Result<Self> {
        Ok(Self {
            ring,
            begun: Instant::now(),
            output: Output::begin(path, "old")?,
            last: None,
            in_gap: false,
            taken: 0,
            grouped: None,
            outlier: None,
        })
    }

    /// Appends snapshots until the time is over, the command ends, or a signal comes, which is
    /// passed on to the command.
    fn record(
        &mut self,
        source: &Source,
        waiter: &Waiter,
        mut child: Option<&mut Child>,
        interval: Duration,
        limit: Option<Duration>,
    ) -> Result {
        let start = Instant::now();
        let mut next = start;
        loop {
            next = (next + interval).max(Instant::now());
            let end = limit.map(|limit| start + limit);
            let deadline = end.map_or(next, |end| end.min(next));
            let is_over = loop {
                match waiter.wait(Some(deadline), None) {
                    Woken::Timeout => break end.is_some_and(|end| end <= Instant::now()),
                    Woken::Signal(signal) => {
                        if let Some(child) = &child {
                            pass_on(child, &signal);
                        }
                        break true;
                    }
                    Woken::Child => {
                        if child
                            .as_mut()
                            .is_some_and(|c| !matches!(c.try_wait(), Ok(None)))
                        {
                            break true;
                        }
                    }
                    Woken::Ready => {}
                }
            };
            match source.read() {
                Ok(reading) => {
                    self.take(&reading)?;
                    self.details(source, is_over)?;
                }
                Err(Failure::Error(text)) => self.gap(&text)?,
                Err(other) => return Err(other),
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Appends a snapshot, and before it, what has happened since the one before.
    fn take(&mut self, reading: &Reading) -> Result {
        self.turn()?;
        let mut marks = Vec::new();
        if let Some(last) = &self.last {
            let between = Window::between(&last.taken.snapshot, &reading.taken.snapshot);
            match between {
                Err(why) => marks.push(format!("gap: {why}")),
                Ok(_) if !reading.is_same_load(last) => {
                    marks.push("gap: the module was loaded anew".to_owned());
                }
                Ok(_) => {}
            }
            if !marks.is_empty() {
                self.output.recorder.restart();
                // Their numbers begin anew, and so do the counts of the groups.
                self.outlier = Some(0);
                self.grouped = None;
            }
            if let (Some(old), Some(new)) = (&last.online, &reading.online) {
                if old != new {
                    marks.push(format!("CPUs online: {old} before, {new} now"));
                }
            }
        }
        self.in_gap = false;
        self.output.write(|recorder| {
            for mark in marks {
                recorder.mark(&mark)?;
            }
            recorder.snapshot(&reading.taken, &reading.bytes)?;
            // So that a machine that dies has lost at most one interval.
            recorder.get_mut().sync_data()
        })?;
        self.last = Some(reading.clone());
        self.taken += 1;
        Ok(())
    }

    /// Appends the groups, every ten seconds or if `all` is set, and the outliers that are new.
    /// Under lockdown, neither may be there.
    fn details(&mut self, source: &Source, all: bool) -> Result {
        if all
            || self
                .grouped
                .is_none_or(|last| last.elapsed() >= GROUPS_EVERY)
        {
            self.grouped = Some(Instant::now());
            if let Ok(text) = source.text("groups") {
                if !text.contains("\ngroup_by none\n") {
                    self.output.write(|recorder| recorder.groups(&text))?;
                }
            }
        }
        let text = source.text("outliers").unwrap_or_default();
        let is_first = self.outlier.is_none();
        let last = self.outlier.unwrap_or_default();
        let (new, newest) = new_outliers(&text, last);
        self.outlier = Some(newest);
        // Those from before the recording are no part of it.
        if !new.is_empty() && !is_first {
            self.output.write(|recorder| recorder.outliers(&new))?;
        }
        Ok(())
    }

    /// Notes that the module cannot be read, once.
    fn gap(&mut self, why: &str) -> Result {
        if !std::mem::replace(&mut self.in_gap, true) {
            note(format!("{why}; waiting for it"));
            self.output
                .write(|recorder| recorder.mark(&format!("gap: {why}")))?;
            self.output.recorder.restart();
        }
        Ok(())
    }

    /// Begins the file anew if it holds as much as was asked for: the old one becomes `FILE.1`.
    fn turn(&mut self) -> Result {
        let is_full = self.ring.is_some_and(|ring| self.begun.elapsed() >= ring);
        if is_full && self.output.is_named {
            let mut output = Output::begin(&self.output.path, "1")?;
            output.publish("1")?;
            self.output = output;
            self.begun = Instant::now();
            self.grouped = None;
            // Each file has the whole of the intervals that it holds.
            if let (Some(last), false) = (&self.last, self.in_gap) {
                self.output
                    .write(|recorder| recorder.snapshot(&last.taken, &last.bytes))?;
            }
        }
        Ok(())
    }
}
