// SPDX-License-Identifier: GPL-2.0

//! A list of named rules, each of which is a group: the first that matches a task has it.

use core::{
    fmt,
    ops::{
        Deref,
        DerefMut, //
    },
};

use crate::engine::{
    format::{
        number,
        split_word,
        Escaped, //
    },
    group::{
        rule::is_path,
        Group,
        Pids, //
    },
};

/// A command that changes the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Appends a rule.
    Add(Definition<'a>),
    /// Removes the rule of this name.
    Remove(&'a [u8]),
}

/// A rule, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The name of its group.
    pub name: &'a [u8],
    /// What follows the name: which tasks it matches, as it is written.
    pub text: &'a [u8],
    /// Which tasks it matches.
    pub pattern: Pattern<'a>,
}

/// Which tasks a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern<'a> {
    /// Those in this cgroup of the default hierarchy (v2), or in one below it.
    Cgroup(&'a [u8]),
    /// The threads of these processes.
    Processes(Pids<'a>),
    /// Those with a name that this [glob](matches_glob) matches.
    Comm(&'a [u8]),
    /// The threads of this process, and of those that it forks from now on, and so forth.
    Children(i32),
}

impl<'a> Command<'a> {
    /// The text that [`Command::parse`] accepts, for error messages.
    pub const EXPECTED: &'static str =
        "add NAME cgroup PATH|pid PID...|comm GLOB|children PID, or remove NAME";

    /// The maximum length of a name, in bytes.
    pub const MAX_NAME: usize = 64;

    /// The maximum length of a glob, in bytes.
    pub const MAX_GLOB: usize = 128;

    /// Parses a command. Returns `None` if `text` is not a command.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (verb, rest) = split_word(text)?;
        let (name, rest) = split_word(rest)?;
        if !is_name(name) {
            return None;
        }
        match verb {
            b"remove" => rest.is_empty().then_some(Self::Remove(name)),
            b"add" => Definition::named(name, rest).map(Self::Add),
            _ => None,
        }
    }
}

impl<'a> Definition<'a> {
    /// The text that [`Definition::all`] accepts, for error messages.
    pub const EXPECTED: &'static str = "NAME cgroup PATH|pid PID...|comm GLOB|children PID; ...";

    /// Parses several rules, each as in a command, without `add`. They are separated by semicolons
    /// or line feeds. Iterates over the text of each, with the rule, or `None` if the text is none.
    pub fn all(text: &'a [u8]) -> impl Iterator<Item = (&'a [u8], Option<Self>)> {
        let pieces = text.split(|byte| matches!(byte, b';' | b'\n'));
        let rules = pieces
            .map(<[u8]>::trim_ascii)
            .filter(|rule| !rule.is_empty());
        rules.map(|rule| (rule, Self::parse(rule)))
    }

    fn parse(text: &'a [u8]) -> Option<Self> {
        let (name, rest) = split_word(text)?;
        is_name(name).then(|| Self::named(name, rest)).flatten()
    }

    /// Parses what follows the name of a rule.
    fn named(name: &'a [u8], text: &'a [u8]) -> Option<Self> {
        let (kind, argument) = split_word(text)?;
        let pattern = match kind {
            b"cgroup" if is_path(argument) => Pattern::Cgroup(argument),
            b"pid" if !argument.is_empty() => Pattern::Processes(Pids::parse(argument)?),
            b"children" => {
                number(argument)?;
                Pattern::Children(Pids::parse(argument)?.iter().next()?)
            }
            b"comm" if is_glob(argument) => Pattern::Comm(argument),
            _ => return None,
        };
        Some(Self {
            name,
            text,
            pattern,
        })
    }
}

/// Returns whether a rule may have this name. `other` and `gone` are in the same files as the
/// groups of rules.
fn is_name(name: &[u8]) -> bool {
    name.len() <= Command::MAX_NAME && !name.contains(&0) && !matches!(name, b"other" | b"gone")
}

/// Returns whether a rule may have this glob. It is matched with interrupts off, so it must not be
/// long. A name of a thread may contain spaces.
fn is_glob(glob: &[u8]) -> bool {
    (1..=Command::MAX_GLOB).contains(&glob.len()) && !glob.contains(&0)
}

/// Returns whether the whole of `name` matches `glob`.
///
/// `*` matches any bytes, none included; `?` any byte; `[a-z]` one of a set of bytes, and `[!a-z]`
/// one that is not in it. A backslash takes the next byte as it is. A bracket that is not closed
/// stands for itself.
///
/// The number of steps is at most twice the length of `glob` for each byte of `name`.
pub fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut rest, mut left) = (glob, name);
    // How many bytes are behind the last bracket that may close a set.
    let behind = glob.iter().rev().position(|byte| *byte == b']');
    let behind = behind.unwrap_or(glob.len());
    // What follows the last asterisk, and where the name goes on if that takes one byte more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let step = match (rest.split_first(), left.split_first()) {
            (Some((b'*', after)), _) => {
                retry = Some((after, left));
                Some((after, left))
            }
            (None, None) => return true,
            (Some(_), Some((byte, others))) => {
                matches_byte(rest, *byte, behind).map(|after| (after, others))
            }
            _ => None,
        };
        (rest, left) = match (step, retry) {
            (Some(next), _) => next,
            (None, Some((after, [_, others @ ..]))) => {
                retry = Some((after, others));
                (after, others)
            }
            (None, _) => return false,
        };
    }
}

/// If the first element of `glob`, which is no asterisk, matches `byte`, returns what follows it.
/// Only with more than `behind` bytes there may be the end of a set in it.
fn matches_byte(glob: &[u8], byte: u8, behind: usize) -> Option<&[u8]> {
    let (is_match, after) = match glob {
        [b'?', after @ ..] => (true, after),
        [b'\\', escaped, after @ ..] => (*escaped == byte, after),
        [b'[', set @ ..] if set.len() > behind => match matches_set(set, byte) {
            Some(found) => found,
            None => (byte == b'[', set),
        },
        [literal, after @ ..] => (*literal == byte, after),
        [] => return None,
    };
    is_match.then_some(after)
}

/// Returns whether `byte` is in the set at the beginning of `text`, which follows a bracket, and
/// what follows the set. Returns `None` if the set does not end.
fn matches_set(text: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (is_inverted, mut rest) = match text {
        [b'!', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mut is_in, mut is_first) = (false, true);
    loop {
        (is_in, rest) = match rest {
            // The first may be the bracket itself.
            [b']', after @ ..] if !is_first => return Some((is_in != is_inverted, after)),
            [from, b'-', to, after @ ..] if *to != b']' => {
                (is_in || (*from..=*to).contains(&byte), after)
            }
            [one, after @ ..] => (is_in || *one == byte, after),
            [] => return None,
        };
        is_first = false;
    }
}

/// A task, as rules look at it.
pub trait Subject<C> {
    /// Returns whether the task is in `cgroup`, or in one below it.
    fn is_in(&self, cgroup: &C) -> bool;

    /// Returns the key of the task's process. Returns `None` if the task is exiting, and so matches
    /// no rule of processes.
    fn process(&self) -> Option<u128>;

    /// Returns the marks that the task's process has in the [`ForkMarks`].
    fn marks(&self) -> u64;

    /// Calls `f` with the task's name.
    fn with_comm(&self, f: impl FnOnce(&[u8]) -> bool) -> bool;
}

/// Which tasks a rule matches. `T` holds text, `P` holds the keys of processes, and `C` is a
/// cgroup.
#[derive(Debug)]
pub enum Matcher<T, P, C> {
    /// Those in this cgroup or below it.
    Cgroup(C),
    /// The threads of these processes.
    Processes(P),
    /// Those with a name that this glob matches.
    Comm(T),
    /// Those whose process has the mark of the rule.
    Children,
}

/// A rule of a list.
#[derive(Debug)]
pub struct Rule<T, P, C> {
    /// The name.
    pub name: T,
    /// [`Definition::text`], with names that are valid everywhere.
    pub text: T,
    /// Which tasks the rule matches.
    pub matcher: Matcher<T, P, C>,
    /// Their group.
    pub group: Group,
    /// Its mark: a bit that no other rule of the list has.
    mark: u64,
}

impl<T: Deref<Target = [u8]>, P, C> Rule<T, P, C> {
    /// Creates a rule for [`List::add`].
    pub fn new(name: T, text: T, matcher: Matcher<T, P, C>, group: Group) -> Self {
        Self {
            name,
            text,
            matcher,
            group,
            mark: 0,
        }
    }

    /// Returns the mark, which the list has given to the rule.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    fn is_match(&self, task: &impl Subject<C>) -> bool
    where
        P: Deref<Target = [u128]>,
    {
        match &self.matcher {
            Matcher::Cgroup(cgroup) => task.is_in(cgroup),
            Matcher::Processes(keys) => task.process().is_some_and(|key| keys.contains(&key)),
            Matcher::Comm(glob) => task.with_comm(|comm| matches_glob(glob, comm)),
            Matcher::Children => task.marks() & self.mark != 0,
        }
    }
}

/// Writes a rule as a line of the list shows it: the name, and what followed it. Bytes that are not
/// printable, and the backslash, are written as `\xNN`.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// [`Definition::name`].
    pub name: &'a [u8],
    /// [`Definition::text`].
    pub text: &'a [u8],
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Escaped(self.name), Escaped(self.text))
    }
}

/// A list of rules, in memory of a fixed size. Their names differ.
#[derive(Debug)]
pub struct List<B> {
    /// The rules in their order, then places that are free.
    rules: B,
}

impl<T, P, C, B> List<B>
where
    T: Deref<Target = [u8]>,
    P: Deref<Target = [u128]>,
    B: DerefMut<Target = [Option<Rule<T, P, C>>]>,
{
    /// The maximum number of rules: each has a bit.
    pub const MAX: usize = u64::BITS as usize;

    /// Creates a list in the memory of `rules`, of which at most [`List::MAX`] are used. They
    /// should be free.
    pub fn new(rules: B) -> Self {
        Self { rules }
    }

    /// Iterates over the rules, in their order.
    pub fn iter<'a>(&'a self) -> impl Iterator<Item = &'a Rule<T, P, C>>
    where
        T: 'a,
        P: 'a,
        C: 'a,
    {
        self.rules.iter().flatten()
    }

    /// Returns the rule with this name.
    pub fn find(&self, name: &[u8]) -> Option<&Rule<T, P, C>> {
        self.iter().find(|rule| *rule.name == *name)
    }

    /// Returns whether there is no room for another rule.
    pub fn is_full(&self) -> bool {
        self.iter().count() >= self.rules.len().min(Self::MAX)
    }

    /// Returns the mark that the next rule gets, or `None` if there is no room.
    pub fn next_mark(&self) -> Option<u64> {
        let used = self.iter().fold(0, |used, rule| used | rule.mark);
        (!self.is_full()).then(|| 1 << (!used).trailing_zeros())
    }

    /// Appends a rule, whose name no other one may have. It gets [`List::next_mark`]. Returns the
    /// rule if there is no room.
    pub fn add(&mut self, mut rule: Rule<T, P, C>) -> Result<(), Rule<T, P, C>> {
        let Some(mark) = self.next_mark() else {
            return Err(rule);
        };
        let Some(place) = self.rules.iter_mut().find(|place| place.is_none()) else {
            return Err(rule);
        };
        rule.mark = mark;
        *place = Some(rule);
        Ok(())
    }

    /// Removes the rule with this name, and returns it.
    pub fn remove(&mut self, name: &[u8]) -> Option<Rule<T, P, C>> {
        let is_it =
            |place: &Option<Rule<T, P, C>>| place.as_ref().is_some_and(|rule| *rule.name == *name);
        let number = self.rules.iter().position(is_it)?;
        let rest = self.rules.get_mut(number..)?;
        let removed = rest.first_mut()?.take();
        // The others keep their order.
        rest.rotate_left(1);
        removed
    }

    /// Calls `change` with the cgroup of each rule that has one.
    pub fn for_each_cgroup(&mut self, mut change: impl FnMut(&mut C)) {
        for rule in self.rules.iter_mut().flatten() {
            if let Matcher::Cgroup(cgroup) = &mut rule.matcher {
                change(cgroup);
            }
        }
    }

    /// Returns whether any rule has marks of processes.
    pub fn has_children(&self) -> bool {
        self.iter()
            .any(|rule| matches!(rule.matcher, Matcher::Children))
    }

    /// Returns the group of `task`: that of the first rule that matches it.
    pub fn group_of(&self, task: &impl Subject<C>) -> Option<Group> {
        self.iter()
            .find(|rule| rule.is_match(task))
            .map(|rule| rule.group)
    }
}
