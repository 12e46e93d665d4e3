// SPDX-License-Identifier: GPL-2.0

//! What the tests of the command share: folders, the command itself, a simulated machine.

#![allow(dead_code, unused_imports, reason = "not every test needs all of it")]

use std::{
    env, fs,
    ops::Deref,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::{
    resource::{getrusage, UsageWho},
    time::{TimeVal, TimeValLike},
};
use schedhist_core::{
    engine,
    raw::{self, Snapshot},
    recording::file::{Recorder, TimedSnapshot},
};

#[path = "../../../core/tests/sim/mod.rs"]
pub mod sim;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_schedhist");

/// A folder that is removed at the end of a test, unless that fails.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Returns the command, which runs in this folder, with words that blanks separate.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words.split_whitespace()).current_dir(&self.0);
        // Pages show the time of the clock.
        command.env("TZ", "UTC");
        command
    }

    pub fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs the command, which must succeed. Returns what it prints.
    pub fn text(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a script in which `$0` is the command.
    pub fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, PROGRAM]).current_dir(&self.0);
        shell
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.join(name)).unwrap()
    }

    /// Gives a file another content at once.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.join("new"), bytes).unwrap();
        fs::rename(self.join("new"), self.join(name)).unwrap();
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !thread::panicking() {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

/// Returns what was written to standard error, in one line.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the CPU time of the children in milliseconds, and in KiB the most memory that one has
/// had, which is at least that of this test.
pub fn used() -> (i64, i64) {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let time: TimeVal = usage.user_time() + usage.system_time();
    (time.num_milliseconds(), usage.max_rss())
}

/// Returns what nobody reads: as a pipe, it gives EPIPE.
pub fn closed() -> Stdio {
    OwnedFd::from(UnixStream::pair().unwrap().0).into()
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "not within two minutes: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether a program is there; if it has to be, fails otherwise.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--help").output().is_ok();
    let is_needed = env::var_os("SCHEDHIST_PEERS").is_some();
    assert!(found || !is_needed, "{program} is missing");
    if !found {
        eprintln!("not tested: {program} is missing");
    }
    found
}

pub fn recorder(path: &Path, info: &str) -> Recorder<fs::File> {
    let mut recorder = Recorder::new(fs::File::create(path).unwrap()).unwrap();
    recorder.info(info).unwrap();
    recorder
}

/// Records the contents of the file `raw`.
pub fn record(recorder: &mut Recorder<fs::File>, bytes: &[u8], unix_ns: u64) -> Snapshot {
    let timed = TimedSnapshot {
        unix_ns,
        read_ns: 0,
        snapshot: raw::decode(bytes).unwrap(),
    };
    recorder.snapshot(&timed, bytes).unwrap();
    timed.snapshot
}
