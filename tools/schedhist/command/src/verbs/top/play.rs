// SPDX-License-Identifier: GPL-2.0

//! Plays a recording: all its intervals are read first, and shown one after the other.

use std::{path::Path, rc::Rc};

use schedhist_core::{groups::GroupWindow, raw::Groups};

use super::{
    history::{Ended, GroupsOfInterval, History, Moment, PLAYED},
    Limits,
};
use crate::{
    cli::Top,
    error::Result,
    recordings::reader::{self, no_interval, Event},
    source::Interval,
};

/// Returns the intervals of a recording, and the rule by which tasks were grouped last.
pub fn history(path: &Path, args: &Top, mut limits: Limits) -> Result<(History, String)> {
    let mut history = History {
        kept: PLAYED,
        wanted: args.metric.clone(),
        ..History::default()
    };
    let (mut groups, mut rows) = (None::<Groups>, Rc::<GroupsOfInterval>::default());
    reader::walk(path, &args.when, |event| {
        match event {
            Event::Pair(pair) => {
                let interval = Interval::between(pair.before, pair.after)?;
                let mut moment = Moment::new(&interval, rows.clone(), Vec::new());
                moment.limits = limits.judge(pair.after, groups.as_ref());
                history.push(&interval, moment);
            }
            Event::Part(..) => limits.before.clear(),
            // Recorded every ten seconds: they stand for the intervals until the next ones.
            Event::Groups(new, _) => {
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
            Event::Outliers(all) => history.outliers.extend(all.into_iter().map(|it| Ended {
                unix_ns: it.unix_ns,
                end: it.outlier.end_ns.unwrap_or_default(),
                outlier: it.outlier,
            })),
            _ => {}
        }
        Ok(())
    })?;
    if history.moments.is_empty() {
        return Err(no_interval(args.when.option().is_some()).about(path));
    }
    Ok((history, groups.map_or(String::new(), |groups| groups.rule)))
}
