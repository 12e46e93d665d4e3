// SPDX-License-Identifier: GPL-2.0

//! Plays a recording: all its intervals are read first, and shown one after the other.

use std::path::Path;

use schedhist_core::{
    groups::{GroupRow, GroupWindow},
    raw::Groups,
    recording::file::Item,
    text::{self, Outlier},
};

use super::history::{History, Moment, PLAYED};
use crate::{
    error::{Error, Result},
    recordings::reader::{self, Event, NO_INTERVAL},
    source::Interval,
};

/// Returns the intervals of a recording, and the rule by which tasks were grouped last.
pub fn history(path: &Path, wanted: &str) -> Result<(History, String)> {
    let mut history = History {
        kept: PLAYED,
        wanted: wanted.to_owned(),
        ..History::default()
    };
    let (mut groups, mut rows): (Option<Groups>, (Vec<GroupRow>, Option<u64>)) = Default::default();
    reader::walk(path, |event| {
        match event {
            Event::Pair(pair) => {
                let interval = Interval::between(pair.before, pair.after)?;
                let moment = Moment::new(&interval, rows.clone(), Vec::new());
                history.push(&interval, moment);
            }
            // Recorded every ten seconds: they stand for the intervals until the next ones.
            Event::Other(Item::Groups(new), _) => {
                let old = groups.take().filter(|old| old.are_of(&new));
                let between = GroupWindow::new(old.as_ref(), &new);
                rows = (between.rows(), between.span);
                groups = Some(new);
                if let Some(moment) = history.moments.back_mut() {
                    (moment.groups, moment.groups_span) = rows.clone();
                }
            }
            Event::Other(Item::Outliers(text), _) => {
                place(&mut history, text::outliers(&text));
            }
            _ => {}
        }
        Ok(())
    })?;
    if history.moments.is_empty() {
        return Err(Error::at(path, NO_INTERVAL));
    }
    Ok((history, groups.map_or(String::new(), |groups| groups.rule)))
}

/// Adds outliers of the last interval.
fn place(history: &mut History, outliers: Vec<Outlier>) {
    let Some(moment) = history.moments.back() else {
        return;
    };
    for outlier in outliers {
        let end = outlier.pairs.number("end_ns").unwrap_or(moment.end);
        let time = moment
            .unix_ns
            .saturating_sub(moment.end.saturating_sub(end));
        history.outliers.push_back((time, outlier));
    }
}
