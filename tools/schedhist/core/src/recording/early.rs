// SPDX-License-Identifier: GPL-2.0

//! The groups in early recordings: the text of the file `groups`.

use std::fmt::Display;

use crate::{
    engine::{
        group::records::{CulpritKind, GroupCounter, GroupMetric},
        histogram::bucket::Scheme,
    },
    raw::{Group, Groups, Neighbour, Times},
    text::Pairs,
    units,
};

/// Parses the file `groups`; `None` if it cannot be parsed.
pub fn groups(text: &str) -> Option<Groups> {
    let mut lines = text.lines();
    if lines.next() != Some("# schedhist groups version 1") {
        return None;
    }
    let mut all = Groups {
        rule: String::new(),
        time: None,
        since: None,
        limit: None,
        refused: 0,
        memory: None,
        scheme: Scheme::DEFAULT,
        groups: Vec::new(),
    };
    for line in lines {
        match line.split_once(' ') {
            Some(("group_by", rule)) => rule.clone_into(&mut all.rule),
            Some(("time", number)) => all.time = number.parse().ok(),
            Some(("limit", number)) => all.limit = number.parse().ok(),
            Some(("refused", number)) => all.refused = number.parse().unwrap_or_default(),
            Some(("group", rest)) => all.groups.push(group(rest)?),
            Some(("in_progress", rest)) => in_progress(rest, &mut all)?,
            Some(("", rest)) => neighbour(rest.strip_prefix(" neighbour ")?, &mut all)?,
            // Other keys, such as those of later versions.
            _ => {}
        }
    }
    Some(all)
}

/// Returns a number; 0 if there is none, as `-`.
fn number(pairs: &Pairs, key: impl Display) -> u64 {
    units::clamp(pairs.number(&key.to_string()).unwrap_or_default())
}

fn times(pairs: &Pairs, key: impl Display) -> Times {
    (number(pairs, &key), number(pairs, format!("{key}_ns")))
}

fn group(rest: &str) -> Option<Group> {
    let pairs = Pairs::of_line(rest, "name")?;
    let mut group = Group::new(pairs.number("id")?, pairs.get("name")?);
    for (samples, metric) in group.samples.iter_mut().zip(GroupMetric::ALL) {
        let name = metric.name();
        samples.count = number(&pairs, format!("{name}_count"));
        samples.sum = pairs.number(&format!("{name}_sum_ns")).unwrap_or_default();
        samples.max = number(&pairs, format!("{name}_max_ns"));
    }
    for (count, counter) in group.counters.iter_mut().zip(GroupCounter::ALL) {
        *count = number(&pairs, counter.name());
    }
    for (place, culprit) in CulpritKind::ALL.into_iter().enumerate() {
        let name = culprit.name();
        group.ended_by[place] = times(&pairs, format!("ended_by_{name}"));
        group.preempted_by[place] = times(&pairs, format!("preempted_by_{name}"));
    }
    group.slices = times(&pairs, "oncpu_in_progress");
    group.runq_p99 = pairs.number("runq_p99_ns");
    Some(group)
}

fn in_progress(rest: &str, all: &mut Groups) -> Option<()> {
    let pairs = Pairs::of_line(rest, "")?;
    let id: u32 = pairs.number("id")?;
    // A group that is gone by now has no line.
    if let Some(group) = all.groups.iter_mut().find(|group| group.id == id) {
        group.waiting = times(&pairs, "runq_in_progress");
        group.unseen = times(&pairs, "oncpu_unseen");
    }
    Some(())
}

fn neighbour(rest: &str, all: &mut Groups) -> Option<()> {
    let pairs = Pairs::of_line(rest, "name")?;
    let of: u32 = pairs.number("of")?;
    let neighbour = Neighbour {
        id: pairs.number("id")?,
        name: pairs.get("name")?.into(),
        ended: (
            pairs.number("ended")?,
            units::clamp(pairs.number("ended_ns")?),
        ),
    };
    let group = all.groups.iter_mut().rev().find(|group| group.id == of)?;
    group.neighbours.push(neighbour);
    Some(())
}
