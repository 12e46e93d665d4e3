// SPDX-License-Identifier: GPL-2.0

//! The histograms of groups, and what they got in an interval.

use std::collections::BTreeMap;

use schedhist_core::{
    distribution::Distribution,
    text::{self, Groups},
};

use crate::{
    failure::{Failure, Result},
    source::Source,
};

/// The histograms of groups by their numbers, interval by interval.
#[derive(Debug)]
pub struct GroupHistograms {
    metrics: Vec<String>,
    last: State,
}

/// What the files say at one time.
#[derive(Debug, Default)]
struct State {
    all: Groups,
    /// The groups, but for those that are gone.
    groups: BTreeMap<u32, Member>,
}

#[derive(Clone, Debug)]
struct Member {
    name: String,
    samples: Distribution,
    not_in_histogram: u64,
}

/// The samples of a group in an interval.
#[derive(Clone, Debug)]
pub struct Part {
    /// The number of the group; 0 has the tasks of no other group.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The samples; `None` for a group that is gone, whose last ones are not known.
    pub samples: Option<Distribution>,
    /// How many more there may be, of all metrics of groups: a group gets its histograms a moment
    /// after its first task has run.
    pub not_in_histogram: u64,
}

impl GroupHistograms {
    /// Returns an error if groups have no histogram of one of these metrics.
    pub fn check(metrics: &[String]) -> Result {
        if let Some(metric) = metrics
            .iter()
            .find(|m| !matches!(m.as_str(), "oncpu" | "runq" | "offcpu"))
        {
            return Err(Failure::Usage(format!(
                "groups have no histogram of {metric}, so -p, -P, -L, -c and --pidnss cannot show \
                 it"
            )));
        }
        Ok(())
    }

    /// Begins now. The samples of several metrics are added up.
    pub fn new(source: &Source, metrics: &[String]) -> Result<Self> {
        let mut groups = Self {
            metrics: metrics.to_vec(),
            last: State::default(),
        };
        groups.last = groups.state(source)?;
        Ok(groups)
    }

    /// Returns how often a task found no room for a group, since `group_by` was written.
    pub fn refused(&self) -> u64 {
        self.last.all.refused
    }

    fn state(&self, source: &Source) -> Result<State> {
        let groups = source.groups()?;
        let missing = groups.groups.iter().filter_map(|group| {
            let missing = group.pairs.number::<u64>("not_in_histogram")?;
            Some((group.id, missing))
        });
        let missing: BTreeMap<_, _> = missing.collect();
        let mut state = State {
            all: groups,
            groups: BTreeMap::new(),
        };
        for metric in &self.metrics {
            for (id, (name, samples)) in read(source, metric)? {
                if state.all.is_gone(id) {
                    continue;
                }
                state
                    .groups
                    .entry(id)
                    .and_modify(|group| group.samples.merge(&samples))
                    .or_insert(Member {
                        name,
                        samples,
                        not_in_histogram: missing.get(&id).copied().unwrap_or_default(),
                    });
            }
        }
        Ok(state)
    }

    /// Returns the samples of each group since the last call.
    pub fn next(&mut self, source: &Source) -> Result<Vec<Part>> {
        let state = self.state(source)?;
        if state.all.rule != self.last.all.rule {
            return Err(Failure::Error(format!(
                "{}: it was '{}', and someone has written '{}' meanwhile",
                source.path("group_by").display(),
                self.last.all.rule,
                state.all.rule
            )));
        }
        let is_there = |(id, old): (&u32, &Member)| {
            let now = state.groups.get(id);
            now.is_some_and(|now| state.all.is_same(&old.name, &now.name))
        };
        let gone = self.last.groups.iter().filter(|old| !is_there(*old));
        let gone = gone.map(|(id, old)| Part {
            id: *id,
            name: old.name.clone(),
            samples: None,
            not_in_histogram: 0,
        });
        let parts = state.groups.iter().map(|(id, group)| {
            let old = self.last.groups.get(id);
            let old = old.filter(|old| state.all.is_same(&old.name, &group.name));
            // If a count went back, it is another group of the same name.
            let since = old.and_then(|old| group.samples.since(&old.samples));
            let before = since
                .as_ref()
                .and(old)
                .map_or(0, |old| old.not_in_histogram);
            Part {
                id: *id,
                name: group.name.clone(),
                samples: Some(since.unwrap_or_else(|| group.samples.clone())),
                not_in_histogram: group.not_in_histogram.saturating_sub(before),
            }
        });
        let parts = gone.chain(parts).collect();
        self.last = state;
        Ok(parts)
    }
}

/// Returns the name and the histogram of each group, by the group's number.
pub fn read(source: &Source, metric: &str) -> Result<BTreeMap<u32, (String, Distribution)>> {
    let name = format!("group_hist/{metric}");
    let blocks = text::histograms(&source.text(&name)?)
        .map_err(|why| Failure::at(source.path(&name).display(), why))?;
    let blocks = blocks.into_iter().filter_map(|block| {
        let name = block.pairs.get("name")?.to_owned();
        Some((block.pairs.number("group")?, (name, block.distribution)))
    });
    Ok(blocks.collect())
}
