// SPDX-License-Identifier: GPL-2.0

//! System calls that the standard library lacks: all `unsafe` of the command is here, and in `tty`.

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    process::Command,
    ptr,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// A signal that asks to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Whether the terminal sent it, as for ^C: then the children of this process have got it, too.
    pub is_from_terminal: bool,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The time is over.
    Timeout,
    /// A signal that asks to end: SIGINT, SIGTERM, SIGHUP or SIGQUIT.
    Signal(Signal),
    /// A child has changed its state.
    Child,
    /// A file descriptor is ready, or has an error.
    Ready,
}

/// A file descriptor to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    fd: RawFd,
    writes: bool,
    /// Whether the last wait ended because it was ready.
    pub is_ready: bool,
}

impl Interest {
    /// Waits until `fd` can be written if `writes` is true, or else read.
    pub fn new(fd: RawFd, writes: bool) -> Self {
        Self {
            fd,
            writes,
            is_ready: false,
        }
    }
}

/// The signals that were blocked before there was a [`Waiter`].
static BLOCKED_AT_FIRST: OnceLock<libc::sigset_t> = OnceLock::new();

/// The code of a signal that the kernel sent by itself, as the driver of a terminal does.
const SI_KERNEL: i32 = 0x80;

/// The signals that ask to end.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Waits for time, signals and input at once. While it exists, SIGINT, SIGTERM, SIGQUIT, SIGCHLD
/// and, unless it is ignored, SIGHUP are blocked, and only its waits receive them.
#[derive(Debug)]
pub struct Waiter {
    signals: OwnedFd,
}

impl Waiter {
    /// Blocks the signals.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `signal` takes plain numbers. `sigemptyset` initialises the set that it gets a
        // valid pointer to, and the following calls get pointers to that initialised set.
        // `pthread_sigmask` initialises the other one if it succeeds.
        let fd = unsafe {
            // If the parent ignores it, that is inherited, and children vanish without a signal.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
            for signal in ENDING {
                // If nohup ignores it, it would be delivered all the same. The shell ignores SIGINT
                // for what scripts run in the background, but `kill -INT` is to end that.
                if signal != libc::SIGHUP || !is_ignored(signal) {
                    libc::sigaddset(set.as_mut_ptr(), signal);
                }
            }
            let mut before = MaybeUninit::<libc::sigset_t>::uninit();
            if libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) == 0 {
                // The first mask counts, if there are several waiters.
                BLOCKED_AT_FIRST.get_or_init(|| before.assume_init());
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `signalfd` has just returned this descriptor, and nothing else owns it.
        let signals = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { signals })
    }

    /// Waits until `deadline`, or without a limit; also for `input` if there is one. A pending
    /// signal comes first.
    pub fn wait(&self, deadline: Option<Instant>, input: Option<RawFd>) -> Woken {
        let mut input = input.map(|fd| Interest::new(fd, false));
        self.wait_for_any(deadline, input.as_mut_slice())
    }

    /// Waits as [`wait`](Self::wait), for any of `interests`, and notes which of them are ready.
    pub fn wait_for_any(&self, deadline: Option<Instant>, interests: &mut [Interest]) -> Woken {
        let poll = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let mut fds = vec![poll(self.signals.as_raw_fd(), libc::POLLIN)];
        fds.extend(interests.iter().map(|interest| match interest.writes {
            true => poll(interest.fd, libc::POLLOUT),
            false => poll(interest.fd, libc::POLLIN),
        }));
        loop {
            if let Some(woken) = self.signal() {
                return woken;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Woken::Timeout;
            }
            // Rounded up, so that the last wait does not end too early.
            let millis = left.map_or(-1, |left| {
                i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
            });
            // SAFETY: The pointer and the number are those of the vector.
            let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
            if ready > 0 && fds[0].revents == 0 {
                for (interest, fd) in interests.iter_mut().zip(&fds[1..]) {
                    interest.is_ready = fd.revents != 0;
                }
                return Woken::Ready;
            }
        }
    }

    /// Takes a pending signal.
    fn signal(&self) -> Option<Woken> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: The buffer has `size` bytes.
        let read = unsafe { libc::read(self.signals.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: The kernel has filled all of it.
        let info = unsafe { info.assume_init() };
        Some(match info.ssi_signo as i32 {
            libc::SIGCHLD => Woken::Child,
            number => Woken::Signal(Signal {
                number,
                is_from_terminal: info.ssi_code == SI_KERNEL,
            }),
        })
    }
}

/// Returns whether this process ignores a signal.
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: It writes an action to the valid pointer if it succeeds, which is the only case in
    // which that is read.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Returns the effective user id.
pub fn euid() -> u32 {
    // SAFETY: It has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Sends a signal.
///
/// # Errors
///
/// Fails if there is no such process, or if it may not be signalled.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: It takes plain numbers.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a number that no other process has had since the machine was started, and that is the
/// same in all namespaces: the inode of its pidfd. Returns `None` if no process has this PID, or if
/// it has ended.
///
/// # Errors
///
/// Fails if that cannot be told.
pub fn number_of(pid: u32) -> io::Result<Option<u64>> {
    // SAFETY: It takes plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let Some(fd) = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0) else {
        let error = io::Error::last_os_error();
        // The second two: of a thread.
        return match error.raw_os_error() {
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => Ok(None),
            _ => Err(error),
        };
    };
    // SAFETY: `pidfd_open` has just returned this descriptor, and nothing else owns it.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: The pointer is that of one valid entry.
    let has_ended = unsafe { libc::poll(&raw mut poll, 1, 0) } > 0;
    Ok((!has_ended).then_some(file.metadata()?.ino()))
}

/// Returns the local time of day as `HH:MM:SS`.
pub fn time_of_day(unix_seconds: u64) -> String {
    let seconds = libc::time_t::try_from(unix_seconds).unwrap_or_default();
    let mut local = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: Both pointers are valid, and all zeros is a valid `tm` should the call fail.
    let local = unsafe {
        libc::localtime_r(&seconds, local.as_mut_ptr());
        local.assume_init()
    };
    format!(
        "{:02}:{:02}:{:02}",
        local.tm_hour, local.tm_min, local.tm_sec
    )
}

/// Makes `command` begin with the signals blocked that were blocked before there was a [`Waiter`].
/// Otherwise it would inherit those that the waiter has blocked, and not see ^C.
pub fn with_signals(command: &mut Command) -> &mut Command {
    let Some(mask) = BLOCKED_AT_FIRST.get().copied() else {
        return command;
    };
    let restore = move || {
        // SAFETY: The pointer is that of an initialised set.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    };
    // SAFETY: The closure only calls `pthread_sigmask`, which neither allocates nor locks.
    unsafe { command.pre_exec(restore) }
}

/// What a process writes to a file before it executes its program.
pub enum Entry {
    /// `0`: in `cgroup.procs`, this stands for the writer.
    Zero,
    /// A text, and after it the PID of the writer.
    WithPid(String),
}

/// Makes `command` write `entry` to `file` before it executes its program, which it does even if
/// that fails.
pub fn write_first(command: &mut Command, file: OwnedFd, entry: Entry) {
    let (mut text, with_pid) = match entry {
        Entry::Zero => (b"0".to_vec(), false),
        Entry::WithPid(text) => (text.into_bytes(), true),
    };
    // So that pushing digits does not allocate.
    text.reserve(16);
    let before = text.len();
    let write = move || {
        text.truncate(before);
        if with_pid {
            let mut pid = std::process::id();
            while pid != 0 {
                text.insert(before, b'0' + (pid % 10) as u8);
                pid /= 10;
            }
        }
        // SAFETY: The pointer and the length are those of the text. `write` is safe to call between
        // fork and exec.
        unsafe { libc::write(file.as_raw_fd(), text.as_ptr().cast(), text.len()) };
        Ok(())
    };
    // SAFETY: The closure only calls `getpid` and `write`, and changes a buffer
    // within its capacity: it neither allocates nor locks.
    unsafe { command.pre_exec(write) };
}

/// Writes `0` to `file` in a child that then ends, as [`Entry::Zero`] does.
///
/// # Errors
///
/// Fails as that does.
pub fn try_entry(file: OwnedFd) -> io::Result<()> {
    const DONE: i32 = libc::ECANCELED;
    let write = move || {
        // SAFETY: The pointer is that of one byte. `write` is safe to call between fork and exec.
        match unsafe { libc::write(file.as_raw_fd(), b"0".as_ptr().cast(), 1) } {
            1 => Err(io::Error::from_raw_os_error(DONE)),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // Not executed, as the closure fails in any case.
    let mut command = Command::new("true");
    // SAFETY: The closure only calls `write` and reads `errno`: it neither allocates nor locks.
    match unsafe { command.pre_exec(write) }.spawn() {
        Err(error) if error.raw_os_error() != Some(DONE) => Err(error),
        _ => Ok(()),
    }
}

/// How to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Together with others that do the same.
    Shared,
    /// Alone.
    Exclusive,
    /// Alone, and only if no one else has the lock now.
    ExclusiveNow,
}

/// Takes a lock on a file, in place of one that it has. Returns whether it was taken.
pub fn lock(file: &impl AsRawFd, how: Lock) -> bool {
    let how = match how {
        Lock::Shared => libc::LOCK_SH,
        Lock::Exclusive => libc::LOCK_EX,
        Lock::ExclusiveNow => libc::LOCK_EX | libc::LOCK_NB,
    };
    // SAFETY: It takes plain numbers.
    unsafe { libc::flock(file.as_raw_fd(), how) == 0 }
}

/// Returns another descriptor of the file that `fd` is open for. Neither is passed on to commands,
/// unless `fd` is one of the three standard ones. With `appends`, each write goes to the end.
///
/// # Errors
///
/// Fails if `fd` is not open, or not for writing.
pub fn duplicate(fd: RawFd, appends: bool) -> io::Result<File> {
    let failed = |result: i32| match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    };
    // SAFETY: All of them take plain numbers.
    let copy = unsafe {
        let flags = failed(libc::fcntl(fd, libc::F_GETFL))?;
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        if appends {
            failed(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_APPEND))?;
        }
        if fd > libc::STDERR_FILENO {
            failed(libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC))?;
        }
        failed(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3))?
    };
    // SAFETY: `fcntl` has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(copy) })
}

/// Returns the time since `start`, in nanoseconds.
pub fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
