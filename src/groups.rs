// SPDX-License-Identifier: GPL-2.0

//! The groups of tasks: which task is in which, and what their tasks did.

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::{
        rcu,
        Arc, //
    },
};

use crate::{
    boundary::{
        abstractions::{
            cgroup::Subtree,
            irq_lock::IrqLock,
            task::{
                task_key,
                ProcessId,
                Task,
                COMM_LEN, //
            },
        },
        group_memory::GroupMemories,
        task_table::TaskStates, //
    },
    engine::{
        format::text::up_to_nul,
        group::{
            index::{
                Entry,
                Index, //
            },
            name::TaskName,
            records::{
                group_scheme,
                GroupMetric, //
            },
            rule::{
                Pids,
                Rule, //
            },
            totals::GroupTotals,
            verdict::{
                Group,
                Verdict, //
            },
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
}

/// The key and the name of a group.
struct Known {
    /// The last key of the group: each cgroup that was removed and created again had one.
    key: u128,
    name: KVec<u8>,
}

/// The names of groups, and which key has which.
struct Directory {
    index: Index<KVVec<Entry>>,
    /// The groups from 1 on, by number.
    known: KVVec<Known>,
    /// The maximum number of groups.
    limit: usize,
    /// The number of verdicts that a task got although it should have got another: there were too
    /// many groups, or no memory for a name.
    refused: u64,
    /// The key that was refused last, as there are all groups.
    last_refused: Option<u128>,
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
    memories: Pin<KBox<GroupMemories>>,
    /// The lock also orders verdicts: a verdict is stored while it is held, and what it depends on
    /// was read after it was taken. So the verdict stored last is that of the last change.
    #[pin]
    directory: IrqLock<Directory>,
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
            Rule::Process(pids) => Kind::Process(find_processes(pids)?),
            Rule::Thread(pids) => Kind::Thread(find_processes(pids)?),
            Rule::Cgroup { under, depth } => {
                let mut path = KVec::with_capacity(under.len() + 1, GFP_KERNEL)?;
                path.extend_from_slice(under, GFP_KERNEL)?;
                path.push(0, GFP_KERNEL)?;
                let path = CStr::from_bytes_with_nul(&path).map_err(|_| EINVAL)?;
                Kind::Cgroup(Subtree::find(path, depth)?)
            }
        };
        let text = CString::try_from_fmt(fmt!("{}", format_args!("{rule}")))?;
        let limit = limits.groups as usize;
        // Enough for a key of each group: see `Index::insert()`.
        let entries = KVVec::from_elem(None, 2 * limit + 2, GFP_KERNEL)?;
        let directory = Directory {
            index: Index::new(entries),
            known: KVVec::with_capacity(limit, GFP_KERNEL)?,
            limit,
            refused: 0,
            last_refused: None,
        };
        let memory = match limits.memory {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let scheme = group_scheme(scheme);
        let memories = GroupMemories::new(limit + 1, scheme, memory)?;
        Arc::pin_init(
            pin_init!(Self {
                kind,
                text,
                limits,
                scheme,
                memories,
                directory <- IrqLock::new(directory),
            }),
            GFP_KERNEL,
        )
        .map(Some)
    }

    /// Returns whether a task's cgroup decides its group. Otherwise its name decides the group, or is
    /// in the name of the group.
    pub(crate) fn follows_cgroups(&self) -> bool {
        matches!(self.kind, Kind::Cgroup(_))
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

    /// Returns how many times a task got no group of its own, as there were too many or no memory.
    pub(crate) fn refused(&self) -> u64 {
        self.directory.lock().refused
    }

    /// Returns the limits, as they were when these groups were created.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Iterates over the groups, [`Group::OTHER`] first, whether they exist yet or not.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Group> {
        (0..=self.limits.groups).filter_map(Group::new)
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

    /// Returns a copy of the name of `group`, or `None` if there is no such group yet.
    pub(crate) fn name(&self, group: Group) -> Result<Option<KVec<u8>>> {
        let number = match group {
            Group::OTHER => return Ok(Some(copy(b"other", GFP_KERNEL)?)),
            group => group.number() as usize - 1,
        };
        // Allocated first, as this must not sleep with the lock held.
        loop {
            let len = match self.directory.lock().known.get(number) {
                Some(known) => known.name.len(),
                None => return Ok(None),
            };
            let mut room = KVec::with_capacity(len, GFP_KERNEL)?;
            if let Some(Known { name, .. }) = self.directory.lock().known.get(number) {
                if name.len() <= room.capacity() {
                    room.extend_from_slice(name, GFP_NOWAIT)?;
                    return Ok(Some(room));
                }
            }
        }
    }

    /// Forgets which tasks have the CPUs. No probe may be registered.
    pub(crate) fn begin(&self) {
        for (_, cpu) in self.memories.cpus() {
            cpu.forget();
        }
    }

    /// Decides the verdict of `task` and stores it in `tasks`. `comm` is the name that the task is
    /// about to get, if any. Any context but a hard interrupt, without a lock of the scheduler.
    pub(crate) fn decide(&self, task: Task<'_>, comm: Option<[u8; COMM_LEN]>, tasks: &TaskStates) {
        let rcu = rcu::read_lock();
        let mut directory = self.directory.lock();
        let group = self.group_of(task, comm, &mut directory, &rcu);
        let verdict = Verdict::new(group, task.is_kernel_thread());
        let pages = tasks.pages(&rcu);
        let state = pages.get(task.pid());
        // A walk may still find a task that has given up its PID meanwhile. If another task has the
        // PID by now, its verdict was stored under the lock, so the first task is seen to be exiting.
        if task.is_exiting() && state.has_verdict_of_another(task.id()) {
            return;
        }
        // Without memory for its state, the task counts as untracked whenever it runs.
        let _ = state.set_verdict(task.id(), verdict);
    }

    /// Returns the verdict of `task` as it is stored in `tasks`.
    pub(crate) fn verdict(&self, task: Task<'_>, tasks: &TaskStates) -> Verdict {
        let rcu = rcu::read_lock();
        let verdict = tasks.pages(&rcu).get(task.pid()).verdict(task.id());
        verdict
    }

    /// Returns the group of `task`.
    fn group_of(
        &self,
        task: Task<'_>,
        comm: Option<[u8; COMM_LEN]>,
        directory: &mut Directory,
        rcu: &rcu::Guard,
    ) -> Group {
        match &self.kind {
            Kind::Comm => {
                let comm = comm.unwrap_or_else(|| task.comm());
                // What follows the first NUL does not belong to the name.
                let name = up_to_nul(&comm);
                let mut key = [0; COMM_LEN];
                key[..name.len()].copy_from_slice(name);
                let key = u128::from_le_bytes(key);
                directory.group_of(key, Names::Shared, || copy(name, GFP_NOWAIT))
            }
            Kind::Process(those) => {
                // Of its threads, the leader gives the process its name.
                let Some(leader) = task.leader(rcu) else {
                    return Group::OTHER;
                };
                let process = ProcessId::of(leader);
                if !those.is_empty() && !those.contains(&process) {
                    return Group::OTHER;
                }
                let comm = comm.filter(|_| task.pid() == task.tgid());
                directory.group_of_task(process.key(), leader, task.tgid(), comm)
            }
            Kind::Thread(those) => {
                let is_one = |process| those.contains(&process);
                if !those.is_empty() && !task.process(rcu).is_some_and(is_one) {
                    return Group::OTHER;
                }
                let pid = task.pid();
                let key = task_key(pid, task.start_time());
                directory.group_of_task(key, task, pid, comm)
            }
            Kind::Cgroup(subtree) => match subtree.cgroup_of(task, rcu) {
                Some(cgroup) => {
                    let key = u128::from(cgroup.id());
                    directory.group_of(key, Names::Shared, || cgroup.path())
                }
                None => Group::OTHER,
            },
        }
    }
}

impl AsRef<GroupMemories> for Arc<Groups> {
    fn as_ref(&self) -> &GroupMemories {
        self.memories()
    }
}

/// Finds the processes with these PIDs. Fails with `ESRCH` if there is no such process, and with
/// `ENOMEM`.
fn find_processes(pids: Pids<'_>) -> Result<KVec<ProcessId>> {
    let mut found = KVec::new();
    for pid in pids.iter() {
        found.push(ProcessId::find(pid).ok_or(ESRCH)?, GFP_KERNEL)?;
    }
    Ok(found)
}

/// Whether keys with the same name belong to the same group.
enum Names {
    /// They do, as those of a cgroup that was removed and created again.
    Shared,
    /// They do not: a PID may be used again.
    Own,
}

impl Directory {
    /// Returns the group of `key`, which is that of the process or thread `pid`, or makes one. `task`
    /// has its name, or is about to get the name `comm`.
    fn group_of_task(
        &mut self,
        key: u128,
        task: Task<'_>,
        pid: i32,
        comm: Option<[u8; COMM_LEN]>,
    ) -> Group {
        let name = || TaskName::new(pid, &comm.unwrap_or_else(|| task.comm()));
        let group = self.group_of(key, Names::Own, || {
            // Renaming allocates nothing.
            let mut room = KVec::with_capacity(TaskName::MAX_LEN, GFP_NOWAIT)?;
            room.extend_from_slice(&name(), GFP_NOWAIT)?;
            Ok(room)
        });
        if comm.is_some() && group != Group::OTHER {
            if let Some(known) = self.known.get_mut(group.number() as usize - 1) {
                known.name.clear();
                // Cannot fail: there is room for the longest name.
                let _ = known.name.extend_from_slice(&name(), GFP_NOWAIT);
            }
        }
        group
    }

    /// Returns the group of `key`, or makes one with the name that `name` returns.
    fn group_of(
        &mut self,
        key: u128,
        names: Names,
        name: impl FnOnce() -> Result<KVec<u8>>,
    ) -> Group {
        if let Some(group) = self.index.find(key) {
            return group;
        }
        // Once there are all groups, a key that was refused stays so: there is no more room, and its
        // name does not change. A process that moves asks for the same key once for each thread.
        if self.last_refused != Some(key) {
            match name().and_then(|name| self.insert(key, names, name)) {
                Ok(group) => return group,
                Err(ENOSPC) => self.last_refused = Some(key),
                Err(_) => {}
            }
        }
        self.refused += 1;
        Group::OTHER
    }

    /// Makes a group for `key`, or gives it the group that has its name, if names are shared.
    fn insert(&mut self, key: u128, names: Names, name: KVec<u8>) -> Result<Group> {
        let number = match names {
            Names::Shared => { self.known.iter() }.position(|known| *known.name == *name),
            Names::Own => None,
        };
        if number.is_none() && self.known.len() == self.limit {
            return Err(ENOSPC);
        }
        let number = number.unwrap_or(self.known.len());
        let group = u32::try_from(number + 1).map_err(|_| ENOSPC)?;
        let group = Group::new(group).ok_or(ENOSPC)?;
        match self.known.get_mut(number) {
            Some(known) => {
                self.index.remove(known.key);
                known.key = key;
            }
            None => {
                // Cannot fail: there is room.
                let _ = self.known.push_within_capacity(Known { key, name });
            }
        }
        // Cannot fail: each group has one key at most.
        if !self.index.insert(key, group) {
            return Err(ENOSPC);
        }
        Ok(group)
    }
}

/// Copies bytes.
fn copy(bytes: &[u8], flags: kernel::alloc::Flags) -> Result<KVec<u8>> {
    let mut copied = KVec::with_capacity(bytes.len(), flags)?;
    copied.extend_from_slice(bytes, flags)?;
    Ok(copied)
}
