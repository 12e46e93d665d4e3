// SPDX-License-Identifier: GPL-2.0

//! What the groups of a command, or of what `run` is attached to, did between two times.

use schedhist_core::{
    distribution::Distribution,
    engine::group::records::{GroupCounter, GroupMetric},
    groups::GroupWindow,
    raw::Groups,
};

use crate::{
    recordings::runs::{COMMAND, COUNTS},
    setting::grouping::MORE_GROUPS,
};

#[derive(Debug, Default)]
pub struct Own {
    /// Of each metric, if there is a group.
    pub histograms: Vec<(GroupMetric, Distribution)>,
    /// The [`COUNTS`]; slices and waits in progress are in them.
    pub counts: [u64; COUNTS.len()],
    /// What may be missing.
    pub notes: Vec<String>,
}

impl Own {
    /// Takes the differences of those groups that are its own, at the beginning and at the end.
    /// `None`: tasks were not grouped. Returns why these do not tell, otherwise.
    pub fn between(
        old: Option<&Groups>,
        new: Option<&Groups>,
        whose: &str,
    ) -> Result<Self, String> {
        let both = old.zip(new).filter(|(old, new)| new.are_of(old));
        let (old, new) = both.ok_or("group_by was written meanwhile: run it again")?;
        let between = GroupWindow::new(Some(old), new);
        let lost = between.lost().len();
        let mut own = Self::default();
        if new.groups.is_empty() {
            return match () {
                () if lost != 0 => Err(format!(
                    "the group of the {whose} is gone: what it did is not known"
                )),
                () if new.refused == 0 && whose == COMMAND => {
                    Err("the module has no group of the command".to_owned())
                }
                // It has done nothing yet.
                () if new.refused == 0 => Ok(own),
                () if whose == COMMAND => Err(format!(
                    "there was no room for a group of the command: {MORE_GROUPS}"
                )),
                () => Err(format!(
                    "the module has no group of the {whose}, and was short of room for groups: \
                     {MORE_GROUPS}"
                )),
            };
        }
        if new.groups.iter().any(|group| between.went_back(group)) {
            return Err(format!(
                "a group of the {whose} has begun anew: what it did before is not known"
            ));
        }
        for metric in GroupMetric::ALL {
            let mut all = Distribution::new(new.scheme);
            for group in &new.groups {
                all.merge(&between.samples(group, &[metric]));
            }
            own.histograms.push((metric, all));
        }
        for group in &new.groups {
            let row = between.row(group);
            let counter = |of: GroupCounter| row.counters[of as usize];
            let counts = [
                counter(GroupCounter::Voluntary),
                counter(GroupCounter::Involuntary),
                counter(GroupCounter::Migrations),
                row.oncpu_ns,
                row.waits.1,
                between.not_in_histogram(group, &GroupMetric::ALL),
            ];
            for (all, more) in own.counts.iter_mut().zip(counts) {
                *all = all.saturating_add(more);
            }
        }
        if lost != 0 {
            let note = match lost {
                1 => format!("1 group of the {whose} is gone: what it did last is not counted"),
                lost => format!(
                    "{lost} groups of the {whose} are gone: what they did last is not counted"
                ),
            };
            own.notes.push(note);
        }
        let refused = new.refused.saturating_sub(old.refused);
        if refused != 0 {
            let of_it = match whose {
                COMMAND => "of a cgroup that the command has made",
                _ => "one that this is attached to",
            };
            own.notes.push(format!(
                "{refused} times, a task found no room for a group; if it was {of_it}, it is not \
                 counted as the {whose}'s: {MORE_GROUPS}"
            ));
        }
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use schedhist_core::{
        engine::histogram::bucket::{Precision, Scheme},
        raw::Group,
    };

    use super::*;

    fn scheme() -> Scheme {
        Scheme::new(Precision::new(5).unwrap())
    }

    /// Returns a group that has so many waits of 1 us.
    fn group(id: u32, name: &str, waits: u64) -> Group {
        let mut group = Group::new(id, name);
        let runq = &mut group.samples[GroupMetric::Runq as usize];
        runq.count = waits;
        runq.sum = u128::from(waits) * 1_000;
        runq.max = 1_000;
        runq.buckets = vec![(scheme().index(1_000) as u32, waits)];
        group.counters[GroupCounter::Voluntary as usize] = waits;
        group
    }

    fn groups(groups: &[(u32, &str, u64)]) -> Groups {
        let of = |(id, name, waits): &(u32, &str, u64)| group(*id, name, *waits);
        Groups {
            rule: "cgroup".to_owned(),
            time: Some(1),
            since: Some(0),
            limit: Some(255),
            refused: 0,
            memory: None,
            scheme: scheme(),
            groups: groups.iter().map(of).collect(),
        }
    }

    /// Returns the waits and their time, or the reason.
    fn waits(old: &Groups, new: &Groups, whose: &str) -> Result<(u64, u64), String> {
        let own = Own::between(Some(old), Some(new), whose)?;
        let runq = own
            .histograms
            .iter()
            .find(|(metric, _)| *metric == GroupMetric::Runq);
        assert_eq!(own.counts[0], runq.map_or(0, |(_, d)| d.count()));
        Ok((own.counts[0], own.counts[4]))
    }

    #[test]
    fn differences_of_each_group() {
        let old = groups(&[(1, "/a", 100), (2, "/a/b", 50)]);
        let grown = groups(&[(1, "/a", 110), (2, "/a/b", 55), (3, "/a/c", 2)]);
        assert_eq!(waits(&old, &grown, "cgroup"), Ok((17, 17_000)));
        // One is gone: what the others did is no longer than the interval.
        let less = groups(&[(1, "/a", 110)]);
        assert_eq!(waits(&old, &less, "cgroup"), Ok((10, 10_000)));
        let own = Own::between(Some(&old), Some(&less), "cgroup").unwrap();
        let note = "1 group of the cgroup is gone: what it did last is not counted";
        assert_eq!(own.notes, [note]);
        // Another one has its number.
        let other = groups(&[(1, "/a", 110), (2, "/a/c", 60)]);
        assert_eq!(waits(&old, &other, "cgroup"), Ok((70, 70_000)));
    }

    #[test]
    fn what_is_in_progress() {
        let mut old = groups(&[(1, "/a", 100)]);
        let mut new = old.clone();
        // It keeps its CPU all the while, and a task of it waits at the end.
        old.groups[0].slices = (1, 300_000);
        new.groups[0].slices = (1, 8_300_000);
        new.groups[0].waiting = (1, 40_000);
        let own = Own::between(Some(&old), Some(&new), "process").unwrap();
        assert_eq!(own.counts[3..5], [8_000_000, 40_000]);
    }

    #[test]
    fn no_differences() {
        let old = groups(&[(1, "/a", 100), (2, "/a/b", 50)]);
        let why = |new: &Groups, whose: &str| waits(&old, new, whose).unwrap_err();
        // A sum would hide it.
        let anew = groups(&[(1, "/a", 400), (2, "/a/b", 5)]);
        assert!(why(&anew, "cgroup").contains("a group of the cgroup has begun anew"));
        let none = groups(&[]);
        assert!(why(&none, "cgroup").contains("the group of the cgroup is gone"));
        let mut written = old.clone();
        written.since = Some(1);
        assert!(why(&written, "cgroup").contains("group_by was written meanwhile"));
        // It has run in neither.
        assert_eq!(waits(&none, &none, "process"), Ok((0, 0)));
        let why = waits(&none, &none, COMMAND).unwrap_err();
        assert!(why.contains("no group of the command"));
        let mut full = none.clone();
        full.refused = 1;
        let why = |whose| waits(&none, &full, whose).unwrap_err();
        assert!(
            why("process").contains("no group of the process") && why("process").contains("room")
        );
        assert!(why(COMMAND).contains("there was no room for a group of the command"));
    }
}
