// SPDX-License-Identifier: GPL-2.0

//! Lists of rules: what is written, which tasks match, and which processes descend from which.

use std::collections::{HashMap, HashSet};

use proptest::{collection::vec, prelude::*, sample::select};
use schedhist_engine::engine::group::{
    fork_marks::ForkMarks,
    hash::Secret,
    index::{Entry, VALUES_AT_ONCE},
    list::{matches_glob, Command, Definition, List, Matcher, Pattern, Rule, Shown, Subject},
    rule::Pids,
};
use schedhist_engine::testing::group;

fn add<'a>(name: &'a [u8], text: &'a [u8], pattern: Pattern<'a>) -> Option<Command<'a>> {
    Some(Command::Add(Definition {
        name,
        text,
        pattern,
    }))
}

fn pids(text: &[u8]) -> Pids<'_> {
    Pids::parse(text).expect("PIDs")
}

#[test]
fn commands() {
    let long = "x".repeat(Command::MAX_NAME);
    let fits = format!("remove {long}");
    let too_long = format!("remove {long}x");
    for (text, command) in [
        (
            "add web cgroup /a.slice",
            add(b"web", b"cgroup /a.slice", Pattern::Cgroup(b"/a.slice")),
        ),
        (
            "  add\tweb  cgroup   /  ",
            add(b"web", b"cgroup   /", Pattern::Cgroup(b"/")),
        ),
        (
            "add a pid 1,2 3",
            add(b"a", b"pid 1,2 3", Pattern::Processes(pids(b"1,2 3"))),
        ),
        (
            "add a comm kworker/* x ",
            add(b"a", b"comm kworker/* x", Pattern::Comm(b"kworker/* x")),
        ),
        (
            "add a children 17\n",
            add(b"a", b"children 17", Pattern::Children(17)),
        ),
        ("remove a", Some(Command::Remove(b"a"))),
        ("remove add", Some(Command::Remove(b"add"))),
        (&fits, Some(Command::Remove(long.as_bytes()))),
        (&too_long, None),
    ] {
        assert_eq!(Command::parse(text.as_bytes()), command, "{text:?}");
    }
    let refused = "|add|remove|remove a b|remove other|add gone comm x|add a|add a cgroup|\
        add a cgroup b|add a cgroup / /|add a cgroup /a\0b|add a pid|add a pid ,|add a\0 pid 1|\
        remove a\0|add a comm x\0|add a pid x|add a pid 0|add a comm|add a children|\
        add a children 1,2|add a children 1 2|add a children 0|add a children -1|\
        add a children 4194304|add a name x|move a";
    for text in refused.split('|') {
        assert_eq!(Command::parse(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn several_rules() {
    let text = b"; web cgroup /a ;;\n db  comm pg* x\nother comm y;add pid 1;z;remove a;\n";
    let all: Vec<_> = Definition::all(text)
        .map(|(text, rule)| (text, rule.map(Command::Add)))
        .collect();
    let expected: [(&[u8], _); 6] = [
        (
            b"web cgroup /a",
            add(b"web", b"cgroup /a", Pattern::Cgroup(b"/a")),
        ),
        (
            b"db  comm pg* x",
            add(b"db", b"comm pg* x", Pattern::Comm(b"pg* x")),
        ),
        (b"other comm y", None),
        (
            b"add pid 1",
            add(b"add", b"pid 1", Pattern::Processes(pids(b"1"))),
        ),
        (b"z", None),
        (b"remove a", None),
    ];
    assert_eq!(all, expected);
    for text in ["", ";", " \n ; \n"] {
        assert_eq!(Definition::all(text.as_bytes()).count(), 0);
    }
}

#[test]
fn a_glob_is_not_long() {
    for (len, is_accepted) in [(Command::MAX_GLOB, true), (Command::MAX_GLOB + 1, false)] {
        let text = format!("add a comm {}", "*".repeat(len));
        let command = Command::parse(text.as_bytes());
        assert_eq!(command.is_some(), is_accepted, "{len}");
    }
}

#[test]
fn a_rule_is_shown_on_one_line() {
    let shown = Shown {
        name: b"a\\b",
        text: b"comm x\ny",
    };
    assert_eq!(shown.to_string(), r"a\x5cb comm x\x0ay");
}

#[test]
fn globs_with_sets_and_escapes() {
    for (glob, name, is_match) in [
        ("[abc]", "b", true),
        ("[abc]", "d", false),
        ("[a-c]x", "bx", true),
        ("[!a-c]", "b", false),
        ("[!a-c]", "d", true),
        ("[!a-c]", "", false),
        ("[]]", "]", true),
        ("[!]]", "]", false),
        ("[a-]", "-", true),
        ("[a", "[a", true),
        ("[]", "[]", true),
        ("[b][a", "b[a", true),
        ("[b][a", "ba", false),
        ("[a", "a", false),
        ("[", "[", true),
        (r"\*", "*", true),
        (r"\*", "x", false),
        (r"\", r"\", true),
        ("kworker/*:?", "kworker/0:1", true),
    ] {
        let found = matches_glob(glob.as_bytes(), name.as_bytes());
        assert_eq!(found, is_match, "{glob:?} {name:?}");
    }
}

/// What a glob matches, by trying everything.
fn naive(glob: &[u8], name: &[u8]) -> bool {
    match (glob, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|i| naive(rest, &name[i..])),
        ([b'?', rest @ ..], [_, name @ ..]) => naive(rest, name),
        ([one, rest @ ..], [other, name @ ..]) => one == other && naive(rest, name),
        _ => false,
    }
}

/// Returns the text with this number of all that have only these letters, the shortest first.
fn text(letters: &[u8], mut number: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while number != 0 {
        number -= 1;
        text.push(letters[number % letters.len()]);
        number /= letters.len();
    }
    text
}

/// Any of up to five letters.
#[test]
fn a_glob_is_as_the_naive_one() {
    for glob in (0..1365).map(|number| text(b"*?ab", number)) {
        for name in (0..63).map(|number| text(b"ab", number)) {
            assert_eq!(
                matches_glob(&glob, &name),
                naive(&glob, &name),
                "{glob:?} {name:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_glob_and_a_command_or_not(
        text in vec(any::<u8>(), 0..40),
        name in vec(any::<u8>(), 0..20),
    ) {
        // Neither panics. Without special bytes a glob matches itself alone.
        let _ = Command::parse(&text);
        let found = matches_glob(&text, &name);
        if !text.iter().any(|byte| br"*?[\".contains(byte)) {
            prop_assert_eq!(found, text == name);
            prop_assert!(matches_glob(&text, &text));
        }
    }
}

/// A task, as a list sees it. A cgroup is a number: those that divide it are above it.
struct Task {
    cgroup: u32,
    process: Option<u128>,
    marks: u64,
    comm: &'static [u8],
}

impl Subject<u32> for Task {
    fn is_in(&self, cgroup: &u32) -> bool {
        self.cgroup % cgroup == 0
    }

    fn process(&self) -> Option<u128> {
        self.process
    }

    fn marks(&self) -> u64 {
        self.marks
    }

    fn with_comm(&self, f: impl FnOnce(&[u8]) -> bool) -> bool {
        f(self.comm)
    }
}

type Rules = Vec<Option<Rule<Vec<u8>, Vec<u128>, u32>>>;

fn list(places: usize) -> List<Rules> {
    List::new((0..places).map(|_| None).collect())
}

fn rule(number: u32, matcher: Matcher<Vec<u8>, Vec<u128>, u32>) -> Rule<Vec<u8>, Vec<u128>, u32> {
    let name = number.to_string().into_bytes();
    Rule::new(name, b"text".to_vec(), matcher, group(number))
}

#[test]
fn the_first_rule_that_matches_has_a_task() {
    let mut rules = list(8);
    let task = Task {
        cgroup: 12,
        process: Some(7),
        marks: 0,
        comm: b"bash",
    };
    assert_eq!(rules.group_of(&task), None);
    for (number, matcher, expected) in [
        (1, Matcher::Cgroup(5), None),
        (2, Matcher::Processes(vec![8, 9]), None),
        (3, Matcher::Comm(b"b?s".to_vec()), None),
        (4, Matcher::Children, None),
        (5, Matcher::Comm(b"b*".to_vec()), Some(5)),
        (6, Matcher::Processes(vec![6, 7]), Some(5)),
        (7, Matcher::Cgroup(4), Some(5)),
    ] {
        rules.add(rule(number, matcher)).expect("there is room");
        assert_eq!(rules.group_of(&task), expected.map(group), "{number}");
    }
    let mut cgroups = Vec::new();
    rules.for_each_cgroup(|cgroup| cgroups.push(*cgroup));
    assert_eq!(cgroups, [5, 4]);
    for (removed, expected) in [(5, Some(6)), (1, Some(6)), (6, Some(7)), (7, None)] {
        let rule = rules.remove(removed.to_string().as_bytes());
        assert_eq!(rule.expect("it is there").group, group(removed));
        assert!(rules.remove(removed.to_string().as_bytes()).is_none());
        assert_eq!(rules.group_of(&task), expected.map(group), "{removed}");
    }
    let exiting = Task {
        process: None,
        ..task
    };
    rules
        .add(rule(6, Matcher::Processes(vec![7])))
        .expect("room");
    assert_eq!(rules.group_of(&task), Some(group(6)));
    assert_eq!(rules.group_of(&exiting), None);
    rules.for_each_cgroup(|cgroup| panic!("{cgroup}"));
    assert!(rules.has_children());
    rules.remove(b"4").expect("it is there");
    assert!(!rules.has_children());
}

/// Cleans up all of the memory.
fn clean(fork_marks: &mut ForkMarks<Vec<Entry<u64>>>) {
    let mut next = Some(0);
    while let Some(first) = next {
        next = fork_marks.clean(first);
    }
}

/// A process that is forked during the clean-up does not inherit what is being removed, wherever
/// its entry is, and each step of the clean-up is short.
#[test]
fn marks_are_cleaned_up_in_steps() {
    const PLACES: usize = 1 << 15;
    const PROCESSES: u128 = (PLACES / 4 * 3) as u128;

    let mut fork_marks = ForkMarks::new(vec![None; PLACES], Secret::new([1, 2]));
    for key in 0..PROCESSES / 2 {
        assert!(fork_marks.mark(key, 0b11));
    }
    fork_marks.forget(0b10);
    let (mut next, mut steps, mut key) = (Some(0), 0, 0);
    while let Some(first) = next {
        for _ in 0..PROCESSES / 128 {
            assert_eq!(fork_marks.marks(key), 0b01);
            assert!(fork_marks.fork(key, key + PROCESSES / 2));
            if key % 2 == 0 {
                fork_marks.exit(key);
            }
            key += 1;
        }
        next = fork_marks.clean(first);
        steps += 1;
    }
    assert_eq!(steps, PLACES / VALUES_AT_ONCE);
    assert!(key >= PROCESSES / 2);
    // The mark is used again.
    assert!(fork_marks.mark(PROCESSES, 0b10));
    for key in 0..PROCESSES {
        let is_alive = key >= PROCESSES / 2 || key % 2 != 0;
        assert_eq!(fork_marks.marks(key), u64::from(is_alive), "{key}");
    }
}

proptest! {
    /// Rules keep their order, whatever is removed, and a mark is that of one rule at a time.
    #[test]
    fn a_list_is_like_a_vector(
        places in 0..70_usize,
        steps in vec((0..3, 0..80_u32), 0..300),
    ) {
        let mut rules = list(places);
        let mut model: Vec<u32> = Vec::new();
        let mut marks: HashMap<u32, u64> = HashMap::new();
        for (kind, number) in steps {
            let name = number.to_string();
            prop_assert_eq!(rules.find(name.as_bytes()).is_some(), model.contains(&number));
            if kind == 0 {
                let removed = rules.remove(name.as_bytes());
                prop_assert_eq!(removed.map(|rule| rule.mark()), marks.remove(&number));
                model.retain(|other| *other != number);
            } else if !model.contains(&number) {
                let is_full = model.len() == places.min(64);
                prop_assert_eq!(rules.is_full(), is_full);
                let mark = rules.next_mark();
                prop_assert_eq!(mark.is_none(), is_full);
                match (mark, rules.add(rule(number, Matcher::Children))) {
                    (Some(mark), Ok(())) => {
                        prop_assert!(mark.is_power_of_two());
                        prop_assert!(marks.values().all(|other| *other != mark));
                        marks.insert(number, mark);
                        model.push(number);
                    }
                    (_, Ok(())) => prop_assert!(false, "there was no room"),
                    (_, Err(rule)) => prop_assert!(is_full && rule.group == group(number)),
                }
            }
            let found: Vec<u32> = rules.iter().map(|rule| rule.group.number()).collect();
            prop_assert_eq!(&found, &model);
            // A task with some of the marks.
            let task = Task {
                cgroup: 1,
                process: None,
                marks: marks.get(&number).copied().unwrap_or(0) | marks.get(&7).copied().unwrap_or(0),
                comm: b"",
            };
            let first = model.iter().find(|other| **other == number || **other == 7);
            prop_assert_eq!(rules.group_of(&task), first.copied().map(group));
        }
    }

    /// The marks of processes are those of the naive reference, as long as there is room. A mark
    /// that was forgotten is seen nowhere from then on, and can be used again after a clean-up.
    #[test]
    fn marks_are_inherited(
        places in select(vec![0_usize, 8, 200]),
        steps in vec((0..6, 0..30_u128, 0..30_u128, 0..4_u32), 0..200),
    ) {
        let mut fork_marks = ForkMarks::new(vec![None; places], Secret::new([1, 2]));
        let mut model: HashMap<u128, u64> = HashMap::new();
        let (mut lost, mut forgotten) = (0, 0);
        let room = places / 4 * 3;
        for (kind, one, other, mark) in steps {
            let mark = 1 << mark;
            match kind {
                0 if forgotten & mark != 0 => {
                    clean(&mut fork_marks);
                    forgotten = 0;
                }
                0 => {
                    let has_room = model.contains_key(&one) || model.len() < room;
                    prop_assert_eq!(fork_marks.mark(one, mark), has_room);
                    if has_room {
                        *model.entry(one).or_default() |= mark;
                    }
                }
                1 | 2 => {
                    let has_room = fork_marks.fork(one, other);
                    let marks = model.get(&one).copied().unwrap_or(0);
                    let is_new = marks != 0 && !model.contains_key(&other);
                    prop_assert_eq!(has_room, !is_new || model.len() < room);
                    if is_new && has_room {
                        model.insert(other, marks);
                    }
                    if !has_room {
                        fork_marks.count_lost();
                        lost += 1;
                    }
                }
                3 => {
                    fork_marks.exit(one);
                    model.remove(&one);
                }
                _ => {
                    fork_marks.forget(mark);
                    model.values_mut().for_each(|marks| *marks &= !mark);
                    // Either cleaned at once, as the mark is used again, or only masked.
                    if kind == 4 {
                        clean(&mut fork_marks);
                    } else {
                        forgotten |= mark;
                    }
                }
            }
            let keys: HashSet<u128> = (0..30).collect();
            for key in keys {
                prop_assert_eq!(fork_marks.marks(key), model.get(&key).copied().unwrap_or(0));
            }
            prop_assert_eq!(fork_marks.lost(), lost);
        }
    }
}
