// SPDX-License-Identifier: GPL-2.0

//! The groups of tasks: which task is in which, and what their tasks did.

mod directory;
mod rules;
mod sweep;
mod verdicts;

pub(crate) use self::sweep::Sweeper;

use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        Arc,
        Mutex, //
    },
};

use self::{
    directory::Directory,
    rules::{
        find_cgroup,
        find_processes, //
    },
};
use crate::{
    boundary::{
        abstractions::{
            cgroup::{
                self,
                Subtree, //
            },
            clock::local_clock,
            irq_lock::IrqLock,
            task::{
                for_each_task,
                ProcessId, //
            },
        },
        group_memory::GroupMemories, //
    },
    engine::{
        format::groups::{
            Head,
            Members, //
        },
        group::{
            index::Entry,
            lineage::Lineage,
            list,
            places::{
                Place,
                Places, //
            },
            records::{
                group_scheme,
                GroupMetric, //
            },
            rule::Rule,
            totals::GroupTotals,
            verdict::Group, //
        },
        histogram::{
            bucket::Scheme,
            snapshot::Snapshot, //
        },
    },
};

/// What groups may take.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The maximum number of groups, besides [`Group::OTHER`].
    pub(crate) groups: u32,
    /// The maximum memory of their histograms, in bytes; 0 for no limit.
    pub(crate) memory: u64,
}

impl Limits {
    /// The limits until others are set.
    pub(crate) const DEFAULT: Self = Self {
        groups: 255,
        memory: 16 << 20,
    };

    /// The greatest limit of the number of groups. Each takes half a KiB on each CPU, and once in
    /// 2^20 switches a CPU looks at the sums of all, with interrupts off.
    pub(crate) const MOST_GROUPS: u32 = 4095;
}

/// How the group of a task is found.
enum Kind {
    Cgroup(Subtree),
    Comm,
    /// By process: by these, or by all if there are none.
    Process(KVec<ProcessId>),
    /// Each thread by itself: those of these processes, or all if there are none.
    Thread(KVec<ProcessId>),
    /// By the list of rules in the directory.
    List,
}

/// The groups of tasks by one rule.
#[pin_data]
pub(crate) struct Groups {
    kind: Kind,
    /// The rule as text, with what is not printable escaped.
    text: CString,
    limits: Limits,
    /// The scheme of the histograms of groups.
    scheme: Scheme,
    /// The time at which they began.
    since: u64,
    memories: Pin<KBox<GroupMemories>>,
    /// The lock also orders verdicts: a verdict is stored while it is held, and what it depends on
    /// was read after it was taken. So the verdict stored last is that of the last change.
    #[pin]
    directory: IrqLock<Directory>,
    /// Held during a sweep.
    #[pin]
    sweeping: Mutex<()>,
    /// Held while groups are read, and while a place changes its group.
    #[pin]
    stable: Mutex<()>,
}

impl Groups {
    /// Creates the groups of `rule`, with no task in them. `scheme` is that of the histograms of
    /// CPUs. A limit that is set later has no effect on them. Returns `None` if the rule is
    /// [`Rule::None`].
    ///
    /// Sleeps. Fails with `ENOENT` if the rule names a cgroup that does not exist, with `ESRCH` if
    /// it names such a process, with `EOPNOTSUPP` if the kernel has no cgroups, and with `ENOMEM`.
    pub(crate) fn new(rule: Rule<'_>, limits: Limits, scheme: Scheme) -> Result<Option<Arc<Self>>> {
        let kind = match rule {
            Rule::None => return Ok(None),
            Rule::Comm => Kind::Comm,
            Rule::List => Kind::List,
            Rule::Process(pids) => Kind::Process(find_processes(pids)?),
            Rule::Thread(pids) => Kind::Thread(find_processes(pids)?),
            Rule::Cgroup { under, depth } => Kind::Cgroup(find_cgroup(under, depth)?),
        };
        let text = CString::try_from_fmt(fmt!("{}", format_args!("{rule}")))?;
        let limit = limits.groups as usize;
        let most = Places::<KVVec<Place>, KVVec<Entry>>::entries(limit);
        let mut names = KVVec::with_capacity(limit, GFP_KERNEL)?;
        for _ in 0..limit {
            names.push(KVec::new(), GFP_KERNEL)?;
        }
        let mut rules = KVec::new();
        if let Kind::List = kind {
            rules = KVec::with_capacity(u64::BITS as usize, GFP_KERNEL)?;
            for _ in 0..u64::BITS {
                rules.push(None, GFP_KERNEL)?;
            }
        }
        let directory = Directory {
            places: Places::new(
                KVVec::from_elem(Place::VACANT, limit, GFP_KERNEL)?,
                KVVec::from_elem(None, most, GFP_KERNEL)?,
            ),
            names,
            list: list::List::new(rules),
            rules: 0,
            lineage: Lineage::new(KVVec::new()),
            refused: 0,
            last_refused: None,
            was_refused: false,
            wants_sweep: false,
            next_sweep: 0,
            gone: 0,
        };
        let memory = match limits.memory {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let scheme = group_scheme(scheme);
        // With "other" and "gone".
        let memories = GroupMemories::new(limit + 2, scheme, memory)?;
        Arc::pin_init(
            pin_init!(Self {
                kind,
                text,
                limits,
                scheme,
                since: local_clock(),
                memories,
                directory <- IrqLock::new(directory),
                sweeping <- new_mutex!((), "schedhist::Groups::sweeping"),
                stable <- new_mutex!((), "schedhist::Groups::stable"),
            }),
            GFP_KERNEL,
        )
        .map(Some)
    }

    /// Returns whether a task's cgroup decides its group.
    pub(crate) fn follows_cgroups(&self) -> bool {
        match self.kind {
            Kind::Cgroup(_) => true,
            // No rule can name a cgroup on other kernels.
            Kind::List => cfg!(CONFIG_CGROUPS),
            _ => false,
        }
    }

    /// Returns whether a task's name decides its group, or is in the name of the group.
    pub(crate) fn follows_names(&self) -> bool {
        !matches!(self.kind, Kind::Cgroup(_))
    }

    /// Returns whether the groups are those of a list of rules.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List)
    }

    /// Returns the rule as text, with what is not printable escaped.
    pub(crate) fn text(&self) -> &str {
        // Cannot fail: whatever is not printable ASCII is escaped.
        core::str::from_utf8(self.text.to_bytes()).unwrap_or_default()
    }

    /// Returns the records.
    pub(crate) fn memories(&self) -> &GroupMemories {
        &self.memories
    }

    /// Returns what is said of all groups together.
    pub(crate) fn head(&self) -> Head {
        let directory = self.directory.lock();
        Head {
            limit: self.limits.groups,
            refused: directory.refused,
            memory: self.memories.memory(),
            gone: directory.gone,
            unfollowed: directory.lineage.lost(),
        }
    }

    /// Returns the scheme of the histograms.
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the time at which the groups began, in nanoseconds.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Waits until no place changes its group. None does until the result is dropped. Sleeps.
    pub(crate) fn hold(&self) -> Guard<'_, (), MutexBackend> {
        self.stable.lock()
    }

    /// Returns the group whose counters are those of all groups that gave up their places.
    fn gone(&self) -> Group {
        // Cannot fail: the limit is far below the greatest number.
        Group::new(self.limits.groups + 1).unwrap_or(Group::OTHER)
    }

    /// Iterates over the groups, whether they exist or not: first [`Group::OTHER`] and the one of
    /// all that are gone.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Group> {
        let rest = (1..=self.limits.groups).filter_map(Group::new);
        Iterator::chain([Group::OTHER, self.gone()].into_iter(), rest)
    }

    /// Returns the counters of `group`, added up over CPUs.
    pub(crate) fn totals(&self, group: Group) -> GroupTotals {
        let mut totals = GroupTotals::default();
        for records in { self.memories.cpus() }.filter_map(|(_, cpu)| cpu.records(group)) {
            totals.add(records);
        }
        totals
    }

    /// Copies the histogram of `metric` of `group`, added up over CPUs. Fails with `ENOMEM`.
    pub(crate) fn histogram(
        &self,
        group: Group,
        metric: GroupMetric,
    ) -> Result<Snapshot<KVVec<u64>>> {
        let stride = self.scheme.buckets();
        let first = metric as usize * stride;
        let counts = KVVec::from_elem(0, stride, GFP_KERNEL)?;
        let mut histogram = Snapshot::new(self.scheme, counts).ok_or(EINVAL)?;
        for (number, cpu) in self.memories.cpus() {
            let Some(records) = cpu.records(group) else {
                continue;
            };
            let buckets = cpu
                .buckets(group)
                .and_then(|all| all.get(first..first + stride));
            histogram.add_group(number, records, buckets.unwrap_or(&[]), metric);
        }
        Ok(histogram)
    }

    /// Returns a copy of the name of `group`, or `None` if there is no such group.
    pub(crate) fn name(&self, group: Group) -> Result<Option<KVec<u8>>> {
        let number = match group {
            Group::OTHER => return Ok(Some(copy(b"other", GFP_KERNEL)?)),
            group if group == self.gone() => {
                let gone = self.directory.lock().gone;
                return match gone {
                    0 => Ok(None),
                    _ => Ok(Some(copy(b"gone", GFP_KERNEL)?)),
                };
            }
            group => group.number() as usize - 1,
        };
        // Allocated first, as this must not sleep with the lock held.
        let mut room = KVec::new();
        loop {
            let len = {
                let directory = self.directory.lock();
                if directory.places.is_vacant(group) {
                    return Ok(None);
                }
                let Some(name) = directory.names.get(number) else {
                    return Ok(None);
                };
                if name.len() <= room.capacity() {
                    room.extend_from_slice(name, GFP_NOWAIT)?;
                    break;
                }
                name.len()
            };
            room = KVec::with_capacity(len, GFP_KERNEL)?;
        }
        Ok(Some(room))
    }

    /// Returns the tasks of each group, by its number. Sleeps; fails with `ENOMEM`.
    pub(crate) fn members(&self) -> Result<KVVec<Members>> {
        let len = self.limits.groups as usize + 2;
        let mut members = KVVec::from_elem(Members::default(), len, GFP_KERNEL)?;
        for_each_task(|task| {
            if let Some(of) = members.get_mut(self.peek(task).number() as usize) {
                of.tasks += 1;
            }
        });
        for (of, group) in members.iter_mut().zip((0..).filter_map(Group::new)) {
            of.is_live = of.tasks != 0 || group == Group::OTHER || self.is_kept(group);
        }
        Ok(members)
    }

    /// Returns whether `group` would get tasks again even if it has none: its cgroup or its rule
    /// still exists. Sleeps.
    fn is_kept(&self, group: Group) -> bool {
        let key = self.directory.lock().places.key(group);
        match (&self.kind, key) {
            (Kind::Cgroup(_), Some(id)) => cgroup::exists(id as u64),
            (Kind::List, Some(_)) => self.directory.lock().has_rule_of(group),
            _ => false,
        }
    }

    /// Forgets which tasks have the CPUs. No probe may be registered.
    pub(crate) fn begin(&self) {
        for (_, cpu) in self.memories.cpus() {
            cpu.forget();
        }
    }
}

impl AsRef<GroupMemories> for Arc<Groups> {
    fn as_ref(&self) -> &GroupMemories {
        self.memories()
    }
}

/// Copies bytes.
fn copy(bytes: &[u8], flags: kernel::alloc::Flags) -> Result<KVec<u8>> {
    let mut copied = KVec::with_capacity(bytes.len(), flags)?;
    copied.extend_from_slice(bytes, flags)?;
    Ok(copied)
}
