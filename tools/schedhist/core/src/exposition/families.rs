// SPDX-License-Identifier: GPL-2.0

//! The families of the machine, its CPUs and its groups, with a bound on the number of time series.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Exposition, Family, Kind, Sample, Value, SERIES_OF_HISTOGRAM};
use crate::{
    distribution::Distribution,
    engine::{
        group::records::{CulpritKind, GroupMetric},
        metric::{self, Counter},
        switch::cpu::Occupancy,
    },
    raw::Snapshot,
    text::{Group, Groups},
    window::Window,
};

/// The counters of a group, which are counters of a CPU, too.
const GROUP_COUNTERS: [Counter; 4] = [
    Counter::Voluntary,
    Counter::Involuntary,
    Counter::Migrations,
    Counter::Throttled,
];

/// The bytes of a line of text about a group, besides its label: names, a bound, and a value.
const SERIES_BYTES: usize = 110;

/// The groups at one time.
#[derive(Clone, Debug, Default)]
pub struct GroupState {
    /// The file `groups`.
    pub groups: Groups,
    /// The histograms: by the name of the [`GroupMetric`], and by the number of the group.
    pub histograms: BTreeMap<(&'static str, u32), Distribution>,
}

/// What the families are made of.
#[derive(Debug)]
pub struct Input<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The groups, if tasks are grouped.
    pub groups: Option<&'a GroupState>,
    /// When the module was loaded, in nanoseconds since 1970, if that is known.
    pub created: Option<u64>,
    /// The version of the command.
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
}

fn number(labels: Vec<(&'static str, String)>, number: u64) -> Sample {
    Sample {
        labels,
        value: Value::Number(number),
    }
}

fn seconds(labels: Vec<(&'static str, String)>, ns: u128) -> Sample {
    Sample {
        labels,
        value: Value::Seconds(ns),
    }
}

fn histogram(labels: Vec<(&'static str, String)>, distribution: Distribution) -> Sample {
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

/// Returns the families.
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
    let left_out = |scope: &str, n| number(vec![("scope", scope.to_owned())], n);
    builder.add(
        "left_out",
        "Histograms of CPUs, and groups, that are not sent: there is no room for them.",
        Kind::Gauge,
        vec![
            left_out("cpu", cpus_left_out),
            left_out("group", groups_left_out),
        ],
    );
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
    let labels = vec![("version", version.to_owned())];
    exposition.families.push(family(
        "exporter_info",
        "The version of the command.",
        Kind::Gauge,
        vec![number(labels, 1)],
    ));
    exposition
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
    fn add(&mut self, name: &str, help: &str, kind: Kind, samples: Vec<Sample>) {
        if samples.is_empty() {
            return;
        }
        self.left = self.left.saturating_sub(samples.len() * self.series(kind));
        self.families.push(family(name, help, kind, samples));
    }

    /// Returns the number of time series of a sample.
    fn series(&self, kind: Kind) -> usize {
        if kind == Kind::Histogram && !self.input.native {
            SERIES_OF_HISTOGRAM
        } else {
            1
        }
    }

    fn about(&mut self) {
        let input = self.input;
        let gauge = |value| vec![number(Vec::new(), value)];
        let up = "Whether the module could be read: 0 or 1.";
        self.add("up", up, Kind::Gauge, gauge(1));
        let version = vec![("version", input.version.to_owned())];
        self.add(
            "exporter_info",
            "The version of the command.",
            Kind::Gauge,
            vec![number(version, 1)],
        );
        let help = "Whether schedhist measures: 0 or 1.";
        let enabled = u64::from(input.snapshot.enabled);
        self.add("enabled", help, Kind::Gauge, gauge(enabled));
        let help = "In the histograms behind these a bucket is at most 2^-N of its value wide.";
        let bits = u64::from(input.snapshot.scheme.precision().bits());
        // The module calls it schedhist_precision_bits, but promtool knows no such unit.
        self.add("precision", help, Kind::Gauge, gauge(bits));
        let help = "How long it took to read the snapshot from the module.";
        let read = vec![seconds(Vec::new(), u128::from(input.read_ns))];
        self.add("read_seconds", help, Kind::Gauge, read);
        if let Some(created) = input.created {
            let at = vec![seconds(Vec::new(), u128::from(created))];
            let help = "When the module was loaded, since 1970.";
            self.add("start_time_seconds", help, Kind::Gauge, at);
        }
        let window = Window::since_load(input.snapshot);
        let on = window.names.series.iter().map(|series| {
            let labels = vec![("metric", series.name.clone())];
            number(labels, u64::from(window.is_on(series)))
        });
        let help = "Whether the metric is among those that are measured when enabled: 0 or 1.";
        self.add("metric_enabled", help, Kind::Gauge, on.collect());
    }

    fn machine(&mut self) {
        let window = Window::since_load(self.input.snapshot);
        for (_, name) in &window.names.counters {
            let value = window.counter(name).unwrap_or_default();
            let samples = vec![number(Vec::new(), value)];
            self.add(name, counter_help(name), Kind::Counter, samples);
        }
        for series in &window.names.series {
            let samples = vec![histogram(Vec::new(), window.distribution(series, |_| true))];
            let name = format!("{}_seconds", series.name);
            self.add(&name, help(&series.name), Kind::Histogram, samples);
        }
    }

    /// Adds what has not ended yet, and so is in no histogram.
    fn in_progress(&mut self) {
        let snapshot = self.input.snapshot;
        let sum = |what| {
            let stays = snapshot
                .cpus
                .iter()
                .filter_map(|cpu| Some(cpu.stay?.of(what)));
            stays.fold(None, |sum, ns| Some(sum.unwrap_or(0) + u128::from(ns)))
        };
        for (name, help, what) in [
            (
                "oncpu",
                "Stays of tasks on a CPU in progress: how long so far.",
                Occupancy::Task,
            ),
            (
                "idle",
                "Stays of CPUs in their idle tasks in progress: how long so far.",
                Occupancy::Idle,
            ),
        ] {
            let samples = sum(what).map(|ns| seconds(Vec::new(), ns));
            let name = format!("{name}_in_progress_seconds");
            self.add(&name, help, Kind::Gauge, samples.into_iter().collect());
        }
        let Some(runq) = snapshot
            .names
            .series("runq")
            .filter(|_| !snapshot.waits.is_empty())
        else {
            return;
        };
        let (count, ns) = snapshot.waits(runq);
        let help = "Waits for a CPU in progress.";
        let samples = vec![number(Vec::new(), count)];
        self.add("runq_in_progress", help, Kind::Gauge, samples);
        let help = "Waits for a CPU in progress: how long so far.";
        let samples = vec![seconds(Vec::new(), ns.into())];
        self.add("runq_in_progress_seconds", help, Kind::Gauge, samples);
        let longest = |name: &str| {
            let all = { snapshot.names.series(name) }.map(|series| snapshot.in_progress(series));
            all.and_then(|all| Some(all.first()?.duration))
        };
        for (name, help) in [
            (
                "oncpu",
                "The longest stay of a task on a CPU in progress: how long so far.",
            ),
            (
                "runq",
                "The longest wait for a CPU in progress: how long so far.",
            ),
        ] {
            let ns = u128::from(longest(name).unwrap_or_default());
            let name = format!("{name}_longest_in_progress_seconds");
            self.add(&name, help, Kind::Gauge, vec![seconds(Vec::new(), ns)]);
        }
    }

    /// Adds the families of CPUs. Returns the number of histograms for which there is no room: of a
    /// metric, either all CPUs have one or none has.
    fn cpus(&mut self) -> u64 {
        let window = Window::since_load(self.input.snapshot);
        let label = |cpu: u32| vec![("cpu", cpu.to_string())];
        let mut left_out = 0;
        if window.cpus.len() <= self.left {
            if let Some(place) = window.names.counter("switches") {
                let values = window.cpus.iter().map(|cpu| {
                    let value = cpu.counters.get(place).copied().unwrap_or_default();
                    number(label(cpu.number), value)
                });
                let values = values.collect();
                self.add(
                    "cpu_switches",
                    counter_help("switches"),
                    Kind::Counter,
                    values,
                );
            }
        }
        if window.cpus.len() <= self.left {
            let values = { window.cpus.iter() }.filter_map(|cpu| {
                let ns = cpu.stay?.of(Occupancy::Task);
                Some(seconds(label(cpu.number), ns.into()))
            });
            let values = values.collect();
            let help = "The stay of a task on the CPU in progress: how long so far.";
            self.add("cpu_oncpu_in_progress_seconds", help, Kind::Gauge, values);
        }
        for name in self.input.per_cpu {
            let Some(series) = window.names.series(name) else {
                continue;
            };
            if window.cpus.len() * self.series(Kind::Histogram) > self.left {
                left_out += window.cpus.len() as u64;
                continue;
            }
            let samples = window.cpus.iter().map(|cpu| {
                let of_cpu = window.distribution(series, |number| number == cpu.number);
                histogram(label(cpu.number), of_cpu)
            });
            let samples = samples.collect();
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
        let rule = vec![("rule", state.groups.rule.clone())];
        let help_of_rule = "What the tasks of a group have in common.";
        let rule = vec![number(rule, 1)];
        self.add("group_by_info", help_of_rule, Kind::Gauge, rule);
        let count = vec![number(Vec::new(), state.groups.groups.len() as u64)];
        self.add("groups", "The number of groups.", Kind::Gauge, count);
        let refused = vec![number(Vec::new(), state.groups.refused)];
        let help_of_refused =
            "Decisions for which there was no group: the tasks are in the group other.";
        self.add("group_refused", help_of_refused, Kind::Counter, refused);

        let groups = self.important(state);
        for name in GroupMetric::ALL.map(GroupMetric::name) {
            let samples = groups.iter().filter_map(|(label, group)| {
                let of_group = state.histograms.get(&(name, group.id))?;
                Some(histogram(vec![("group", label.clone())], of_group.clone()))
            });
            let samples = samples.collect();
            let family = format!("group_{name}_seconds");
            self.add(&family, help(name), Kind::Histogram, samples);
        }
        for counter in GROUP_COUNTERS {
            let name = counter.name();
            let samples = groups.iter().filter_map(|(label, group)| {
                let value = group.pairs.number(name)?;
                Some(number(vec![("group", label.clone())], value))
            });
            let samples = samples.collect();
            let name = format!("group_{name}");
            self.add(&name, counter.help(), Kind::Counter, samples);
        }
        for (name, key, help) in [
            (
                "group_oncpu_in_progress_seconds",
                "oncpu_in_progress_ns",
                "Stays of the group's tasks on a CPU in progress: how long so far.",
            ),
            (
                "group_runq_in_progress_seconds",
                "runq_in_progress_ns",
                "Waits of the group's tasks for a CPU in progress: how long so far.",
            ),
        ] {
            let is_told = { state.groups.groups.iter() }
                .any(|group| group.pairs.get("oncpu_in_progress_ns").is_some());
            let samples = groups.iter().filter(|_| is_told).map(|(label, group)| {
                let ns = group.pairs.number(key).unwrap_or_default();
                seconds(vec![("group", label.clone())], ns)
            });
            let samples = samples.collect();
            self.add(name, help, Kind::Gauge, samples);
        }
        self.ended_by(&groups);
        let not_in = groups.iter().filter_map(|(label, group)| {
            let value = group.pairs.number("not_in_histogram")?;
            Some(number(vec![("group", label.clone())], value))
        });
        let help = "Samples that are in no histogram: there was no memory for it yet.";
        let not_in = not_in.collect();
        self.add("group_not_in_histogram", help, Kind::Gauge, not_in);
        (state.groups.groups.len() - groups.len()) as u64
    }

    /// Returns the groups for which there is room, by their numbers, with their labels: the groups
    /// of the tasks that no other takes, and then those that waited most since they began. These
    /// times only grow, so that which groups are sent rarely changes from scrape to scrape.
    fn important<'s>(&self, state: &'s GroupState) -> Vec<(String, &'s Group)> {
        let series = GroupMetric::COUNT * self.series(Kind::Histogram)
            + GROUP_COUNTERS.len()
            + 2 * CulpritKind::COUNT
            + 2
            + 1;
        let mut seen = BTreeSet::new();
        let groups = state.groups.groups.iter();
        let mut groups: Vec<_> = groups
            .map(|group| (label(&state.groups, group, &mut seen), group))
            .collect();
        groups.sort_by_key(|(_, group)| {
            let is_rest = group.id == 0 || state.groups.is_gone(group.id);
            let time = |name| group.pairs.number::<u64>(name).unwrap_or_default();
            let times = (time("runq_sum_ns"), time("oncpu_sum_ns"));
            (Reverse((is_rest, times)), group.id)
        });
        let mut bytes = self.input.group_bytes;
        let fits = |(label, _): &&(String, _)| {
            // An escaped character takes two bytes.
            let left = bytes.checked_sub(series * (SERIES_BYTES + 2 * label.len()));
            bytes = left.unwrap_or_default();
            left.is_some()
        };
        let room = groups.iter().take(self.left / series);
        groups.truncate(room.take_while(fits).count());
        groups.sort_by_key(|(_, group)| group.id);
        groups
    }

    fn ended_by(&mut self, groups: &[(String, &Group)]) {
        let labels = |label: &String, culprit: &str| {
            vec![("group", label.clone()), ("culprit", culprit.to_owned())]
        };
        let each = || {
            let pairs = groups.iter();
            pairs.flat_map(|pair| CulpritKind::ALL.map(|culprit| (pair, culprit.name())))
        };
        let counts = each().filter_map(|((label, group), culprit)| {
            let value = group.pairs.number(&format!("ended_by_{culprit}"))?;
            Some(number(labels(label, culprit), value))
        });
        let counts = counts.collect();
        let help = "Waits for a CPU that ended while the culprit had the CPU.";
        self.add("group_ended_by", help, Kind::Counter, counts);
        let times = each().filter_map(|((label, group), culprit)| {
            let value = group.pairs.number(&format!("ended_by_{culprit}_ns"))?;
            Some(seconds(labels(label, culprit), value))
        });
        let times = times.collect();
        let help = "Waits for a CPU that ended while the culprit had the CPU: their sum.";
        self.add("group_ended_by_seconds", help, Kind::Counter, times);
    }
}

/// Returns the value of the label of a group: its name, and its number if an earlier group has the
/// same name, as in the module's own file. The name `gone` is that of the group of all that are
/// gone, also before there is one.
fn label<'a>(groups: &Groups, group: &'a Group, seen: &mut BTreeSet<&'a str>) -> String {
    let is_reserved = group.name == "gone" && !groups.is_gone(group.id);
    if !is_reserved && seen.insert(&group.name) {
        group.name.clone()
    } else {
        format!("{}\\#{}", group.name, group.id)
    }
}

fn help(name: &str) -> &'static str {
    let known = metric::Series::ALL
        .iter()
        .find(|series| series.name == name);
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
    use crate::text;

    #[test]
    fn labels_of_groups() {
        let text = "# schedhist groups version 1\ngroup_by comm\nlimit 9\n\
                    group id 1 name a\ngroup id 2 name gone\ngroup id 3 name a\n\
                    group id 10 name gone\n";
        let groups = text::groups(text).unwrap();
        let mut seen = BTreeSet::new();
        let all = groups.groups.iter();
        let labels: Vec<_> = all.map(|group| label(&groups, group, &mut seen)).collect();
        assert_eq!(labels, ["a", "gone\\#2", "a\\#3", "gone"]);
    }
}
