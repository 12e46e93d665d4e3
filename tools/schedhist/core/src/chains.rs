// SPDX-License-Identifier: GPL-2.0

//! Chains: who could have ended an outlier earlier. Parses the file `chains`.

use std::cmp::Reverse;

use crate::{
    culprits::pool,
    text::{Outlier, Pairs},
};

/// A task in a chain; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub pid: i32,
    pub comm: String,
    /// The CPU on which it woke the task of the hop before, and the number of its group then; 0 for
    /// none.
    pub cpu: u32,
    pub group: u32,
    /// How it woke the task of the hop before: `task`, `softirq` or `fork`; `-` for the first.
    pub via: String,
    /// How many slices it had.
    pub slices: u64,
    pub ran_ns: u64,
    /// After its wakeup, for a CPU.
    pub waited_ns: u64,
    pub preempted_ns: u64,
    pub throttled_ns: u64,
}

impl Hop {
    fn parse(line: &str) -> Option<Self> {
        let pairs = Pairs::of_line(line, "comm")?;
        Some(Self {
            pid: pairs.number("pid")?,
            comm: pairs.get("comm")?.to_owned(),
            cpu: pairs.number("cpu")?,
            group: pairs.number("group")?,
            via: pairs.get("via")?.to_owned(),
            slices: pairs.number("slices")?,
            ran_ns: pairs.number("ran_ns")?,
            waited_ns: pairs.number("waited_ns")?,
            preempted_ns: pairs.number("preempted_ns")?,
            throttled_ns: pairs.number("throttled_ns")?,
        })
    }

    /// Returns the task in words, such as `third:279`.
    pub fn task(&self) -> String {
        format!("{}:{}", self.comm, self.pid)
    }

    /// What the task did, and for how long.
    pub fn parts(&self) -> [(&'static str, u64); 4] {
        parts([
            self.ran_ns,
            self.waited_ns,
            self.preempted_ns,
            self.throttled_ns,
        ])
    }

    /// Returns the sum of its times.
    pub fn sum_ns(&self) -> u64 {
        self.parts().iter().map(|(_, ns)| ns).sum()
    }

    /// Returns what it did in words, such as `ran 71.1ms, waited 147us`; `time` prints a time.
    pub fn did(&self, time: impl Fn(u64) -> String) -> String {
        did(self.parts(), time)
    }
}

fn parts([ran, waited, preempted, throttled]: [u64; 4]) -> [(&'static str, u64); 4] {
    [
        ("ran", ran),
        ("waited", waited),
        ("preempted", preempted),
        ("throttled", throttled),
    ]
}

fn did(parts: [(&'static str, u64); 4], time: impl Fn(u64) -> String) -> String {
    let did = parts.into_iter().filter(|(_, ns)| *ns != 0);
    let did = did.map(|(what, ns)| format!("{what} {}", time(ns)));
    did.collect::<Vec<_>>().join(", ")
}

/// Who could have woken the task of an outlier earlier; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Where it ends, as the file `chains` has it.
    pub end: String,
    /// For how long the last task was blocked.
    pub blocked_ns: u64,
    /// For how long it is not known who did what.
    pub missing_ns: u64,
    /// From the task of the outlier back in time.
    pub hops: Vec<Hop>,
}

impl Chain {
    fn of_pairs(pairs: &Pairs) -> Option<Self> {
        Some(Self {
            end: pairs.get("end")?.to_owned(),
            blocked_ns: pairs.number("blocked_ns")?,
            missing_ns: pairs.number("missing_ns")?,
            hops: Vec::new(),
        })
    }

    /// Returns until when the last task was blocked, in words, and for how long it was.
    pub fn blocked(&self) -> Option<(&'static str, u64)> {
        let what = match self.end.as_str() {
            "interrupt" => "blocked until an interrupt woke it",
            "interrupt_softirq" => "blocked until a softirq of an interrupt woke it",
            "idle" => "blocked until the idle task woke it",
            _ => "blocked until a softirq woke it",
        };
        (self.blocked_ns != 0).then_some((what, self.blocked_ns))
    }

    /// Returns why something is not known, in words, and how much.
    pub fn missing(&self) -> Option<(&'static str, u64)> {
        let what = match self.end.as_str() {
            "overwritten" => "not known (overwritten)",
            "limit" => "not known (limit)",
            _ => "not known",
        };
        (self.missing_ns != 0).then_some((what, self.missing_ns))
    }

    /// Returns what no hop explains.
    pub fn rest(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.blocked().into_iter().chain(self.missing())
    }
}

/// What the tasks of a group, or of a name, depended on during their outliers, by their chains;
/// times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependence {
    pub name: String,
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
    fn add(&mut self, chain: &Chain, who: impl Fn(u32, &str) -> String) {
        self.chains += 1;
        for (number, hop) in chain.hops.iter().enumerate() {
            let name = match number {
                0 => "itself".to_owned(),
                _ => who(hop.group, &hop.comm),
            };
            let place = self.hops.iter().position(|(known, _)| *known == name);
            let place = place.unwrap_or_else(|| {
                self.hops.push((name, [0; 4]));
                self.hops.len() - 1
            });
            let sums = self.hops[place].1.iter_mut();
            sums.zip(hop.parts()).for_each(|(sum, (_, ns))| *sum += ns);
            self.sum_ns += hop.sum_ns();
        }
        for (what, ns) in chain.rest() {
            match self.rest.iter_mut().find(|(known, _)| *known == what) {
                Some((_, sum)) => *sum += ns,
                None => self.rest.push((what, ns)),
            }
            self.sum_ns += ns;
        }
        self.blocked_ns += chain.blocked_ns;
        self.missing_ns += chain.missing_ns;
    }

    /// Returns its parts in words, each with its time, the longest first; `time` prints a time.
    pub fn parts(&self, time: impl Fn(u64) -> String) -> Vec<(u64, String)> {
        let hops = self.hops.iter().map(|(name, times)| {
            let what = format!("{name}: {}", did(parts(*times), &time));
            (times.iter().sum(), what)
        });
        let rest = self.rest.iter().map(|(what, ns)| (*ns, (*what).to_owned()));
        let mut all: Vec<(u64, String)> = hops.chain(rest).filter(|(ns, _)| *ns != 0).collect();
        all.sort_by_cached_key(|(ns, _)| Reverse(*ns));
        all
    }

    /// Returns the law in words.
    pub fn law(&self) -> String {
        let of = |place: usize| -> u64 { self.hops.iter().map(|(_, times)| times[place]).sum() };
        let mut all = parts([of(0), of(1), of(2), of(3)]).to_vec();
        all.extend([("blocked", self.blocked_ns), ("not known", self.missing_ns)]);
        let all = all.iter().filter(|(_, ns)| *ns != 0);
        let all = all.map(|(what, ns)| format!("{what} {ns}"));
        format!(
            "in ns: {} = {}",
            all.collect::<Vec<_>>().join(" + "),
            self.sum_ns
        )
    }
}

/// Adds the chain of an outlier, if it has one, to those of its group, or of its name if it has no
/// group; `name` names a group.
pub fn add(all: &mut Vec<Dependence>, outlier: &Outlier, name: impl Fn(u32) -> Option<String>) {
    let Some(chain) = &outlier.chain else { return };
    let who = |group, comm: &str| name(group).unwrap_or_else(|| pool(comm));
    let victim = who(outlier.group, &outlier.comm);
    let place = all.iter().position(|it| it.name == victim);
    let place = place.unwrap_or_else(|| {
        all.push(Dependence {
            name: victim,
            ..Dependence::default()
        });
        all.len() - 1
    });
    all[place].add(chain, who);
}

/// Gives outliers their chains in the text of the file `chains`.
pub fn attach(outliers: &mut [Outlier], text: &str) {
    let mut open = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("chain ") {
            open = Pairs::of_line(rest, "").and_then(|pairs| {
                let id = pairs.number("id")?;
                // Another load of the module counts anew.
                let duration = pairs.number("duration_ns")?;
                let is_it = |it: &&mut Outlier| (it.id, it.duration_ns) == (id, duration);
                let outlier = outliers.iter_mut().find(is_it)?;
                Some(outlier.chain.insert(Chain::of_pairs(&pairs)?))
            });
        } else if let (Some(chain), Some(rest)) = (&mut open, line.strip_prefix("  hop ")) {
            chain.hops.extend(Hop::parse(rest));
        }
    }
}
