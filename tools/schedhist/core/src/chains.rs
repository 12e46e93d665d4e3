// SPDX-License-Identifier: GPL-2.0

//! Chains: who could have ended an outlier earlier. Parses the file `chains`.

use crate::{
    path::Occupant,
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
    /// What had the CPU for most of the time for which it waited or was preempted, and for how
    /// long, if [`Slices::explain`](crate::path::Slices::explain) has found it.
    pub behind: Option<(Occupant, u64)>,
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
            behind: None,
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
        sum(self.parts().map(|(_, ns)| ns))
    }

    /// Returns what it did in words, such as `ran 71.1ms, waited 147us`; `time` prints a time.
    pub fn did(&self, time: impl Fn(u64) -> String) -> String {
        did(&self.parts(), &time)
    }
}

/// Names the parts of [`Hop::parts`].
pub fn parts([ran, waited, preempted, throttled]: [u64; 4]) -> [(&'static str, u64); 4] {
    [
        ("ran", ran),
        ("waited", waited),
        ("preempted", preempted),
        ("throttled", throttled),
    ]
}

/// Adds up times. Those of a recording may come from someone else.
pub fn sum(times: impl IntoIterator<Item = u64>) -> u64 {
    times.into_iter().fold(0, u64::saturating_add)
}

/// Returns those that are not 0 in words, as [`Hop::did`].
pub fn did(parts: &[(&'static str, u64)], time: &dyn Fn(u64) -> String) -> String {
    let did = parts.iter().filter(|(_, ns)| *ns != 0);
    let did = did.map(|(what, ns)| format!("{what} {}", time(*ns)));
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
            "timer" => "blocked until a timer woke it",
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

/// More than the module writes: their stacks take the square of it.
const MOST_HOPS: usize = 128;

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
            let room = MOST_HOPS - chain.hops.len();
            chain.hops.extend(Hop::parse(rest).into_iter().take(room));
        }
    }
}
