// SPDX-License-Identifier: GPL-2.0

//! Checks the sums that must hold on every CPU: see "The laws" in `docs/metrics.md`.

use std::fmt;

use crate::window::{Window, WindowCpu};

/// One side's summand of a law.
#[derive(Clone, Copy)]
enum Term {
    /// The count of a recorded metric or of a sum of metrics.
    Metric(&'static str),
    Counter(&'static str),
}
use Term::{Counter, Metric};

/// A sum that must hold on every CPU while the metrics in it are on.
struct Law {
    text: &'static str,
    whole: Term,
    parts: &'static [Term],
}

const LAWS: [Law; 6] = [
    Law {
        text: "switches = oncpu + idle + start_unseen",
        whole: Counter("switches"),
        parts: &[Metric("oncpu"), Metric("idle"), Counter("start_unseen")],
    },
    Law {
        text: "switches = to_idle + runq + throttled + wait_unseen + untracked",
        whole: Counter("switches"),
        parts: &[
            Counter("to_idle"),
            Metric("runq"),
            Counter("throttled"),
            Counter("wait_unseen"),
            Counter("untracked"),
        ],
    },
    Law {
        text: "offcpu = blocked_interruptible + blocked_uninterruptible + blocked_idle + blocked_stopped \
               + blocked_traced + blocked_parked + blocked_frozen + blocked_other",
        whole: Metric("offcpu"),
        parts: &[
            Metric("blocked_interruptible"),
            Metric("blocked_uninterruptible"),
            Counter("blocked_idle"),
            Counter("blocked_stopped"),
            Counter("blocked_traced"),
            Counter("blocked_parked"),
            Counter("blocked_frozen"),
            Counter("blocked_other"),
        ],
    },
    Law {
        text: "offcpu = wakeup + wake_unseen",
        whole: Metric("offcpu"),
        parts: &[Metric("wakeup"), Counter("wake_unseen")],
    },
    Law {
        text: "migrations = migrations_core + migrations_llc + migrations_node + migrations_remote",
        whole: Counter("migrations"),
        parts: &[
            Counter("migrations_core"),
            Counter("migrations_llc"),
            Counter("migrations_node"),
            Counter("migrations_remote"),
        ],
    },
    Law {
        text: "resched_set = resched + resched_lazy + resched_idle + resched_unused",
        whole: Counter("resched_set"),
        parts: &[
            Metric("resched"),
            Metric("resched_lazy"),
            Counter("resched_idle"),
            Counter("resched_unused"),
        ],
    },
];

/// The law of time, in nanoseconds. It is exact while the probes record, too.
const TIME: &str = "time = oncpu + idle + in progress + unseen";

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub law: &'static str,
    /// The CPU on which the two sides are furthest apart.
    pub cpu: u32,
    /// The left side minus the right side there.
    pub off_by: i128,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.off_by < 0 { "less" } else { "more" };
        write!(
            f,
            "cpu {}: {} does not hold: the left side is {} {sign}",
            self.cpu,
            self.law,
            self.off_by.unsigned_abs()
        )
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The laws that do not hold, even if the samples recorded during the reading are allowed for.
    pub violations: Vec<Violation>,
    /// How many laws could be checked: those whose metrics were on.
    pub checked: usize,
    /// The greatest difference of the laws that hold.
    pub in_flight: u128,
}

impl Checked {
    /// Adds the result for another recording. Of each law, the violation furthest off stays.
    pub fn add(&mut self, other: Self) {
        self.checked = self.checked.max(other.checked);
        self.in_flight = self.in_flight.max(other.in_flight);
        for new in other.violations {
            match self.violations.iter_mut().find(|old| old.law == new.law) {
                Some(old) if old.off_by.abs() < new.off_by.abs() => *old = new,
                Some(_) => {}
                None => self.violations.push(new),
            }
        }
    }
}

/// Checks all laws whose metrics were on.
///
/// A snapshot is made while the probes record, so the numbers in it are a few switches apart.
/// `read_ns` is the time that it took to make the snapshots; the switches of four times that time
/// are allowed for, and four more. If measuring was off, the laws must hold exactly.
pub fn check(window: &Window, read_ns: u64) -> Checked {
    let mut checked = Checked::default();
    let known = window.cpus.iter();
    let known = known.filter_map(|cpu| Some((cpu.number, cpu.unaccounted?)));
    if let Some((cpu, off)) = known.max_by_key(|(_, off)| off.unsigned_abs()) {
        checked.checked += 1;
        if off != 0 {
            checked.violations.push(Violation {
                law: TIME,
                cpu,
                off_by: off.into(),
            });
        }
    }
    for law in &LAWS {
        let mut furthest: Option<Violation> = None;
        let Some(differences) = differences(window, law) else {
            continue;
        };
        checked.checked += 1;
        for (cpu, off_by) in window.cpus.iter().zip(differences) {
            if off_by.unsigned_abs() <= slack(window, cpu, read_ns) {
                checked.in_flight = checked.in_flight.max(off_by.unsigned_abs());
            } else if furthest
                .as_ref()
                .is_none_or(|v| v.off_by.abs() < off_by.abs())
            {
                furthest = Some(Violation {
                    law: law.text,
                    cpu: cpu.number,
                    off_by,
                });
            }
        }
        checked.violations.extend(furthest);
    }
    checked
}

/// Returns the left side minus the right side of a law on each CPU; `None` if a metric in it was
/// off, or does not exist.
fn differences(window: &Window, law: &Law) -> Option<Vec<i128>> {
    let mut all = vec![0; window.cpus.len()];
    add(window, law.whole, 1, &mut all)?;
    for part in law.parts {
        add(window, *part, -1, &mut all)?;
    }
    Some(all)
}

/// Adds a term, times `sign`, to the sum of each CPU.
fn add(window: &Window, term: Term, sign: i128, all: &mut [i128]) -> Option<()> {
    match term {
        Counter(name) => {
            let number = window.names.counter(name)?;
            for (sum, cpu) in all.iter_mut().zip(&window.cpus) {
                *sum += sign * i128::from(*cpu.counters.get(number)?);
            }
        }
        Metric(name) => {
            let metric = window.names.metric(name);
            let metric = metric.filter(|metric| window.is_on(metric))?;
            for (sum, cpu) in all.iter_mut().zip(&window.cpus) {
                let buckets = cpu.samples_of(metric).flat_map(|part| &part.buckets);
                *sum += buckets.fold(0, |sum, (_, n)| sum + sign * i128::from(*n));
            }
        }
    }
    Some(())
}

/// Returns by how much the sides of a law may differ on a CPU.
fn slack(window: &Window, cpu: &WindowCpu, read_ns: u64) -> u128 {
    if !window.was_on {
        return 0;
    }
    let number = window.names.counter("switches");
    let switches = number.and_then(|number| cpu.counters.get(number)).copied();
    let switches = u128::from(switches.unwrap_or_default());
    // Since the load, the rate is not known: the time since the boot may be far longer.
    let Some(span) = window.span else {
        return 4 + switches / 100;
    };
    4 + switches.saturating_mul(4 * u128::from(read_ns)) / u128::from(span.max(1))
}
