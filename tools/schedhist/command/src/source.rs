// SPDX-License-Identifier: GPL-2.0

//! The files of the module, or a folder with copies of them. Reading them writes nothing.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use schedhist_core::{
    groups::SureNames,
    laws::{self, Checked},
    raw::{self, Groups},
    recording::file::TimedSnapshot,
    window::Window,
};

use crate::{
    error::{At, Error, Result},
    in_progress,
    sys::{self, Waiter},
};

pub const LIVE: &str = "/sys/kernel/debug/schedhist";

const SECOND: u64 = 1_000_000_000;

/// A folder with the files of the module.
#[derive(Clone, Debug)]
pub struct Source {
    dir: PathBuf,
}

/// A snapshot, with what belongs to it.
#[derive(Clone, Debug)]
pub struct Reading {
    pub timed: TimedSnapshot,
    /// The bytes that encode it.
    pub bytes: Vec<u8>,
    path: PathBuf,
    /// The file's device and inode, which differ from one load of the module to the next; `None`
    /// for a copy.
    identity: Option<(u64, u64)>,
}

/// The activity between two readings.
#[derive(Clone, Debug)]
pub struct Interval {
    pub window: Window,
    /// The wall-clock time of the end, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// How long it took to read the snapshots, in nanoseconds.
    pub read_ns: u64,
    /// The laws as they were checked for each of several recordings: what was in flight adds up.
    pub laws: Option<Checked>,
    /// What happened meanwhile that readers of the figures should know.
    pub notes: Vec<String>,
    /// The slices and waits that are in progress at the end, and of which nothing is in the
    /// figures.
    pub in_progress: Vec<String>,
}

impl Source {
    pub fn new(dir: Option<&Path>) -> Self {
        Self {
            dir: dir.unwrap_or(Path::new(LIVE)).to_owned(),
        }
    }

    /// Returns whether this is the module itself.
    pub fn is_live(&self) -> bool {
        self.dir == Path::new(LIVE)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns whether there is a file.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub fn text(&self, name: &str) -> Result<String> {
        let path = self.path(name);
        let bytes = fs::read(&path).map_err(|error| self.explain(&path, error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the groups; `None` if tasks are not grouped.
    pub fn groups(&self) -> Result<Option<Groups>> {
        self.read()?.groups()
    }

    /// Writes a control of the module.
    pub fn write(&self, name: &str, value: &(impl AsRef<[u8]> + ?Sized)) -> Result {
        let (path, value) = (self.path(name), value.as_ref());
        let shown = || String::from_utf8_lossy(value).trim().to_owned();
        // A copy has the old text; the module's files have none to cut off.
        let mut options = fs::OpenOptions::new();
        let written = options.write(true).truncate(true).open(&path);
        let written = written.and_then(|mut file| io::Write::write_all(&mut file, value));
        written.map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => {
                let why = format!(
                    "the module refuses {:?}: the kernel log says why (dmesg)",
                    shown()
                );
                Error::at(path, why)
            }
            Some(libc::ESRCH) => {
                Error::at(path, format!("there is no such process: {:?}", shown()))
            }
            _ => self.explain(&path, error),
        })
    }

    /// Takes a snapshot.
    pub fn read(&self) -> Result<Reading> {
        let path = self.path("raw");
        let start = Instant::now();
        let read = || -> io::Result<_> {
            let mut file = File::open(&path)?;
            let about = file.metadata()?;
            // The first read makes the whole snapshot.
            let mut bytes = vec![0; 1 << 16];
            let first = file.read(&mut bytes)?;
            let (read_ns, unix_ns) = (sys::since(start), unix_ns());
            bytes.truncate(first);
            file.read_to_end(&mut bytes)?;
            Ok((about, bytes, read_ns, unix_ns))
        };
        let (about, bytes, read_ns, unix_ns) =
            read().map_err(|error| self.explain(&path, error))?;
        let snapshot = raw::decode(&bytes).at(&path)?;
        Ok(Reading {
            timed: TimedSnapshot {
                unix_ns: match self.is_live() {
                    true => unix_ns,
                    false => modified(&about),
                },
                // Copies do not say how long it took: ten milliseconds are a lot.
                read_ns: if self.is_live() { read_ns } else { 10_000_000 },
                snapshot,
            },
            bytes,
            path,
            identity: self.is_live().then(|| (about.dev(), about.ino())),
        })
    }

    /// Returns an error of a file, with its remedy.
    pub fn explain(&self, path: &Path, error: io::Error) -> Error {
        let remedy = match error.kind() {
            _ if !self.is_live() && self.dir.is_dir() => "is this a copy of the module's folder?",
            _ if !self.is_live() => "there is no such folder",
            io::ErrorKind::NotFound if !Path::new("/sys/module/schedhist").exists() => {
                "the module is not loaded: modprobe schedhist"
            }
            io::ErrorKind::NotFound if !Path::new("/sys/kernel/debug/sched").exists() => {
                "debugfs is not mounted: mount -t debugfs none /sys/kernel/debug"
            }
            io::ErrorKind::NotFound if !self.dir.exists() => {
                "the module is being loaded or unloaded, or has failed to create it: see dmesg"
            }
            io::ErrorKind::NotFound => "the loaded module is of another version: schedhist doctor",
            io::ErrorKind::PermissionDenied if sys::euid() != 0 => {
                "only root may read and write it: run this as root, such as by sudo"
            }
            _ if error.raw_os_error() == Some(libc::EPERM) => {
                "the kernel is locked down, and lets nobody write to debugfs: schedhist doctor"
            }
            _ => "schedhist doctor looks for the cause",
        };
        Error::at(path, error).with_remedy(remedy)
    }
}

/// Returns when a file was written, in nanoseconds since 1970.
pub fn modified(about: &fs::Metadata) -> u64 {
    let seconds = u64::try_from(about.mtime()).unwrap_or_default();
    seconds.saturating_mul(SECOND) + u64::try_from(about.mtime_nsec()).unwrap_or_default()
}

pub fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

impl Interval {
    /// The activity between two snapshots, which must be of the same load of the module.
    pub fn between(begin: &TimedSnapshot, end: &TimedSnapshot) -> Result<Self> {
        let window = Window::between(&begin.snapshot, &end.snapshot).map_err(Error::new)?;
        let mut interval = Self::new(window, end);
        interval.read_ns = begin.read_ns.saturating_add(end.read_ns);
        Ok(interval)
    }

    /// The activity in a window that ends with a snapshot.
    pub fn new(window: Window, end: &TimedSnapshot) -> Self {
        let (is_off, is_switched) = (!end.snapshot.enabled, window.switched);
        let off = is_off.then_some("measuring is off: schedhist ctl enable 1");
        let switched = is_switched.then_some("measuring or a metric was switched on or off");
        Self {
            unix_ns: end.unix_ns,
            read_ns: end.read_ns,
            laws: None,
            notes: off.into_iter().chain(switched).map(str::to_owned).collect(),
            in_progress: Vec::new(),
            window,
        }
    }

    pub fn laws(&self) -> Checked {
        let checked = self.laws.clone();
        checked.unwrap_or_else(|| laws::check(&self.window, self.read_ns))
    }
}

impl Reading {
    pub fn since_load(&self) -> Interval {
        self.interval(Window::since_load(&self.timed.snapshot), SECOND)
    }

    /// Returns an interval that ends with this, and what has been in progress for longer than `ns`.
    fn interval(&self, window: Window, ns: u64) -> Interval {
        let mut interval = Interval::new(window, &self.timed);
        interval.in_progress = in_progress::longer(&self.timed.snapshot, ns);
        interval
    }

    /// Returns whether `old` is of the same load of the module, as far as the files tell: a copy is
    /// another file each time.
    pub fn is_same_load(&self, old: &Self) -> bool {
        self.identity.is_none() || self.identity == old.identity
    }

    /// Returns the activity since `old`. If the module was loaded anew meanwhile, returns that
    /// since the load, and a note says so.
    pub fn since(&self, old: &Self) -> Interval {
        let mut interval = match Window::between(&old.timed.snapshot, &self.timed.snapshot) {
            Ok(window) if self.is_same_load(old) => {
                let span = window.span.unwrap_or_default();
                self.interval(window, span)
            }
            reloaded => {
                let mut interval = self.since_load();
                interval.notes.push(match reloaded {
                    Ok(_) => "the module was loaded anew: since its load".to_owned(),
                    Err(why) => format!("{why}; since its load"),
                });
                interval
            }
        };
        interval.read_ns = interval.read_ns.saturating_add(old.timed.read_ns);
        interval.notes.extend(self.hotplug(old));
        interval
    }

    /// Returns a note if CPUs went online or offline since `old`.
    pub fn hotplug(&self, old: &Self) -> Option<String> {
        let online = |reading: &Self| reading.timed.snapshot.online();
        let (before, now) = (online(old)?, online(self)?);
        (before != now).then(|| format!("CPUs online: {before} before, {now} now"))
    }

    /// Returns the groups; `None` if tasks are not grouped.
    pub fn groups(&self) -> Result<Option<Groups>> {
        raw::groups(&self.bytes).at(&self.path)
    }

    /// Looks which names the groups have.
    pub fn see_names(&self, names: &mut SureNames) {
        let groups = self.groups().ok().flatten();
        names.see(self.timed.snapshot.time, groups.as_ref());
    }
}

/// Calls `show` with the activity of each interval. A signal that asks to end ends the current
/// interval, and is no failure. An interval begins with the snapshot that ended the one before, so
/// nothing falls between two intervals.
pub fn each_interval(
    source: &Source,
    first: Reading,
    interval: Option<Duration>,
    count: Option<u64>,
    show: &mut dyn FnMut(Interval, &Reading) -> Result,
) -> Result {
    let waiter = Waiter::new()?;
    let mut last = first;
    let mut next = Instant::now();
    let mut left = count;
    loop {
        // Measured from the beginning, so that delays do not add up.
        let deadline = interval.map(|interval| {
            next = (next + interval).max(Instant::now());
            next
        });
        let is_over = waiter.is_over_before(deadline);
        let reading = source.read()?;
        show(reading.since(&last), &reading)?;
        last = reading;
        left = left.map(|left| left - 1);
        if is_over || left == Some(0) {
            return Ok(());
        }
    }
}
