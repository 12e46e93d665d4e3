// SPDX-License-Identifier: GPL-2.0

//! Which group a task is in: groups, where they are kept, and rules.

use proptest::{collection::vec, prelude::*};
use schedhist_engine::engine::{
    group::{
        late::Late,
        name::TaskName,
        rule::{Pids, Rule},
        task_group::{Group, TaskGroup},
    },
    switch::task_state::TaskState,
};
use schedhist_engine::testing::group;

#[test]
fn numbers_of_groups() {
    assert_eq!(Group::OTHER, group(0));
    let last = u32::try_from(Group::MAX).expect("it is small") - 1;
    assert_eq!(group(last).number(), last);
    assert_eq!(Group::new(last + 1), None);
    assert_eq!(Group::new(u32::MAX), None);
}

#[test]
fn task_groups_of_no_task() {
    for (task_group, is_idle) in [(TaskGroup::UNKNOWN, false), (TaskGroup::IDLE, true)] {
        assert_eq!(task_group.group(), Group::OTHER);
        assert_eq!(task_group.is_idle(), is_idle);
        assert!(!task_group.is_kernel_thread());
    }
    assert_eq!(TaskGroup::UNKNOWN, TaskGroup::new(Group::OTHER, false));
}

/// Generates the number of any group, often the least or the greatest.
fn any_group() -> impl Strategy<Value = Group> {
    let last = u32::try_from(Group::MAX).expect("it is small") - 1;
    prop_oneof![Just(0), Just(1), Just(last), 0..=last].prop_map(group)
}

/// Generates the ID of a task: the address of a `task_struct`, of which the lower 48 bits count.
fn any_id() -> impl Strategy<Value = u64> {
    let addresses = prop_oneof![
        Just(1_u64 << 6),
        Just((1 << 48) - (1 << 6)),
        (1_u64..1 << 42).prop_map(|n| n << 6),
        // IDs that differ in one bit.
        (6_u32..48).prop_map(|bit| 1 << bit),
    ];
    (addresses, any::<bool>()).prop_map(|(id, is_high)| match is_high {
        true => id | (0xffff << 48),
        false => id,
    })
}

fn low(id: u64) -> u64 {
    id & ((1 << 48) - 1)
}

proptest! {
    #[test]
    fn a_verdict_is_that_of_its_task_alone(
        group in any_group(),
        is_kernel_thread in any::<bool>(),
        id in any_id(),
        other in any_id(),
    ) {
        let task_group = TaskGroup::new(group, is_kernel_thread);
        prop_assert_eq!(task_group.group(), group);
        prop_assert_eq!(task_group.is_kernel_thread(), is_kernel_thread);
        prop_assert!(!task_group.is_idle());

        let state = TaskState::new();
        prop_assert_eq!(state.task_group(id), TaskGroup::UNKNOWN);
        prop_assert!(!state.has_task_group_of_another(id));
        prop_assert!(state.set_task_group(id, task_group));
        prop_assert_eq!(state.task_group(id), task_group);
        prop_assert!(!state.has_task_group_of_another(id));
        // Each of the lower 48 bits of an ID counts, besides those that are always 0.
        for bit in 6..48 {
            let other = id ^ (1 << bit);
            prop_assert_eq!(state.task_group(other), TaskGroup::UNKNOWN, "bit {}", bit);
            prop_assert!(state.has_task_group_of_another(other), "bit {}", bit);
        }
        // Another task that gets the same PID inherits nothing, and its own group ends the first.
        if low(other) != low(id) {
            prop_assert_eq!(state.task_group(other), TaskGroup::UNKNOWN);
            prop_assert!(state.has_task_group_of_another(other));
            let new = TaskGroup::new(Group::OTHER, true);
            prop_assert!(state.set_task_group(other, new));
            prop_assert_eq!(state.task_group(other), new);
            prop_assert_eq!(state.task_group(id), TaskGroup::UNKNOWN);
        }
    }

    /// All tasks without room share one state, which must never change.
    #[test]
    fn without_room_nothing_is_written(id in any_id(), group in any_group()) {
        let state = TaskState::untracked();
        let before = format!("{state:?}");
        prop_assert!(!state.set_task_group(id, TaskGroup::new(group, true)));
        prop_assert_eq!(state.task_group(id), TaskGroup::UNKNOWN);
        prop_assert_eq!(format!("{state:?}"), before);
    }
}

/// Each process is there once; if there are too many, all tasks stand for the rest.
#[test]
fn late_processes() {
    let mut late = Late::default();
    for pid in [7, 5, 7, 5] {
        late.add(pid);
    }
    assert_eq!(late.pids().collect::<Vec<_>>(), [7, 5]);
    (1..=16).for_each(|pid| late.add(pid));
    assert!(!late.is_all());
    assert_eq!(late.pids().count(), 16);
    late.add(17);
    assert!(late.is_all());
    assert_eq!(late.pids().count(), 16);
}

fn cgroup(under: &[u8], depth: u32) -> Option<Rule<'_>> {
    Some(Rule::Cgroup { under, depth })
}

fn pids(text: &[u8]) -> Pids<'_> {
    Pids::parse(text).expect("PIDs")
}

#[test]
fn rules() {
    const ALL: u32 = Rule::ALL_LEVELS;

    let process = |text| Some(Rule::Process(pids(text)));
    let thread = |text| Some(Rule::Thread(pids(text)));
    for (text, rule) in [
        ("none", Some(Rule::None)),
        ("comm", Some(Rule::Comm)),
        ("  comm\n", Some(Rule::Comm)),
        ("cgroup", cgroup(b"/", ALL)),
        ("cgroup\n", cgroup(b"/", ALL)),
        ("cgroup under /", cgroup(b"/", ALL)),
        ("cgroup under /a.slice", cgroup(b"/a.slice", ALL)),
        ("cgroup depth 1", cgroup(b"/", 1)),
        ("cgroup depth 4294967294", cgroup(b"/", u32::MAX - 1)),
        ("cgroup under /a depth 2", cgroup(b"/a", 2)),
        ("cgroup depth 2 under /a", cgroup(b"/a", 2)),
        ("\tcgroup  depth\n2 under /a ", cgroup(b"/a", 2)),
        ("cgroup under /depth", cgroup(b"/depth", ALL)),
        ("process", process(b"")),
        (" thread\n", thread(b"")),
        ("process 1", process(b"1")),
        ("thread  1, 2 4194303 ", thread(b"1, 2 4194303")),
    ] {
        assert_eq!(Rule::parse(text.as_bytes()), rule, "{text:?}");
    }
    let refused = "| \n|None|none none|none comm|comm a|cgroups|cgroup /a|cgroup under|\
        cgroup under a|cgroup under /a\0b|cgroup under /a /b|cgroup under /a under /a|\
        cgroup depth|cgroup depth 0|cgroup depth -1|cgroup depth +1|cgroup depth 1.5|\
        cgroup depth 1 depth 1|cgroup depth 4294967295|cgroup depth 4294967297|\
        cgroup depth 18446744073709551617|cgroup depth two|cgroup under /a depth|\
        cgroup under /a depth 2 more|cgroup above /a|under /a|processes|process,1|process ,|\
        thread , ,|process 0|process -1|process +1|process 1 bash|thread 4194304|\
        thread 4294967297|thread 18446744073709551617";
    for text in refused.split('|') {
        assert_eq!(Rule::parse(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn a_rule_is_shown_as_it_is_read() {
    for (text, shown) in [
        ("none", "none"),
        ("comm", "comm"),
        ("cgroup under /", "cgroup"),
        (
            "cgroup depth 3  under /a.slice",
            "cgroup under /a.slice depth 3",
        ),
        ("process", "process"),
        ("thread 1,2  3", "thread 1 2 3"),
        // As systemd escapes a hyphen.
        (r"cgroup under /a\x2db.slice", r"cgroup under /a\x2db.slice"),
    ] {
        let rule = Rule::parse(text.as_bytes()).expect("a rule");
        assert_eq!(rule.to_string(), shown);
    }
}

#[test]
fn number_of_pids() {
    let text = |count: usize| vec!["7"; count].join(" ");
    let most = text(Pids::MAX);
    assert_eq!(pids(most.as_bytes()).iter().count(), Pids::MAX);
    assert_eq!(Pids::parse(text(Pids::MAX + 1).as_bytes()), None);
    assert_eq!(pids(b"").iter().count(), 0);
    assert_eq!(
        pids(b" 1,22\n333 ").iter().collect::<Vec<i32>>(),
        [1, 22, 333]
    );
    assert_eq!(pids(b" 1,22 ").text(), b"1,22");
}

#[test]
fn names_of_processes() {
    for (pid, comm, name) in [
        (1, &b"init\0\0"[..], "1:init"),
        (4_194_303, b"fifteen_letters\0", "4194303:fifteen_letters"),
        (7, b"", "7:"),
        (7, b"a b\0rest", "7:a b"),
    ] {
        let found = TaskName::new(pid, comm);
        assert_eq!(&*found, name.as_bytes());
        assert!(found.len() <= TaskName::MAX_LEN);
    }
    // A name that is too long is cut.
    assert_eq!(
        TaskName::new(i32::MIN, &[b'x'; 99]).len(),
        TaskName::MAX_LEN
    );
}

proptest! {
    /// The path may have any bytes that can be printed, but white space.
    #[test]
    fn a_rule_survives_being_shown(
        path in "/[!-~]{0,200}",
        depth in prop_oneof![Just(Rule::ALL_LEVELS), 1..u32::MAX],
    ) {
        let rule = Rule::Cgroup { under: path.as_bytes(), depth };
        let text = rule.to_string();
        prop_assert_eq!(Rule::parse(text.as_bytes()), Some(rule), "{}", text);
    }

    /// A rule with any other bytes is shown on one line, and only with bytes that can be printed.
    #[test]
    fn a_rule_is_shown_on_one_line(path in vec(any::<u8>(), 0..100)) {
        let mut under = vec![b'/'];
        under.extend(path);
        let rule = Rule::Cgroup { under: &under, depth: 1 };
        prop_assert!(rule.to_string().bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    }

    #[test]
    fn any_words_are_a_rule_or_not(
        words in vec(proptest::sample::select(vec![
            "none", "comm", "cgroup", "under", "depth", "/", "/a", "0", "1", "17", "process", "thread",
        ]), 0..7),
    ) {
        let text = words.join(" ");
        let expected = match &words[..] {
            ["none"] | ["comm"] | ["cgroup"] => true,
            ["process" | "thread", pids @ ..] => pids.iter().all(|pid| matches!(*pid, "1" | "17")),
            ["cgroup", "under", path] => path.starts_with('/'),
            ["cgroup", "depth", depth] => matches!(*depth, "1" | "17"),
            ["cgroup", "under", path, "depth", depth] | ["cgroup", "depth", depth, "under", path] => {
                path.starts_with('/') && matches!(*depth, "1" | "17")
            }
            _ => false,
        };
        prop_assert_eq!(Rule::parse(text.as_bytes()).is_some(), expected, "{}", text);
    }
}
