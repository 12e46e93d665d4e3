// SPDX-License-Identifier: GPL-2.0

//! The terminal of `top`: raw mode, what it shows, keys and signals. It is restored when the guard
//! is dropped, at a panic, and while the program is stopped.
//!
//! The events of crossterm are not used: its reader spins if the terminal is gone, and blocks after
//! a key that it does not know.

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    time::Instant,
};

use nix::{
    errno::Errno,
    sys::signal::{self, SigSet, Signal},
    unistd::{self, Pid},
};
use ratatui::{
    backend::{Backend, CrosstermBackend},
    buffer::Buffer,
    crossterm::{
        cursor::{Hide, Show},
        execute,
        style::{Print, ResetColor},
        terminal::{self, Clear, ClearType, DisableLineWrap, EnableLineWrap},
        terminal::{EnterAlternateScreen, LeaveAlternateScreen},
    },
};

use crate::sys::{Waiter, Woken};

/// What the user or the system asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Timeout,
    /// A key, or the letter that stands for it: see [`events`].
    Key(char),
    /// What the mouse did, and at which column and row.
    Mouse(Mouse, (u16, u16)),
    /// The terminal has another size, or has been used by others.
    Resized,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mouse {
    Left,
    Right,
    /// The wheel.
    Up,
    Down,
}

/// Makes the terminal tell what the buttons and the wheel do. crossterm's own command asks for each
/// movement, too, of which there are many.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// More bytes than a sequence of a terminal has.
const LONGEST: usize = 64;

pub const UP: char = '\u{2191}';
pub const DOWN: char = '\u{2193}';
pub const LEFT: char = '\u{2190}';
pub const RIGHT: char = '\u{2192}';
pub const PAGE_UP: char = '\u{21de}';
pub const PAGE_DOWN: char = '\u{21df}';
pub const HOME: char = '\u{2196}';
pub const END: char = '\u{2198}';

#[derive(Debug)]
pub struct Tty {
    waiter: Waiter,
    input: Vec<Event>,
    /// The beginning of a sequence.
    unread: Vec<u8>,
    /// What the terminal shows.
    shown: Buffer,
}

/// Returns whether standard input and output are a terminal that can do more than print lines.
pub fn is_there() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

pub fn size() -> (u16, u16) {
    match terminal::size() {
        // A serial line has no size.
        Err(_) | Ok((0, _) | (_, 0)) => (80, 24),
        Ok(size) => size,
    }
}

/// Restores the terminal. Ignores errors: it may be gone.
fn restore() {
    let mut out = io::stdout();
    let _ = execute!(
        out,
        Print(MOUSE_OFF),
        ResetColor,
        EnableLineWrap,
        Show,
        LeaveAlternateScreen
    );
    let _ = terminal::disable_raw_mode();
}

impl Tty {
    /// Takes the terminal. Fails if standard input is none.
    pub fn new() -> io::Result<Self> {
        let waiter = Waiter::with(&[Signal::SIGWINCH, Signal::SIGTSTP, Signal::SIGCONT])?;
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            usual(panic);
        }));
        terminal::enable_raw_mode()?;
        let mut tty = Self {
            waiter,
            input: Vec::new(),
            unread: Vec::new(),
            shown: Buffer::default(),
        };
        tty.enter();
        Ok(tty)
    }

    /// Shows `next`. Returns the output for it, which leaves out what is shown already.
    pub fn update(&mut self, next: Buffer) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        if self.shown.area != next.area {
            execute!(out, ResetColor, Clear(ClearType::All))?;
            self.shown = Buffer::empty(next.area);
        }
        CrosstermBackend::new(&mut out).draw(self.shown.diff(&next).into_iter())?;
        self.shown = next;
        Ok(out)
    }

    pub fn wait(&mut self, deadline: Instant) -> Event {
        loop {
            if !self.input.is_empty() {
                let event = self.input.remove(0);
                if event != Event::Key('\x1a') {
                    return event;
                }
                // ^Z is for all of this job, as a shell that waits for this process.
                self.stop(Pid::from_raw(0));
                return Event::Resized;
            }
            match self.waiter.wait(Some(deadline), Some(io::stdin().as_fd())) {
                Woken::Timeout => return Event::Timeout,
                Woken::Child => {}
                Woken::Ready => {
                    let mut bytes = [0; 1024];
                    match unistd::read(libc::STDIN_FILENO, &mut bytes) {
                        Err(Errno::EINTR | Errno::EAGAIN) => {}
                        // The terminal is gone.
                        Ok(0) | Err(_) => return Event::End,
                        Ok(read) => {
                            self.unread.extend(&bytes[..read]);
                            self.input.extend(events(&mut self.unread));
                        }
                    }
                }
                Woken::Signal(signal) => {
                    match signal.number {
                        libc::SIGWINCH => {}
                        libc::SIGCONT => self.enter(),
                        libc::SIGTSTP => self.stop(Pid::this()),
                        _ => return Event::End,
                    }
                    self.shown = Buffer::default();
                    return Event::Resized;
                }
            }
        }
    }

    /// Takes the terminal, also from a shell that has changed its settings meanwhile.
    fn enter(&mut self) {
        let _ = terminal::disable_raw_mode().and_then(|()| terminal::enable_raw_mode());
        let mut out = io::stdout();
        let _ = execute!(
            out,
            EnterAlternateScreen,
            Hide,
            DisableLineWrap,
            Print(MOUSE_ON)
        );
        self.shown = Buffer::default();
    }

    /// Stops this process, or its group if `whom` is 0, until SIGCONT comes. Takes the terminal
    /// again then, or at once if the kernel lets nobody stop: no shell is there who could go on
    /// with it.
    fn stop(&mut self, whom: Pid) {
        restore();
        let _ = signal::kill(whom, Signal::SIGTSTP);
        // It has been pending until here.
        let set = SigSet::from(Signal::SIGTSTP);
        let _ = set.thread_unblock().and_then(|()| set.thread_block());
        self.enter();
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns the keys: letters as they are; the arrows and others as these constants; ^C as `\x03`;
/// Escape as `\x1b`. And what the mouse did. Leaves the beginning of a sequence, whose rest may
/// come with the next read. An Escape alone is the key.
fn events(bytes: &mut Vec<u8>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut rest = &bytes[..];
    while let Some((first, after)) = rest.split_first() {
        if *first != 0x1b {
            events.push(Event::Key(char::from(*first)));
            rest = after;
            continue;
        }
        let Some((b'[' | b'O', after)) = after.split_first() else {
            if after.is_empty() && bytes.len() > 1 {
                break;
            }
            events.push(Event::Key('\x1b'));
            rest = after;
            continue;
        };
        let end = after.iter().position(|byte| (0x40..=0x7e).contains(byte));
        let Some(end) = end else { break };
        let key = match (&after[..end], after[end]) {
            (_, b'A') => Some(UP),
            (_, b'B') => Some(DOWN),
            (_, b'C') => Some(RIGHT),
            (_, b'D') => Some(LEFT),
            (b"5", b'~') => Some(PAGE_UP),
            (b"6", b'~') => Some(PAGE_DOWN),
            (_, b'H') | (b"1" | b"7", b'~') => Some(HOME),
            (_, b'F') | (b"4" | b"8", b'~') => Some(END),
            _ => None,
        };
        let mouse = || mouse(&after[..end], after[end]);
        events.extend(key.map(Event::Key).or_else(mouse));
        rest = &after[end + 1..];
    }
    // No terminal's sequence is so long.
    let left = if rest.len() < LONGEST { rest.len() } else { 0 };
    bytes.drain(..bytes.len() - left);
    events
}

/// Parses `<BUTTON;COLUMN;ROW` before `M`, a press; its release has an `m`.
fn mouse(numbers: &[u8], end: u8) -> Option<Event> {
    let numbers = std::str::from_utf8(numbers).ok()?.strip_prefix('<')?;
    let mut numbers = numbers.split(';').map(|number| number.parse::<u16>().ok());
    let mut next = || numbers.next()?;
    let (button, column, row) = (next()?, next()?, next()?);
    let mouse = match (button, end) {
        (0, b'M') => Mouse::Left,
        (2, b'M') => Mouse::Right,
        (64, b'M') => Mouse::Up,
        (65, b'M') => Mouse::Down,
        _ => return None,
    };
    // They count from 1.
    Some(Event::Mouse(
        mouse,
        (column.checked_sub(1)?, row.checked_sub(1)?),
    ))
}

#[cfg(test)]
mod tests {
    use super::{events, Event, Mouse};

    #[test]
    fn keys_of_terminals() {
        for (bytes, expected) in [
            (&b"jkq"[..], "jkq"),
            (
                b"\x1b[A\x1b[B\x1bOC\x1b[D",
                "\u{2191}\u{2193}\u{2192}\u{2190}",
            ),
            (
                b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[H\x1bOF",
                "\u{21de}\u{21df}\u{2196}\u{2198}\u{2196}\u{2198}",
            ),
            (b"\x1b", "\x1b"),
            (b"\x1b[1;5C \x03", "\u{2192} \x03"),
            (b"\x1b[200~x\x1b[", "x"),
        ] {
            let wanted: Vec<_> = expected.chars().map(Event::Key).collect();
            assert_eq!(events(&mut bytes.to_vec()), wanted, "{bytes:?}");
        }
        let bytes =
            b"\x1b[<0;5;3M\x1b[<0;5;3mj\x1b[<65;200;1M\x1b[<2;1;1M\x1b[<0;0;1M\x1b[<35;2;2M";
        let wanted = [
            Event::Mouse(Mouse::Left, (4, 2)),
            Event::Key('j'),
            Event::Mouse(Mouse::Down, (199, 0)),
            Event::Mouse(Mouse::Right, (0, 0)),
        ];
        // However it is split between two reads, but after the first Escape, which is the key then.
        for split in 2..=bytes.len() {
            let mut unread = bytes[..split].to_vec();
            let mut found = events(&mut unread);
            unread.extend(&bytes[split..]);
            found.extend(events(&mut unread));
            assert_eq!(found, wanted, "{split}");
        }
        let mut endless = b"\x1b[".to_vec();
        endless.extend([b'0'; 100]);
        assert_eq!((events(&mut endless), endless.len()), (Vec::new(), 0));
    }
}
