// SPDX-License-Identifier: GPL-2.0

//! The names of groups, and which key has which.

use core::{
    mem,
    ops::Deref, //
};

use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    },
    time::Msecs, //
};

use super::kind::{
    copy,
    Kind, //
};
use crate::{
    boundary::abstractions::{
        cgroup,
        local_clock,
        random,
        Cgroup,
        ProcessId,
        Subtree,
        Task,
        COMM_LEN, //
    },
    engine::{
        format::up_to_nul,
        group::{
            list,
            Entry,
            ForkMarks,
            Group,
            GroupTable,
            Late,
            Names,
            Place,
            Secret,
            Subject,
            TaskName, //
        },
    },
};

pub(super) const NSEC_PER_MSEC: u64 = 1_000_000;

pub(super) type ListRule = list::Rule<Bytes, KVec<u128>, Subtree>;
pub(super) type RuleList = list::List<KVec<Option<ListRule>>>;

/// What a rule consists of, which does not change.
#[derive(Clone)]
pub(super) struct Bytes(Arc<KVec<u8>>);

impl Bytes {
    /// Fails with `ENOMEM`.
    pub(super) fn new(bytes: KVec<u8>) -> Result<Self> {
        Ok(Self(Arc::new(bytes, GFP_KERNEL)?))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The names of groups, and which key has which.
pub(super) struct GroupRegistry {
    pub(super) places: GroupTable<KVVec<Place>, KVVec<Entry>>,
    pub(super) names: Names<KVVec<KVec<u8>>, KVVec<Entry>>,
    pub(super) list: RuleList,
    /// Below which cgroup tasks are grouped, if groups are by [`Kind::Cgroup`].
    pub(super) under: Option<Subtree>,
    /// Memory for the path of a cgroup, unless groups do not depend on cgroups.
    pub(super) path: KVec<u8>,
    /// The number of rules that were added to the list.
    pub(super) rules: u64,
    /// The processes that rules follow.
    pub(super) fork_marks: ForkMarks<KVVec<Entry<u64>>>,
    /// How often a task got a group although it should have got another: there were too many
    /// groups, or the name of the group is too long.
    pub(super) refused: u64,
    /// How often there was no memory for the group that a task should have got: for the group's
    /// name, or for the task's state.
    pub(super) no_memory: u64,
    /// Whether there was such a task that may not have been decided again since.
    pub(super) lacked_memory: bool,
    /// The key that was refused last, as there are all groups.
    pub(super) last_refused: Option<u128>,
    /// Whether a task was refused that may not have been decided again since.
    pub(super) was_refused: bool,
    /// Whether a sweep may make room.
    pub(super) wants_sweep: bool,
    /// The time before which there is no other sweep.
    pub(super) next_sweep: u64,
    /// The time from the last sweep to that one, in milliseconds.
    pub(super) pause: Msecs,
    /// The number of groups that were retired.
    pub(super) gone: u64,
    /// The processes whose threads have moved, but were not decided yet.
    pub(super) late: Late,
    /// How often a task got its group later than at its move.
    pub(super) decided_late: u64,
}

/// The least time between sweeps, in milliseconds. After one that made no room it is twice as long
/// each time, up to the maximum.
pub(super) const PAUSE: Msecs = 10;

/// What a group is named after.
pub(super) enum Namesake<'a> {
    Comm([u8; COMM_LEN]),
    /// The process or thread with this PID: the task that has its name, and the name that this is
    /// about to get, if any.
    Task(i32, Task<'a>, Option<[u8; COMM_LEN]>),
    Cgroup(Cgroup<'a>),
}

impl Namesake<'_> {
    fn name(&self) -> Result<KVec<u8>> {
        match self {
            Self::Comm(comm) => copy(up_to_nul(comm), GFP_NOWAIT),
            Self::Task(pid, task, comm) => {
                let name = TaskName::new(*pid, &comm.unwrap_or_else(|| task.comm()));
                // Renaming allocates nothing.
                let mut room = KVec::with_capacity(TaskName::MAX_LEN, GFP_NOWAIT)?;
                room.extend_from_slice(&name, GFP_NOWAIT)?;
                Ok(room)
            }
            Self::Cgroup(cgroup) => cgroup.path(),
        }
    }
}

impl GroupRegistry {
    /// Creates a registry of up to `limit` groups, with none in it. `under` is as in the field.
    /// Sleeps; fails with `ENOMEM`.
    pub(super) fn new(kind: &Kind, limit: usize, under: Option<Subtree>) -> Result<Self> {
        let path = match kind {
            Kind::Cgroup | Kind::List => cgroup::path_buffer(GFP_KERNEL)?,
            _ => KVec::new(),
        };
        let (most, by_name) = Self::entries(kind, limit);
        let mut names = KVVec::with_capacity(limit, GFP_KERNEL)?;
        for _ in 0..limit {
            names.push(KVec::new(), GFP_KERNEL)?;
        }
        let mut rules = KVec::new();
        if let Kind::List = kind {
            rules = KVec::with_capacity(RuleList::MAX, GFP_KERNEL)?;
            for _ in 0..RuleList::MAX {
                rules.push(None, GFP_KERNEL)?;
            }
        }
        Ok(Self {
            places: GroupTable::new(
                KVVec::from_elem(Place::VACANT, limit, GFP_KERNEL)?,
                KVVec::from_elem(None, most, GFP_KERNEL)?,
                secret(),
            ),
            names: Names::new(
                names,
                KVVec::from_elem(None, by_name, GFP_KERNEL)?,
                secret(),
            ),
            list: RuleList::new(rules),
            under,
            path,
            rules: 0,
            fork_marks: new_fork_marks(0)?,
            refused: 0,
            no_memory: 0,
            lacked_memory: false,
            last_refused: None,
            was_refused: false,
            wants_sweep: false,
            next_sweep: 0,
            pause: PAUSE,
            gone: 0,
            late: Late::default(),
            decided_late: 0,
        })
    }

    /// Returns how many entries find up to `limit` groups by their keys, and how many by their
    /// names.
    fn entries(kind: &Kind, limit: usize) -> (usize, usize) {
        let most = GroupTable::<KVVec<Place>, KVVec<Entry>>::entries(limit);
        match kind {
            Kind::Cgroup | Kind::List => (most, most),
            _ => (most, 0),
        }
    }

    /// Returns how much memory the tables of up to `limit` groups take, in bytes.
    pub(super) fn memory(kind: &Kind, limit: usize) -> usize {
        let of_place = size_of::<Place>() + size_of::<KVec<u8>>();
        let (by_key, by_name) = Self::entries(kind, limit);
        limit * of_place + (by_key + by_name) * size_of::<Entry>()
    }

    /// Returns the group of `key`, which is named after `namesake`, or makes one.
    pub(super) fn group_of(&mut self, key: u128, namesake: &Namesake<'_>) -> Group {
        if let Some(group) = self.places.find(key) {
            if let Namesake::Task(pid, _, Some(comm)) = namesake {
                if let Some(name) = self.names.get_mut(group) {
                    name.clear();
                    // Cannot fail: there is room for the longest name.
                    let _ = name.extend_from_slice(&TaskName::new(*pid, comm), GFP_NOWAIT);
                }
            }
            return group;
        }
        // While the table is full, a refused key stays refused: its name does not change. A process
        // that moves asks for the same key once for each thread.
        if self.last_refused != Some(key) {
            match self.insert(key, namesake) {
                Ok(group) => {
                    // In time, so that no task is refused meanwhile.
                    self.wants_sweep |= self.is_nearly_full();
                    return group;
                }
                Err(ENOSPC) => self.last_refused = Some(key),
                Err(ENOMEM) => {
                    self.lack_memory();
                    return Group::OTHER;
                }
                // No room helps.
                Err(_) => {
                    self.refused += 1;
                    return Group::OTHER;
                }
            }
        }
        self.refused += 1;
        self.was_refused = true;
        self.wants_sweep = true;
        Group::OTHER
    }

    /// Counts a group for which there was no memory. The next sweep tries again.
    pub(super) fn lack_memory(&mut self) {
        self.no_memory += 1;
        self.lacked_memory = true;
        self.wants_sweep = true;
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        self.places.vacant() < self.places.count() / 8
    }

    /// If a sweep is wanted, returns after how many milliseconds it may begin.
    pub(super) fn take_wanted_sweep(&mut self) -> Option<Msecs> {
        if !mem::take(&mut self.wants_sweep) {
            return None;
        }
        let left = self.next_sweep.saturating_sub(local_clock());
        // Rounded up, and at most the pause, though the clocks of two CPUs may differ.
        Some((left.div_ceil(NSEC_PER_MSEC) as Msecs).min(self.pause))
    }

    /// Returns the group with this name, dead or alive, unless it is retired.
    pub(super) fn place_named(&self, name: &[u8]) -> Option<Group> {
        self.names
            .find(name)
            .filter(|group| self.places.is_used(*group))
    }

    /// Makes a group for `key`, or gives it the group of the cgroup that had its name before.
    fn insert(&mut self, key: u128, namesake: &Namesake<'_>) -> Result<Group> {
        let mut name = namesake.name()?;
        let same = match namesake {
            Namesake::Cgroup(_) => self.place_named(&name),
            // A PID may be used again. Or the name is the key.
            _ => None,
        };
        if let Some(group) = same {
            return self.places.give(group, key).then_some(group).ok_or(ENOSPC);
        }
        let group = self.places.take(key).ok_or(ENOSPC)?;
        self.names.set(group, &mut name);
        Ok(group)
    }

    /// Returns the group of the first rule that matches `task`.
    pub(super) fn rule_of(
        &self,
        task: Task<'_>,
        comm: Option<[u8; COMM_LEN]>,
        rcu: &rcu::Guard,
    ) -> Option<Group> {
        self.list.group_of(&ListedTask {
            task,
            comm,
            fork_marks: &self.fork_marks,
            rcu,
        })
    }

    /// Calls `change` with each cgroup that a rule names.
    pub(super) fn for_each_subtree(&mut self, mut change: impl FnMut(&mut Subtree)) {
        self.under.iter_mut().for_each(&mut change);
        self.list.for_each_cgroup(change);
    }

    /// Returns the cgroup whose group `task` is in, if groups are by [`Kind::Cgroup`].
    pub(super) fn cgroup_of<'a>(&self, task: Task<'_>, rcu: &'a rcu::Guard) -> Option<Cgroup<'a>> {
        self.under.as_ref()?.cgroup_of(task, rcu)
    }

    pub(super) fn has_rule_of(&self, group: Group) -> bool {
        self.list.iter().any(|rule| rule.group == group)
    }
}

/// A task, as the rules of a list look at it.
struct ListedTask<'a> {
    task: Task<'a>,
    comm: Option<[u8; COMM_LEN]>,
    fork_marks: &'a ForkMarks<KVVec<Entry<u64>>>,
    rcu: &'a rcu::Guard,
}

impl Subject<Subtree> for ListedTask<'_> {
    fn is_in(&self, cgroup: &Subtree) -> bool {
        cgroup.contains(self.task, self.rcu)
    }

    fn process(&self) -> Option<u128> {
        self.task.process(self.rcu).map(ProcessId::key)
    }

    fn marks(&self) -> u64 {
        self.process().map_or(0, |key| self.fork_marks.marks(key))
    }

    fn with_comm(&self, f: impl FnOnce(&[u8]) -> bool) -> bool {
        f(up_to_nul(&self.comm.unwrap_or_else(|| self.task.comm())))
    }
}

/// Creates [`ForkMarks`] for the keys of three quarters of `entries` processes. Fails with
/// `ENOMEM`.
pub(super) fn new_fork_marks(entries: usize) -> Result<ForkMarks<KVVec<Entry<u64>>>> {
    let entries = KVVec::from_elem(None, entries, GFP_KERNEL)?;
    Ok(ForkMarks::new(entries, secret()))
}

fn secret() -> Secret {
    Secret::new([random::number(), random::number()])
}
