// SPDX-License-Identifier: GPL-2.0

//! Plays a recording: all its intervals are read first, and shown one after the other.

use std::{path::Path, rc::Rc};

use schedhist_core::{
    groups::GroupWindow,
    raw::Groups,
    recording::file::Item,
    text::{self, Outlier},
};

use super::history::{unix_at, Ended, GroupsOfInterval, History, Moment, PLAYED};
use crate::{
    error::{Error, Result},
    recordings::reader::{self, Event, NOT_TWO},
    source::Interval,
};

/// Returns the intervals of a recording, and the rule by which tasks were grouped last.
pub fn history(path: &Path, wanted: &str) -> Result<(History, String)> {
    let mut history = History {
        kept: PLAYED,
        wanted: wanted.to_owned(),
        ..History::default()
    };
    let (mut groups, mut rows) = (None::<Groups>, Rc::<GroupsOfInterval>::default());
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
                // What the first ones did before is of no interval.
                let now = old.map_or_else(Rc::default, |old| {
                    Rc::new(GroupsOfInterval::new(&GroupWindow::new(Some(&old), &new)))
                });
                let mut all = history.moments.iter_mut().rev();
                if let Some(moment) = all.next() {
                    moment.groups = now.clone();
                }
                let mut before = (*rows).clone();
                before.truncate();
                let before = Rc::new(before);
                for moment in all.take_while(|moment| Rc::ptr_eq(&moment.groups, &rows)) {
                    moment.groups = before.clone();
                }
                (groups, rows) = (Some(new), now);
            }
            Event::Other(Item::Outliers(text), _) => {
                place(&mut history, text::outliers(&text));
            }
            _ => {}
        }
        Ok(())
    })?;
    if history.moments.is_empty() {
        return Err(Error::at(path, NOT_TWO));
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
        history.outliers.push_back(Ended {
            unix_ns: unix_at(moment, end),
            end,
            outlier,
        });
    }
}
