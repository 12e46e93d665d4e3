// SPDX-License-Identifier: GPL-2.0

//! Outliers, added up by who had the CPU meanwhile.

use std::cmp::Reverse;

use crate::{
    gather::{entry, key_in},
    text::{Culprit, Outlier},
};

/// What one culprit, or one group of culprits, has done in all outliers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// In how many outliers it had the CPU.
    pub outliers: u64,
    /// For how long, in nanoseconds.
    pub ran_ns: u64,
    /// The place of the longest of these outliers, and how long that was, in nanoseconds.
    pub worst: (usize, u64),
}

/// What stands for the time without a culprit, as that before the first one that is named.
pub const NOBODY: &str = "(not named)";

/// Returns whether the sample is a wait for a CPU: then who had it is why.
pub fn is_wait(outlier: &Outlier) -> bool {
    outlier.metric.starts_with("runq")
}

/// Returns the name of a culprit without its number: a pool of workers is one.
pub fn comm(culprit: &Culprit) -> String {
    match culprit.pid {
        0 => "(idle)".to_owned(),
        _ => pool(&culprit.comm),
    }
}

/// Returns the name of a task without its number.
pub fn pool(comm: &str) -> String {
    // Its CPU or pool, its number, and maybe a letter follow, as in kworker/u8:2 and kworker/0:1H.
    if comm.starts_with("kworker/") {
        return "kworker/*".to_owned();
    }
    let name = comm.trim_end_matches(|c: char| c.is_ascii_digit());
    match name.strip_suffix(['/', '-', ':', '_']) {
        Some(pool) if !pool.is_empty() => format!("{pool}{}*", &name[pool.len()..]),
        _ => comm.to_owned(),
    }
}

/// Waits, added up one by one.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    all: Vec<(String, Sum)>,
    waits: usize,
}

impl Sums {
    /// Adds a wait by a key of its culprits.
    pub fn add(&mut self, wait: &Outlier, key: &dyn Fn(&Culprit) -> String) {
        let named = wait.culprits.iter().map(|it| (key(it), it.ran_ns));
        let missing = (wait.missing_ns != 0).then(|| (NOBODY.to_owned(), wait.missing_ns));
        let mut of_wait: Vec<(String, u64)> = Vec::new();
        for (name, ns) in named.chain(missing) {
            let name = match name == NOBODY {
                true => name,
                false => key_in(&of_wait, key_in(&self.all, name)),
            };
            let sum = entry(&mut of_wait, name);
            *sum = sum.saturating_add(ns);
        }
        for (name, ns) in of_wait {
            self.add_part(name, ns, wait.duration_ns);
        }
        self.waits += 1;
    }

    /// Adds a part of the wait, by whatever it is attributed to.
    fn add_part(&mut self, name: String, ran_ns: u64, duration_ns: u64) {
        let sum = entry(&mut self.all, name);
        sum.outliers += 1;
        sum.ran_ns = sum.ran_ns.saturating_add(ran_ns);
        if sum.outliers == 1 || duration_ns > sum.worst.1 {
            sum.worst = (self.waits, duration_ns);
        }
    }

    /// Adds a wait as a whole to a name.
    pub fn add_whole(&mut self, wait: &Outlier, name: String) {
        let name = key_in(&self.all, name);
        self.add_part(name, wait.duration_ns, wait.duration_ns);
        self.waits += 1;
    }

    /// Returns the sums by name; who ran longest comes first. They add up to the time of all waits,
    /// unless the module counted more.
    pub fn sorted(&self) -> Vec<(String, Sum)> {
        let mut all = self.all.clone();
        all.sort_by_cached_key(|(_, sum)| Reverse(sum.ran_ns));
        all
    }
}

/// Adds up waits by a key of their culprits.
pub fn by<'a>(
    waits: impl Iterator<Item = &'a Outlier>,
    key: impl Fn(&Culprit) -> String,
) -> Vec<(String, Sum)> {
    let mut sums = Sums::default();
    for wait in waits {
        sums.add(wait, &key);
    }
    sums.sorted()
}

/// Returns who had the CPU longest during an outlier.
pub fn most(outlier: &Outlier) -> Option<&Culprit> {
    let culprits = outlier.culprits.iter();
    let most = culprits.max_by_key(|culprit| culprit.ran_ns)?;
    (most.ran_ns >= outlier.missing_ns).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gather::OTHERS, text::OutlierParser};

    #[test]
    fn waits_by_culprit() {
        let outlier = |id: u64, ns: u64, missing: u64, culprits: &[(&str, u64)]| {
            let mut text = format!(
                "outlier id {id} metric runq_wakeup cause wakeup cpu 0 duration_ns {ns} start_ns 0 \
                 end_ns 9 missing_ns {missing} culprits {} pid 9 prio 120 comm x\n",
                culprits.len()
            );
            for (pid, (comm, ran)) in (0..).zip(culprits) {
                text += &format!(
                    "  culprit id {id} ran_ns {ran} slices 1 pid {pid} prio 1 comm {comm}\n"
                );
            }
            OutlierParser::default().feed(&text).remove(0)
        };
        let all = [
            outlier(
                1,
                100,
                10,
                &[("swapper/0", 20), ("kworker/0:1", 30), ("kworker/u8:2", 40)],
            ),
            outlier(2, 50, 0, &[("swapper/0", 0), ("batch", 50)]),
            outlier(3, 70, 60, &[("swapper/0", 0), ("kworker/0:1H", 10)]),
        ];
        let sums = by(all.iter(), comm);
        let found: Vec<_> = sums
            .iter()
            .map(|(name, sum)| (&**name, sum.outliers, sum.ran_ns, sum.worst))
            .collect();
        let wanted = [
            ("kworker/*", 2, 80, (0, 100)),
            (NOBODY, 2, 70, (0, 100)),
            ("batch", 1, 50, (1, 50)),
            ("(idle)", 3, 20, (0, 100)),
        ];
        assert_eq!(found, wanted);
        assert_eq!(sums.iter().map(|(_, sum)| sum.ran_ns).sum::<u64>(), 220);
        assert_eq!(most(&all[0]).map(|it| &*it.comm), Some("kworker/u8:2"));
        assert_eq!(most(&all[2]), None);
        // Names beyond the bound are one, which each outlier counts once.
        let mut sums = Sums::default();
        for id in 0..2_000 {
            let names = [0, 1].map(|i| format!("{}", 2 * id + i + 10_000));
            let culprits = names.each_ref().map(|name| (&**name, 1));
            sums.add(&outlier(id, 2, 0, &culprits), &|it| it.comm.clone());
        }
        let all = sums.sorted();
        let others = (OTHERS, 1_500, 3_000);
        let found = (&*all[0].0, all[0].1.outliers, all[0].1.ran_ns);
        assert_eq!((all.len(), found), (1_001, others));
        let pools = [("ksoftirqd/1", "ksoftirqd/*"), ("worker-12", "worker-*")];
        for (comm, wanted) in pools
            .into_iter()
            .chain([("kworker", "kworker"), ("md5", "md5")])
        {
            assert_eq!(pool(comm), wanted);
        }
    }
}
