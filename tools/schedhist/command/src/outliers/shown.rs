// SPDX-License-Identifier: GPL-2.0

//! How an outlier is shown: who had the CPU meanwhile, its chain and its stack, as text or as an
//! object.

use std::{collections::BTreeMap, fmt::Write};

use schedhist_core::{
    chains::{Chain, Hop},
    stacks::Stack,
    text::{IdleCpu, Outlier},
    units::{shares, Unit},
};

use crate::{
    outliers::dependence::Dependence,
    output::{share_line, wrap, wrap_after},
    table::Cell,
};

/// The names of groups, by their numbers.
pub type Names = BTreeMap<u32, String>;

/// Returns how the group of a task is shown; nothing for 0, which is none or the group "other".
pub fn name_of(group: u32, names: &Names) -> Option<String> {
    let name = || {
        names
            .get(&group)
            .map_or_else(|| group.to_string(), Clone::clone)
    };
    (group != 0).then(name)
}

/// Returns the name of a group as it follows that of a task.
pub fn bracketed(group: Option<String>) -> String {
    group.map_or_else(String::new, |group| format!(" ({group})"))
}

/// Returns the parts of an outlier: who had the CPU, and for how long. They add up to the whole.
fn parts(outlier: &Outlier, names: &Names) -> Vec<(String, u64)> {
    let culprits = outlier.longest_culprits().into_iter();
    let mut parts: Vec<_> = culprits
        .map(|culprit| match culprit.pid {
            0 => ("idle".to_owned(), culprit.ran_ns),
            pid => {
                let group = bracketed(name_of(culprit.group, names));
                (format!("{}:{pid}{group}", culprit.comm), culprit.ran_ns)
            }
        })
        .collect();
    if outlier.missing_ns != 0 {
        parts.push(("not known".to_owned(), outlier.missing_ns));
    }
    parts
}

pub fn text(outlier: &Outlier, names: &Names) -> String {
    let duration = Unit::Fitting.text(Some(outlier.duration_ns));
    let cause = outlier.cause.as_deref().unwrap_or("-");
    let mut out = String::new();
    let mut head = format!(
        "## CPU {}: {} of {}:{}: {duration}, {cause}",
        outlier.cpu, outlier.metric, outlier.comm, outlier.pid
    );
    if let Some(group) = name_of(outlier.group, names) {
        let _ = write!(head, ", group {group}");
    }
    wrap(&mut out, &head);
    let parts = parts(outlier, names);
    let ns: Vec<_> = parts.iter().map(|(_, ns)| *ns).collect();
    for ((name, ns), share) in parts.iter().zip(shares(&ns)) {
        share_line(&mut out, share, *ns, name);
    }
    out += &idle_text(outlier).unwrap_or_default();
    let chain = outlier.chain.as_ref();
    out + &chain.map_or_else(String::new, |chain| {
        chain_text(chain, outlier.duration_ns, names)
    })
}

/// Returns which CPU was idle for most of an outlier, below [`text`], if CPUs were looked at.
fn idle_text(outlier: &Outlier) -> Option<String> {
    let idle = outlier.idle.as_ref().filter(|idle| idle.ns != 0)?;
    let distance = match &*idle.distance {
        "own" => "the same one",
        "core" => "same core",
        "llc" => "same last-level cache",
        "node" => "same node",
        _ => "another node",
    };
    let (cpu, time) = (idle.cpu, Unit::Fitting.text(Some(idle.ns)));
    Some(format!(
        "  meanwhile CPU {cpu} ({distance}) was idle for {time}\n"
    ))
}

/// Returns the chain of an outlier, in [`text`]: its parts add up to the whole.
fn chain_text(chain: &Chain, whole: u64, names: &Names) -> String {
    let time = |ns| Unit::Fitting.text(Some(ns));
    let hops = chain.hops.iter().enumerate().map(|(number, hop)| {
        let via = match hop.via.as_str() {
            "softirq" => " (by a softirq)",
            "fork" => " (created it)",
            _ => "",
        };
        let group = name_of(hop.group, names).filter(|_| number != 0);
        let group = bracketed(group);
        let mut what = format!("{}{group}{via}: {}", hop.task(), hop.did(time));
        // What is less than a per cent of the whole explains nothing.
        if let Some((occupant, ns)) = hop.behind.as_ref().filter(|(_, ns)| *ns > whole / 100) {
            let _ = write!(what, ", behind {} {}", occupant.name(), time(*ns));
        }
        (hop.sum_ns(), what)
    });
    let blocked = chain.blocked().map(|(what, ns)| {
        let last = chain.hops.last().map_or_else(String::new, Hop::task);
        (ns, format!("{last}: {what}"))
    });
    let missing = chain.missing().map(|(what, ns)| (ns, what.to_owned()));
    let parts: Vec<_> = hops.chain(blocked).chain(missing).collect();
    let ns: Vec<_> = parts.iter().map(|(ns, _)| *ns).collect();
    let mut out = "  backwards, who woke whom:\n".to_owned();
    for ((ns, what), share) in parts.iter().zip(shares(&ns)) {
        share_line(&mut out, share, *ns, what.trim_end_matches(": "));
    }
    let mut sum = Dependence::default();
    sum.add(chain, &|_, _| String::new());
    wrap_after(&mut out, "  ", 4, &sum.law());
    out
}

fn group_name(group: u32, names: &Names) -> Cell {
    names.get(&group).map_or(Cell::Absent, Cell::from)
}

/// Returns the object of a chain.
fn chain_json(chain: &Chain, names: &Names) -> Cell {
    let hops = chain.hops.iter().map(|hop| {
        let task = [
            ("pid".into(), hop.pid.into()),
            ("comm".into(), Cell::from(&hop.comm)),
            ("cpu".into(), hop.cpu.into()),
            ("group".into(), hop.group.into()),
            ("group_name".into(), group_name(hop.group, names)),
            ("via".into(), Cell::from(&hop.via)),
            ("slices".into(), hop.slices.into()),
        ];
        let behind = hop.behind.iter().flat_map(|(occupant, ns)| {
            [
                ("behind".into(), Cell::from(occupant.name())),
                ("behind_ns".into(), Cell::Time(*ns)),
            ]
        });
        let fields = task.into_iter().chain(Cell::times(hop.parts()));
        Cell::object(fields.chain(behind))
    });
    Cell::object([
        ("end", Cell::from(&chain.end)),
        ("blocked_ns", Cell::Time(chain.blocked_ns)),
        ("missing_ns", Cell::Time(chain.missing_ns)),
        ("hops", hops.collect()),
    ])
}

/// Returns the stack with which the task had left its CPU, below [`text`].
pub fn stack_text(outlier: &Outlier, stack: Option<Stack>) -> String {
    let Some(stack) = stack else {
        return "  the trace has no stack of it\n".to_owned();
    };
    let frames = stack.iter().map(|frame| format!("    {frame}\n"));
    let head = match outlier.cause.as_deref() {
        Some("fork") => "  begins in:\n",
        _ => "  had left the CPU in:\n",
    };
    head.to_owned() + &frames.collect::<String>()
}

/// Returns an object. `is_end` is whether it was reported before its end; `stack` is that of
/// `--stacks`, where it was found; `chain` is whether the chain is in it.
pub fn json(
    outlier: &Outlier,
    names: &Names,
    unix_ns: Option<u64>,
    is_end: bool,
    stack: Option<&Option<Stack>>,
    chain: bool,
) -> String {
    let culprits = outlier.culprits.iter().map(|culprit| {
        Cell::object([
            ("pid", culprit.pid.into()),
            ("comm", Cell::from(&culprit.comm)),
            ("group", culprit.group.into()),
            ("group_name", group_name(culprit.group, names)),
            ("ran_ns", culprit.ran_ns.into()),
            ("slices", culprit.slices.into()),
        ])
    });
    let idle = |cell: fn(&IdleCpu) -> Cell| outlier.idle.as_ref().map_or(Cell::Absent, cell);
    let cause = outlier.cause.as_deref();
    let chain = chain.then_some(&outlier.chain);
    let of_chain = |it: &Option<Chain>| {
        it.as_ref()
            .map_or(Cell::Unknown, |chain| chain_json(chain, names))
    };
    let frames = |stack: &Option<Stack>| stack.as_ref().map_or(Cell::Unknown, |it| Cell::texts(it));
    let is_end = is_end.then_some(Cell::Flag(true));
    let fields = [
        ("schema", Cell::from("schedhist.outlier.v1")),
        ("id", outlier.id.into()),
        ("unix_ns", Cell::time(unix_ns)),
        ("start_ns", Cell::time(outlier.start_ns)),
        ("end_ns", Cell::time(outlier.end_ns)),
        ("metric", Cell::from(&outlier.metric)),
        ("cause", cause.map_or(Cell::Unknown, Cell::from)),
        ("cpu", outlier.cpu.into()),
        ("duration_ns", Cell::Time(outlier.duration_ns)),
        ("missing_ns", Cell::Time(outlier.missing_ns)),
        ("pid", outlier.pid.into()),
        ("comm", Cell::from(&outlier.comm)),
        ("group", outlier.group.into()),
        ("group_name", group_name(outlier.group, names)),
        ("reported_before_end", is_end.unwrap_or(Cell::Absent)),
        ("culprits", culprits.collect()),
        ("idle_cpu", idle(|idle| idle.cpu.into())),
        ("idle_ns", idle(|idle| Cell::Time(idle.ns))),
        ("distance", idle(|idle| Cell::from(&idle.distance))),
        ("stack", stack.map_or(Cell::Absent, frames)),
        ("chain", chain.map_or(Cell::Absent, of_chain)),
    ];
    Cell::object(fields).line()
}

#[cfg(test)]
mod tests {
    use schedhist_core::{chains, path::Occupant, text::OutlierParser};

    use super::*;

    #[test]
    fn shares_of_all_culprits() {
        let text_of_module =
            "outlier id 4 metric blocked_uninterruptible cause preempted_in_kernel \
            cpu 255 duration_ns 30000003 start_ns 1 end_ns 30000004 missing_ns 1000001 culprits 3 \
            pid 4194303 prio 120 group 12 comm fifteen letters\n  \
            culprit id 4 ran_ns 20000001 slices 1 pid 7 prio 120 group 3 comm x\n  \
            culprit id 4 ran_ns 5000000 slices 1 pid 0 prio 120 comm swapper/1\n  \
            culprit id 4 ran_ns 4000001 slices 9 pid 4194302 prio 49 comm \\x1b[31mred\n";
        let found = OutlierParser::default().feed(text_of_module);
        assert_eq!(
            text(&found[0], &Names::new()),
            "## CPU 255: blocked_uninterruptible of fifteen letters:4194303: 30.0ms,\n  \
             preempted_in_kernel, group 12\n   \
             66.7%   20.0ms  x:7 (3)\n   \
             16.7%   5.00ms  idle\n   \
             13.3%   4.00ms  \\x1b[31mred:4194302\n    \
             3.3%   1.00ms  not known\n"
        );
        let without = json(&found[0], &Names::new(), Some(1_800), true, None, false);
        assert!(without.starts_with(
            "{\"schema\":\"schedhist.outlier.v1\",\"id\":4,\"unix_ns\":1800,\"start_ns\":1,\
             \"end_ns\":30000004,\"metric\":\"blocked_uninterruptible\",\
             \"cause\":\"preempted_in_kernel\",\"cpu\":255,"
        ));
        assert!(!without.contains("stack") && !without.contains("group_name"));
        for part in [
            "\"reported_before_end\":true,",
            "\"comm\":\"fifteen letters\",\"group\":12,",
            "\"comm\":\"x\",\"group\":3,",
            "\"comm\":\"swapper/1\",\"group\":0,",
        ] {
            assert!(without.contains(part), "{part}");
        }
    }

    #[test]
    fn stacks() {
        let stack = vec!["anon_pipe_read".to_owned(), "vfs_read".to_owned()];
        let text_of_module =
            "outlier id 4 metric runq cpu 0 duration_ns 3 missing_ns 3 culprits 0 \
            pid 7 prio 120 comm x\n";
        let found = OutlierParser::default().feed(text_of_module);
        let with = json(
            &found[0],
            &Names::new(),
            None,
            false,
            Some(&Some(stack.clone())),
            false,
        );
        assert!(with.ends_with("\"culprits\":[],\"stack\":[\"anon_pipe_read\",\"vfs_read\"]}\n"));
        assert!(
            json(&found[0], &Names::new(), None, false, Some(&None), false)
                .ends_with(",\"stack\":null}\n")
        );
        assert_eq!(
            stack_text(&found[0], Some(stack.clone())),
            "  had left the CPU in:\n    anon_pipe_read\n    vfs_read\n"
        );
        let text_of_module =
            "outlier id 5 metric runq cause fork cpu 0 duration_ns 3 missing_ns 3 \
            culprits 0 pid 7 prio 120 comm x\n";
        let new = OutlierParser::default().feed(text_of_module);
        assert!(stack_text(&new[0], Some(stack)).starts_with("  begins in:\n"));
        assert_eq!(
            stack_text(&found[0], None),
            "  the trace has no stack of it\n"
        );
    }

    #[test]
    fn chains() {
        let text_of_module =
            "outlier id 12 metric offcpu cpu 0 duration_ns 108124056 missing_ns 0 \
            culprits 0 pid 280 prio 120 comm first\n";
        let mut found = OutlierParser::default().feed(text_of_module);
        let file = "# schedhist chains version 1\n# chain 1024\n\
            chain id 12 metric offcpu cpu 0 duration_ns 5 end overwritten blocked_ns 0 missing_ns 5 \
            hops 0\n\
            chain id 12 metric offcpu cpu 0 duration_ns 108124056 end interrupt blocked_ns 1124056 \
            missing_ns 0 hops 3\n  \
            hop id 12 via - ran_ns 0 waited_ns 1000000 preempted_ns 0 throttled_ns 0 slices 1 cpu 1 group 0 \
            pid 280 comm first\n  \
            hop id 12 via task ran_ns 71000000 waited_ns 1000000 preempted_ns 0 throttled_ns 0 \
            slices 1 cpu 1 group 0 pid 279 comm a third\n  \
            hop id 12 via fork ran_ns 4000000 waited_ns 0 preempted_ns 30000000 throttled_ns 0 \
            slices 2 cpu 1 group 2 pid 278 comm second\n";
        let names: Names = [(2, "b".to_owned())].into();
        let without = json(&found[0], &names, None, false, None, true);
        assert!(without.ends_with(",\"chain\":null}\n"));
        chains::attach(&mut found, file);
        // What is short is not shown.
        let hops = &mut found[0].chain.as_mut().unwrap().hops;
        hops[1].behind = Some((Occupant::Idle, 1_000_000));
        hops[2].behind = Some((Occupant::Task("hog".to_owned()), 29_000_000));
        assert!(text(&found[0], &names).ends_with(
            "  backwards, who woke whom:\n    \
             0.9%   1.00ms  first:280: waited 1.00ms\n   \
             66.6%   72.0ms  a third:279: ran 71.0ms, waited 1.00ms\n   \
             31.5%   34.0ms  second:278 (b) (created it): ran 4.00ms, preempted 30.0ms,\n\
             \x20                    behind hog 29.0ms\n    \
             1.0%   1.12ms  second:278: blocked until an interrupt woke it\n  \
             in ns: ran 75000000 + waited 2000000 + preempted 30000000 + blocked 1124056 =\n    \
             108124056\n"
        ));
        let with = json(&found[0], &names, None, false, None, true);
        assert!(
            with.ends_with(
                ",\"chain\":{\"end\":\"interrupt\",\"blocked_ns\":1124056,\"missing_ns\":0,\
                 \"hops\":[{\"pid\":280,\"comm\":\"first\",\"cpu\":1,\"group\":0,\"via\":\"-\",\"slices\":1,\
                 \"ran_ns\":0,\"waited_ns\":1000000,\"preempted_ns\":0,\"throttled_ns\":0},\
                 {\"pid\":279,\"comm\":\"a third\",\"cpu\":1,\"group\":0,\"via\":\"task\",\"slices\":1,\
                 \"ran_ns\":71000000,\"waited_ns\":1000000,\"preempted_ns\":0,\"throttled_ns\":0,\
                 \"behind\":\"(idle)\",\"behind_ns\":1000000},\
                 {\"pid\":278,\"comm\":\"second\",\"cpu\":1,\"group\":2,\"group_name\":\"b\",\"via\":\"fork\",\"slices\":2,\
                 \"ran_ns\":4000000,\"waited_ns\":0,\"preempted_ns\":30000000,\
                 \"throttled_ns\":0,\"behind\":\"hog\",\"behind_ns\":29000000}]}}\n"
            ),
            "{with}"
        );
    }

    /// The times of a recording may come from someone else.
    #[test]
    fn endless_chains() {
        let text_of_module =
            "outlier id 1 metric runq cpu 0 duration_ns 3 missing_ns 3 culprits 0 \
            pid 7 prio 120 comm x\n";
        let mut found = OutlierParser::default().feed(text_of_module);
        let most = u64::MAX;
        let hop = format!(
            "  hop id 1 via task ran_ns {most} waited_ns {most} preempted_ns 0 throttled_ns 0 \
             slices 1 cpu 1 group 0 pid 8 comm y\n"
        );
        let file = format!(
            "chain id 1 metric runq cpu 0 duration_ns 3 end limit blocked_ns {most} \
             missing_ns {most} hops 2\n{hop}{hop}"
        );
        chains::attach(&mut found, &file);
        let said = text(&found[0], &Names::new());
        let law = format!("in ns: ran {most} + waited {most}");
        assert!(said.contains(&law), "{said}");
    }

    #[test]
    fn names_of_groups() {
        let text_of_module =
            "outlier id 4 metric runq cpu 0 duration_ns 3 missing_ns 0 culprits 2 \
            pid 7 prio 120 group 1 comm x\n  \
            culprit id 4 ran_ns 2 slices 1 pid 8 prio 120 group 2 comm y\n  \
            culprit id 4 ran_ns 1 slices 1 pid 9 prio 120 group 0 comm z\n";
        let found = OutlierParser::default().feed(text_of_module);
        let names = [(0, "other"), (1, "/web.service"), (2, "/a")];
        let names: Names = names.map(|(id, name)| (id, name.to_owned())).into();
        let said = text(&found[0], &names);
        assert!(
            said.starts_with("## CPU 0: runq of x:7: 3ns, -, group /web.service\n"),
            "{said}"
        );
        assert!(
            said.contains("2ns  y:8 (/a)\n") && said.contains("1ns  z:9\n"),
            "{said}"
        );
        let said = json(&found[0], &names, None, false, None, false);
        assert!(
            said.contains("\"comm\":\"x\",\"group\":1,\"group_name\":\"/web.service\""),
            "{said}"
        );
    }
}
