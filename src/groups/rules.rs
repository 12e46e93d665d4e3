// SPDX-License-Identifier: GPL-2.0

//! The list of rules, and what a rule names.

use core::mem;

use kernel::prelude::*;

use super::{
    kind::{
        copy,
        find_processes,
        formatted,
        PidsOf, //
    },
    registry::{
        new_fork_marks,
        Bytes,
        GroupRegistry,
        RuleList, //
    },
    Groups, //
};
use crate::{
    boundary::{
        abstractions::{
            cgroup,
            Cgroup,
            CgroupMkdir,
            ProcessId,
            Subtree, //
        },
        TaskStates, //
    },
    engine::group::{
        list,
        Definition,
        Matcher,
        Pattern, //
    },
};

/// The number of entries for processes that rules follow; three quarters of them can be used: see
/// [`Index`].
///
/// [`Index`]: crate::engine::group::index::Index
const FOLLOWED: usize = 1 << 15;

/// The tasks that a rule matches, with its cgroup or processes resolved.
pub(crate) struct ResolvedRule {
    matcher: Matcher<Bytes, KVec<u128>, Subtree>,
    /// The text of the rule, with paths and PIDs of the initial namespaces.
    text: Bytes,
    /// The process that the rule follows, with its PID.
    root: Option<(i32, ProcessId)>,
}

impl Groups {
    /// Finds what `definition` names. Sleeps; fails with `ENOENT`, `ESRCH` and `ENOMEM`, as
    /// [`Groups::new`] does.
    pub(crate) fn find(definition: &Definition<'_>) -> Result<ResolvedRule> {
        let mut root = None;
        let pids = |kind: &str, those: &[ProcessId]| -> Result<KVec<u8>> {
            let text = formatted(format_args!("{kind}{}", PidsOf(those)))?;
            copy(text.to_bytes(), GFP_KERNEL)
        };
        let (matcher, text) = match definition.pattern {
            Pattern::Cgroup(path) => {
                let subtree = Subtree::find(path, 0)?;
                let mut text = copy(b"cgroup ", GFP_KERNEL)?;
                text.extend_from_slice(subtree.path(), GFP_KERNEL)?;
                (Matcher::Cgroup(subtree), text)
            }
            Pattern::Processes(those) => {
                let those = find_processes(those)?;
                let mut keys = KVec::new();
                for process in &those {
                    keys.push(process.key(), GFP_KERNEL)?;
                }
                (Matcher::Processes(keys), pids("pid", &those)?)
            }
            Pattern::Comm(glob) => {
                let text = copy(definition.text, GFP_KERNEL)?;
                (Matcher::Comm(Bytes::new(copy(glob, GFP_KERNEL)?)?), text)
            }
            Pattern::Children(pid) => {
                let process = ProcessId::find(pid).ok_or(ESRCH)?;
                root = Some((pid, process));
                (Matcher::Children, pids("children", &[process])?)
            }
        };
        Ok(ResolvedRule {
            matcher,
            text: Bytes::new(text)?,
            root,
        })
    }

    /// Appends a rule to the list. Tasks get its group when they are decided again. `tasks` is as
    /// for [`Groups::sweep`].
    ///
    /// Sleeps. Fails with `EEXIST` if there is a rule of this name, with `ENOSPC` if there are too
    /// many rules, groups or followed processes, with `ESRCH` if the process has ended, and with
    /// `ENOMEM`; then changes nothing.
    pub(crate) fn add_rule(
        &self,
        definition: &Definition<'_>,
        resolved: ResolvedRule,
        tasks: Option<&TaskStates>,
    ) -> Result {
        let name = Bytes::new(copy(definition.name, GFP_KERNEL)?)?;
        let mut name_of_group = copy(definition.name, GFP_KERNEL)?;
        let mut fork_marks = None;
        if resolved.root.is_some() && !self.registry.lock().list.has_children() {
            // No process has a mark.
            fork_marks = Some(new_fork_marks(FOLLOWED)?);
        }
        let is_there = |registry: &GroupRegistry| match registry.list.find(&name) {
            Some(_) => Err(EEXIST),
            None if registry.list.is_full() => Err(ENOSPC),
            None => Ok(registry.place_named(&name).is_some() || registry.places.vacant() != 0),
        };
        // Only the caller adds rules, and no place is taken otherwise.
        let has_room = is_there(&self.registry.lock())?;
        if !has_room && self.sweep(tasks)? == 0 {
            return Err(ENOSPC);
        }
        let mut registry = self.registry.lock();
        let mark = registry.list.next_mark().ok_or(ENOSPC)?;
        if let Some((pid, process)) = resolved.root {
            // As the lock is held, its end will be seen only after it is marked: else it is seen to
            // have ended here.
            if ProcessId::find(pid) != Some(process) {
                return Err(ESRCH);
            }
            let marks = fork_marks.as_mut().unwrap_or(&mut registry.fork_marks);
            if !marks.mark(process.key(), mark) {
                return Err(ENOSPC);
            }
            if let Some(new) = &mut fork_marks {
                new.take_over(&registry.fork_marks);
                mem::swap(&mut registry.fork_marks, new);
            }
        }
        registry.rules += 1;
        let key = u128::from(registry.rules);
        let group = match registry.place_named(&name) {
            Some(group) => registry.places.give(group, key).then_some(group),
            None => registry.places.take(key).inspect(|group| {
                registry.names.set(*group, &mut name_of_group);
            }),
        };
        let cgroup = match &resolved.matcher {
            Matcher::Cgroup(subtree) => Some(subtree.id()),
            _ => None,
        };
        // There was room, and nobody else takes it; but if it was the place of a dead group of this
        // name, a sweep may have freed that, for a task to take.
        let added = group.ok_or(ENOSPC).and_then(|group| {
            let rule = list::Rule::new(name, resolved.text, resolved.matcher, group);
            registry.list.add(rule).map_err(|_| ENOSPC)
        });
        // Frees the old value without the lock.
        drop(registry);
        added.inspect_err(|_| self.forget(mark))?;
        if let (Pattern::Cgroup(path), Some(id)) = (definition.pattern, cgroup) {
            self.find_again(path, id);
        }
        Ok(())
    }

    /// Looks for the cgroup `path` once more, where the cgroup `old` was found for a rule. The path
    /// may have got a new one before the probe could find the rule. Sleeps.
    fn find_again(&self, path: &[u8], old: u64) {
        if let Some(new) = cgroup::find_id(path) {
            let mut registry = self.registry.lock();
            // If the probe has found a still newer one meanwhile, the rule does not have the old
            // one any more.
            registry.for_each_subtree(|subtree| subtree.replace(old, new));
        }
    }

    /// Looks for the cgroup `path` once more, below which tasks are grouped. To be called when the
    /// probe of new cgroups has been registered. Sleeps.
    pub(crate) fn find_under_again(&self, path: &[u8]) {
        let old = {
            let registry = self.registry.lock();
            registry
                .under
                .iter()
                .find(|under| under.may_go())
                .map(Subtree::id)
        };
        if let Some(old) = old {
            self.find_again(path, old);
        }
    }

    /// Removes the rule `name` from the list. Its group is dead once its tasks have been decided
    /// again. Fails with `ENOENT` if there is no such rule.
    pub(crate) fn remove_rule(&self, name: &[u8]) -> Result {
        let mut registry = self.registry.lock();
        let removed = registry.list.remove(name).ok_or(ENOENT)?;
        drop(registry);
        if let Matcher::Children = removed.matcher {
            self.forget(removed.mark());
        }
        Ok(())
    }

    /// Removes `mark` from all processes. The caller keeps others from using it meanwhile.
    fn forget(&self, mark: u64) {
        self.registry.lock().fork_marks.forget(mark);
        let mut next = Some(0);
        while let Some(first) = next {
            // With a pause, in which interrupts are on, and others get the lock.
            next = self.registry.lock().fork_marks.clean(first);
        }
    }

    /// Returns whether rules follow the processes that others fork, and whether they name cgroups
    /// that can be removed.
    pub(crate) fn tracks(&self) -> (bool, bool) {
        let mut registry = self.registry.lock();
        let mut has_cgroups = false;
        registry.for_each_subtree(|subtree| has_cgroups |= subtree.may_go());
        (registry.list.has_children(), has_cgroups)
    }

    /// Calls `show` for each rule, in their order. All are from the same moment. Sleeps; fails with
    /// `ENOMEM`, and as `show` does.
    pub(crate) fn for_each_rule(&self, mut show: impl FnMut(list::Shown<'_>) -> Result) -> Result {
        let mut rules = KVec::with_capacity(RuleList::MAX, GFP_KERNEL)?;
        for rule in self.registry.lock().list.iter() {
            // There is room.
            rules.push((rule.name.clone(), rule.text.clone()), GFP_NOWAIT)?;
        }
        rules
            .iter()
            .try_for_each(|(name, text)| show(list::Shown { name, text }))
    }
}

/// A cgroup that is made again is the one that a rule names by its path.
impl CgroupMkdir for Groups {
    fn cgroup_mkdir(&self, cgroup: &Cgroup<'_>) {
        let mut registry = self.registry.lock();
        let mut may_be_named = false;
        registry.for_each_subtree(|subtree| may_be_named |= subtree.is_level_with(cgroup));
        if !may_be_named {
            return;
        }
        let mut buffer = mem::take(&mut registry.path);
        // One that is longer than the buffer is not that of a rule.
        if let Ok(path) = cgroup.path_in(&mut buffer) {
            registry.for_each_subtree(|subtree| subtree.follow(cgroup, path));
        }
        registry.path = buffer;
    }
}
