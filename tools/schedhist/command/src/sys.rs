// SPDX-License-Identifier: GPL-2.0

//! System calls that the standard library lacks.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{
            fs::{MetadataExt, OpenOptionsExt},
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use chrono::{DateTime, Local};
use nix::{
    errno::Errno,
    fcntl::{fcntl, FcntlArg, FdFlag, OFlag},
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::{
        signal::{self, SigSet, SigmaskHow},
        signalfd::{SfdFlags, SignalFd},
    },
    time::{clock_gettime, ClockId},
    unistd::{self, Pid},
};
use rustix::process::PidfdFlags;

use crate::error::{At, Result};

/// A signal that asks to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub number: i32,
    /// Whether the terminal sent it, as for ^C: then the children of this process have got it, too.
    pub is_from_terminal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Timeout,
    /// A signal, other than SIGCHLD.
    Signal(Signal),
    Child,
    /// A file descriptor is ready, or has an error.
    Ready,
}

/// The mask of signals before the first [`Waiter`].
static BLOCKED_AT_FIRST: OnceLock<SigSet> = OnceLock::new();

/// The code of a signal that the kernel sent by itself, as the driver of a terminal does.
const SI_KERNEL: i32 = 0x80;

const ENDING: [signal::Signal; 4] = [
    signal::Signal::SIGINT,
    signal::Signal::SIGTERM,
    signal::Signal::SIGHUP,
    signal::Signal::SIGQUIT,
];

/// Waits for time, signals and input at once. From the first one on, SIGINT, SIGTERM, SIGQUIT,
/// SIGCHLD and, unless it is ignored, SIGHUP are blocked, and only its waits receive them.
#[derive(Debug)]
pub struct Waiter {
    signals: SignalFd,
}

impl Waiter {
    /// Blocks the signals. Fails if the kernel has no file descriptor left.
    pub fn new() -> Result<Self> {
        // If the parent ignores it, that is inherited, and children vanish without a signal.
        signal_hook::flag::register(libc::SIGCHLD, Arc::default()).at("signals")?;
        Self::with(&[signal::Signal::SIGCHLD]).at("signals")
    }

    /// Blocks `more` signals beside those that ask to end.
    pub fn with(more: &[signal::Signal]) -> io::Result<Self> {
        let mut set = SigSet::from_iter(more.iter().copied().chain(ENDING));
        // If nohup ignores it, it would be delivered all the same. The shell ignores SIGINT for
        // what scripts run in the background, but `kill -INT` is to end that.
        if is_ignored(libc::SIGHUP) {
            set.remove(signal::Signal::SIGHUP);
        }
        let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        // The first mask counts, if there are several waiters.
        BLOCKED_AT_FIRST.get_or_init(|| before);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&set, flags)?;
        Ok(Self { signals })
    }

    /// Waits until `deadline`, or without a limit; also for `input` if there is one. A pending
    /// signal comes first.
    pub fn wait(&self, deadline: Option<Instant>, input: Option<BorrowedFd<'_>>) -> Woken {
        let input = input.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        self.wait_for_any(deadline, &mut input.into_iter().collect())
    }

    /// Waits as [`wait`](Self::wait), for any of `fds`.
    pub fn wait_for_any<'a>(
        &'a self,
        deadline: Option<Instant>,
        fds: &mut Vec<PollFd<'a>>,
    ) -> Woken {
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        let woken = loop {
            if let Ok(Some(info)) = self.signals.read_signal() {
                break match info.ssi_signo as i32 {
                    libc::SIGCHLD => Woken::Child,
                    number => Woken::Signal(Signal {
                        number,
                        is_from_terminal: info.ssi_code == SI_KERNEL,
                    }),
                };
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break Woken::Timeout;
            }
            // Rounded up, so that the last wait does not end too early.
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                let millis = left.as_micros().div_ceil(1000);
                PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
            });
            let ready = poll(fds, timeout).unwrap_or_default();
            if ready > 0 && fds.last().and_then(|signals| signals.any()) == Some(false) {
                break Woken::Ready;
            }
        };
        fds.pop();
        woken
    }

    /// Waits until `deadline`, or without a limit. Returns whether a signal asks to end before.
    pub fn is_over_before(&self, deadline: Option<Instant>) -> bool {
        loop {
            match self.wait(deadline, None) {
                Woken::Timeout => return false,
                Woken::Signal(_) => return true,
                Woken::Child | Woken::Ready => {}
            }
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (signal - 1)) & 1 == 1)
}

pub fn euid() -> u32 {
    unistd::geteuid().as_raw()
}

pub fn kill(pid: i32, number: i32) -> io::Result<()> {
    if let Ok(signal) = signal::Signal::try_from(number) {
        return Ok(signal::kill(Pid::from_raw(pid), signal)?);
    }
    // The crate knows no real-time signals.
    let script = format!("kill -{number} {pid}");
    let output = Command::new("/bin/sh").args(["-c", &script]).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}

/// Sends a signal to a child that was not waited for.
pub fn kill_child(child: &Child, number: i32) -> io::Result<()> {
    kill(child.id() as i32, number)
}

/// Executes `command`. Returns its status, and whether a signal has asked this program to end: that
/// is passed on.
pub fn run_through(command: &mut Command) -> io::Result<(ExitStatus, bool)> {
    let waiter = Waiter::with(&[signal::Signal::SIGCHLD])?;
    let mut child = command.spawn()?;
    let mut is_over = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, is_over));
        }
        if let Woken::Signal(signal) = waiter.wait(None, None) {
            is_over = true;
            // The terminal sends it to both.
            if !signal.is_from_terminal {
                let _ = kill_child(&child, signal.number);
            }
        }
    }
}

/// Returns the exit status to pass on: 128 and the signal for a command that was killed.
pub fn exit_status(status: ExitStatus) -> u8 {
    let killed = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(killed)).unwrap_or(1)
}

/// Returns a number that no other process has had since the machine was started, and that is the
/// same in all namespaces: the inode of its pidfd. Returns `None` if no process has this PID, or if
/// it has ended.
pub fn number_of(pid: u32) -> io::Result<Option<u64>> {
    let Some(file) = process(pid)?.map(File::from) else {
        return Ok(None);
    };
    let has_ended = has_ended(&file)?;
    Ok((!has_ended).then_some(file.metadata()?.ino()))
}

/// Returns whether the process of a pidfd has ended.
pub fn has_ended(process: &impl AsFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut fds, PollTimeout::ZERO)? > 0)
}

/// Returns the pidfd of a process, which is ready once that has ended; `None` if no process has
/// this PID.
pub fn process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return Ok(None);
    };
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        // The second two: of a thread.
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the local time of day as `HH:MM:SS`.
pub fn time_of_day(unix_ns: u64) -> String {
    local(unix_ns).format("%H:%M:%S").to_string()
}

pub fn local(unix_ns: u64) -> DateTime<Local> {
    DateTime::from_timestamp_nanos(i64::try_from(unix_ns).unwrap_or(i64::MAX)).into()
}

/// Returns the time that this process has had a CPU.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// What a process writes to a file before it executes its program.
pub enum Entry {
    /// `0`: in `cgroup.procs`, this stands for the writer.
    Zero,
    /// A text, and after it the PID of the writer.
    WithPid(String),
}

/// Makes `command` begin with the signals blocked that were blocked before there was a [`Waiter`].
/// Otherwise it would inherit those that the waiter has blocked, and not see ^C.
pub fn with_signals(command: &mut Command) -> &mut Command {
    before_exec(command, None, false)
}

/// Makes `command` write `entry` to `file` before it executes its program, which it does even if
/// that fails.
pub fn write_first(command: &mut Command, file: OwnedFd, entry: Entry) {
    before_exec(command, Some((file, entry)), false);
}

/// Writes `0` to `file` in a child that then ends, as [`Entry::Zero`] does.
pub fn try_entry(file: OwnedFd) -> io::Result<()> {
    // Not executed.
    let mut command = Command::new("true");
    match before_exec(&mut command, Some((file, Entry::Zero)), true).spawn() {
        Err(error) if error.raw_os_error() != Some(libc::ECANCELED) => Err(error),
        _ => Ok(()),
    }
}

/// What a child does before it executes its program: it restores the signals, and writes an entry.
/// If `ends` is true, it ends then: with `ECANCELED`, or with the error of the write.
#[allow(
    unsafe_code,
    reason = "nothing but the child itself can write its entry, and it must do so before its program runs"
)]
fn before_exec(command: &mut Command, entry: Option<(OwnedFd, Entry)>, ends: bool) -> &mut Command {
    let mask = BLOCKED_AT_FIRST.get().copied();
    let (file, (mut text, with_pid)) = match entry {
        None => (None, (Vec::new(), false)),
        Some((file, Entry::Zero)) => (Some(file), (b"0".to_vec(), false)),
        Some((file, Entry::WithPid(text))) => (Some(file), (text.into_bytes(), true)),
    };
    // So that the digits of the PID do not allocate.
    text.reserve(16);
    let before = text.len();
    let in_child = move || {
        if let Some(mask) = mask {
            mask.thread_set_mask()?;
        }
        let Some(file) = &file else { return Ok(()) };
        if with_pid {
            text.truncate(before);
            let _ = write!(text, "{}", std::process::id());
        }
        let written = unistd::write(file, &text);
        match ends {
            true => Err(written.err().unwrap_or(Errno::ECANCELED).into()),
            false => Ok(()),
        }
    };
    // SAFETY: The closure only calls `pthread_sigmask`, `getpid` and `write`, and changes a buffer
    // within its capacity: it neither allocates nor locks.
    unsafe { command.pre_exec(in_child) }
}

/// Opens a pipe of the kernel's without waiting for its contents.
pub fn open_pipe(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Returns another descriptor of the file that `fd` is open for. Neither is passed on to commands,
/// unless `fd` is one of the three standard ones. Fails if `fd` is not open for writing.
pub fn duplicate(fd: RawFd) -> io::Result<File> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    if flags & OFlag::O_ACCMODE == OFlag::O_RDONLY {
        return Err(Errno::EBADF.into());
    }
    if fd > libc::STDERR_FILENO {
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    // It takes the place of a file that is owned already: a number alone is not.
    let copy = File::open("/dev/null")?;
    unistd::dup3(fd, copy.as_raw_fd(), OFlag::O_CLOEXEC)?;
    Ok(copy)
}

pub fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
