// SPDX-License-Identifier: GPL-2.0

//! What the program of `raw_reader.py` prints of a snapshot, by the command's decoder. The
//! including crate must have the engine as `crate::engine` and the decoder as `crate::decoder`.

use std::collections::BTreeSet;

use crate::{
    decoder::{Groups, Snapshot, Times},
    engine::{
        histogram::bucket::{Scheme, VALUE_BITS},
        switch::cpu::Occupancy,
    },
};
use schedhist_engine::testing::unescaped;

/// Returns the numbers of a line.
fn words(numbers: impl IntoIterator<Item = u64>) -> String {
    let words = numbers.into_iter().map(|number| format!(" {number}"));
    words.collect()
}

/// Returns text in hexadecimal digits, up to its NUL.
fn hex(text: &[u8]) -> String {
    let text = text.iter().take_while(|byte| **byte != 0);
    " ".to_owned()
        + &text
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .concat()
}

fn bucket(kind: &str, owner: u32, metric: u32, scheme: Scheme, pair: (u32, u64)) -> String {
    let (index, count) = pair;
    let bounds = scheme.bounds(index as usize);
    let halves = [count & 0xffff_ffff, count >> 32];
    let head = words([owner.into(), metric.into(), index.into()]);
    kind.to_owned() + &head + &words(halves) + &words([bounds.lower, bounds.upper])
}

/// Returns the lines of a snapshot without its groups.
pub(crate) fn of_snapshot(snapshot: &Snapshot) -> BTreeSet<String> {
    let flags = u64::from(snapshot.enabled) | if snapshot.offline.is_some() { 2 } else { 0 };
    let scheme = snapshot.scheme;
    let header = [
        snapshot.time,
        flags,
        scheme.precision().bits().into(),
        VALUE_BITS.into(),
        scheme.buckets() as u64,
        snapshot.cpus.len() as u64,
        snapshot.metrics_on.into(),
    ];
    let mut lines = BTreeSet::from(["header".to_owned() + &words(header)]);
    let offline = snapshot.offline.iter().flatten();
    lines.extend(offline.map(|cpu| format!("offline {cpu}")));
    for metric in &snapshot.names.metrics {
        let bits = metric.parts.iter().map(|part| 1_u64 << part).sum();
        let head = match metric.parts[..] {
            [part] => format!("metric {part}"),
            _ => "sum".to_owned() + &words([bits]),
        };
        lines.insert(head + &hex(metric.name.as_bytes()));
    }
    for (number, name) in &snapshot.names.counters {
        lines.insert(format!("counter {number}{}", hex(name.as_bytes())));
    }
    for cpu in &snapshot.cpus {
        lines.insert(format!("cpu {}", cpu.number));
        for (place, count) in cpu.counters.iter().enumerate() {
            lines.insert(format!("cpu {} {place} {count}", cpu.number));
        }
        if let Some(slice) = cpu.slice {
            let occupancy = match slice.occupancy {
                Occupancy::Idle => 0,
                Occupancy::Task => 1,
                Occupancy::Unseen => 2,
            };
            let numbers = [
                cpu.number.into(),
                occupancy,
                slice.now,
                slice.since,
                slice.unseen,
            ];
            lines.insert("slice".to_owned() + &words(numbers));
        }
        for of in &cpu.histograms {
            let head = words([cpu.number.into(), of.metric.into()]);
            let sums = words([of.sum as u64, of.min, (of.sum >> 64) as u64]);
            lines.insert(format!("histogram{head}{sums}"));
            if let Some(worst) = of.worst {
                let (sample, task) = (words([worst.value, worst.time]), worst.task);
                let comm = hex(&task.comm);
                lines.insert(format!(
                    "worst{head}{sample} {} {}{comm}",
                    task.pid, task.prio
                ));
            }
            let buckets = of.buckets.iter();
            lines.extend(
                buckets
                    .map(|pair| bucket("buckets", cpu.number, of.metric, snapshot.scheme, *pair)),
            );
        }
    }
    for of in &snapshot.tasks {
        let group = of.task.group.number();
        let numbers = [of.metric, of.unseen.into(), of.cpu, group].map(u64::from);
        let (head, times) = (words(numbers), words([of.now, of.duration]));
        let (pid, prio, comm) = (of.task.pid, of.task.prio, hex(&of.task.comm));
        lines.insert(format!("task{head}{times} {pid} {prio}{comm}"));
    }
    for waits in &snapshot.waits {
        // The time is not kept.
        lines.insert(format!(
            "waiting {} {} {}",
            waits.metric, waits.count, waits.sum
        ));
    }
    lines
}

/// Returns the lines of groups.
pub(crate) fn of_groups(groups: &Groups) -> BTreeSet<String> {
    let scheme = groups.scheme;
    let grouping = [
        groups.since.unwrap_or_default(),
        groups.refused,
        groups.limit.unwrap_or_default().into(),
        scheme.precision().bits().into(),
        scheme.buckets() as u64,
    ];
    let grouping = "grouping".to_owned() + &words(grouping) + &hex(groups.rule.as_bytes());
    let mut lines = BTreeSet::from([grouping]);
    lines.extend(groups.memory.map(|bytes| format!("grouping_more {bytes}")));
    for group in &groups.groups {
        let id = u64::from(group.id);
        let mut line = format!("group {id}");
        for of in &group.samples {
            line += &words([of.count, of.sum as u64, (of.sum >> 64) as u64, of.max]);
        }
        line += &words(group.counters);
        for waits in group.ended_by.iter().chain(&group.preempted_by) {
            line += &words([waits.0, waits.1]);
        }
        lines.insert(line + &hex(&unescaped(&group.name)));
        for (metric, of) in (0..).zip(&group.samples) {
            let buckets = of.buckets.iter();
            lines.extend(
                buckets.map(|pair| bucket("group_buckets", group.id, metric, groups.scheme, *pair)),
            );
        }
        for other in &group.neighbours {
            let numbers = [id, other.id.into(), other.ended.0, other.ended.1];
            lines.insert("neighbour".to_owned() + &words(numbers));
        }
        let mut times = |kind: &str, times: Times| {
            if times.0 != 0 {
                lines.insert(kind.to_owned() + &words([id, times.0, times.1]));
            }
        };
        times("group_slices", group.slices);
        times("group_waiting", group.waiting);
        times("group_unseen", group.unseen);
        if group.migrations != [0; 4] {
            let numbers = [id].into_iter().chain(group.migrations);
            lines.insert("group_migrations".to_owned() + &words(numbers));
        }
        let waits = group.long_waits;
        if waits.waits() != 0 {
            let numbers = [id].into_iter().chain(waits.0);
            lines.insert("group_long_waits".to_owned() + &words(numbers));
        }
    }
    lines
}

/// Returns the lines that the program has printed, without the fields that the decoder does not
/// keep, flags that it does not know, and lists without elements.
pub(crate) fn printed(text: &str) -> BTreeSet<String> {
    let flags = text.split(' ').nth(2).and_then(|flags| flags.parse().ok());
    let flags = flags.unwrap_or(0_u64) & 3;
    let known = flags.to_string();
    let lines = text.lines().filter_map(|line| {
        let mut words: Vec<_> = line.split(' ').collect();
        match words[0] {
            "header" => {
                words[2] = &known;
                // The numbers of metrics and counters.
                words.drain(7..9);
            }
            "grouping" => drop(words.remove(3)),
            // How many tasks it has, and whether it is live.
            "group" => drop(words.drain(2..4)),
            "grouping_more" => words.truncate(2),
            // A snapshot has only the sum of long waits, and no chains.
            "long_waits" | "chain" | "hop" | "kept_cpu" | "kept_slice" => return None,
            "offline" if flags & 2 == 0 => return None,
            "buckets" | "group_buckets" if words.len() == 3 => return None,
            "waiting" => drop(words.remove(2)),
            _ => {}
        }
        Some(words.join(" "))
    });
    lines.collect()
}
