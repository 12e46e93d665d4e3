// SPDX-License-Identifier: GPL-2.0

//! Chains added up: on whom the tasks of a group, or of a name, depended.

use std::cmp::Reverse;

use schedhist_core::{
    chains::{did, parts, sum, Chain},
    culprits::pool,
    gather::{entry, key_in},
    text::Outlier,
};

use crate::table::Cell;

/// Adds a time. That of a recording may come from someone else.
fn add_to(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

/// What the tasks of a group, or of a name, depended on during their outliers, by their chains;
/// times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependence {
    /// Of how many outliers.
    pub chains: u64,
    /// For how long in all: what follows adds up to that.
    pub sum_ns: u64,
    /// By the group or the name of whom they waited for: what those did, as in [`Hop::parts`].
    pub hops: Vec<(String, [u64; 4])>,
    /// What no hop explains, as in [`Chain::rest`].
    pub rest: Vec<(&'static str, u64)>,
    pub blocked_ns: u64,
    pub missing_ns: u64,
}

impl Dependence {
    /// Adds the chain of an outlier; `who` names a task by its group and its own name.
    pub fn add(&mut self, chain: &Chain, who: &dyn Fn(u32, &str) -> String) {
        self.chains += 1;
        for (number, hop) in chain.hops.iter().enumerate() {
            let name = match number {
                0 => "itself".to_owned(),
                _ => who(hop.group, &hop.comm),
            };
            let name = key_in(&self.hops, name);
            let sums = entry(&mut self.hops, name).iter_mut();
            sums.zip(hop.parts())
                .for_each(|(sum, (_, ns))| add_to(sum, ns));
            add_to(&mut self.sum_ns, hop.sum_ns());
        }
        for (what, ns) in chain.rest() {
            add_to(entry(&mut self.rest, what), ns);
            add_to(&mut self.sum_ns, ns);
        }
        add_to(&mut self.blocked_ns, chain.blocked_ns);
        add_to(&mut self.missing_ns, chain.missing_ns);
    }

    /// Returns its parts in words, each with its time, the longest first; `time` prints a time.
    pub fn parts(&self, time: &dyn Fn(u64) -> String) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = Vec::new();
        for (name, times) in &self.hops {
            let what = format!("{name}: {}", did(&parts(*times), time));
            all.push((what, sum(*times)));
        }
        for (what, ns) in &self.rest {
            all.push(((*what).to_owned(), *ns));
        }
        all.retain(|(_, ns)| *ns != 0);
        all.sort_by_cached_key(|(_, ns)| Reverse(*ns));
        all
    }

    /// Returns the law in words.
    pub fn law(&self) -> String {
        let mut sums = [0; 4];
        for (_, times) in &self.hops {
            sums.iter_mut()
                .zip(times)
                .for_each(|(sum, ns)| add_to(sum, *ns));
        }
        let rest = [("blocked", self.blocked_ns), ("not known", self.missing_ns)];
        let mut out = String::new();
        for (what, ns) in parts(sums).into_iter().chain(rest) {
            if ns != 0 {
                let plus = if out.is_empty() { "in ns:" } else { " +" };
                out += &format!("{plus} {what} {ns}");
            }
        }
        out + &format!(" = {}", self.sum_ns)
    }
}

/// Adds the chain of an outlier, if it has one, to those of its group, or of its name if it has no
/// group; `name` names a group.
pub fn add(
    all: &mut Vec<(String, Dependence)>,
    outlier: &Outlier,
    name: &dyn Fn(u32) -> Option<String>,
) {
    let Some(chain) = &outlier.chain else { return };
    let who = |group: u32, comm: &str| name(group).unwrap_or_else(|| pool(comm));
    let name = key_in(all, who(outlier.group, &outlier.comm));
    entry(all, name).add(chain, &who);
}

/// Returns the object of what one group, or one name, depended on.
pub fn json((name, it): &(String, Dependence)) -> Cell {
    let hop = |(name, times): &(String, [u64; 4])| {
        let name = [("name".into(), Cell::from(name))];
        Cell::object(name.into_iter().chain(Cell::times(parts(*times))))
    };
    Cell::object([
        ("name", Cell::from(name)),
        ("chains", it.chains.into()),
        ("sum_ns", Cell::Time(it.sum_ns)),
        ("blocked_ns", Cell::Time(it.blocked_ns)),
        ("missing_ns", Cell::Time(it.missing_ns)),
        ("hops", it.hops.iter().map(hop).collect()),
    ])
}
