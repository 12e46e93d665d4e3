// SPDX-License-Identifier: GPL-2.0

//! The groups of tasks: which task is in which, and what their tasks did.

mod decide;
mod guard;
mod kind;
mod late;
mod registry;
mod rules;
mod sweep;
mod tracking;

pub(crate) use self::{
    late::Latecomers,
    sweep::Sweeper,
    tracking::Tracking, //
};

use kernel::{
    cpu::nr_cpu_ids,
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Mutex, //
    },
};

use self::{
    kind::{
        Kind,
        ResolvedKind, //
    },
    registry::GroupRegistry, //
};
use crate::{
    boundary::{
        abstractions::{
            cgroup,
            local_clock,
            new_irq_lock,
            IrqLock, //
        },
        GroupMemories, //
    },
    engine::{
        format::Head,
        group::{
            group_scheme,
            Group,
            GroupSet,
            Rule,
            MAX_GROUPS, //
        },
        histogram::Scheme, //
    },
};

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The maximum number of groups, besides [`Group::OTHER`].
    pub(crate) groups: u32,
    /// The maximum memory of their records and tables, in bytes; 0 for no limit.
    pub(crate) memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        // The counters of as many groups take two thirds of that.
        let of_cpus = u64::from(nr_cpu_ids()) * (256 << 10);
        Self {
            groups: 255,
            memory: of_cpus.max(16 << 20),
        }
    }
}

impl Limits {
    /// The greatest limit of the number of groups.
    pub(crate) const MAX_GROUPS: u32 = MAX_GROUPS as u32 - 2;
}

/// The groups of tasks by one rule.
#[pin_data]
pub(crate) struct Groups {
    kind: Kind,
    /// The rule as text, with what is not printable escaped.
    text: CString,
    limits: Limits,
    /// The memory of the places and the index, in bytes.
    tables: usize,
    scheme: Scheme,
    since: u64,
    memories: Arc<GroupMemories>,
    /// The lock also orders decisions: a group is stored while it is held, and what it depends on
    /// was read after it was taken. So the group stored last is that of the last change; but for
    /// names, which the kernel changes after it has traced that.
    #[pin]
    registry: IrqLock<GroupRegistry>,
    /// Held during a sweep.
    #[pin]
    sweeping: Mutex<()>,
    /// The groups that are dead and have not given up their places yet: what they recorded counts
    /// as gone. Held while groups are read, and while a group is retired or a place gets vacant.
    #[pin]
    retired: Mutex<GroupSet<KVVec<u64>>>,
}

impl Groups {
    /// Creates the groups of `rule`, with no task in them. `scheme` is that of the histograms of
    /// CPUs. A limit that is set later has no effect on them. Returns `None` if the rule is
    /// [`Rule::None`].
    ///
    /// Sleeps. Fails with `ENOENT` if the rule names a cgroup that does not exist, with `ESRCH` if
    /// it names such a process, and with `ENOMEM`, also if the limit of memory is too small for the
    /// counters of as many groups.
    pub(crate) fn new(rule: Rule<'_>, limits: Limits, scheme: Scheme) -> Result<Option<Arc<Self>>> {
        let Some(ResolvedKind { kind, text, under }) = Kind::find(rule)? else {
            return Ok(None);
        };
        let limit = limits.groups as usize;
        let registry = GroupRegistry::new(&kind, limit, under)?;
        let memory = match limits.memory {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let scheme = group_scheme(scheme);
        let tables = GroupRegistry::memory(&kind, limit);
        // With "other" and "gone".
        let memories = GroupMemories::new(limit + 2, scheme, memory.saturating_sub(tables))?;
        let retired = no_groups(limits.groups)?;
        Arc::pin_init(
            pin_init!(Self {
                kind,
                text,
                limits,
                tables,
                scheme,
                since: local_clock(),
                memories,
                registry <- new_irq_lock!(registry, c"schedhist::Groups::registry"),
                sweeping <- new_mutex!((), "schedhist::Groups::sweeping"),
                retired <- new_mutex!(retired, "schedhist::Groups::retired"),
            }),
            GFP_KERNEL,
        )
        .map(Some)
    }

    /// Returns whether a task's cgroup decides its group.
    pub(crate) fn follows_cgroups(&self) -> bool {
        matches!(self.kind, Kind::Cgroup | Kind::List)
    }

    /// Returns whether a task's name decides its group, or is in the name of the group.
    pub(crate) fn follows_names(&self) -> bool {
        !matches!(self.kind, Kind::Cgroup)
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List)
    }

    /// Returns the rule as text, with what is not printable escaped.
    pub(crate) fn text(&self) -> &str {
        // Cannot fail: all bytes other than printable ASCII are escaped.
        core::str::from_utf8(self.text.to_bytes()).unwrap_or_default()
    }

    pub(crate) fn memories(&self) -> &Arc<GroupMemories> {
        &self.memories
    }

    pub(crate) fn head(&self) -> Head {
        let registry = self.registry.lock();
        Head {
            time: local_clock(),
            limit: self.limits.groups,
            refused: registry.refused,
            no_memory: registry.no_memory,
            memory: self.tables + self.memories.memory(),
            gone: registry.gone,
            unfollowed: registry.fork_marks.lost(),
            late: registry.decided_late,
        }
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the time at which the groups began, in nanoseconds.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Returns the group of all groups that are gone.
    pub(crate) fn gone(&self) -> Group {
        // Cannot fail: the limit is far below the greatest number.
        Group::new(self.limits.groups + 1).unwrap_or(Group::OTHER)
    }

    /// Iterates over the groups, whether they exist or not: first [`Group::OTHER`] and the one of
    /// all that are gone.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Group> {
        let rest = (1..=self.limits.groups).filter_map(Group::new);
        Iterator::chain([Group::OTHER, self.gone()].into_iter(), rest)
    }

    /// Returns whether `group` would get tasks again even if it has none: its cgroup or its rule
    /// still exists. Sleeps.
    fn is_kept(&self, group: Group) -> bool {
        let key = self.registry.lock().places.key(group);
        match (&self.kind, key) {
            (Kind::Cgroup, Some(id)) => cgroup::exists(id as u64),
            (Kind::List, Some(_)) => self.registry.lock().has_rule_of(group),
            _ => false,
        }
    }
}

/// Creates an empty set of up to `limit` groups, besides "other" and "gone".
fn no_groups(limit: u32) -> Result<GroupSet<KVVec<u64>>> {
    let words = GroupSet::<KVVec<u64>>::words(limit as usize + 2);
    Ok(GroupSet::new(KVVec::from_elem(0, words, GFP_KERNEL)?))
}
