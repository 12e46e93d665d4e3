// SPDX-License-Identifier: GPL-2.0

//! The names of groups that are a process or a thread.

use core::{
    fmt::{
        self,
        Write, //
    },
    ops::Deref, //
};

use crate::engine::format::up_to_nul;

/// The name of a group that is a process or a thread: its PID, a colon, and the name of the thread.
///
/// # Invariants
///
/// `len` is at most the length of `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct TaskName {
    bytes: [u8; Self::MAX_LEN],
    len: usize,
}

impl TaskName {
    /// The length of the longest name: a PID has up to 7 digits, a thread's name up to 15 bytes.
    pub const MAX_LEN: usize = 24;

    /// Creates the name of the thread `pid`. `comm` ends at its first NUL.
    pub fn new(pid: i32, comm: &[u8]) -> Self {
        // INVARIANT: There is nothing yet.
        let mut name = Self {
            bytes: [0; Self::MAX_LEN],
            len: 0,
        };
        // Cannot fail, see `push()`.
        let _ = write!(name, "{pid}:");
        name.push(up_to_nul(comm));
        name
    }

    /// Appends the bytes for which there is room.
    fn push(&mut self, bytes: &[u8]) {
        let room = self.bytes.iter_mut().skip(self.len);
        for (place, byte) in room.zip(bytes) {
            *place = *byte;
            // INVARIANT: This place exists.
            self.len += 1;
        }
    }
}

impl Write for TaskName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl Deref for TaskName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
