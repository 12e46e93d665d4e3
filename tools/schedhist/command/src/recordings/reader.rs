// SPDX-License-Identifier: GPL-2.0

//! Reads recordings.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
};

use schedhist_core::{
    groups::GroupNames,
    raw::Groups,
    recording::{
        course::Course,
        file::{Item, Lost, Player, TimedSnapshot},
    },
    text::{self, Outlier, Pairs},
    window::Window,
};

use crate::{
    error::{At, Error, Result},
    files::with_ending,
    output::note,
    recordings::{part::Range, runs::Run},
    table::Cell,
};

/// The contents of a recording, as far as `report` and `diff` need them.
#[derive(Debug, Default)]
pub struct Contents {
    /// What was said of the machine.
    pub info: Pairs,
    pub runs: Vec<Run>,
    /// The first snapshot of each part without a gap, and the last one.
    pub spans: Vec<(TimedSnapshot, TimedSnapshot)>,
    /// What happened, in words.
    pub marks: Vec<String>,
    /// The groups of each part without a gap in which they were of one rule.
    pub groups: Vec<GroupsPart>,
    /// The names of the groups of outliers, beside these.
    named: Vec<GroupNames>,
    pub outliers: Vec<Recorded>,
    pub lost: Losses,
}

/// An outlier as it was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// Its end, in nanoseconds since the first snapshot.
    pub at: u64,
    /// The same by the wall clock, in nanoseconds since 1970.
    pub unix_ns: u64,
    pub outlier: Outlier,
}

impl Contents {
    /// Returns what the numbers of groups mean, part by part.
    pub fn numbers(&self) -> Vec<GroupNames> {
        let parts = self.groups.iter();
        parts
            .map(|part| GroupNames::new(part.at, &part.first, &part.last))
            .chain(self.named.iter().cloned())
            .collect()
    }
}

/// The groups as they were recorded first and last.
#[derive(Debug)]
pub struct GroupsPart {
    pub first: Groups,
    pub last: Groups,
    /// When these were, in nanoseconds since the first snapshot.
    pub at: (u64, u64),
}

/// What cannot be read of recordings: each with the file.
#[derive(Debug, Default)]
pub struct Losses(pub Vec<(PathBuf, Lost)>);

impl Losses {
    /// Notes them: for one who has read quietly.
    pub fn note(&self) {
        for (path, lost) in &self.0 {
            note(format!("{}: {lost}", path.display()));
        }
    }

    /// Returns what was lost as JSON, an object to a line.
    pub fn json(&self) -> String {
        let line = |(path, lost): &(PathBuf, Lost)| {
            let fields = vec![
                ("schema".into(), Cell::from("schedhist.lost.v1")),
                ("file".into(), Cell::from(&*path.to_string_lossy())),
                ("why".into(), Cell::from(&lost.why)),
                ("at".into(), Cell::Number(lost.at.into())),
                ("bytes".into(), Cell::Number(lost.bytes.into())),
                ("snapshots".into(), Cell::Number(lost.snapshots.into())),
                ("span_ns".into(), Cell::time(lost.span)),
                ("is_cut".into(), Cell::Flag(lost.is_cut)),
            ];
            Cell::Object(fields).line()
        };
        self.0.iter().map(line).collect()
    }

    /// Returns the exit status: 1 if there is damage. A recorder that was killed is none.
    pub fn status(&self) -> u8 {
        u8::from(self.0.iter().any(|(_, lost)| !lost.is_cut))
    }
}

/// What is missing where an interval is needed.
pub const NOT_TWO: &str = "there are not two snapshots without a gap between them";

/// Returns the error that a recording has no interval, or none within times that were chosen.
pub fn no_interval(is_part: bool) -> Error {
    Error::new(match is_part {
        true => "no interval is within these times",
        false => NOT_TWO,
    })
}

pub struct SnapshotPair<'a> {
    pub before: &'a TimedSnapshot,
    pub after: &'a TimedSnapshot,
    /// When they were taken, in nanoseconds since the first snapshot of the recording.
    pub at: (u64, u64),
}

impl SnapshotPair<'_> {
    pub fn window(&self) -> Result<Window> {
        Window::between(&self.before.snapshot, &self.after.snapshot).map_err(Error::new)
    }

    pub fn is_within(&self, (from, to): Range) -> bool {
        self.at.0 >= from && self.at.1 <= to
    }
}

/// A recording that is read: the files of `record --ring` one after the other.
pub struct Reader {
    /// The files that are still to be read, the last one first.
    files: Vec<(PathBuf, Player<File>)>,
    /// The times of the last snapshot, and of that of the file before.
    last: Option<(u64, u64)>,
    joint: Option<(u64, u64)>,
    /// Whether nothing is noted.
    is_quiet: bool,
    pub lost: Losses,
}

pub fn is_recording(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| Player::new(file).is_ok())
}

fn player(path: &Path) -> Result<Player<File>> {
    let file = File::open(path).at(path)?;
    Player::new(file).at(path)
}

fn times(taken: &TimedSnapshot) -> (u64, u64) {
    (taken.unix_ns, taken.snapshot.time)
}

/// Returns the file that `record --ring` filled before this one.
pub fn file_before(path: &Path) -> Option<PathBuf> {
    let before = with_ending(path, "1");
    // This file may be a pipe: it is read only if there is another one.
    let mut old = player(&before).ok()?;
    let mut new = player(path).ok()?;
    let mut follows = None;
    let of = |text: &str, key: &str| Pairs::of_lines(text).get(key).map(str::to_owned);
    let mut items = std::iter::from_fn(|| new.next_item());
    let first = items.find_map(|item| match item {
        Item::Info(text) => {
            follows = of(&text, "follows_unix_ns");
            None
        }
        Item::Snapshot(taken) => Some(times(&taken)),
        _ => None,
    })?;
    let mut items = std::iter::from_fn(|| old.next_item());
    if follows.is_some() {
        let begun = items.find_map(|item| match item {
            Item::Info(text) => Some(of(&text, "begun_unix_ns")),
            _ => None,
        })?;
        return (begun == follows).then_some(before);
    }
    // An early version did not say so. The file begins with the last snapshot of the one before.
    let last = items.filter_map(|item| match item {
        Item::Snapshot(taken) => Some(times(&taken)),
        _ => None,
    });
    (last.last() == Some(first)).then_some(before)
}

pub fn open(path: &Path) -> Result<Reader> {
    let mut files = vec![(path.to_owned(), player(path)?)];
    if let Some(before) = file_before(path) {
        files.push((before.clone(), player(&before)?));
    }
    Ok(Reader {
        files,
        last: None,
        joint: None,
        is_quiet: false,
        lost: Losses::default(),
    })
}

impl Reader {
    /// Returns whether the last snapshot was stored as its differences from the one before.
    pub fn is_difference(&self) -> bool {
        self.files
            .last()
            .is_some_and(|(_, player)| player.is_difference())
    }

    /// Returns the next item. Notes what cannot be read.
    pub fn next_item(&mut self) -> Option<Item> {
        loop {
            let (path, player) = self.files.last_mut()?;
            let item = player.next_item();
            if item.as_ref().is_some_and(is_gap) {
                // A part begins with the next snapshot, even if the file before has it.
                (self.last, self.joint) = (None, None);
            }
            match item {
                None => {
                    self.files.pop();
                    self.joint = self.last;
                }
                Some(Item::Lost(lost)) => {
                    if !self.is_quiet {
                        note(format!("{}: {lost}", path.display()));
                    }
                    self.lost.0.push((path.clone(), lost.clone()));
                    return Some(Item::Lost(lost));
                }
                Some(Item::Snapshot(taken)) => {
                    self.last = Some(times(&taken));
                    // Both files may have it.
                    if self
                        .joint
                        .take()
                        .is_none_or(|joint| Some(joint) != self.last)
                    {
                        return Some(Item::Snapshot(taken));
                    }
                }
                item => return item,
            }
        }
    }
}

/// Returns whether the snapshots before an item and after it are not compared.
fn is_gap(item: &Item) -> bool {
    match item {
        Item::Lost(_) => true,
        Item::Mark(text) => text.starts_with("gap:"),
        _ => false,
    }
}

/// What a recording holds, in its order.
pub enum Event<'a> {
    Pair(&'a SnapshotPair<'a>),
    /// The end of a part without a gap: its first snapshot, and its last one if there are several.
    Part(&'a TimedSnapshot, Option<&'a TimedSnapshot>),
    /// All else but damage, which [`Reader`] tells, and the course up to it.
    Other(Item, &'a Course),
}

/// A part of a recording without a gap, as it is read.
struct Part {
    first: TimedSnapshot,
    last: Option<TimedSnapshot>,
    /// When the last snapshot was taken, in nanoseconds since the first one of the recording.
    at: u64,
}

impl Part {
    fn last(&self) -> &TimedSnapshot {
        self.last.as_ref().unwrap_or(&self.first)
    }

    /// Returns whether a snapshot is of the same load of the module. A difference is.
    fn is_followed_by(&self, taken: &TimedSnapshot, is_difference: bool) -> bool {
        is_difference || Window::between(&self.last().snapshot, &taken.snapshot).is_ok()
    }
}

/// Reads a recording to its end, file by file: the one way through it. Returns what cannot be read.
pub fn walk(path: &Path, mut tell: impl FnMut(Event<'_>) -> Result) -> Result<Losses> {
    walk_with(open(path)?, &mut tell)
}

/// Reads a recording that is read again: what cannot be read is noted then.
pub fn walk_quietly(path: &Path, mut tell: impl FnMut(Event<'_>) -> Result) -> Result<Losses> {
    let mut reader = open(path)?;
    reader.is_quiet = true;
    walk_with(reader, &mut tell)
}

// Not generic: each copy takes 6 kB.
fn walk_with(mut reader: Reader, tell: &mut dyn FnMut(Event<'_>) -> Result) -> Result<Losses> {
    let mut course = Course::default();
    let mut part: Option<Part> = None;
    loop {
        let item = reader.next_item();
        let is_gap = item.as_ref().is_none_or(is_gap);
        let mut end = |part: Option<Part>| match part {
            Some(part) => tell(Event::Part(&part.first, part.last.as_ref())),
            None => Ok(()),
        };
        if is_gap {
            end(part.take())?;
        }
        match item {
            None => return Ok(reader.lost),
            Some(Item::Lost(_)) => {}
            Some(Item::Snapshot(taken)) => {
                let at = course.place(&taken);
                let is_difference = reader.is_difference();
                match part
                    .as_mut()
                    .filter(|part| part.is_followed_by(&taken, is_difference))
                {
                    Some(part) => {
                        tell(Event::Pair(&SnapshotPair {
                            before: part.last(),
                            after: &taken,
                            at: (part.at, at),
                        }))?;
                        (part.last, part.at) = (Some(taken), at);
                    }
                    None => {
                        let first = taken;
                        end(part.replace(Part {
                            first,
                            last: None,
                            at,
                        }))?;
                    }
                }
            }
            Some(item) => tell(Event::Other(item, &course))?,
        }
    }
}

/// Reads a recording to its end; calls `between` with each two snapshots that follow one another
/// without a gap.
pub fn read(path: &Path, mut between: impl FnMut(&SnapshotPair<'_>) -> Result) -> Result<Contents> {
    read_with(path, &mut between)
}

fn read_with(
    path: &Path,
    between: &mut dyn FnMut(&SnapshotPair<'_>) -> Result,
) -> Result<Contents> {
    let mut contents = Contents::default();
    let mut is_new_part = true;
    let mut outliers = BTreeSet::new();
    // The wall clock at the first snapshot, as the last one has it.
    let mut clock = 0;
    let lost = walk(path, |event| {
        match event {
            Event::Pair(pair) => {
                clock = pair.after.unix_ns.saturating_sub(pair.at.1);
                between(pair)?;
            }
            Event::Part(first, last) => {
                let last = last.unwrap_or(first);
                contents.spans.push((first.clone(), last.clone()));
                is_new_part = true;
            }
            // That of the first file.
            Event::Other(Item::Info(text), _) if contents.info.iter().next().is_none() => {
                contents.info = Pairs::of_lines(&text);
            }
            Event::Other(Item::Run(text), _) => contents.runs.push(Run::decode(&text).at(path)?),
            Event::Other(Item::Mark(text), _) => contents.marks.push(text),
            Event::Other(Item::Groups(groups), course) => {
                let at = course.of(groups.time);
                match contents.groups.last_mut() {
                    Some(part) if !is_new_part && part.last.are_of(&groups) => {
                        (part.last, part.at.1) = (groups, at);
                    }
                    _ => contents.groups.push(GroupsPart {
                        first: groups.clone(),
                        last: groups,
                        at: (at, at),
                    }),
                }
                is_new_part = false;
            }
            Event::Other(Item::Outliers(text), course) => {
                let place = |time| course.of(Some(time));
                let named = { text.lines() }.filter_map(|line| GroupNames::of_line(line, place));
                named.for_each(|one| GroupNames::add(&mut contents.named, one));
                for outlier in text::outliers(&text) {
                    let end = outlier.pairs.number::<u64>("end_ns");
                    // Early versions stored some again and again.
                    if outliers.insert((outlier.id, end)) {
                        let at = course.of(end);
                        contents.outliers.push(Recorded {
                            at,
                            unix_ns: clock.saturating_add(at),
                            outlier,
                        });
                    }
                }
            }
            Event::Other(..) => {}
        }
        Ok(())
    })?;
    contents.lost = lost;
    Ok(contents)
}
