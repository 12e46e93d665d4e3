// SPDX-License-Identifier: GPL-2.0

//! Compares repeated runs by a rank permutation test.
//!
//! Samples of one run depend on one another, so pooled samples must not be tested: tests of pooled
//! samples find "differences" between equal runs. Here each run counts once. If A and B do not
//! differ, each choice of which runs are called A is as likely as any other. The p-value is the
//! share of these choices that look at least as different as the actual one.
//!
//! Several lines (quantiles, metrics) are tested together: a choice counts for a line if **any**
//! line looks as different under it (Westfall and Young's step with the maximum). So the
//! probability to call any of the lines different although nothing has changed is at most the
//! level, however many lines there are.

/// The least number of runs on either side for which there is a test.
pub const MIN_RUNS: usize = 4;

/// The level: the probability of a false "different".
pub const LEVEL: f64 = 0.05;

/// Beyond this number of choices a random sample of them is taken.
const ALL_CHOICES: u128 = 50_000;

/// The size of that sample.
const RANDOM_CHOICES: usize = 20_000;

/// A figure of each run of both sides.
#[derive(Clone, Debug)]
pub struct Line {
    /// The runs of A.
    pub a: Vec<u64>,
    /// The runs of B.
    pub b: Vec<u64>,
}

/// Returns the p-value of each line, for all lines together; `None` if a side has fewer than
/// [`MIN_RUNS`] runs, or if the lines do not have the same number of runs.
pub fn p_values(lines: &[Line]) -> Option<Vec<f64>> {
    let first = lines.first()?;
    let (a, b) = (first.a.len(), first.b.len());
    if a < MIN_RUNS || b < MIN_RUNS {
        return None;
    }
    if lines
        .iter()
        .any(|line| line.a.len() != a || line.b.len() != b)
    {
        return None;
    }
    let scores: Vec<_> = lines.iter().map(scores).collect();
    let actual: Vec<_> = (0..a + b).map(|run| run < a).collect();
    let wanted: Vec<_> = scores
        .iter()
        .map(|line| difference(line, &actual))
        .collect();
    let (mut choices, mut reached) = (0_u64, vec![0_u64; lines.len()]);
    for_each_choice(a, b, |is_a| {
        choices += 1;
        let most = scores
            .iter()
            .map(|line| difference(line, is_a))
            .fold(0.0, f64::max);
        for (reached, wanted) in reached.iter_mut().zip(&wanted) {
            // Rounding must not decide.
            *reached += u64::from(most >= wanted - 1e-9);
        }
    });
    Some(
        reached
            .into_iter()
            .map(|n| n as f64 / choices as f64)
            .collect(),
    )
}

/// Returns the ranks of all runs, minus their mean and divided by their deviation, so that lines
/// can be compared. Equal figures share their ranks.
fn scores(line: &Line) -> Vec<f64> {
    let all: Vec<_> = line.a.iter().chain(&line.b).copied().collect();
    let rank = |value: u64| {
        let below = all.iter().filter(|other| **other < value).count();
        let equal = all.iter().filter(|other| **other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    let ranks: Vec<_> = all.iter().map(|value| rank(*value)).collect();
    let mean = (all.len() as f64 + 1.0) / 2.0;
    let variance = ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let deviation = variance.sqrt();
    let scaled = |rank: f64| {
        if deviation > 0.0 {
            (rank - mean) / deviation
        } else {
            0.0
        }
    };
    ranks.into_iter().map(scaled).collect()
}

/// Returns how different the runs called A are from the others.
fn difference(scores: &[f64], is_a: &[bool]) -> f64 {
    let of_a = scores.iter().zip(is_a).filter(|(_, is_a)| **is_a);
    of_a.map(|(score, _)| score).sum::<f64>().abs()
}

/// Calls `visit` with each choice of `a` of the `a + b` runs, or with a random sample of them that
/// has the actual choice in it.
fn for_each_choice(a: usize, b: usize, mut visit: impl FnMut(&[bool])) {
    let mut is_a: Vec<_> = (0..a + b).map(|run| run < a).collect();
    if choices(a, b) > ALL_CHOICES {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        visit(&is_a);
        for _ in 0..RANDOM_CHOICES {
            random.shuffle(&mut is_a);
            visit(&is_a);
        }
        return;
    }
    // From the greatest permutation down to the least.
    loop {
        visit(&is_a);
        let Some(pivot) = (1..is_a.len()).rev().find(|i| is_a[i - 1] && !is_a[*i]) else {
            break;
        };
        is_a[pivot - 1] = false;
        let rest = is_a[pivot..].iter().filter(|is_a| **is_a).count() + 1;
        for (i, run) in is_a[pivot..].iter_mut().enumerate() {
            *run = i < rest;
        }
    }
}

/// Returns the number of choices of `a` of `a + b` runs, or at least a number beyond
/// [`ALL_CHOICES`].
pub fn choices(a: usize, b: usize) -> u128 {
    let mut choices: u128 = 1;
    for i in 1..=a.min(b) as u128 {
        choices = choices * (a.max(b) as u128 + i) / i;
        if choices > ALL_CHOICES {
            break;
        }
    }
    choices
}

/// Marsaglia's xorshift generator: good enough to choose permutations, and always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn shuffle(&mut self, values: &mut [bool]) {
        for i in (1..values.len()).rev() {
            let other = (self.next() >> 16) % (i as u64 + 1);
            values.swap(i, other as usize);
        }
    }
}

/// Returns the median: of an even number of values, the mean of the middle two, rounded down.
pub fn median(values: &[u64]) -> Option<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = values[values.len() / 2 - 1];
    Some(lower + (upper - lower) / 2)
}
