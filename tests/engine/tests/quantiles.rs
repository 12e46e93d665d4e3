// SPDX-License-Identifier: GPL-2.0

//! The bounds of every quantile that is shown contain the true quantile.

use schedhist_engine::engine::{
    cell::Cell,
    histogram::{
        bucket::{Precision, Scheme},
        snapshot::{Baseline, Quantile, Snapshot},
    },
    identity::Identity,
    metric::{Metric, MetricSet},
    switch::cpu::Cpu,
};
use schedhist_engine::testing::{idle_at, records, Records};

/// xorshift64*, which is good enough here.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Draws a distribution: a handful of modes of any magnitude, each wide or narrow.
fn distribution(random: &mut Random) -> Vec<u64> {
    let modes: Vec<(u64, u64)> = (0..=random.below(4))
        .map(|_| {
            // Now and then beyond the range of the buckets.
            let (magnitude, width) = (random.below(42), random.below(20));
            (1 << magnitude, (1 << magnitude >> width) + 1)
        })
        .collect();
    let many = random.below(7);
    let count = 1 + random.below([3, 30, 300, 300, 300, 300, 2_000][many as usize]);
    (0..count)
        .map(|_| {
            let (from, width) = modes[random.below(modes.len() as u64) as usize];
            from - 1 + random.below(width)
        })
        .collect()
}

/// Returns the true quantile, by its definition: the least sample that at least this share of all
/// samples does not exceed. The share is in hundred-thousandths.
fn true_quantile(sorted: &[u64], share: usize) -> u64 {
    let is_enough = |rank: &usize| rank * 100_000 >= share * sorted.len();
    let rank = (1..=sorted.len()).find(is_enough);
    sorted[rank.expect("the share is not greater than 1") - 1]
}

/// Returns the share of a quantile of [`Quantile::ALL`], from its name.
fn share(quantile: Quantile) -> usize {
    let percent = quantile.name.strip_prefix('p').expect("pNN.NN");
    let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = format!("{whole}{part:0<3}");
    digits.parse().expect("a number")
}

/// Records the samples of `values` in [`Metric::Idle`] of a CPU.
fn record(cpu: &Cpu<Vec<Cell>>, now: &mut u64, values: &[u64]) {
    for value in values {
        *now += value;
        idle_at(cpu, *now, |_| Identity::default());
    }
}

#[test]
fn shares_are_understood() {
    let shares = Quantile::ALL.map(share);
    assert_eq!(shares, [50_000, 90_000, 99_000, 99_900, 99_990]);
    assert_eq!(true_quantile(&[1, 2, 3, 4], 50_000), 2);
    assert_eq!(true_quantile(&[1, 2, 3], 50_000), 2);
    assert_eq!(true_quantile(&[7], 99_990), 7);
}

#[test]
fn bounds_contain_the_true_quantile() {
    let mut random = Random(20_261_120);
    let schemes: Vec<Scheme> = (Precision::MIN..=Precision::MAX)
        .map(|bits| Scheme::new(Precision::new(bits).expect("within range")))
        .collect();
    // Two CPUs of each scheme, which record one distribution after the other: a reset removes the
    // previous ones.
    let mut machines: Vec<_> = schemes
        .iter()
        .map(|scheme| {
            let cells = Records::cells(*scheme, MetricSet::DEFAULT);
            [0, 1].map(|number| {
                let cpu = records(number, *scheme, MetricSet::DEFAULT);
                idle_at(&cpu, 1, |_| Identity::default());
                let baseline = Baseline::new(*scheme, vec![0; cells]).expect("the right size");
                (cpu, baseline, 1)
            })
        })
        .collect();
    let mut all_extremes = (u64::MAX, 0);
    for round in 0..1000 {
        let values = distribution(&mut random);
        let (first, second) = values.split_at(random.below(values.len() as u64 + 1) as usize);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let (least, greatest) = (sorted[0], sorted[sorted.len() - 1]);
        all_extremes = (all_extremes.0.min(least), all_extremes.1.max(greatest));
        for (scheme, machine) in schemes.iter().zip(&mut machines) {
            let counts = vec![0; scheme.buckets()];
            let mut snapshot = Snapshot::new(*scheme, counts.clone()).expect("the right size");
            let mut since_load = Snapshot::new(*scheme, counts).expect("the right size");
            for ((cpu, baseline, now), values) in machine.iter_mut().zip([first, second]) {
                baseline.take(cpu);
                record(cpu, now, values);
                snapshot.add(cpu, Some(baseline), Metric::Idle);
                since_load.add_since_load(cpu, Some(baseline), Metric::Idle);
            }
            let what = format!("round {round}, precision {:?}", scheme.precision());
            assert_eq!(snapshot.count(), values.len() as u64, "{what}");
            let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
            assert_eq!(snapshot.sum(), sum, "{what}");
            assert_eq!(snapshot.min(), Some(least), "{what}");
            assert_eq!(snapshot.max().unwrap_or(0), greatest, "{what}");
            let extremes = (since_load.min(), since_load.max());
            let (least, greatest) = all_extremes;
            assert_eq!(extremes, (Some(least), Some(greatest)), "{what}");
            for (quantile, bounds) in snapshot.quantiles() {
                let bounds = bounds.expect("there are samples");
                let truth = true_quantile(&sorted, share(quantile));
                let is_within = bounds.lower <= truth && truth <= bounds.upper;
                assert!(is_within, "{what}: {truth} is not within {bounds:?}");
                if !bounds.is_overflow() {
                    let width = bounds.upper - bounds.lower;
                    let most = bounds.lower >> scheme.precision().bits();
                    assert!(width <= most, "{what}: {bounds:?} is too wide");
                }
            }
        }
    }
}
