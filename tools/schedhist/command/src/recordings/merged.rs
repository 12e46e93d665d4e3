// SPDX-License-Identifier: GPL-2.0

//! Many recordings at once: one after the other, so that memory does not depend on their number.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use schedhist_core::{
    gather::Gather,
    laws::{self, Checked},
    merge,
    recording::file::Item,
    window::Window,
};

use crate::{
    cli::When,
    error::{At, Error, Result},
    output::note,
    recordings::reader::{self, no_interval, Event, Losses},
    source::Interval,
};

/// Returns the recordings that paths stand for, each once: a folder stands for all recordings in
/// it, by name.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(path).at(path)? {
            let file = entry.at(path)?.path();
            if file.is_file() && reader::is_recording(&file)? {
                found.push(file);
            }
        }
        found.sort_unstable();
        if found.is_empty() {
            return Err(Error::at(path, "there is no recording in this folder"));
        }
        all.extend(found);
    }
    // However they are spelled.
    let place = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // With `--ring`, the file before is read with the one that follows it.
    let before = all.iter().filter_map(|path| reader::file_before(path));
    let mut seen: BTreeSet<_> = before.map(|path| place(&path)).gather();
    all.retain(|path| seen.insert(place(path)));
    Ok(all)
}

/// How many laws that do not hold are told.
const VIOLATIONS: usize = 10;

#[derive(Default)]
struct Sum {
    window: Option<Window>,
    /// The number of recordings.
    files: usize,
    /// The laws that do not hold, of which file.
    violations: Vec<String>,
    laws: Checked,
    unix_ns: u64,
    marks: usize,
    lost: Losses,
}

impl Sum {
    fn add(&mut self, path: &Path, window: &Window) -> Result {
        match &mut self.window {
            Some(sum) => merge::add(sum, window)
                .map_err(|what| format!("it cannot be added to the others: {what} differs"))
                .at(path),
            sum => {
                *sum = Some(window.clone());
                Ok(())
            }
        }
    }

    /// Adds what happened between the first and the last snapshot of each part of a recording.
    fn file(&mut self, path: &Path, when: &When) -> Result {
        let mut found = false;
        let walked = reader::walk(path, when, |event| {
            match event {
                Event::Part(first, Some(last)) => {
                    let window = Window::between(&first.snapshot, &last.snapshot);
                    let window = window.at(path)?;
                    let read_ns = last.read_ns.saturating_add(first.read_ns);
                    let laws = laws::check(&window, read_ns);
                    let violations = laws.violations.iter();
                    let named = violations.map(|why| format!("{}: {why}", path.display()));
                    self.violations.extend(named);
                    self.laws.add(laws);
                    self.unix_ns = self.unix_ns.max(last.unix_ns);
                    self.add(path, &window)?;
                    found = true;
                }
                Event::Other(Item::Mark(_)) => self.marks += 1,
                _ => {}
            }
            Ok(())
        });
        let mut lost = match walked {
            // The time of day may be that of another recording.
            Err(why) if why.path.as_deref() == Some(Path::new("--time")) => {
                note(why);
                return Ok(());
            }
            walked => walked?,
        };
        self.lost.0.append(&mut lost.0);
        if !found {
            note(no_interval(when.option().is_some()).about(path));
        }
        self.files += usize::from(found);
        Ok(())
    }
}

/// Returns the sum of recordings as one interval, and what could not be read.
pub fn interval(paths: &[PathBuf], when: &When) -> Result<(Interval, Losses)> {
    let mut sum = Sum::default();
    for path in paths {
        sum.file(path, when)?;
    }
    let Some(window) = sum.window else {
        return Err(no_interval(when.option().is_some()));
    };
    let mut notes = vec![format!(
        "{} recordings are added up, CPUs of the same number together, for {} in all",
        sum.files,
        schedhist_page::duration(window.span.unwrap_or_default())
    )];
    if sum.marks != 0 {
        notes.push(format!("there are {} marks, such as gaps", sum.marks));
    }
    if !sum.lost.0.is_empty() {
        notes.push(format!("{} parts cannot be read", sum.lost.0.len()));
    }
    let more = sum.violations.len().saturating_sub(VIOLATIONS);
    notes.extend(sum.violations.into_iter().take(VIOLATIONS));
    if more != 0 {
        notes.push(format!("{more} more laws do not hold"));
    }
    let interval = Interval {
        window,
        unix_ns: sum.unix_ns,
        read_ns: 0,
        laws: Some(sum.laws),
        notes,
        in_progress: Vec::new(),
    };
    Ok((interval, sum.lost))
}
