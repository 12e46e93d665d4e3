// SPDX-License-Identifier: GPL-2.0

//! The activity in a span of time: since the module was loaded, or between two snapshots.
//!
//! Counters, sums and buckets only grow, so the difference of two snapshots is the activity between
//! them. Extremes cannot be subtracted. The worst sample of an interval is known if the worst
//! sample since the load has changed in it. Otherwise the highest bucket that grew bounds it.

use std::{cmp::Reverse, fmt, rc::Rc};

use crate::{
    distribution::{max_between, Distribution, Max},
    engine::{
        histogram::{bucket::Scheme, totals::Worst},
        idle::{WaitCause, WaitPart, WaitSums},
        switch::cpu::Occupancy,
    },
    raw::{Cpu, Histogram, LongWaits, Metric, Names, SliceInProgress, Snapshot},
    units,
};

/// The samples of a metric on a CPU in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// The number of the metric.
    pub metric: u32,
    /// The sum of the samples, in nanoseconds.
    pub sum: u128,
    /// The least sample, in nanoseconds; known only since the load.
    pub min: Option<u64>,
    pub max: Max,
    /// The task of the greatest sample, if `max` is exact.
    pub worst: Option<Worst>,
    /// The index and the count of each bucket with samples, by ascending index.
    pub buckets: Vec<(u32, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowCpu {
    pub number: u32,
    /// The counters, by their numbers.
    pub counters: Vec<u64>,
    /// The samples of the metrics with memory on this CPU.
    pub samples: Vec<Samples>,
    /// How the CPU spent the time; `None` if that is not known, as `oncpu` or `idle` was off, or
    /// the CPU offline, at either end.
    pub time: Option<Time>,
    /// The slice in progress at the end.
    pub slice: Option<SliceInProgress>,
    /// The time up to the end that is in no slice, and was not told as unseen either: 0, by the law
    /// of time. `None` if that is not known.
    pub unaccounted: Option<i64>,
}

impl WindowCpu {
    /// Returns the samples of all that a metric is the sum of.
    pub fn samples_of<'a>(&'a self, metric: &'a Metric) -> impl Iterator<Item = &'a Samples> {
        let samples = self.samples.iter();
        samples.filter(|samples| metric.parts.contains(&samples.metric))
    }
}

/// How a CPU spent its time. A slice that began before the window, or that is in progress at its
/// end, counts with its part in the window. So the three parts add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// The length of the window on this CPU, in nanoseconds.
    pub span: u64,
    /// The time that tasks had the CPU.
    pub oncpu: u64,
    /// The time that the idle task had it.
    pub idle: u64,
    /// The time that is in no slice whose beginning was seen, because measuring began only after
    /// it.
    pub unseen: u64,
    /// The part of `unseen` during which a task is known to have had the CPU.
    pub unseen_oncpu: u64,
}

/// The reason why two snapshots cannot be subtracted: the module was loaded anew between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The clock reads less than before.
    Clock,
    /// The CPUs, the precision, or the names differ.
    Shape,
    /// A counter, a sum or a bucket has decreased.
    Decreased,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clock => "the module or the machine was started anew: its clock went back",
            Self::Shape => "the module was loaded anew, with other CPUs, metrics or precision",
            Self::Decreased => "the module was loaded anew: its counts went back",
        })
    }
}

/// The activity in a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub names: Rc<Names>,
    pub scheme: Scheme,
    /// The length in nanoseconds; `None` if the window began when the module was loaded.
    pub span: Option<u64>,
    /// The time of the end, in nanoseconds of `local_clock()`.
    pub end: u64,
    /// The set of metrics that were on at both ends, as bits.
    pub metrics_on: u32,
    /// The set of those that were on at the end.
    pub on_at_end: u32,
    /// Whether measuring was on at either end. If not, all counts agree exactly.
    pub was_on: bool,
    /// Whether measuring, or the set of metrics that were on, differed between the ends.
    pub switched: bool,
    /// All possible CPUs, by ascending number.
    pub cpus: Vec<WindowCpu>,
    /// By metric, how much longer the waits in progress had taken at the end than those at the
    /// beginning, in nanoseconds.
    pub waits_in_progress: Vec<(u32, i128)>,
    /// The long waits, if the module has looked at any.
    pub long_waits: Option<LongWaits>,
}

/// Returns how long the waits in progress have taken, by metric.
fn waits_in_progress(snapshot: &Snapshot) -> impl Iterator<Item = (u32, i128)> + '_ {
    let waits = snapshot.waits.iter();
    waits.map(|waits| (waits.metric, waits.sum.into()))
}

/// Returns in words for how much of the time waited idle CPUs could have served long waits:
/// rounded, or as a lower bound. `None` if there were none.
pub fn served(sums: &WaitSums) -> Option<String> {
    let part = |part| u128::from(sums.part(part));
    let idle = (part(WaitPart::LlcIdle) + part(WaitPart::RemoteIdle)) * 100;
    let waited = part(WaitPart::Waited);
    let (bound, half) = match part(WaitPart::Unknown) {
        0 => ("", waited / 2),
        _ => ("at least ", 0),
    };
    let percent = (idle + half).checked_div(waited)?;
    Some(format!("{bound}{percent} %"))
}

/// Returns in words what began long waits, by time: the greatest causes first.
pub fn causes(sums: &WaitSums) -> String {
    let mut all = WaitCause::ALL.map(|cause| (sums.cause(cause).1, cause));
    all.sort_by_cached_key(|(ns, _)| Reverse(*ns));
    let whole = sums.part(WaitPart::Waited).max(1) as f64;
    let shares = all.into_iter().map(|(ns, cause)| {
        let what = match cause {
            WaitCause::Moved => "moved",
            WaitCause::Forked => "forked",
            WaitCause::Preempted => "preempted",
            WaitCause::WokenIdle => "woken onto an idle CPU",
            WaitCause::WokenBusy => "woken onto a busy CPU",
        };
        let percent = (ns as f64 / whole * 100.0).round();
        (percent >= 1.0).then(|| format!("{percent} % {what}"))
    });
    let shares: Vec<_> = shares.flatten().collect();
    shares.join(", ")
}

/// Returns in words why tasks waited long: for how much of that idle CPUs could have served them,
/// and what began it. `None` if there were no long waits.
pub fn why(sums: &WaitSums) -> Option<String> {
    let (served, causes) = (served(sums)?, causes(sums));
    Some(format!(
        "idle CPUs could have served {served} of the time of long waits: {causes}"
    ))
}

impl Window {
    pub fn since_load(snapshot: &Snapshot) -> Self {
        let cpus = snapshot.cpus.iter().map(|cpu| WindowCpu {
            number: cpu.number,
            counters: cpu.counters.clone(),
            samples: cpu.histograms.iter().map(samples_since_load).collect(),
            time: None,
            slice: cpu.slice,
            unaccounted: unaccounted(snapshot, cpu),
        });
        Self {
            names: Rc::clone(&snapshot.names),
            scheme: snapshot.scheme,
            span: None,
            end: snapshot.time,
            metrics_on: snapshot.metrics_on,
            on_at_end: snapshot.metrics_on,
            was_on: snapshot.enabled,
            switched: false,
            cpus: cpus.collect(),
            waits_in_progress: waits_in_progress(snapshot).collect(),
            long_waits: snapshot.long_waits,
        }
    }

    /// Returns the activity between two snapshots.
    ///
    /// # Errors
    ///
    /// Fails if the module was loaded anew between them. The activity since then is that of
    /// [`Window::since_load`].
    pub fn between<'a>(old: &'a Snapshot, new: &'a Snapshot) -> Result<Self, Reloaded> {
        if new.time < old.time {
            return Err(Reloaded::Clock);
        }
        let numbers = |s: &Snapshot| s.cpus.iter().map(|cpu| cpu.number).collect::<Vec<_>>();
        if old.scheme != new.scheme || old.names != new.names || numbers(old) != numbers(new) {
            return Err(Reloaded::Shape);
        }
        let pairs = old.cpus.iter().zip(&new.cpus);
        let cpus = pairs.map(|(old, cpu)| cpu_between(new.scheme, old, cpu));
        let cpus: Option<Vec<_>> = cpus.collect();
        let mut cpus = cpus.ok_or(Reloaded::Decreased)?;
        let of = |name: &str| match new.names.metric(name)?.parts.as_slice() {
            [one] if ((old.metrics_on & new.metrics_on) >> one) & 1 != 0 => Some(*one),
            _ => None,
        };
        if let (Some(oncpu), Some(idle)) = (of("oncpu"), of("idle")) {
            for (place, cpu) in cpus.iter_mut().enumerate() {
                cpu.unaccounted = unaccounted(new, &new.cpus[place]);
                let at = |snapshot: &'a Snapshot| {
                    (
                        &snapshot.cpus[place],
                        snapshot.task_on(cpu.number).is_some(),
                    )
                };
                cpu.time = time_between(at(old), at(new), (oncpu, idle));
            }
        }
        Ok(Self {
            names: Rc::clone(&new.names),
            scheme: new.scheme,
            span: Some(new.time - old.time),
            end: new.time,
            metrics_on: old.metrics_on & new.metrics_on,
            on_at_end: new.metrics_on,
            was_on: old.enabled || new.enabled,
            switched: old.enabled != new.enabled || old.metrics_on != new.metrics_on,
            cpus,
            waits_in_progress: waits_in_progress(new)
                .chain(waits_in_progress(old).map(|(metric, ns)| (metric, -ns)))
                .collect(),
            long_waits: new.long_waits.map(|all| all.since(old.long_waits.as_ref())),
        })
    }

    /// Returns the time that passed, in nanoseconds. Since the load it is that during which the
    /// module measured: all slices of the CPU that was online longest. Returns `None` if not all
    /// slices are recorded.
    pub fn elapsed(&self) -> Option<u64> {
        let metrics = ["oncpu", "idle"].map(|name| self.names.metric(name));
        let is_on = |metric: &Option<&Metric>| metric.is_some_and(|metric| self.is_on(metric));
        let measured = |cpu: &WindowCpu| {
            let slices = metrics.iter().flatten();
            let slices = slices.flat_map(|metric| cpu.samples_of(metric));
            let in_progress = cpu.slice.map_or(0, |slice| {
                slice.of(Occupancy::Task) + slice.of(Occupancy::Idle)
            });
            let all = slices.fold(in_progress.into(), |all: u128, part| {
                all.saturating_add(part.sum)
            });
            units::clamp(all)
        };
        match self.span {
            None if metrics.iter().all(is_on) => self.cpus.iter().map(measured).max(),
            span => span,
        }
    }

    /// Returns how many tasks waited on average, on those CPUs that `wanted` accepts, if `metric`
    /// is one of waits for a CPU and was on. A wait that began before the window, or that is in
    /// progress at its end, counts with its part in the window if all CPUs are wanted. The module
    /// does not tell in which CPUs' queues those in progress are: of some CPUs, it is the waits
    /// that ended on them.
    pub fn waiting(&self, metric: &Metric, wanted: &dyn Fn(u32) -> bool) -> Option<f64> {
        if !metric.is_of_waits() || !self.is_on(metric) {
            return None;
        }
        let cpus = || self.cpus.iter().filter(|cpu| wanted(cpu.number));
        let ended = cpus().flat_map(|cpu| cpu.samples_of(metric));
        let mut waited = ended.fold(0_u128, |all, part| all.saturating_add(part.sum));
        if cpus().count() == self.cpus.len() {
            let of_metric = self.waits_in_progress.iter();
            let of_metric = of_metric.filter(|(part, _)| metric.parts.contains(part));
            waited = waited.saturating_add_signed(of_metric.map(|(_, ns)| ns).sum());
        }
        units::tasks_on_average(waited, self.elapsed())
    }

    /// Returns whether all parts of a metric were on at both ends.
    pub fn is_on(&self, metric: &Metric) -> bool {
        metric.is_in(self.metrics_on)
    }

    /// Returns the samples of a metric, added up over those CPUs that `wanted` accepts.
    pub fn distribution(&self, metric: &Metric, wanted: &dyn Fn(u32) -> bool) -> Distribution {
        let mut all = Distribution::new(self.scheme);
        for cpu in self.cpus.iter().filter(|cpu| wanted(cpu.number)) {
            for part in cpu.samples_of(metric) {
                for (index, count) in &part.buckets {
                    // The decoder has checked the index.
                    let _ = all.add(*index, *count);
                }
                all.sum = all.sum.saturating_add(part.sum);
                all.min = [all.min, part.min].into_iter().flatten().min();
                all.extend_max(part.max, part.worst.map(|worst| (cpu.number, worst)));
            }
        }
        all
    }

    /// Returns how long tasks had a CPU, in nanoseconds. Where [`WindowCpu::time`] is not known,
    /// these are the slices that ended in the window: possibly more than its length.
    pub fn busy(&self, cpu: &WindowCpu) -> u128 {
        if let Some(time) = cpu.time {
            return u128::from(time.oncpu) + u128::from(time.unseen_oncpu);
        }
        let oncpu = self.names.metric("oncpu").into_iter();
        let slices = oncpu.flat_map(|oncpu| cpu.samples_of(oncpu));
        slices.map(|slices| slices.sum).sum()
    }

    /// Returns the sum of a counter over all CPUs; `None` if there is no such counter.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let number = self.names.counter(name)?;
        let values = self.cpus.iter().filter_map(|cpu| cpu.counters.get(number));
        Some(values.fold(0, |sum, n| sum.saturating_add(*n)))
    }
}

/// Returns the samples of a metric on a CPU since the load.
fn samples_since_load(histogram: &Histogram) -> Samples {
    let worst = histogram.worst.filter(|_| !histogram.buckets.is_empty());
    Samples {
        metric: histogram.metric,
        sum: histogram.sum,
        min: (histogram.min != u64::MAX).then_some(histogram.min),
        max: worst.map_or(Max::None, |worst| Max::Exact(worst.value)),
        worst,
        buckets: histogram
            .buckets
            .iter()
            .copied()
            .filter(|(_, n)| *n != 0)
            .collect(),
    }
}

/// Returns what a CPU did between two snapshots; `None` if anything has decreased.
fn cpu_between(scheme: Scheme, old: &Cpu, new: &Cpu) -> Option<WindowCpu> {
    if old.counters.len() != new.counters.len() {
        return None;
    }
    let pairs = old.counters.iter().zip(&new.counters);
    let counters = pairs
        .map(|(old, new)| new.checked_sub(*old))
        .collect::<Option<_>>()?;
    if old.lost_histogram(new) {
        return None;
    }
    let samples = new.histograms.iter().map(|histogram| {
        let empty = Histogram::new(histogram.metric);
        let before = old.histogram(histogram.metric).unwrap_or(&empty);
        samples_between(scheme, before, histogram)
    });
    Some(WindowCpu {
        number: new.number,
        counters,
        samples: samples.collect::<Option<_>>()?,
        time: None,
        slice: new.slice,
        unaccounted: None,
    })
}

/// Returns the time that is missing on a CPU; `None` unless all slices are recorded.
fn unaccounted(snapshot: &Snapshot, cpu: &Cpu) -> Option<i64> {
    let is_on = |name: &str| {
        let metric = snapshot.names.metric(name);
        metric.is_none_or(|metric| metric.is_in(snapshot.metrics_on))
    };
    let all = is_on("oncpu") && is_on("idle");
    all.then(|| snapshot.unaccounted(cpu).map(|ns| ns as i64))?
}

/// Returns how a CPU spent the time between two snapshots. With each one comes whether a task is
/// known to have had the CPU. `metrics` are the numbers of `oncpu` and `idle`.
fn time_between(
    (old, was_there): (&Cpu, bool),
    (new, is_there): (&Cpu, bool),
    metrics: (u32, u32),
) -> Option<Time> {
    let (first, last) = (old.slice?, new.slice?);
    let span = last.now.checked_sub(first.now)?;
    let sum = |cpu: &Cpu, metric| cpu.histogram(metric).map_or(0, |histogram| histogram.sum);
    let spent = |metric, what| {
        // Up to each end, with what was in progress there.
        let until =
            |cpu: &Cpu, slice: &SliceInProgress| sum(cpu, metric) + u128::from(slice.of(what));
        let spent = until(new, &last).saturating_sub(until(old, &first));
        // The clocks of two CPUs may differ slightly, and measuring may have begun anew.
        u64::try_from(spent).unwrap_or(u64::MAX).min(span)
    };
    let oncpu = spent(metrics.0, Occupancy::Task);
    let idle = spent(metrics.1, Occupancy::Idle).min(span - oncpu);
    let unseen = span - oncpu - idle;
    let is_oncpu = match (first.occupancy, last.occupancy) {
        (Occupancy::Unseen, Occupancy::Unseen) => was_there && is_there,
        (Occupancy::Unseen, _) => was_there,
        (_, Occupancy::Unseen) => is_there,
        _ => false,
    };
    Some(Time {
        span,
        oncpu,
        idle,
        unseen,
        unseen_oncpu: if is_oncpu { unseen } else { 0 },
    })
}

/// Returns the samples of a metric on a CPU between two snapshots; `None` if anything has
/// decreased.
fn samples_between(scheme: Scheme, old: &Histogram, new: &Histogram) -> Option<Samples> {
    let buckets = grown(&old.buckets, &new.buckets)?;
    let max = buckets.last().map_or(Max::None, |(highest, _)| {
        let max = new.worst.map(|worst| worst.value);
        max_between(
            scheme.bounds(*highest as usize),
            max,
            new.worst != old.worst,
        )
    });
    Some(Samples {
        metric: new.metric,
        sum: new.sum.checked_sub(old.sum)?,
        min: None,
        max,
        worst: new.worst.filter(|_| max.is_exact()),
        buckets,
    })
}

/// Returns the buckets that have grown, each with its growth; `None` if one has decreased.
pub(crate) fn grown(old: &[(u32, u64)], new: &[(u32, u64)]) -> Option<Vec<(u32, u64)>> {
    let mut old = old.iter().copied().filter(|(_, n)| *n != 0).peekable();
    let mut grown = Vec::new();
    for &(index, count) in new {
        let before = match old.peek() {
            Some((first, _)) if *first < index => return None,
            Some((first, before)) if *first == index => {
                let before = *before;
                old.next();
                before
            }
            _ => 0,
        };
        match count.checked_sub(before)? {
            0 => {}
            more => grown.push((index, more)),
        }
    }
    old.next().is_none().then_some(grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_by_idle_cpus() {
        // Waited, idle nearby, idle far away, not known.
        for (waited, near, far, unknown, wanted) in [
            (100, 20, 9, 0, Some("29 %")),
            (100, 20, 9, 1, Some("at least 29 %")),
            (1_000, 285, 0, 0, Some("29 %")),
            (1_000, 284, 0, 0, Some("28 %")),
            (1_000, 289, 0, 1, Some("at least 28 %")),
            (u64::MAX, 0, u64::MAX, 0, Some("100 %")),
            (0, 0, 0, 0, None),
        ] {
            let mut sums = WaitSums::default();
            for (part, ns) in [
                (WaitPart::Waited, waited),
                (WaitPart::LlcIdle, near),
                (WaitPart::RemoteIdle, far),
                (WaitPart::Unknown, unknown),
            ] {
                sums.0[1 + part as usize] = ns;
            }
            assert_eq!(served(&sums).as_deref(), wanted);
        }
    }

    #[test]
    fn why_tasks_waited() {
        let mut sums = WaitSums::default();
        sums.0[0] = 3;
        assert_eq!(why(&sums), None);
        sums.0[1 + WaitPart::Waited as usize] = 1_000;
        sums.0[1 + WaitPart::LlcIdle as usize] = 250;
        for (cause, ns) in [
            (WaitCause::WokenBusy, 296),
            (WaitCause::Preempted, 700),
            (WaitCause::Moved, 4),
        ] {
            let place = 1 + WaitPart::COUNT + 2 * cause as usize;
            sums.0[place..place + 2].copy_from_slice(&[1, ns]);
        }
        let wanted = "idle CPUs could have served 25 % of the time of long waits: 70 % preempted, \
                      30 % woken onto a busy CPU";
        assert_eq!(why(&sums).as_deref(), Some(wanted));
    }
}
