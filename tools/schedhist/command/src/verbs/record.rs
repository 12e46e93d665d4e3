// SPDX-License-Identifier: GPL-2.0

//! `record`: snapshots in a file that is valid at each instant.

use std::{
    fs::{
        self,
        File,
        OpenOptions, //
    },
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
        Failure,
        Result, //
    },
    options,
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
};

/// Begins a recording: an older file of this name becomes `FILE.old`.
pub fn create(path: &str) -> Result<Recorder<File>> {
    begin(path, &format!("{path}.old"))
}

/// Begins a recording: an older file of this name becomes `old`. Whatever happens meanwhile, a
/// file of this name can be read: the new one gets the name when it has its head.
fn begin(path: &str, old: &str) -> Result<Recorder<File>> {
    let failed = |error| Failure::at(path, error);
    let new = format!("{path}.new");
    let _ = fs::remove_file(&new);
    let file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(&new)
        .map_err(failed)?;
    let mut recorder = Recorder::new(file).map_err(failed)?;
    recorder.info(&info()).map_err(failed)?;
    if Path::new(path).exists() {
        let _ = fs::remove_file(old);
        // A file system may lack links.
        fs::hard_link(path, old)
            .or_else(|_| fs::rename(path, old))
            .map_err(failed)?;
    }
    fs::rename(&new, path).map_err(failed)?;
    Ok(recorder)
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
        .get_many::<String>("command")
        .map(Iterator::collect::<Vec<_>>)
    {
        Some(words) => Some(spawn(&words)?),
        None => None,
    };
    let start = Instant::now();
    let mut next = start;
    let mut is_asked = false;
    loop {
        next = (next + Duration::from_millis(millis)).max(Instant::now());
        let end = limit.map(|limit| start + limit);
        let deadline = end.map_or(next, |end| end.min(next));
        let is_over = loop {
            match waiter.wait(Some(deadline), None) {
                Woken::Timeout => break end.is_some_and(|end| end <= Instant::now()),
                Woken::Signal(signal) => {
                    if let Some(child) = &child {
                        pass_on(child, &signal);
                    }
                    is_asked = true;
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
                Woken::Readable => {}
            }
        };
        match source.read() {
            Ok(reading) => {
                tape.take(&reading)?;
                tape.details(source, is_over)?;
            }
            Err(Failure::Error(text)) => tape.gap(&text)?,
            Err(other) => return Err(other),
        }
        if is_over {
            break;
        }
    }
    let size = fs::metadata(path).map_or(0, |about| about.len());
    note(format!("{path}: {} snapshots, {size} bytes", tape.taken));
    if let Some(mut child) = child {
        // A signal asks the command to end, too: by itself, or from the terminal.
        while is_asked && matches!(child.try_wait(), Ok(None)) {
            if let Woken::Signal(signal) = waiter.wait(None, None) {
                pass_on(&child, &signal);
            }
        }
        if let Ok(Some(status)) = child.try_wait() {
            return match super::run::exit_status(status) {
                0 => Ok(()),
                status => Err(Failure::Quiet(status)),
            };
        }
    }
    Ok(())
}

/// Sends a signal to the command, unless the terminal has done so.
fn pass_on(child: &Child, signal: &Signal) {
    if !signal.is_from_terminal {
        let _ = sys::kill(i32::try_from(child.id()).unwrap_or_default(), signal.number);
    }
}

fn spawn(words: &[&String]) -> Result<Child> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::Usage("a command is missing".to_owned()));
    };
    let child = sys::with_signals(Command::new(program).args(arguments)).spawn();
    child.map_err(|error| Failure::at(program, error))
}

/// The time between two records of the groups.
const GROUPS_EVERY: Duration = Duration::from_secs(10);

/// Returns the lines of those outliers in the file `outliers` whose numbers are above `last`, and
/// the highest number. Numbers that all are lower belong to another load of the module.
fn new_outliers(text: &str, last: u64) -> (String, u64) {
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("outlier" | "culprit")).then_some(())?;
        words.nth(1)?.parse::<u64>().ok()
    };
    let newest = text.lines().filter_map(number).max().unwrap_or(last);
    let last = if newest < last { 0 } else { last };
    let new = text
        .lines()
        .filter(|line| number(line).is_some_and(|id| id > last));
    (new.flat_map(|line| [line, "\n"]).collect(), newest)
}

/// The recording as it grows.
struct Tape {
    path: String,
    ring: Option<Duration>,
    begun: Instant,
    recorder: Recorder<File>,
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
            path: path.to_owned(),
            ring,
            begun: Instant::now(),
            recorder: create(path)?,
            last: None,
            in_gap: false,
            taken: 0,
            grouped: None,
            outlier: None,
        })
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
                self.recorder.restart();
                // Their numbers begin anew.
                self.outlier = Some(0);
            }
            if let (Some(old), Some(new)) = (&last.online, &reading.online) {
                if old != new {
                    marks.push(format!("CPUs online: {old} before, {new} now"));
                }
            }
        }
        self.in_gap = false;
        let path = self.path.clone();
        let failed = |error| Failure::at(&path, error);
        for mark in marks {
            self.recorder.mark(&mark).map_err(failed)?;
        }
        self.recorder
            .snapshot(&reading.taken, &reading.bytes)
            .map_err(failed)?;
        // So that a machine that dies has lost at most one interval.
        self.recorder.get_mut().sync_data().map_err(failed)?;
        self.last = Some(reading.clone());
        self.taken += 1;
        Ok(())
    }

    /// Appends the groups, every ten seconds or if `all` is set, and the outliers that are new.
    /// Under lockdown, neither may be there.
    fn details(&mut self, source: &Source, all: bool) -> Result {
        let path = self.path.clone();
        let failed = |error| Failure::at(&path, error);
        if all
            || self
                .grouped
                .is_none_or(|last| last.elapsed() >= GROUPS_EVERY)
        {
            self.grouped = Some(Instant::now());
            if let Ok(text) = source.text("groups") {
                if !text.contains("\ngroup_by none\n") {
                    self.recorder.groups(&text).map_err(failed)?;
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
            self.recorder.outliers(&new).map_err(failed)?;
        }
        Ok(())
    }

    /// Notes that the module cannot be read, once.
    fn gap(&mut self, why: &str) -> Result {
        if !std::mem::replace(&mut self.in_gap, true) {
            note(format!("{why}; waiting for it"));
            let marked = self.recorder.mark(&format!("gap: {why}"));
            marked.map_err(|error| Failure::at(&self.path, error))?;
            self.recorder.restart();
        }
        Ok(())
    }

    /// Begins the file anew if it holds as much as was asked for: the old one becomes `FILE.1`.
    fn turn(&mut self) -> Result {
        if self.ring.is_some_and(|ring| self.begun.elapsed() >= ring) {
            self.recorder = begin(&self.path, &format!("{}.1", self.path))?;
            self.begun = Instant::now();
            self.grouped = None;
            // Each file has the whole of the intervals that it holds.
            if let (Some(last), false) = (&self.last, self.in_gap) {
                let written = self.recorder.snapshot(&last.taken, &last.bytes);
                written.map_err(|error| Failure::at(&self.path, error))?;
            }
        }
        Ok(())
    }
}
