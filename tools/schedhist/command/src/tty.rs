// SPDX-License-Identifier: GPL-2.0

//! The terminal of `top`: raw mode, its size, keys and signals. It is restored when the guard is
//! dropped, at a panic, and while the program is stopped.

use std::{
    io::{self, IsTerminal, Write},
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Alternate screen, no cursor, no wrapping at the right edge.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The settings of the terminal before, for the panic hook, too.
static BEFORE: OnceLock<libc::termios> = OnceLock::new();

/// The signals that are read instead of handled.
const SIGNALS: [i32; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// What the user or the system asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The time is over.
    Timeout,
    /// A key, or the letter that stands for it: see [`keys`].
    Key(char),
    /// The terminal has another size.
    Resized,
    /// End.
    End,
}

/// The terminal in raw mode.
#[derive(Debug)]
pub struct Tty {
    signals: OwnedFd,
    input: Vec<char>,
}

/// Returns whether standard input and output are a terminal that can do more than print lines.
pub fn is_there() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

/// Returns the time that this process has had a CPU.
pub fn cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: The pointer is valid, and all zeros is a valid `timespec` should the call fail.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns the number of columns and of lines.
pub fn size() -> (usize, usize) {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: The pointer is valid, and all zeros is a valid `winsize` should the call fail.
    let size = unsafe {
        libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, size.as_mut_ptr());
        size.assume_init()
    };
    match (size.ws_col, size.ws_row) {
        (0, _) | (_, 0) => (80, 24),
        (columns, lines) => (usize::from(columns), usize::from(lines)),
    }
}

fn set(settings: &libc::termios) {
    // SAFETY: The pointer is valid.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, settings) };
}

/// Restores the terminal. Nobody may be there to read what is written.
fn restore() {
    if let Some(before) = BEFORE.get() {
        let mut out = io::stdout();
        let _ = out.write_all(LEAVE).and_then(|()| out.flush());
        set(before);
    }
}

fn enter(before: &libc::termios) {
    let mut raw = *before;
    raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG | libc::IEXTEN);
    raw.c_iflag &= !(libc::IXON | libc::ICRNL);
    set(&raw);
    let mut out = io::stdout();
    let _ = out.write_all(ENTER).and_then(|()| out.flush());
}

impl Tty {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// Fails if standard input is no terminal.
    pub fn new() -> io::Result<Self> {
        let mut before = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: The pointer is valid.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: The call has filled it.
        let before = *BEFORE.get_or_init(|| unsafe { before.assume_init() });
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set that it gets a valid pointer to, and the
        // following calls get pointers to that initialised set.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in SIGNALS {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `signalfd` has just returned this descriptor, and nothing else owns it.
        let signals = unsafe { OwnedFd::from_raw_fd(fd) };
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            usual(panic);
        }));
        enter(&before);
        Ok(Self {
            signals,
            input: Vec::new(),
        })
    }

    /// Waits for a key, a signal, or until `deadline`.
    pub fn wait(&mut self, deadline: Instant) -> Event {
        loop {
            if !self.input.is_empty() {
                match self.input.remove(0) {
                    // ^Z is for all of this job, as a shell that waits for this process.
                    '\x1a' => {
                        stop(0);
                        return Event::Resized;
                    }
                    key => return Event::Key(key),
                }
            }
            match self.signal() {
                None => {}
                Some(libc::SIGWINCH) => return Event::Resized,
                Some(libc::SIGCONT) => {
                    resume();
                    return Event::Resized;
                }
                Some(libc::SIGTSTP) => {
                    stop(std::process::id() as i32);
                    return Event::Resized;
                }
                Some(_) => return Event::End,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Event::Timeout;
            }
            // Rounded up, so that the last wait does not end too early.
            let millis = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
            let poll = |fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            let mut fds = [poll(self.signals.as_raw_fd()), poll(libc::STDIN_FILENO)];
            // SAFETY: The pointer and the number are those of the array.
            let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, millis) };
            if ready > 0 && fds[1].revents != 0 && !self.read() {
                return Event::End;
            }
        }
    }

    /// Reads keys. Returns whether the terminal is still there.
    fn read(&mut self) -> bool {
        let mut bytes = [0_u8; 64];
        // SAFETY: The buffer has as many bytes.
        let read =
            unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(read) {
            Ok(0) => false,
            Ok(read) => {
                self.input.extend(keys(&bytes[..read]));
                true
            }
            Err(_) => {
                let error = io::Error::last_os_error().kind();
                matches!(
                    error,
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                )
            }
        }
    }

    fn signal(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: The buffer has `size` bytes.
        let read = unsafe { libc::read(self.signals.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: The kernel has filled all of it.
        Some(unsafe { info.assume_init() }.ssi_signo as i32)
    }
}

/// Stops this process, or its group if `whom` is 0, until SIGCONT comes. Takes the terminal again
/// then, or at once if the kernel lets nobody stop: no shell is there who could go on with it.
fn stop(whom: i32) {
    restore();
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set that it gets a valid pointer to, and the following
    // calls get pointers to that initialised set. `kill` takes plain numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTSTP);
        libc::kill(whom, libc::SIGTSTP);
        // It has been pending until here.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
    }
    resume();
}

fn resume() {
    if let Some(before) = BEFORE.get() {
        enter(before);
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns the keys: letters as they are; the arrows as `h`, `j`, `k`, `l`; Page Up and Page Down
/// as `H` and `L`; Home and End as `^` and `$`; ^C as `q`; Escape as `\x1b`.
fn keys(bytes: &[u8]) -> Vec<char> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != 0x1b {
            keys.push(if *first == 3 { 'q' } else { char::from(*first) });
            continue;
        }
        let Some((b'[' | b'O', after)) = rest.split_first() else {
            keys.push('\x1b');
            continue;
        };
        let end = after.iter().position(|byte| (0x40..=0x7e).contains(byte));
        let Some(end) = end else { break };
        let key = match (&after[..end], after[end]) {
            (_, b'A') => Some('k'),
            (_, b'B') => Some('j'),
            (_, b'C') => Some('l'),
            (_, b'D') => Some('h'),
            (b"5", b'~') => Some('H'),
            (b"6", b'~') => Some('L'),
            (_, b'H') | (b"1" | b"7", b'~') => Some('^'),
            (_, b'F') | (b"4" | b"8", b'~') => Some('$'),
            _ => None,
        };
        keys.extend(key);
        rest = &after[end + 1..];
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::keys;

    #[test]
    fn keys_of_terminals() {
        for (bytes, expected) in [
            (&b"jkq"[..], "jkq"),
            (b"\x1b[A\x1b[B\x1bOC\x1b[D", "kjlh"),
            (b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[H\x1bOF", "HL^$^$"),
            (b"\x1b", "\x1b"),
            (b"\x1b[1;5C \x03", "l q"),
            (b"\x1b[200~x\x1b[", "x"),
        ] {
            assert_eq!(
                keys(bytes).iter().collect::<String>(),
                expected,
                "{bytes:?}"
            );
        }
    }
}
