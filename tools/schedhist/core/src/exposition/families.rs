// SPDX-License-Identifier: GPL-2.0

//! The families of the machine, its CPUs and its groups, with a bound on the number of time series.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{is_of_groups, place, Exposition, Family, Kind, Sample, Value, SERIES_OF_HISTOGRAM};
use crate::{
    distribution::Distribution,
    engine::{
        group::records::{CulpritKind, GroupCounter, GroupMetric},
        idle::{Distance, WaitCause, WaitPart, WaitSums},
        metric::{self, Counter, Metric},
        switch::cpu::Occupancy,
    },
    raw::{Group, Groups, Snapshot, Times},
    window::Window,
};

/// The counters of a group, each with its help, which is that of a CPU's.
const GROUP_COUNTERS: [(GroupCounter, &str); GroupCounter::COUNT] = [
    (GroupCounter::Voluntary, Counter::Voluntary.help()),
    (GroupCounter::Involuntary, Counter::Involuntary.help()),
    (GroupCounter::Migrations, Counter::Migrations.help()),
    (GroupCounter::Throttled, Counter::Throttled.help()),
    (GroupCounter::ThrottledNs, Metric::Throttled.help()),
];

/// The bytes of a line of text about a group, besides its labels: names, a bound, and a value.
const SERIES_BYTES: usize = 110;

/// What the families are made of.
#[derive(Debug)]
pub struct Input<'a> {
    pub snapshot: &'a Snapshot,
    /// The groups, if tasks are grouped.
    pub groups: Option<&'a Groups>,
    /// When the module was loaded, in nanoseconds since 1970, if that is known.
    pub created: Option<u64>,
    pub version: &'a str,
    /// How long it took to read the snapshot, in nanoseconds.
    pub read_ns: u64,
    /// The metrics of which each CPU has a histogram.
    pub per_cpu: &'a [String],
    /// The maximum number of time series. Those of the machine are always there.
    pub limit: usize,
    /// The maximum number of bytes that the groups take as text, about. Each user of the machine
    /// can make many, with long names.
    pub group_bytes: usize,
    /// Whether a histogram is a single time series, as a native one is.
    pub native: bool,
    /// Whether each count has a time series with its beginning.
    pub with_created: bool,
}

pub type Labels = Vec<(&'static str, String)>;

fn number(labels: Labels, number: u64) -> Sample {
    Sample {
        labels,
        value: Value::Number(number),
    }
}

fn seconds(labels: Labels, ns: u128) -> Sample {
    Sample {
        labels,
        value: Value::Seconds(ns),
    }
}

fn histogram(labels: Labels, distribution: Distribution) -> Sample {
    Sample {
        labels,
        value: Value::Histogram(Box::new(distribution)),
    }
}

/// The families as they grow.
struct Builder<'a> {
    input: &'a Input<'a>,
    families: Vec<Family>,
    left: usize,
}

pub fn build(input: &Input<'_>) -> Exposition {
    let mut builder = Builder {
        input,
        families: Vec::new(),
        left: input.limit,
    };
    builder.about();
    builder.machine();
    builder.in_progress();
    let cpus_left_out = builder.cpus();
    let groups_left_out = builder.groups();
    let left_out = [("cpu", cpus_left_out), ("group", groups_left_out)];
    let left_out = left_out.map(|(scope, n)| number(vec![("scope", scope.to_owned())], n));
    let help = "Histograms of CPUs, and groups, that are not sent: there is no room for them.";
    builder.add("left_out", help, Kind::Gauge, left_out);
    Exposition {
        families: builder.families,
        created: input.created,
    }
}

/// Returns the families that are sent if the module cannot be read.
pub fn down(version: &str) -> Exposition {
    let mut exposition = Exposition::default();
    exposition.families.push(family(
        "up",
        "Whether the module could be read: 0 or 1.",
        Kind::Gauge,
        vec![number(Vec::new(), 0)],
    ));
    exposition.families.push(info(version));
    exposition
}

fn info(version: &str) -> Family {
    let samples = vec![number(vec![("version", version.to_owned())], 1)];
    let help = "The version of the command.";
    family("exporter_info", help, Kind::Gauge, samples)
}

fn family(name: &str, help: &str, kind: Kind, samples: Vec<Sample>) -> Family {
    let unit = if name.ends_with("_seconds") {
        "seconds"
    } else {
        ""
    };
    Family {
        name: format!("schedhist_{name}"),
        help: help.to_owned(),
        kind,
        unit,
        samples,
    }
}

impl Builder<'_> {
    fn add(
        &mut self,
        name: &str,
        help: &str,
        kind: Kind,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        let samples: Vec<_> = samples.into_iter().collect();
        if samples.is_empty() {
            return;
        }
        self.left = self
            .left
            .saturating_sub(samples.len() * self.series(kind, is_of_groups(name)));
        self.families.push(family(name, help, kind, samples));
    }

    /// Returns the number of time series of a sample.
    fn series(&self, kind: Kind, is_of_groups: bool) -> usize {
        let of_created = self.input.with_created
            && kind != Kind::Gauge
            && self.input.created.is_some()
            && !is_of_groups;
        let series = match kind {
            Kind::Histogram if !self.input.native => SERIES_OF_HISTOGRAM,
            _ => 1,
        };
        series + usize::from(of_created)
    }

    fn about(&mut self) {
        let input = self.input;
        let gauge = |value| [number(Vec::new(), value)];
        let up = "Whether the module could be read: 0 or 1.";
        self.add("up", up, Kind::Gauge, gauge(1));
        self.families.push(info(input.version));
        self.left = self.left.saturating_sub(1);
        let help = "Whether schedhist measures: 0 or 1.";
        let enabled = u64::from(input.snapshot.enabled);
        self.add("enabled", help, Kind::Gauge, gauge(enabled));
        let help = "In the histograms behind these a bucket is at most 2^-N of its value wide.";
        let bits = u64::from(input.snapshot.scheme.precision().bits());
        // The module calls it schedhist_precision_bits, but promtool knows no such unit.
        self.add("precision", help, Kind::Gauge, gauge(bits));
        let help = "How long it took to read the snapshot from the module.";
        let read = [seconds(Vec::new(), u128::from(input.read_ns))];
        self.add("read_seconds", help, Kind::Gauge, read);
        if let Some(created) = input.created {
            let at = [seconds(Vec::new(), u128::from(created))];
            let help = "When the module was loaded, since 1970.";
            self.add("start_time_seconds", help, Kind::Gauge, at);
        }
        let window = Window::since_load(input.snapshot);
        let on = window.names.metrics.iter().map(|metric| {
            let labels = vec![("metric", metric.name.clone())];
            number(labels, u64::from(window.is_on(metric)))
        });
        let help = "Whether the metric is among those that are measured when enabled: 0 or 1.";
        self.add("metric_enabled", help, Kind::Gauge, on);
    }

    fn machine(&mut self) {
        let window = Window::since_load(self.input.snapshot);
        for (_, name) in &window.names.counters {
            let value = window.counter(name).unwrap_or_default();
            let samples = [number(Vec::new(), value)];
            self.add(name, counter_help(name), Kind::Counter, samples);
        }
        for metric in &window.names.metrics {
            let samples = [histogram(
                Vec::new(),
                window.distribution(metric, &|_| true),
            )];
            let name = format!("{}_seconds", metric.name);
            self.add(&name, help(&metric.name), Kind::Histogram, samples);
        }
        if let Some(all) = window.long_waits {
            self.long_waits("", &[(Vec::new(), &all.sums)]);
        }
    }

    /// Adds long waits, as the module's own file has them.
    fn long_waits(&mut self, prefix: &str, of: &[(Labels, &WaitSums)]) {
        let mut add = |name, help, value: &dyn Fn(&WaitSums) -> Value| {
            let samples = of.iter().map(|(labels, sums)| Sample {
                labels: labels.clone(),
                value: value(sums),
            });
            self.add(&format!("{prefix}{name}"), help, Kind::Counter, samples);
        };
        let help = "Waits for a CPU of long_wait_ns or more.";
        add("long_waits".to_owned(), help, &|sums| {
            Value::Number(sums.waits())
        });
        for part in WaitPart::ALL {
            let name = format!("long_wait_{}_seconds", part.name());
            add(name, part.help(), &|sums| {
                Value::Seconds(sums.part(part).into())
            });
        }
        for cause in WaitCause::ALL {
            let name = format!("long_waits_{}", cause.name());
            add(name.clone(), cause.help(), &|sums| {
                Value::Number(sums.cause(cause).0)
            });
            add(name + "_seconds", cause.help(), &|sums| {
                Value::Seconds(sums.cause(cause).1.into())
            });
        }
    }

    /// Adds what has not ended yet, and so is in no histogram.
    fn in_progress(&mut self) {
        let snapshot = self.input.snapshot;
        let sum = |what| {
            let slices = snapshot
                .cpus
                .iter()
                .filter_map(|cpu| Some(cpu.slice?.of(what)));
            slices.fold(None, |sum, ns| Some(sum.unwrap_or(0) + u128::from(ns)))
        };
        for (name, slices, what) in [
            ("oncpu", "Slices of tasks on a CPU", Occupancy::Task),
            (
                "idle",
                "Slices of CPUs in their idle tasks",
                Occupancy::Idle,
            ),
        ] {
            let samples = sum(what).map(|ns| seconds(Vec::new(), ns));
            let name = format!("{name}_in_progress_seconds");
            let help = format!("{slices} in progress: how long so far.");
            self.add(&name, &help, Kind::Gauge, samples);
        }
        let runq = snapshot.names.metric("runq");
        let Some(runq) = runq.filter(|_| !snapshot.waits.is_empty()) else {
            return;
        };
        let (count, ns) = snapshot.waits(runq);
        let help = "Waits for a CPU in progress.";
        let samples = [number(Vec::new(), count)];
        self.add("runq_in_progress", help, Kind::Gauge, samples);
        let help = "Waits for a CPU in progress: how long so far.";
        let samples = [seconds(Vec::new(), ns.into())];
        self.add("runq_in_progress_seconds", help, Kind::Gauge, samples);
        let longest = |name: &str| {
            let all = snapshot
                .names
                .metric(name)
                .map(|metric| snapshot.in_progress(metric));
            all.and_then(|all| Some(all.first()?.duration))
        };
        for (name, what) in [
            ("oncpu", "slice of a task on a CPU"),
            ("runq", "wait for a CPU"),
        ] {
            let ns = u128::from(longest(name).unwrap_or_default());
            let name = format!("{name}_longest_in_progress_seconds");
            let help = format!("The longest {what} in progress: how long so far.");
            self.add(&name, &help, Kind::Gauge, [seconds(Vec::new(), ns)]);
        }
    }

    /// Adds the families of CPUs. Returns the number of histograms for which there is no room: of a
    /// metric, either all CPUs have one or none has.
    fn cpus(&mut self) -> u64 {
        let window = Window::since_load(self.input.snapshot);
        let label = |cpu: u32| vec![("cpu", cpu.to_string())];
        let mut left_out = 0;
        if window.cpus.len() * self.series(Kind::Counter, false) <= self.left {
            if let Some(place) = window.names.counter("switches") {
                let values = window.cpus.iter().map(|cpu| {
                    let value = cpu.counters.get(place).copied().unwrap_or_default();
                    number(label(cpu.number), value)
                });
                let help = counter_help("switches");
                self.add("cpu_switches", help, Kind::Counter, values);
            }
        }
        if window.cpus.len() <= self.left {
            let values = window.cpus.iter().filter_map(|cpu| {
                let ns = cpu.slice?.of(Occupancy::Task);
                Some(seconds(label(cpu.number), ns.into()))
            });
            let help = "The slice of a task on the CPU in progress: how long so far.";
            self.add("cpu_oncpu_in_progress_seconds", help, Kind::Gauge, values);
        }
        for name in self.input.per_cpu {
            let Some(metric) = window.names.metric(name) else {
                continue;
            };
            if window.cpus.len() * self.series(Kind::Histogram, false) > self.left {
                left_out += window.cpus.len() as u64;
                continue;
            }
            let samples = window.cpus.iter().map(|cpu| {
                let of_cpu = window.distribution(metric, &|number| number == cpu.number);
                histogram(label(cpu.number), of_cpu)
            });
            let family = format!("cpu_{name}_seconds");
            self.add(&family, help(name), Kind::Histogram, samples);
        }
        left_out
    }

    /// Adds the families of groups. Returns the number of groups for which there is no room.
    fn groups(&mut self) -> u64 {
        let Some(state) = self.input.groups else {
            return 0;
        };
        self.about_groups(state);
        let groups = self.important(state);
        for metric in GroupMetric::ALL {
            let samples = groups
                .iter()
                .map(|(label, group)| histogram(label.clone(), state.distribution(group, metric)));
            let family = format!("group_{}_seconds", metric.name());
            self.add(&family, help(metric.name()), Kind::Histogram, samples);
        }
        for (counter, help) in GROUP_COUNTERS {
            let is_time = counter == GroupCounter::ThrottledNs;
            let samples = groups.iter().map(|(label, group)| {
                let value = group.counters[counter as usize];
                match is_time {
                    true => seconds(label.clone(), value.into()),
                    false => number(label.clone(), value),
                }
            });
            let name = if is_time {
                "throttled_seconds"
            } else {
                counter.name()
            };
            self.add(&format!("group_{name}"), help, Kind::Counter, samples);
        }
        type Of = fn(&Group) -> Times;
        let in_progress: [(&str, &str, Of); 2] = [
            ("oncpu", "Slices of the group's tasks on a CPU", |group| {
                group.slices
            }),
            ("runq", "Waits of the group's tasks for a CPU", |group| {
                group.waiting
            }),
        ];
        for (name, what, of) in in_progress {
            let each = groups.iter();
            let samples = each.map(|(label, group)| seconds(label.clone(), of(group).1.into()));
            let name = format!("group_{name}_in_progress_seconds");
            let help = format!("{what} in progress: how long so far.");
            self.add(&name, &help, Kind::Gauge, samples);
        }
        let ended = "Waits for a CPU that ended while the culprit had the CPU";
        self.culprits("group_ended_by", ended, &groups, |group| &group.ended_by);
        let preempted = "Waits for a CPU that began when the culprit preempted the task";
        self.culprits("group_preempted_by", preempted, &groups, |group| {
            &group.preempted_by
        });
        for (place, distance) in Distance::BETWEEN_CPUS.into_iter().enumerate() {
            let name = format!("migrations_{}", distance.name());
            let samples = groups
                .iter()
                .map(|(label, group)| number(label.clone(), group.migrations[place]));
            let help = counter_help(&name);
            self.add(&format!("group_{name}"), help, Kind::Counter, samples);
        }
        if self.input.snapshot.long_waits.is_some() {
            let waits = groups
                .iter()
                .map(|(label, group)| (label.clone(), &group.long_waits));
            self.long_waits("group_", &waits.collect::<Vec<_>>());
        }
        let not_in = groups
            .iter()
            .map(|(label, group)| number(label.clone(), group.not_in_histogram(&GroupMetric::ALL)));
        let help = "Samples that are in no histogram: there was no memory for it yet.";
        self.add("group_not_in_histogram", help, Kind::Gauge, not_in);
        (state.groups.len() - groups.len()) as u64
    }

    /// Adds what is said of all groups together.
    fn about_groups(&mut self, state: &Groups) {
        let rule = vec![("rule", state.rule.clone())];
        let help = "What the tasks of a group have in common.";
        self.add("group_by_info", help, Kind::Gauge, [number(rule, 1)]);
        let one = |value| [number(Vec::new(), value)];
        let count = state.groups.len() as u64;
        self.add("groups", "The number of groups.", Kind::Gauge, one(count));
        if let Some(limit) = state.limit {
            let help = "The maximum number of groups.";
            self.add("group_limit", help, Kind::Gauge, one(limit.into()));
        }
        let help = "Decisions for which there was no group: the tasks are in the group other.";
        self.add("group_refused", help, Kind::Counter, one(state.refused));
        if let Some(memory) = state.memory {
            let help = "The memory of the records of groups.";
            self.add("group_memory_bytes", help, Kind::Gauge, one(memory));
        }
    }

    /// Returns the groups for which there is room, by their numbers, with their labels: the groups
    /// of the tasks that no other takes, and then those that waited most since they began. These
    /// times only grow, so that which groups are sent rarely changes from scrape to scrape.
    fn important<'s>(&self, state: &'s Groups) -> Vec<(Labels, &'s Group)> {
        let series = GroupMetric::COUNT * self.series(Kind::Histogram, true)
            + GROUP_COUNTERS.len()
            + 4 * CulpritKind::COUNT
            + Distance::BETWEEN_CPUS.len()
            + 2
            + 1
            + match self.input.snapshot.long_waits {
                Some(_) => 1 + WaitPart::COUNT + 2 * WaitCause::COUNT,
                None => 0,
            };
        let mut seen = BTreeSet::new();
        let groups = state.groups.iter();
        let mut groups: Vec<_> = groups
            .map(|group| {
                let mut labels = vec![("group", label(state, group, &mut seen))];
                labels.extend(place::labels(&group.name));
                (labels, group)
            })
            .collect();
        groups.sort_by_cached_key(|(_, group)| {
            let is_rest = group.id == 0 || state.is_gone(group.id);
            let time = |metric: GroupMetric| group.samples[metric as usize].sum;
            let times = (time(GroupMetric::Runq), time(GroupMetric::Oncpu));
            (Reverse((is_rest, times)), group.id)
        });
        let mut bytes = self.input.group_bytes;
        let fits = |(labels, _): &&(Labels, _)| {
            // An escaped character takes two bytes.
            let of_labels = labels
                .iter()
                .map(|(name, value)| name.len() + 2 * value.len());
            let size = SERIES_BYTES + of_labels.sum::<usize>();
            let left = bytes.checked_sub(series * size);
            bytes = left.unwrap_or_default();
            left.is_some()
        };
        let room = groups.iter().take(self.left / series);
        groups.truncate(room.take_while(fits).count());
        groups.sort_by_cached_key(|(_, group)| group.id);
        groups
    }

    /// Adds the waits of each group by culprit.
    fn culprits(
        &mut self,
        name: &str,
        help: &str,
        groups: &[(Labels, &Group)],
        of: impl Fn(&Group) -> &[Times; CulpritKind::COUNT],
    ) {
        let (mut counts, mut times) = (Vec::new(), Vec::new());
        for (label, group) in groups {
            for (culprit, (count, ns)) in CulpritKind::ALL.into_iter().zip(of(group)) {
                let mut labels = label.clone();
                labels.push(("culprit", culprit.name().to_owned()));
                counts.push(number(labels.clone(), *count));
                times.push(seconds(labels, (*ns).into()));
            }
        }
        self.add(name, &format!("{help}."), Kind::Counter, counts);
        let (name, help) = (format!("{name}_seconds"), format!("{help}: their sum."));
        self.add(&name, &help, Kind::Counter, times);
    }
}

/// Returns the value of the label of a group: its name, and its number if an earlier group has the
/// same name, as in the module's own file. The name `gone` is that of the group of all that are
/// gone, also before there is one.
fn label<'a>(groups: &Groups, group: &'a Group, seen: &mut BTreeSet<&'a str>) -> String {
    let is_reserved = &*group.name == "gone" && !groups.is_gone(group.id);
    if !is_reserved && seen.insert(&group.name) {
        group.name.to_string()
    } else {
        format!("{}\\#{}", group.name, group.id)
    }
}

fn help(name: &str) -> &'static str {
    let known = metric::ShownMetric::ALL
        .iter()
        .find(|metric| metric.name == name);
    known.map_or(
        "A metric that this version of the command does not know.",
        |s| s.help,
    )
}

fn counter_help(name: &str) -> &'static str {
    let mut all = metric::Counter::ALL.into_iter();
    let known = all.find(|counter| counter.name() == name);
    known.map_or(
        "A counter that this version of the command does not know.",
        |counter| counter.help(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::histogram::bucket::Scheme;

    #[test]
    fn labels_of_groups() {
        let names = [(1, "a"), (2, "gone"), (3, "a"), (10, "gone")];
        let groups = Groups {
            rule: "comm".to_owned(),
            time: None,
            since: None,
            limit: Some(9),
            refused: 0,
            memory: None,
            scheme: Scheme::DEFAULT,
            groups: names.map(|(id, name)| Group::new(id, name)).to_vec(),
        };
        let mut seen = BTreeSet::new();
        let all = groups.groups.iter();
        let labels: Vec<_> = all.map(|group| label(&groups, group, &mut seen)).collect();
        assert_eq!(labels, ["a", "gone\\#2", "a\\#3", "gone"]);
    }
}
