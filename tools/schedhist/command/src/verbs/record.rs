// SPDX-License-Identifier: GPL-2.0

//! `record`: snapshots in a file that is valid at each instant.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use schedhist_core::{
    gather::Gather,
    groups::SureNames,
    text::{self, Outlier},
    window::Window,
};

use crate::{
    cli::Record,
    error::{told, Error, Result},
    outliers::number,
    output::note,
    recordings::writer::{Writer, ALONE},
    render,
    source::{Reading, Source},
    sys::{self, Signal, Waiter, Woken},
};

/// Records until the time is over, the command ends, or SIGINT.
pub fn record(args: &Record, source: &Source) -> Result<u8> {
    let path = &args.output;
    let first = source.read()?;
    let interval = first.since_load();
    let off = render::off(&interval.window, &render::is_default);
    // It would be a recording of nothing.
    interval.notes.iter().chain(&off).for_each(note);
    let waiter = Waiter::new()?;
    let mut tape = Tape::new(path, args.ring)?;
    tape.take(&first)?;
    tape.details(source, &first, true)?;
    let child = args.command.split_first().map(spawn);
    let mut child = child.transpose()?;
    // Not before: an older recording stays if there is no such command.
    if let Err(error) = tape.output.publish() {
        if let Some(child) = &child {
            let _ = sys::kill_child(child, libc::SIGTERM);
        }
        return Err(error);
    }
    // At once: the command may go on for long.
    let status = told(tape.record(source, &waiter, child.as_mut(), args));
    let size = fs::metadata(path).map_or(0, |about| about.len());
    note(format!(
        "{}: {} snapshots, {size} bytes",
        path.display(),
        tape.taken
    ));
    let Some(mut child) = child else {
        return Ok(status);
    };
    // A signal asks the command to end, too: by itself, or from the terminal. If only the time is
    // over, the command goes on.
    while matches!(child.try_wait(), Ok(None)) {
        if let Woken::Signal(signal) = waiter.wait(None, None) {
            pass_on(&child, &signal);
        }
    }
    Ok(match child.try_wait() {
        Ok(Some(ended)) => sys::exit_status(ended).max(status),
        _ => status,
    })
}

/// Sends a signal to the command, unless the terminal has done so.
fn pass_on(child: &Child, signal: &Signal) {
    if !signal.is_from_terminal {
        let _ = sys::kill_child(child, signal.number);
    }
}

fn spawn((program, arguments): (&OsString, &[OsString])) -> Result<Child> {
    let child = sys::with_signals(Command::new(program).args(arguments)).spawn();
    child.map_err(|error| Error::of_spawn(program, error))
}

/// The time between two records of the groups.
const GROUPS_EVERY: Duration = Duration::from_secs(10);

/// What tells an outlier from all others, also from those of another load of the module: its end
/// and its number.
type OutlierKey = (u64, u64);

/// How many outliers are known at most. The module keeps 16 of each CPU.
const OUTLIERS_KNOWN: usize = 1 << 16;

/// Returns the outliers in the text of the file `outliers`: of each its key, and its lines.
fn outlier_blocks(text: &str) -> Vec<(OutlierKey, String)> {
    let mut all: Vec<(OutlierKey, String)> = Vec::new();
    for line in text.lines() {
        let Some(id) = number(line) else { continue };
        if line.starts_with("outlier ") {
            let mut words = line.split(' ').skip_while(|word| *word != "end_ns");
            let end = words.nth(1).and_then(|end| end.parse().ok());
            all.push(((end.unwrap_or_default(), id), String::new()));
        }
        if let Some((_, lines)) = all.last_mut() {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    all
}

/// The recording as it grows.
struct Tape {
    ring: Option<Duration>,
    begun: Instant,
    output: Writer,
    last: Option<Reading>,
    in_gap: bool,
    taken: u64,
    /// How many times it was due that the recording went to the disk: once a second.
    synced: u64,
    /// When the groups were recorded last.
    grouped: Option<Instant>,
    names: SureNames,
    /// The outliers that were seen: each is stored once. `None` before the first snapshot.
    outliers: Option<BTreeSet<OutlierKey>>,
}

impl Tape {
    fn new(path: &Path, ring: Option<Duration>) -> Result<Self> {
        Ok(Self {
            ring,
            begun: Instant::now(),
            output: Writer::begin(path, ALONE)?,
            last: None,
            in_gap: false,
            taken: 0,
            synced: 0,
            grouped: None,
            names: SureNames::default(),
            outliers: None,
        })
    }

    /// Appends snapshots until the time is over, the command ends, or a signal comes, which is
    /// passed on to the command.
    fn record(
        &mut self,
        source: &Source,
        waiter: &Waiter,
        mut child: Option<&mut Child>,
        args: &Record,
    ) -> Result {
        let start = Instant::now();
        let mut next = start;
        loop {
            next = (next + args.interval).max(Instant::now());
            let end = args.duration.map(|limit| start + limit);
            let deadline = end.map_or(next, |end| end.min(next));
            let is_over = loop {
                match waiter.wait(Some(deadline), None) {
                    Woken::Timeout => break end.is_some_and(|end| end <= Instant::now()),
                    Woken::Signal(signal) => {
                        if let Some(child) = &child {
                            pass_on(child, &signal);
                        }
                        // Programs such as java go on after it.
                        if child.is_none() || signal.number != libc::SIGQUIT {
                            break true;
                        }
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
                    self.details(source, &reading, is_over)?;
                }
                Err(error) => self.gap(&error)?,
            }
            if is_over {
                return self.output.write(|recorder| recorder.get_mut().sync_data());
            }
        }
    }

    /// Appends a snapshot, and before it, what has happened since the one before.
    fn take(&mut self, reading: &Reading) -> Result {
        let mut marks = Vec::new();
        if let Some(last) = self.last.clone() {
            let between = Window::between(&last.timed.snapshot, &reading.timed.snapshot);
            match between {
                Err(why) => marks.push(format!("gap: {why}")),
                Ok(_) if !reading.is_same_load(&last) => {
                    marks.push("gap: the module was loaded anew".to_owned());
                }
                Ok(_) => {}
            }
            if !marks.is_empty() {
                self.output.recorder.restart();
                // The counts of the groups begin anew.
                self.grouped = None;
                self.names = SureNames::default();
            } else if !self.in_gap {
                self.turn(&last)?;
            }
            marks.extend(reading.hotplug(&last));
        }
        self.in_gap = false;
        self.output.write(|recorder| {
            for mark in marks {
                recorder.mark(&mark)?;
            }
            recorder.snapshot(&reading.timed, &reading.bytes)
        })?;
        // At whole seconds, rounded, as timers are late. More often would keep the disk busy.
        let due = 1 + (self.begun.elapsed() + Duration::from_millis(500)).as_secs();
        if due != std::mem::replace(&mut self.synced, due) {
            self.output
                .write(|recorder| recorder.get_mut().sync_data())?;
        }
        self.last = Some(reading.clone());
        self.taken += 1;
        Ok(())
    }

    /// Appends the groups of a reading.
    fn record_groups(&mut self, reading: &Reading) -> Result {
        self.grouped = Some(Instant::now());
        self.output
            .write(|recorder| recorder.groups(&reading.bytes))
    }

    /// Returns a line for each group of these outliers that has a name.
    fn names_of(&self, outliers: &str, now: u64) -> String {
        let all = text::outliers(outliers);
        let ids = all.iter().flat_map(Outlier::groups).filter(|id| *id != 0);
        let ids: BTreeSet<_> = ids.gather();
        let line = |id| {
            let (name, since) = self.names.get(id)?;
            Some(format!(
                "group id {id} since_ns {since} until_ns {now} name {name}\n"
            ))
        };
        ids.into_iter().filter_map(line).collect()
    }

    /// Appends the groups of a reading, every ten seconds or if `all` is set, and the outliers that
    /// are new, with their chains.
    fn details(&mut self, source: &Source, reading: &Reading, all: bool) -> Result {
        let is_due = |last: Instant| last.elapsed() >= GROUPS_EVERY;
        if all || self.grouped.is_none_or(is_due) {
            self.record_groups(reading)?;
        }
        reading.see_names(&mut self.names);
        let text = source.text("outliers").unwrap_or_default();
        let there = outlier_blocks(&text);
        if let Some(known) = &self.outliers {
            let new = there.iter().filter(|(key, _)| !known.contains(key));
            let mut text: String = new.clone().map(|(_, lines)| lines.as_str()).collect();
            if !text.is_empty() {
                let ids: BTreeSet<_> = new.map(|((_, id), _)| *id).gather();
                let chains = source.text("chains").unwrap_or_default();
                let lines = chains.split_inclusive('\n');
                text.extend(lines.filter(|line| number(line).is_some_and(|id| ids.contains(&id))));
                let names = self.names_of(&text, reading.timed.snapshot.time);
                self.output
                    .write(|recorder| recorder.outliers(&(names + &text)))?;
            }
        }
        // Those from before the recording are no part of it.
        let known = self.outliers.get_or_insert_default();
        while known.len() > OUTLIERS_KNOWN {
            known.pop_first();
        }
        known.extend(there.into_iter().map(|(key, _)| key));
        Ok(())
    }

    /// Notes that the module cannot be read, once.
    fn gap(&mut self, why: &Error) -> Result {
        if !std::mem::replace(&mut self.in_gap, true) {
            note(format!("{why}; waiting for it"));
            self.output
                .write(|recorder| recorder.mark(&format!("gap: {why}")))?;
            self.output.recorder.restart();
        }
        Ok(())
    }

    /// Begins the file anew if it holds as much as was asked for: the old one becomes `FILE.1`.
    /// Both have the last snapshot and its groups.
    fn turn(&mut self, last: &Reading) -> Result {
        let is_full = self.ring.is_some_and(|ring| self.begun.elapsed() >= ring);
        if !is_full || !self.output.is_named {
            return Ok(());
        }
        self.record_groups(last)?;
        let mut output = self.output.begin_next()?;
        output.write(|recorder| recorder.snapshot(&last.timed, &last.bytes))?;
        for output in [&mut output, &mut self.output] {
            output.write(|recorder| recorder.get_mut().sync_data())?;
        }
        output.publish()?;
        self.output = output;
        (self.begun, self.synced) = (Instant::now(), 0);
        self.record_groups(last)
    }
}
