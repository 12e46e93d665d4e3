// SPDX-License-Identifier: GPL-2.0

//! Reads recordings.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{ErrorKind::NotFound, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use schedhist_core::{
    groups::GroupNames,
    limits::{Judged, Limit, Samples},
    raw::Groups,
    recording::{
        course::Course,
        file::{self, Item, Lost, Player, TimedSnapshot},
    },
    text::{self, Outlier, Pairs},
    window::Window,
};

use crate::{
    cli::When,
    error::{At, Error, Result},
    files::{self, with_ending},
    output::note,
    recordings::part::{self, Range, WHOLE},
    table::Cell,
};

/// The contents of a recording, as far as `report` and `diff` need them.
#[derive(Debug, Default)]
pub struct Contents {
    /// What was said of the machine.
    pub info: Pairs,
    /// How many there are.
    pub runs: usize,
    /// The first snapshot of each part without a gap, and the last one: two at least.
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
    /// Returns what became of limits.
    pub fn judge(&self, limits: &[Limit]) -> Vec<Judged> {
        let windows = self
            .spans
            .iter()
            .filter_map(|(first, last)| Window::between(&first.snapshot, &last.snapshot).ok());
        let samples = Samples {
            windows: &windows.collect::<Vec<_>>(),
            groups: self
                .groups
                .iter()
                .map(|part| (Some(&part.first), &part.last))
                .collect(),
            are_recorded: true,
        };
        limits.iter().map(|limit| limit.judge(&samples)).collect()
    }

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
            let fields = [
                ("schema", Cell::from("schedhist.lost.v1")),
                ("file", Cell::from(&*path.to_string_lossy())),
                ("why", Cell::from(&lost.why)),
                ("at", lost.at.into()),
                ("bytes", lost.bytes.into()),
                ("snapshots", lost.snapshots.into()),
                ("span_ns", Cell::time(lost.span)),
                ("is_cut", Cell::Flag(lost.is_cut)),
            ];
            Cell::object(fields).line()
        };
        self.0.iter().map(line).collect()
    }

    /// Returns the exit status: 1 if there is damage. A recorder that was killed is none.
    pub fn status(&self) -> u8 {
        u8::from(self.0.iter().any(|(_, lost)| !lost.is_cut))
    }
}

/// What a file has as `follows_unix_ns` if it follows none: else when that was begun.
pub const FOLLOWS_NONE: &str = "0";

/// What is missing where an interval is needed.
pub const NOT_TWO: &str = "there are not two snapshots without a gap between them";

/// Returns the error that an option chooses among intervals, and there are runs.
pub fn only_runs(option: &str, path: &Path) -> Error {
    let path = path.display();
    let why = format!("--{option}: {path} holds runs, which have no intervals");
    Error::usage(why)
}

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
}

/// A recording that is read: the files of `record --ring` one after the other.
pub struct Reader {
    /// The files that are still to be read, the last one first.
    files: Vec<(PathBuf, Player<File>)>,
    /// The file before, if it cannot be opened.
    unread: Option<(PathBuf, Lost)>,
    /// The times of the last snapshot, and of that of the file before.
    last: Option<(u64, u64)>,
    joint: Option<(u64, u64)>,
    /// Whether nothing is noted.
    is_quiet: bool,
    pub lost: Losses,
}

/// Returns whether a file is a recording, even of another version. One that was moved away
/// meanwhile is none.
pub fn is_recording(path: &Path) -> Result<bool> {
    let mut begin = Vec::new();
    match File::open(path).and_then(|file| file.take(8).read_to_end(&mut begin)) {
        Err(why) if why.kind() == NotFound => Ok(false),
        read => read.at(path).map(|_| file::is_recording(&begin)),
    }
}

fn player(path: &Path) -> Result<Player<File>> {
    let file = File::open(path).at(path)?;
    Player::new(file).at(path)
}

fn times(taken: &TimedSnapshot) -> (u64, u64) {
    (taken.unix_ns, taken.snapshot.time)
}

/// Returns the file that `record --ring` filled before this one, even if it cannot be opened.
pub fn file_before(path: &Path) -> Option<PathBuf> {
    let before = with_ending(path, "1");
    // This file may be a pipe: it is read only if there is another one.
    if !before.exists() {
        return None;
    }
    let of = |text: &str, key: &str| Pairs::of_lines(text).get(key).map(str::to_owned);
    let (mut follows, mut first, mut last) = (None, None, None);
    let mut new = player(path).ok()?;
    while first.is_none() {
        match new.next_item() {
            Some(Item::Info(text)) => follows = of(&text, "follows_unix_ns"),
            Some(Item::Snapshot(taken)) => first = Some(times(&taken)),
            Some(_) => {}
            None => break,
        }
    }
    if follows.as_deref() == Some(FOLLOWS_NONE) {
        return None;
    }
    let Ok(mut old) = player(&before) else {
        return follows.map(|_| before);
    };
    while let Some(item) = old.next_item() {
        match item {
            Item::Info(text) if follows.is_some() && last.is_none() => {
                return (of(&text, "begun_unix_ns") == follows).then_some(before);
            }
            Item::Snapshot(taken) => last = Some(times(&taken)),
            _ => {}
        }
    }
    // An early version, or what is damaged, does not say so. The file begins with the last snapshot
    // of the one before.
    (first.is_some() && first == last).then_some(before)
}

/// Returns an error if `out`, which is to be written, is a file of the recording.
pub fn check_other(path: &Path, out: &Path) -> Result {
    files::check_other(path, out)?;
    file_before(path).map_or(Ok(()), |before| files::check_other(&before, out))
}

pub fn open(path: &Path) -> Result<Reader> {
    let file = File::open(path).at(path)?;
    let opened = file.metadata();
    let mut files = vec![(path.to_owned(), Player::new(file).at(path)?)];
    let mut unread = None;
    if let Some(before) = file_before(path) {
        match player(&before) {
            Ok(player) => files.push((before, player)),
            Err(error) => {
                let lost = Lost {
                    why: error.why.to_string(),
                    bytes: fs::metadata(&before).map_or(0, |about| about.len()),
                    ..Lost::default()
                };
                unread = Some((before, lost));
            }
        }
        // If the ring has turned meanwhile, that is the file which is open already.
        if !files::are_same(opened, fs::metadata(path)) {
            return open(path);
        }
    }
    Ok(Reader {
        files,
        unread,
        last: None,
        joint: None,
        is_quiet: false,
        lost: Losses::default(),
    })
}

/// Returns what tells the files of a recording from those after the next turn of a ring.
fn identity(path: &Path) -> [Option<(u64, u64)>; 2] {
    let of = |path: &Path| {
        fs::metadata(path)
            .ok()
            .map(|about| (about.dev(), about.ino()))
    };
    [of(path), file_before(path).and_then(|before| of(&before))]
}

impl Reader {
    /// Returns whether the last snapshot was stored as its differences from the one before.
    pub fn is_difference(&self) -> bool {
        self.files
            .last()
            .is_some_and(|(_, player)| player.is_difference())
    }

    fn lose(&mut self, path: PathBuf, lost: Lost) -> Item {
        if !self.is_quiet {
            note(format!("{}: {lost}", path.display()));
        }
        self.lost.0.push((path, lost.clone()));
        Item::Lost(lost)
    }

    /// Returns the next item. Notes what cannot be read.
    pub fn next_item(&mut self) -> Option<Item> {
        if let Some((path, lost)) = self.unread.take() {
            return Some(self.lose(path, lost));
        }
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
                    let path = path.clone();
                    return Some(self.lose(path, lost));
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
    /// With when they were read, in nanoseconds since the first snapshot.
    Groups(Groups, u64),
    Outliers(Vec<Recorded>),
    /// The name of a group that outliers have.
    Name(GroupNames),
    /// All else but damage, which [`Reader`] tells.
    Other(Item),
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

/// Reads the chosen part of a recording, file by file: the one way through it. Returns what cannot
/// be read. Runs and marks are those of the whole recording.
pub fn walk(path: &Path, when: &When, mut tell: impl FnMut(Event<'_>) -> Result) -> Result<Losses> {
    let before = when.option().map(|_| identity(path));
    let range = part::chosen(when, path)?;
    let reader = open(path)?;
    if before.is_some_and(|before| identity(path) != before) {
        let why = "it was continued in another file while it was read: read it again";
        return Err(Error::at(path, why));
    }
    walk_with(reader, range, &mut tell)
}

/// Reads a recording that is read again: what cannot be read is noted then.
pub fn walk_quietly(path: &Path, mut tell: impl FnMut(Event<'_>) -> Result) -> Result<Losses> {
    let mut reader = open(path)?;
    reader.is_quiet = true;
    walk_with(reader, WHOLE, &mut tell)
}

/// Which groups of a part without a gap were told.
enum GroupsOfPart {
    /// None yet. The last ones before the chosen part, if there are any, begin what they do in it.
    Before(Option<(Groups, u64)>),
    Within,
    /// Those at the end of the chosen part, or the first ones after it, too.
    Over,
}

/// Where a walk is.
struct Walk {
    range: Range,
    course: Course,
    part: Option<Part>,
    groups: GroupsOfPart,
    /// The wall clock at the first snapshot, as the last one has it.
    clock: u64,
    outliers: BTreeSet<(u64, Option<u64>)>,
}

type Tell<'a> = &'a mut dyn FnMut(Event<'_>) -> Result;

impl Walk {
    fn end(&mut self, tell: Tell<'_>) -> Result {
        match self.part.take() {
            // It ended before the chosen one.
            Some(part) if part.last.is_none() && part.at < self.range.0 => Ok(()),
            Some(part) => tell(Event::Part(&part.first, part.last.as_ref())),
            None => Ok(()),
        }
    }

    fn snapshot(&mut self, taken: TimedSnapshot, is_difference: bool, tell: Tell<'_>) -> Result {
        let at = self.course.place(&taken);
        self.clock = taken.unix_ns.saturating_sub(at);
        // The part goes on until a gap: the groups that end it are still to come.
        if at > self.range.1 {
            return Ok(());
        }
        match &mut self.part {
            Some(part) if part.at >= self.range.0 && part.is_followed_by(&taken, is_difference) => {
                tell(Event::Pair(&SnapshotPair {
                    before: part.last(),
                    after: &taken,
                    at: (part.at, at),
                }))?;
                (part.last, part.at) = (Some(taken), at);
                Ok(())
            }
            _ => {
                self.end(tell)?;
                self.part = Some(Part {
                    first: taken,
                    last: None,
                    at,
                });
                Ok(())
            }
        }
    }

    fn groups(&mut self, groups: Groups, tell: Tell<'_>) -> Result {
        let at = self.course.of(groups.time);
        if at < self.range.0 {
            self.groups = GroupsOfPart::Before(Some((groups, at)));
            return Ok(());
        }
        self.tell_groups_before(tell)?;
        match self.groups {
            GroupsOfPart::Over => return Ok(()),
            // Those after it end what others have begun.
            GroupsOfPart::Before(_) if at > self.range.1 => return Ok(()),
            _ if at >= self.range.1 => self.groups = GroupsOfPart::Over,
            _ => self.groups = GroupsOfPart::Within,
        }
        tell(Event::Groups(groups, at))
    }

    fn tell_groups_before(&mut self, tell: Tell<'_>) -> Result {
        let GroupsOfPart::Before(before) = &mut self.groups else {
            return Ok(());
        };
        before.take().map_or(Ok(()), |(groups, at)| {
            self.groups = GroupsOfPart::Within;
            tell(Event::Groups(groups, at))
        })
    }

    /// What comes next does not follow what was before.
    fn gap(&mut self, tell: Tell<'_>) -> Result {
        // If no others followed them, their names are still those of the part.
        if self.part.as_ref().is_some_and(|part| part.last.is_some()) {
            self.tell_groups_before(tell)?;
        }
        self.groups = GroupsOfPart::Before(None);
        self.end(tell)
    }

    fn outliers(&mut self, text: &str, tell: Tell<'_>) -> Result {
        let place = |time| self.course.of(Some(time));
        let named = text
            .lines()
            .filter_map(|line| GroupNames::of_line(line, place));
        named.map(Event::Name).try_for_each(&mut *tell)?;
        let mut all = Vec::new();
        for outlier in text::outliers(text) {
            let end = outlier.end_ns;
            let at = self.course.of(end);
            let is_within = (self.range.0..=self.range.1).contains(&at);
            // Early versions stored some again and again.
            if is_within && self.outliers.insert((outlier.id, end)) {
                let unix_ns = self.clock.saturating_add(at);
                all.push(Recorded {
                    at,
                    unix_ns,
                    outlier,
                });
            }
        }
        tell(Event::Outliers(all))
    }
}

// Not generic: each copy takes 6 kB.
fn walk_with(mut reader: Reader, range: Range, tell: Tell<'_>) -> Result<Losses> {
    let mut walk = Walk {
        range,
        course: Course::default(),
        part: None,
        groups: GroupsOfPart::Before(None),
        clock: 0,
        outliers: BTreeSet::new(),
    };
    loop {
        let item = reader.next_item();
        if item.as_ref().is_none_or(is_gap) {
            walk.gap(tell)?;
        }
        match item {
            None => return Ok(reader.lost),
            Some(Item::Lost(_)) => {}
            Some(Item::Snapshot(taken)) => walk.snapshot(taken, reader.is_difference(), tell)?,
            Some(Item::Groups(groups)) => walk.groups(groups, tell)?,
            Some(Item::Outliers(text)) => walk.outliers(&text, tell)?,
            Some(item) => tell(Event::Other(item))?,
        }
    }
}

/// Reads the chosen part of a recording; calls `between` with each two snapshots that follow one
/// another without a gap.
pub fn read(
    path: &Path,
    when: &When,
    mut between: impl FnMut(&SnapshotPair<'_>) -> Result,
) -> Result<Contents> {
    read_runs(path, when, &mut between, &mut |_| Ok(()))
}

/// The same; calls `run` with each run, as it is encoded.
pub fn read_runs(
    path: &Path,
    when: &When,
    between: &mut dyn FnMut(&SnapshotPair<'_>) -> Result,
    run: &mut dyn FnMut(&str) -> Result,
) -> Result<Contents> {
    let mut contents = Contents::default();
    let mut is_new_part = true;
    let lost = walk(path, when, |event| {
        match event {
            Event::Pair(pair) => between(pair)?,
            Event::Part(first, last) => {
                let span = last.map(|last| (first.clone(), last.clone()));
                contents.spans.extend(span);
                is_new_part = true;
            }
            // That of the first file.
            Event::Other(Item::Info(text)) if contents.info.iter().next().is_none() => {
                contents.info = Pairs::of_lines(&text);
            }
            Event::Other(Item::Run(text)) => {
                contents.runs += 1;
                run(&text)?;
            }
            Event::Other(Item::Mark(text)) => contents.marks.push(text),
            Event::Groups(groups, at) => {
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
            Event::Name(name) => GroupNames::add(&mut contents.named, name),
            Event::Outliers(all) => contents.outliers.extend(all),
            Event::Other(_) => {}
        }
        Ok(())
    })?;
    contents.lost = lost;
    match when.option().filter(|_| contents.spans.is_empty()) {
        Some(option) if contents.runs != 0 && !has_intervals(path)? => Err(only_runs(option, path)),
        Some(_) => Err(no_interval(true).about(path)),
        None => Ok(contents),
    }
}

fn has_intervals(path: &Path) -> Result<bool> {
    let mut found = false;
    walk_quietly(path, |event| {
        found |= matches!(event, Event::Pair(_));
        Ok(())
    })?;
    Ok(found)
}
