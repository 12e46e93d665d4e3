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
        new_lineage,
        Directory, //
    },
    Groups, //
};
use crate::{
    boundary::{
        abstractions::{
            cgroup::{
                self,
                Cgroup,
                Subtree, //
            },
            cgroup_events::CgroupMkdir,
            task::ProcessId, //
        },
        task_table::TaskStates, //
    },
    engine::group::list::{
        self,
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
pub(crate) struct Found {
    matcher: Matcher<KVec<u8>, KVec<u128>, Subtree>,
    /// The text of the rule, with paths and PIDs of the initial namespaces.
    text: KVec<u8>,
    /// The process that the rule follows, with its PID.
    root: Option<(i32, ProcessId)>,
}

impl Groups {
    /// Finds what `definition` names. Sleeps; fails with `ENOENT`, `ESRCH`, `EOPNOTSUPP` and
    /// `ENOMEM`, as [`Groups::new`] does.
    pub(crate) fn find(definition: &Definition<'_>) -> Result<Found> {
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
                (Matcher::Comm(copy(glob, GFP_KERNEL)?), text)
            }
            Pattern::Children(pid) => {
                let process = ProcessId::find(pid).ok_or(ESRCH)?;
                root = Some((pid, process));
                (Matcher::Children, pids("children", &[process])?)
            }
        };
        Ok(Found {
            matcher,
            text,
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
        found: Found,
        tasks: Option<&TaskStates>,
    ) -> Result {
        let name = copy(definition.name, GFP_KERNEL)?;
        let mut name_of_group = copy(definition.name, GFP_KERNEL)?;
        let mut lineage = None;
        if found.root.is_some() && !self.directory.lock().list.has_children() {
            // No process has a mark.
            lineage = Some(new_lineage(FOLLOWED)?);
        }
        let is_there = |directory: &Directory| match directory.list.find(&name) {
            Some(_) => Err(EEXIST),
            None if directory.list.is_full() => Err(ENOSPC),
            None => Ok(directory.place_named(&name).is_some() || directory.places.vacant() != 0),
        };
        // Only the caller adds rules, and no place is taken otherwise.
        let has_room = is_there(&self.directory.lock())?;
        if !has_room && self.sweep(tasks)? == 0 {
            return Err(ENOSPC);
        }
        let mut directory = self.directory.lock();
        if let Some(new) = &mut lineage {
            mem::swap(&mut directory.lineage, new);
        }
        let mark = directory.list.next_mark().ok_or(ENOSPC)?;
        if let Some((pid, process)) = found.root {
            // As the lock is held, its end will be seen only after it is marked: else it is seen to
            // have ended here.
            if ProcessId::find(pid) != Some(process) {
                return Err(ESRCH);
            }
            if !directory.lineage.mark(process.key(), mark) {
                return Err(ENOSPC);
            }
        }
        directory.rules += 1;
        let key = u128::from(directory.rules);
        let group = match directory.place_named(&name) {
            Some(group) => directory.places.give(group, key).then_some(group),
            None => directory.places.take(key).inspect(|group| {
                directory.names.set(*group, &mut name_of_group);
            }),
        };
        let cgroup = match &found.matcher {
            Matcher::Cgroup(subtree) => Some(subtree.id()),
            _ => None,
        };
        // None of this can fail, as there was room, and nobody else takes it.
        let added = group.ok_or(ENOSPC).and_then(|group| {
            let rule = list::Rule::new(name, found.text, found.matcher, group);
            directory.list.add(rule).map_err(|_| ENOSPC)
        });
        // Frees the old value without the lock.
        drop(directory);
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
            let mut directory = self.directory.lock();
            // If the probe has found a still newer one meanwhile, the rule does not have the old
            // one any more.
            directory.for_each_subtree(|subtree| subtree.replace(old, new));
        }
    }

    /// Looks for the cgroup `path` once more, below which tasks are grouped. To be called when the
    /// probe of new cgroups has been registered. Sleeps.
    pub(crate) fn find_under_again(&self, path: &[u8]) {
        let old = {
            let directory = self.directory.lock();
            { directory.under.iter() }
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
        let mut directory = self.directory.lock();
        let removed = directory.list.remove(name).ok_or(ENOENT)?;
        drop(directory);
        if let Matcher::Children = removed.matcher {
            self.forget(removed.mark());
        }
        Ok(())
    }

    /// Removes `mark` from all processes. The caller keeps others from using it meanwhile.
    fn forget(&self, mark: u64) {
        self.directory.lock().lineage.forget(mark);
        let mut next = Some(0);
        while let Some(first) = next {
            // With a pause, in which interrupts are on, and others get the lock.
            next = self.directory.lock().lineage.clean(first);
        }
    }

    /// Returns whether rules follow the processes that others fork, and whether they name cgroups
    /// that can be removed.
    pub(crate) fn tracks(&self) -> (bool, bool) {
        let mut directory = self.directory.lock();
        let mut has_cgroups = false;
        directory.for_each_subtree(|subtree| has_cgroups |= subtree.may_go());
        (directory.list.has_children(), has_cgroups)
    }

    /// Calls `show` for each rule, in their order. All are from the same moment. Sleeps; fails with
    /// `ENOMEM`, and as `show` does.
    pub(crate) fn for_each_rule(&self, mut show: impl FnMut(list::Shown<'_>) -> Result) -> Result {
        // The names and texts, one after the other. Allocated first, as this must not sleep with
        // the lock held.
        let (mut bytes, mut lens) = (KVVec::new(), KVec::new());
        loop {
            let (size, count) = {
                let directory = self.directory.lock();
                let sizes = { directory.list.iter() }.map(|rule| rule.name.len() + rule.text.len());
                let (size, count) = (sizes.sum(), directory.list.iter().count());
                if size <= bytes.capacity() && count <= lens.capacity() {
                    for rule in directory.list.iter() {
                        bytes.extend_from_slice(&rule.name, GFP_NOWAIT)?;
                        bytes.extend_from_slice(&rule.text, GFP_NOWAIT)?;
                        lens.push((rule.name.len(), rule.text.len()), GFP_NOWAIT)?;
                    }
                    break;
                }
                (size, count)
            };
            bytes = KVVec::with_capacity(size, GFP_KERNEL)?;
            lens = KVec::with_capacity(count, GFP_KERNEL)?;
        }
        let mut rest = &bytes[..];
        for (name, text) in &lens {
            let (rule, others) = rest.split_at_checked(name + text).ok_or(EINVAL)?;
            let (name, text) = rule.split_at_checked(*name).ok_or(EINVAL)?;
            show(list::Shown { name, text })?;
            rest = others;
        }
        Ok(())
    }
}

/// A cgroup that is made again is the one that a rule names by its path.
impl CgroupMkdir for Groups {
    fn cgroup_mkdir(&self, cgroup: &Cgroup<'_>) {
        let mut directory = self.directory.lock();
        let mut may_be_named = false;
        directory.for_each_subtree(|subtree| may_be_named |= subtree.is_level_with(cgroup));
        if !may_be_named {
            return;
        }
        let mut buffer = mem::take(&mut directory.path);
        // One that is longer than the buffer is not that of a rule.
        if let Ok(path) = cgroup.path_in(&mut buffer) {
            directory.for_each_subtree(|subtree| subtree.follow(cgroup, path));
        }
        directory.path = buffer;
    }
}
