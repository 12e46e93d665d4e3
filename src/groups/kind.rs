// SPDX-License-Identifier: GPL-2.0

//! How the group of a task is found, by the rule that a user wrote.

use core::fmt;

use kernel::{
    prelude::*,
    str::CString, //
};

use crate::{
    boundary::abstractions::{
        ProcessId,
        Subtree, //
    },
    engine::group::{
        Pids,
        Rule, //
    },
};

/// The way in which a task's group is found.
pub(super) enum Kind {
    /// By cgroup, below the one in the registry.
    Cgroup,
    Comm,
    /// By process: by these, or by all if there are none.
    Process(KVec<ProcessId>),
    /// Each thread by itself: those of these processes, or all if there are none.
    Thread(KVec<ProcessId>),
    /// By the list of rules in the registry.
    List,
}

/// The object that a rule names.
pub(super) struct ResolvedKind {
    pub(super) kind: Kind,
    /// The rule as text, with what is not printable escaped.
    pub(super) text: CString,
    /// Below which cgroup tasks are grouped, if groups are by [`Kind::Cgroup`].
    pub(super) under: Option<Subtree>,
}

impl Kind {
    /// Finds what `rule` names. Returns `None` if the rule is [`Rule::None`]. Sleeps; fails as
    /// [`Groups::new`](super::Groups::new) does.
    pub(super) fn find(rule: Rule<'_>) -> Result<Option<ResolvedKind>> {
        // As the initial namespaces show what the rule names.
        let mut text = formatted(format_args!("{rule}"))?;
        let mut under = None;
        let kind = match rule {
            Rule::None => return Ok(None),
            Rule::Comm => Kind::Comm,
            Rule::List => Kind::List,
            Rule::Process(pids) => {
                let those = find_processes(pids)?;
                text = formatted(format_args!("process{}", PidsOf(&those)))?;
                Kind::Process(those)
            }
            Rule::Thread(pids) => {
                let those = find_processes(pids)?;
                text = formatted(format_args!("thread{}", PidsOf(&those)))?;
                Kind::Thread(those)
            }
            Rule::Cgroup { under: b"/", depth } => {
                under = Some(Subtree::whole(depth));
                Kind::Cgroup
            }
            Rule::Cgroup { under: path, depth } => {
                let subtree = Subtree::find(path, depth)?;
                let rule = Rule::Cgroup {
                    under: subtree.path(),
                    depth,
                };
                text = formatted(format_args!("{rule}"))?;
                under = Some(subtree);
                Kind::Cgroup
            }
        };
        Ok(Some(ResolvedKind { kind, text, under }))
    }
}

/// The PIDs of processes, each after a space.
pub(super) struct PidsOf<'a>(pub(super) &'a [ProcessId]);

impl fmt::Display for PidsOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|process| write!(f, " {}", process.pid()))
    }
}

/// Finds the processes with these PIDs in the PID namespace of the current task. Fails with `ESRCH`
/// if there is no such process, and with `ENOMEM`.
pub(super) fn find_processes(pids: Pids<'_>) -> Result<KVec<ProcessId>> {
    let mut found = KVec::new();
    for pid in pids.iter() {
        found.push(ProcessId::find(pid).ok_or(ESRCH)?, GFP_KERNEL)?;
    }
    Ok(found)
}

/// Formats a text. The kernel's `fmt!` takes only types of its own.
pub(super) fn formatted(text: fmt::Arguments<'_>) -> Result<CString> {
    CString::try_from_fmt(fmt!("{text}"))
}

/// Copies `bytes`. Fails with `ENOMEM`.
pub(super) fn copy(bytes: &[u8], flags: kernel::alloc::Flags) -> Result<KVec<u8>> {
    let mut copied = KVec::with_capacity(bytes.len(), flags)?;
    copied.extend_from_slice(bytes, flags)?;
    Ok(copied)
}
