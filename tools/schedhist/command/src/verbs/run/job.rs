// SPDX-License-Identifier: GPL-2.0

//! One run of a command, or one attachment: starts it, waits for its end, and takes the difference
//! of what was counted.

use std::{
    ffi::OsString,
    fmt::Write,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags};
use schedhist_core::{engine::group::records::GroupMetric, raw::Groups, text::Pairs};

use super::{command_group::CommandGroup, log::Log, own::Own, path::PathReader, target::Target};
use crate::{
    error::{noted, Error, Result},
    options::{CpuList, Style},
    output::note,
    recordings::{
        runs::{self, Run, COMMAND, COUNTS, MACHINE},
        tables,
    },
    render,
    source::{Interval, Reading, Source},
    sys::{self, Waiter, Woken},
};

/// What is to be measured, and how.
pub struct Job<'a> {
    pub source: &'a Source,
    pub waiter: Waiter,
    pub group: Option<CommandGroup<'a>>,
    pub subject: Subject<'a>,
    pub interval: Option<Duration>,
    pub delay: Option<Duration>,
    pub timeout: Option<Duration>,
    /// The CPUs of the machine that count.
    pub cpus: Option<&'a CpuList>,
    pub each_cpu: bool,
    /// The version of the module.
    pub module: String,
    pub style: Style,
    /// Nothing is printed, also not by the command to standard output.
    pub is_quiet: bool,
    pub log: Log,
}

/// What is measured beside the machine.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    Command(&'a [OsString]),
    Target(&'a Target),
}

impl Subject<'_> {
    /// Returns what the samples are of, in a word.
    fn whose(self) -> &'static str {
        match self {
            Self::Command(_) => COMMAND,
            Self::Target(target) => target.whose(),
        }
    }

    /// Returns the name of the program or of the target, to be shown.
    pub fn title(self) -> String {
        match self {
            Self::Command(words) => words[0].to_string_lossy().into_owned(),
            Self::Target(target) => target.title(),
        }
    }

    /// Returns the command line or the target, in a line.
    pub fn words(self) -> String {
        let words = match self {
            Self::Command(words) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                words.join(" ")
            }
            Self::Target(target) => target.title(),
        };
        let words = words.chars().map(|c| match c.is_control() {
            true => format!("\\x{:02x}", u32::from(c)),
            false => c.to_string(),
        });
        words.collect()
    }
}

/// What runs meanwhile.
enum Running<'a> {
    Child(Child),
    Attached {
        /// The processes that have not ended; `None` if that does not matter.
        processes: Option<Vec<&'a OwnedFd>>,
        is_over: bool,
    },
}

impl Running<'_> {
    fn pid(&self) -> Option<u32> {
        match self {
            Self::Child(child) => Some(child.id()),
            Self::Attached { .. } => None,
        }
    }

    /// Returns the status once it has ended; 0 if this was only attached.
    fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        match self {
            Self::Child(child) => child.try_wait(),
            Self::Attached { processes, is_over } => {
                if let Some(processes) = processes {
                    processes.retain(|process| !sys::has_ended(process).unwrap_or(true));
                    *is_over |= processes.is_empty();
                }
                Ok(is_over.then(ExitStatus::default))
            }
        }
    }

    fn wait(&self, waiter: &Waiter, deadline: Option<Instant>) -> Woken {
        let processes = match self {
            Self::Attached { processes, .. } => processes.iter().flatten(),
            Self::Child(_) => None.iter().flatten(),
        };
        let ends = processes.map(|process| PollFd::new(process.as_fd(), PollFlags::POLLIN));
        waiter.wait_for_any(deadline, &mut ends.collect())
    }

    /// Sends a signal to the command, or ends the attachment.
    fn end(&mut self, signal: i32) {
        match self {
            Self::Child(child) => drop(sys::kill_child(child, signal)),
            Self::Attached { is_over, .. } => *is_over = true,
        }
    }
}

/// All that is known at one time.
struct State {
    reading: Reading,
    /// Of the module's groups, those of the command or the target; there is none before the first
    /// task. `None` if tasks are not grouped.
    own: Option<Groups>,
}

/// What came of one run.
pub struct Outcome {
    /// `None` if the module could not be read, or if the command ended early.
    pub run: Option<Run>,
    /// Whether the command ended before it was to be measured.
    pub is_early: bool,
    pub status: ExitStatus,
    /// That of the command.
    pub pid: Option<u32>,
    /// Whether a signal asks to end.
    pub is_over: bool,
}

impl Job<'_> {
    fn state(&self) -> Result<State> {
        let reading = self.source.read()?;
        let mut own = None;
        if let Some(group) = &self.group {
            own = reading.groups()?;
            if let Some(own) = &mut own {
                own.groups.retain(|one| group.has(&one.name));
            }
        }
        Ok(State { reading, own })
    }

    /// Returns the state, or prints why it cannot be read: the command goes on all the same.
    fn state_or_note(&self) -> Option<State> {
        noted(self.state())
    }

    /// Starts the command, or attaches to the target.
    fn begin(&self) -> Result<Running<'_>> {
        let words = match self.subject {
            Subject::Command(words) => words,
            Subject::Target(target) => {
                return Ok(Running::Attached {
                    processes: target.processes(),
                    is_over: false,
                })
            }
        };
        let mut command = Command::new(&words[0]);
        sys::with_signals(command.args(&words[1..]));
        if self.is_quiet {
            command.stdout(Stdio::null());
        }
        if let Some(own) = &self.group {
            noted(own.enter(&mut command));
        }
        let spawned = command.spawn();
        if let Some(own) = &self.group {
            own.has_entered();
        }
        spawned
            .map(Running::Child)
            .map_err(|error| Error::of_spawn(&words[0], error))
    }

    /// Runs the command once, and prints what it did. Lets `recorder` read when that is due. Calls
    /// `started` when it runs: if that fails, ends it.
    pub fn once(
        &self,
        title: &str,
        mut recorder: Option<&mut PathReader>,
        started: &mut dyn FnMut() -> Result,
    ) -> Result<Outcome> {
        let mut first = self.state_or_note();
        let start = Instant::now();
        let mut running = self.begin()?;
        if let Err(error) = started() {
            running.end(libc::SIGTERM);
            if let Running::Child(mut child) = running {
                let _ = child.wait();
            }
            return Err(error);
        }
        let mut last: Option<(State, Duration)> = None;
        let (mut begin, mut end, mut is_over) = (self.delay, self.timeout, false);
        let mut tick = self.interval.map(|ms| ms + begin.unwrap_or_default());
        let status = loop {
            if let Some(status) = running.ended().map_err(|why| Error::at(title, why))? {
                break status;
            }
            let due = recorder.as_ref().and_then(|recorder| recorder.due());
            let deadlines = [begin, end, tick].map(|after| Some(start + after?));
            let deadline = deadlines.into_iter().chain([due]).flatten().min();
            match running.wait(&self.waiter, deadline) {
                Woken::Signal(signal) => {
                    // ^\ may only ask the command for something, such as Java for its threads.
                    is_over |= signal.number != libc::SIGQUIT;
                    if !signal.is_from_terminal || matches!(running, Running::Attached { .. }) {
                        running.end(signal.number);
                    }
                }
                Woken::Timeout => {
                    let now = start.elapsed();
                    if let Some(recorder) = recorder.as_mut().filter(|_| due == deadline) {
                        recorder.read();
                    } else if begin.take_if(|begin| *begin <= now).is_some() {
                        first = self.state_or_note();
                    } else if end.take_if(|end| *end <= now).is_some() {
                        running.end(libc::SIGTERM);
                    } else if let (Some(due), Some(interval)) = (tick, self.interval) {
                        let before = match &last {
                            Some((state, at)) => Some((state, Some(*at))),
                            None => first.as_ref().map(|first| (first, self.delay)),
                        };
                        if let (Some((before, from)), Some(after)) = (before, self.state_or_note())
                        {
                            let (run, interval) = self.between(before, &after, None, from, now);
                            last = Some((after, now));
                            self.print(&run, &interval, title);
                            if self.log.is_closed() && matches!(running, Running::Attached { .. }) {
                                running.end(libc::SIGPIPE);
                            }
                        }
                        tick = Some((due + interval).max(now));
                    }
                }
                Woken::Child | Woken::Ready => {}
            }
        };
        let wall = start.elapsed();
        let after = self.state_or_note();
        if let Some(own) = &self.group {
            own.leave();
        }
        let is_early = begin.is_some();
        if is_early {
            note(match self.subject {
                Subject::Command(_) => "the command ended before it was to be measured: -D",
                Subject::Target(_) => "this ended before anything was to be measured: -D",
            });
            first = None;
        }
        let run = first.zip(after).map(|(first, after)| {
            let (run, interval) = self.between(&first, &after, Some(status), self.delay, wall);
            self.print(&run, &interval, title);
            run
        });
        Ok(Outcome {
            run,
            is_early,
            status,
            pid: running.pid(),
            is_over,
        })
    }

    fn print(&self, run: &Run, interval: &Interval, title: &str) {
        if !self.is_quiet {
            let text = tables::text_of(run, interval, title, &self.style);
            self.log.print(&text);
        }
    }

    /// Returns the activity between two states, as a run.
    fn between(
        &self,
        old: &State,
        new: &State,
        status: Option<ExitStatus>,
        from: Option<Duration>,
        to: Duration,
    ) -> (Run, Interval) {
        let mut interval = new.reading.since(&old.reading);
        let whose = self.subject.whose();
        let mut own = match &self.group {
            Some(_) => Own::between(old.own.as_ref(), new.own.as_ref(), whose),
            None => Err(String::new()),
        };
        match &own {
            Ok(own) => interval.notes.extend(own.notes.iter().cloned()),
            // A note has said why there is no group.
            Err(why) if why.is_empty() => {}
            Err(why) => interval.notes.push(why.clone()),
        }
        let is_wanted = |name: &str| GroupMetric::ALL.iter().any(|metric| metric.name() == name);
        interval
            .notes
            .extend(render::off(&interval.window, &is_wanted));
        let mut histograms = Vec::new();
        for (metric, samples) in own.iter_mut().flat_map(|own| own.histograms.drain(..)) {
            histograms.push((COMMAND.to_owned(), metric.name().to_owned(), samples));
        }
        let is_wanted = |cpu| self.cpus.is_none_or(|cpus| cpus.numbers.contains(&cpu));
        runs::add_window(&mut histograms, &interval.window, MACHINE, is_wanted);
        if self.each_cpu {
            let numbers = interval.window.cpus.iter().map(|cpu| cpu.number);
            for number in numbers.filter(|cpu| is_wanted(*cpu)) {
                let scope = format!("cpu{number}");
                runs::add_window(&mut histograms, &interval.window, &scope, |cpu| {
                    cpu == number
                });
            }
        }
        let mut pairs = runs::describe(&old.reading.timed, &self.module);
        if let Some(waits) = &interval.window.long_waits {
            pairs += &runs::long_waits(&waits.sums);
        }
        let list = self.cpus.map_or("all", |cpus| &cpus.text);
        let (from, to) = (from.unwrap_or_default().as_nanos(), to.as_nanos());
        let words = self.subject.words();
        // Writing to a String does not fail.
        let _ = write!(
            pairs,
            "cpu_list {list}\nwall_ns {}\nfrom_ns {from}\nto_ns {to}\nwhose {whose}\nwords {words}\n",
            to.saturating_sub(from)
        );
        if let Some(status) = status {
            let _ = writeln!(pairs, "status {}", sys::exit_status(status));
        }
        if !interval.notes.is_empty() {
            let _ = writeln!(pairs, "notes {}", interval.notes.join("\t"));
        }
        if let Ok(own) = own {
            for (key, count) in COUNTS.iter().zip(own.counts) {
                let _ = writeln!(pairs, "{key} {count}");
            }
        }
        let run = Run {
            pairs: Pairs::of_lines(&pairs),
            histograms,
        };
        (run, interval)
    }
}
