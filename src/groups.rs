// SPDX-License-Identifier: GPL-2.0

//! The groups of tasks: which task is in which, and what their tasks did.

use core::mem;

use kernel::{
    new_mutex,
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::{
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        rcu,
        Arc,
        Mutex, //
    },
};

use crate::{
    boundary::{
        abstractions::{
            cgroup::{
                self,
                Cgroup,
                Subtree, //
            },
            cgroup_mkdir::CgroupMkdir,
            clock::local_clock,
            irq_lock::IrqLock,
            sched_process_exit::SchedProcessExit,
            task::{
                for_each_task,
                task_key,
                with_current,
                ProcessId,
                Task,
                COMM_LEN, //
            },
            task_newtask::TaskNewtask,
            work::Job, //
        },
        group_memory::GroupMemories,
        task_table::TaskStates, //
    },
    engine::{
        format::{
            groups::{
                Head,
                Members, //
            },
            text::up_to_nul, //
        },
        group::{
            index::Entry,
            lineage::Lineage,
            list::{
                self,
                Definition,
                Matcher,
                Pattern,
                Subject, //
            },
            name::TaskName,
            places::{
                Place,
                Places, //
            },
            records::{
                group_scheme,
                GroupMetric, //
            },
            rule::{
                Pids,
                Rule, //
            },
            set::GroupSet,
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
    /// By the list of rules in the directory.
    List,
}

/// A cgroup that a rule names.
pub(crate) struct NamedCgroup {
    subtree: Subtree,
    /// The path, as the initial cgroup namespace shows it.
    path: KVec<u8>,
}

type ListRule = list::Rule<KVec<u8>, KVec<u128>, NamedCgroup>;

/// Which tasks a rule matches, once its cgroup or its processes are found.
pub(crate) struct Found {
    matcher: Matcher<KVec<u8>, KVec<u128>, NamedCgroup>,
    /// The process that the rule follows, with its PID.
    root: Option<(i32, ProcessId)>,
}

/// The names of groups, and which key has which.
struct Directory {
    places: Places<KVVec<Place>, KVVec<Entry>>,
    /// The names of the groups from 1 on, by number.
    names: KVVec<KVec<u8>>,
    /// The rules, if groups are by [`Kind::List`].
    list: list::List<KVec<Option<ListRule>>>,
    /// The number of rules that were added to the list.
    rules: u64,
    /// Which processes the rules follow.
    lineage: Lineage<KVVec<Entry<u64>>>,
    /// The number of verdicts that a task got although it should have got another: there were too
    /// many groups, or no memory for a name.
    refused: u64,
    /// The key that was refused last, as there are all groups.
    last_refused: Option<u128>,
    /// Whether a task was refused since the last sweep.
    was_refused: bool,
    /// Whether a sweep may make room.
    wants_sweep: bool,
    /// The time before which there is no other sweep.
    next_sweep: u64,
    /// The number of groups that gave up their places.
    gone: u64,
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

/// The room for processes that rules follow, in processes, times 4/3: see [`Index`].
///
/// [`Index`]: crate::engine::group::index::Index
const FOLLOWED: usize = 1 << 15;

/// The maximum number of groups that one sweep retires.
const RETIRED_AT_ONCE: usize = 64;

/// The time between sweeps, in nanoseconds, and that after a sweep which found no dead group.
const SWEEP_EVERY: u64 = 10_000_000;
const IN_VAIN_EVERY: u64 = 200_000_000;

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

    /// Decides the verdict of `task` and stores it in `tasks`. `comm` is the name that the task is
    /// about to get, if any. Returns true if a [sweep](Groups::sweep) may make room for new groups.
    /// Any context but a hard interrupt, without a lock of the scheduler.
    pub(crate) fn decide(
        &self,
        task: Task<'_>,
        comm: Option<[u8; COMM_LEN]>,
        tasks: &TaskStates,
    ) -> bool {
        let rcu = rcu::read_lock();
        let mut directory = self.directory.lock();
        let pages = tasks.pages(&rcu);
        let state = pages.get(task.pid());
        // A walk may still find a task that has given up its PID meanwhile. If another task has the
        // PID by now, its verdict was stored under the lock, so the first task is seen to be exiting.
        if task.is_exiting() {
            let group = state.verdict(task.id()).group();
            if state.has_verdict_of_another(task.id()) || self.keeps(group, &directory) {
                return false;
            }
        }
        let group = self.group_of(task, comm, &mut directory, &rcu);
        let verdict = Verdict::new(group, task.is_kernel_thread());
        // Without memory for its state, the task counts as untracked whenever it runs.
        let _ = state.set_verdict(task.id(), verdict);
        mem::take(&mut directory.wants_sweep)
    }

    /// Returns whether a task that is exiting, and cannot be asked for its process any more, stays
    /// in `group`.
    fn keeps(&self, group: Group, directory: &Directory) -> bool {
        match self.kind {
            Kind::Cgroup(_) | Kind::Comm => false,
            Kind::Process(_) | Kind::Thread(_) => directory.places.key(group).is_some(),
            Kind::List => directory.has_rule_of(group),
        }
    }

    /// Records that the current task has created `task`: a process begins with the marks of the one
    /// that forked it. No effect if that is known already. The recorder calls this before it
    /// decides the verdict of a new task, as its probe may come before that of the groups.
    #[inline(never)]
    pub(crate) fn fork(&self, task: Task<'_>) {
        if !self.is_list() || task.pid() != task.tgid() {
            return;
        }
        let rcu = rcu::read_lock();
        let parent = with_current(|parent| parent.process(&rcu));
        if let (Some(child), Some(parent)) = (task.process(&rcu), parent) {
            let mut directory = self.directory.lock();
            directory.lineage.fork(parent.key(), child.key());
        }
    }

    /// Returns the verdict of `task` as it is stored in `tasks`.
    pub(crate) fn verdict(&self, task: Task<'_>, tasks: &TaskStates) -> Verdict {
        let rcu = rcu::read_lock();
        let verdict = tasks.pages(&rcu).get(task.pid()).verdict(task.id());
        verdict
    }

    /// Returns the group of `task`, but makes none.
    fn peek(&self, task: Task<'_>) -> Group {
        let rcu = rcu::read_lock();
        let directory = self.directory.lock();
        let key = match &self.kind {
            Kind::Comm => Some(comm_key(&task.comm())),
            Kind::Process(those) => process_of(task, those, &rcu).map(ProcessId::key),
            Kind::Thread(those) => is_thread_of(task, those, &rcu).then(|| thread_key(task)),
            Kind::Cgroup(subtree) => {
                let cgroup = subtree.cgroup_of(task, &rcu);
                cgroup.map(|cgroup| u128::from(cgroup.id()))
            }
            Kind::List => return directory.rule_of(task, None, &rcu).unwrap_or(Group::OTHER),
        };
        let group = key.and_then(|key| directory.places.peek(key));
        group.unwrap_or(Group::OTHER)
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
                let name = || copy(up_to_nul(&comm), GFP_NOWAIT);
                directory.group_of(comm_key(&comm), Names::Shared, name)
            }
            Kind::Process(those) => {
                // Of its threads, the leader gives the process its name.
                let (Some(process), Some(leader)) =
                    (process_of(task, those, rcu), task.leader(rcu))
                else {
                    return Group::OTHER;
                };
                let comm = comm.filter(|_| task.pid() == task.tgid());
                directory.group_of_task(process.key(), leader, task.tgid(), comm)
            }
            Kind::Thread(those) => {
                if !is_thread_of(task, those, rcu) {
                    return Group::OTHER;
                }
                directory.group_of_task(thread_key(task), task, task.pid(), comm)
            }
            Kind::Cgroup(subtree) => match subtree.cgroup_of(task, rcu) {
                Some(cgroup) => {
                    let key = u128::from(cgroup.id());
                    directory.group_of(key, Names::Shared, || cgroup.path())
                }
                None => Group::OTHER,
            },
            Kind::List => {
                let group = directory.rule_of(task, comm, rcu);
                // It keeps its place anyway, as its rule exists.
                group.unwrap_or(Group::OTHER)
            }
        }
    }

    /// Makes room for new groups: those that are dead, as nothing is left of what their tasks had
    /// in common, give up their places, and what they recorded is added up as gone. Returns how many
    /// did so. `tasks` has the verdicts of tasks; `None` if no probe is registered.
    ///
    /// Sleeps; fails with `ENOMEM`.
    pub(crate) fn sweep(&self, tasks: Option<&TaskStates>) -> Result<usize> {
        let _sweeping = self.sweeping.lock();
        let words = GroupSet::<KVVec<u64>>::words(self.limits.groups as usize + 2);
        let mut live = GroupSet::new(KVVec::from_elem(0, words, GFP_KERNEL)?);
        let mut retired = GroupSet::new(KVVec::from_elem(0, words, GFP_KERNEL)?);
        // Whatever gets a task from here on is not retired.
        let since = self.directory.lock().places.now();
        for_each_task(|task| {
            live.insert(self.peek(task));
            if let Some(tasks) = tasks {
                live.insert(self.verdict(task, tasks).group());
            }
        });
        for group in self.numbers() {
            if !live.contains(group) && self.is_kept(group) {
                live.insert(group);
            }
        }
        {
            let mut directory = self.directory.lock();
            directory.was_refused = false;
            let Directory { places, .. } = &mut *directory;
            // These could not be folded in an earlier sweep.
            places.for_each_retired(|group| retired.insert(group));
            let wanted = (self.limits.groups as usize / 4).max(1);
            let wanted = wanted.saturating_sub(places.vacant());
            places.retire(
                since,
                wanted.min(RETIRED_AT_ONCE),
                |group| !live.contains(group),
                |group| retired.insert(group),
            );
        }
        let freed = self.fold(&mut retired, tasks)?;
        let pause = if freed == 0 {
            IN_VAIN_EVERY
        } else {
            SWEEP_EVERY
        };
        self.directory.lock().next_sweep = local_clock() + pause;
        Ok(freed)
    }

    /// Adds up what the `retired` groups recorded as gone, and makes their places vacant. Returns
    /// how many there were.
    fn fold(
        &self,
        retired: &mut GroupSet<KVVec<u64>>,
        tasks: Option<&TaskStates>,
    ) -> Result<usize> {
        if retired.is_empty() {
            return Ok(0);
        }
        // A task that no walk finds any more may still get a CPU: it has released its PID, but not
        // yet left for the last time. It then counts as one of no group.
        match tasks {
            Some(tasks) => tasks.table().for_each_page(|states| {
                // A place may have got a group again meanwhile.
                let directory = self.directory.lock();
                let is_it = |group| retired.contains(group) && directory.places.is_retired(group);
                states.iter().for_each(|state| state.forget_verdict(is_it));
            }),
            None => self.begin(),
        }
        let _stable = self.stable.lock();
        self.memories.fold(retired, self.gone())?;
        let mut freed = 0;
        for group in retired.iter() {
            let mut directory = self.directory.lock();
            if directory.places.vacate(group) {
                freed += 1;
                directory.gone += 1;
                directory.last_refused = None;
            }
        }
        Ok(freed)
    }

    /// Finds what `pattern` names. Sleeps; fails with `ENOENT`, `ESRCH`, `EOPNOTSUPP` and `ENOMEM`,
    /// as [`Groups::new`] does.
    pub(crate) fn find(pattern: Pattern<'_>) -> Result<Found> {
        let mut root = None;
        let matcher = match pattern {
            Pattern::Cgroup(path) => {
                let subtree = find_cgroup(path, 0)?;
                let path = subtree.path()?;
                Matcher::Cgroup(NamedCgroup { subtree, path })
            }
            Pattern::Processes(pids) => {
                let mut keys = KVec::new();
                for process in find_processes(pids)? {
                    keys.push(process.key(), GFP_KERNEL)?;
                }
                Matcher::Processes(keys)
            }
            Pattern::Comm(glob) => Matcher::Comm(copy(glob, GFP_KERNEL)?),
            Pattern::Children(pid) => {
                root = Some((pid, ProcessId::find(pid).ok_or(ESRCH)?));
                Matcher::Children
            }
        };
        Ok(Found { matcher, root })
    }

    /// Appends a rule to the list. Tasks get its group when they are decided again. `tasks` is as
    /// for [`Groups::sweep`].
    ///
    /// Sleeps. Fails with `EEXIST` if there is a rule of this name, with `ENOSPC` if there are too
    /// many rules or groups, with `ESRCH` if the process has ended, and with `ENOMEM`; then changes
    /// nothing.
    pub(crate) fn add_rule(
        &self,
        definition: &Definition<'_>,
        found: Found,
        tasks: Option<&TaskStates>,
    ) -> Result {
        let name = copy(definition.name, GFP_KERNEL)?;
        let text = copy(definition.text, GFP_KERNEL)?;
        let mut name_of_group = copy(definition.name, GFP_KERNEL)?;
        let mut lineage = KVVec::new();
        if found.root.is_some() && !self.directory.lock().list.has_children() {
            lineage = KVVec::from_elem(None, FOLLOWED, GFP_KERNEL)?;
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
        // Freed at the end, without the lock.
        let _replaced;
        let mut directory = self.directory.lock();
        if found.root.is_some() && !directory.list.has_children() {
            // No process has a mark.
            let new = Lineage::new(mem::take(&mut lineage));
            _replaced = mem::replace(&mut directory.lineage, new);
        }
        directory.rules += 1;
        let key = u128::from(directory.rules);
        let group = match directory.place_named(&name) {
            Some(group) => directory.places.give(group, key).then_some(group),
            None => {
                let group = directory.places.take(key);
                let number = group.map_or(0, |group| group.number() as usize - 1);
                if let (Some(_), Some(room)) = (group, directory.names.get_mut(number)) {
                    mem::swap(room, &mut name_of_group);
                }
                group
            }
        };
        let group = group.ok_or(ENOSPC)?;
        let rule = list::Rule::new(name, text, found.matcher, group);
        let mark = directory.list.add(rule).map_err(|_| ENOSPC)?;
        let Some((pid, process)) = found.root else {
            return Ok(());
        };
        let is_marked = directory.lineage.mark(process.key(), mark);
        // If it has ended since, its end may have been seen before its mark was there.
        let error = match ProcessId::find(pid) {
            Some(now) if now == process && is_marked => return Ok(()),
            Some(now) if now == process => ENOSPC,
            _ => ESRCH,
        };
        directory.lineage.exit(process.key());
        let removed = directory.list.remove(definition.name);
        drop(directory);
        drop(removed);
        Err(error)
    }

    /// Removes the rule `name` from the list. Its group is dead once its tasks have been decided
    /// again. Fails with `ENOENT` if there is no such rule.
    pub(crate) fn remove_rule(&self, name: &[u8]) -> Result {
        let mut directory = self.directory.lock();
        let removed = directory.list.remove(name).ok_or(ENOENT)?;
        directory.lineage.forget(removed.mark());
        drop(directory);
        drop(removed);
        Ok(())
    }

    /// Returns whether rules follow the processes that others fork, and whether they name cgroups.
    pub(crate) fn tracks(&self) -> (bool, bool) {
        let mut directory = self.directory.lock();
        let mut has_cgroups = false;
        directory.list.for_each_cgroup(|_| has_cgroups = true);
        (directory.list.has_children(), has_cgroups)
    }

    /// Returns the text of the rule with the number `number` in the order of the list. Sleeps;
    /// fails with `ENOMEM`.
    pub(crate) fn rule_text(&self, number: usize) -> Result<Option<CString>> {
        let directory = self.directory.lock();
        let rule = directory.list.iter().nth(number);
        let Some((name, text)) = rule.map(|rule| (rule.name.len(), rule.text.len())) else {
            return Ok(None);
        };
        drop(directory);
        // Allocated first, as this must not sleep with the lock held.
        let (mut name, mut text) = (
            KVec::with_capacity(name, GFP_KERNEL)?,
            KVec::with_capacity(text, GFP_KERNEL)?,
        );
        let directory = self.directory.lock();
        let Some(rule) = directory.list.iter().nth(number) else {
            return Ok(None);
        };
        name.extend_from_slice(&rule.name, GFP_NOWAIT)?;
        text.extend_from_slice(&rule.text, GFP_NOWAIT)?;
        drop(directory);
        let shown = list::Shown {
            name: &name,
            text: &text,
        };
        Ok(Some(CString::try_from_fmt(fmt!(
            "{}",
            format_args!("{shown}")
        ))?))
    }
}

impl TaskNewtask for Groups {
    fn task_newtask(&self, task: Task<'_>) {
        self.fork(task);
    }
}

impl SchedProcessExit for Groups {
    fn process_ended(&self, process: ProcessId) {
        self.directory.lock().lineage.exit(process.key());
    }
}

/// A cgroup that is made again is the one that a rule names by its path.
impl CgroupMkdir for Groups {
    fn cgroup_mkdir(&self, cgroup: &Cgroup<'_>) {
        // Without memory, the rule goes on without this cgroup.
        let Ok(path) = cgroup.path() else {
            return;
        };
        let mut directory = self.directory.lock();
        directory.list.for_each_cgroup(|named| {
            if *named.path == *path {
                named.subtree.follow(cgroup);
            }
        });
    }
}

/// Makes room for new groups.
pub(crate) struct Sweeper {
    pub(crate) groups: Arc<Groups>,
    pub(crate) tasks: TaskStates,
}

impl Job for Sweeper {
    fn run(&self) {
        // Without memory there is no room either.
        let freed = self.groups.sweep(Some(&self.tasks)).unwrap_or(0);
        if freed != 0 && self.groups.directory.lock().was_refused {
            for_each_task(|task| {
                // If it is wanted, there will be another one.
                let _ = self.groups.decide(task, None, &self.tasks);
            });
        }
    }
}

/// A task, as the rules of a list look at it.
struct ListedTask<'a> {
    task: Task<'a>,
    comm: Option<[u8; COMM_LEN]>,
    lineage: &'a Lineage<KVVec<Entry<u64>>>,
    rcu: &'a rcu::Guard,
}

impl Subject<NamedCgroup> for ListedTask<'_> {
    fn is_in(&self, cgroup: &NamedCgroup) -> bool {
        cgroup.subtree.contains(self.task, self.rcu)
    }

    fn process(&self) -> Option<u128> {
        self.task.process(self.rcu).map(ProcessId::key)
    }

    fn marks(&self) -> u64 {
        self.process().map_or(0, |key| self.lineage.marks(key))
    }

    fn with_comm(&self, look: impl FnOnce(&[u8]) -> bool) -> bool {
        look(up_to_nul(&self.comm.unwrap_or_else(|| self.task.comm())))
    }
}

/// Returns the key of the threads with this name.
fn comm_key(comm: &[u8; COMM_LEN]) -> u128 {
    // What follows the first NUL does not belong to the name.
    let name = up_to_nul(comm);
    let mut key = [0; COMM_LEN];
    key[..name.len()].copy_from_slice(name);
    u128::from_le_bytes(key)
}

/// Returns the process of `task` if it is one of `those`, or if there are none.
fn process_of(task: Task<'_>, those: &[ProcessId], rcu: &rcu::Guard) -> Option<ProcessId> {
    let process = task.process(rcu)?;
    (those.is_empty() || those.contains(&process)).then_some(process)
}

/// Returns whether `task` is a thread of one of `those` processes, or whether there are none.
fn is_thread_of(task: Task<'_>, those: &[ProcessId], rcu: &rcu::Guard) -> bool {
    those.is_empty() || process_of(task, those, rcu).is_some()
}

/// Returns a number that no other thread has.
fn thread_key(task: Task<'_>) -> u128 {
    task_key(task.pid(), task.start_time())
}

impl AsRef<GroupMemories> for Arc<Groups> {
    fn as_ref(&self) -> &GroupMemories {
        self.memories()
    }
}

/// Finds the cgroup `path`, with `depth` levels below it: see [`Subtree::find`].
fn find_cgroup(path: &[u8], depth: u32) -> Result<Subtree> {
    let mut text = KVec::with_capacity(path.len() + 1, GFP_KERNEL)?;
    text.extend_from_slice(path, GFP_KERNEL)?;
    text.push(0, GFP_KERNEL)?;
    let path = CStr::from_bytes_with_nul(&text).map_err(|_| EINVAL)?;
    Subtree::find(path, depth)
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
            if let Some(known) = self.names.get_mut(group.number() as usize - 1) {
                known.clear();
                // Cannot fail: there is room for the longest name.
                let _ = known.extend_from_slice(&name(), GFP_NOWAIT);
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
        if let Some(group) = self.places.find(key) {
            return group;
        }
        // While there are all groups, a key that was refused stays so: there is no more room, and
        // its name does not change. A process that moves asks for the same key once for each thread.
        if self.last_refused != Some(key) {
            match name().and_then(|name| self.insert(key, names, name)) {
                Ok(group) => {
                    // In time, so that no task is refused meanwhile.
                    if self.places.vacant() < self.names.len() / 8 {
                        self.want_sweep();
                    }
                    return group;
                }
                Err(ENOSPC) => self.last_refused = Some(key),
                Err(_) => {}
            }
        }
        self.refused += 1;
        self.was_refused = true;
        self.want_sweep();
        Group::OTHER
    }

    /// Requests a sweep, unless there was one lately.
    fn want_sweep(&mut self) {
        self.wants_sweep |= local_clock() >= self.next_sweep;
    }

    /// Returns the group with this name, dead or alive.
    fn place_named(&self, name: &[u8]) -> Option<Group> {
        let numbered = self.names.iter().zip((1..).filter_map(Group::new));
        let mut same = numbered.filter(|(known, _)| ***known == *name);
        let (_, group) = same.find(|(_, group)| !self.places.is_vacant(*group))?;
        Some(group)
    }

    /// Makes a group for `key`, or gives it the group that has its name, if names are shared.
    fn insert(&mut self, key: u128, names: Names, name: KVec<u8>) -> Result<Group> {
        let same = match names {
            Names::Shared => self.place_named(&name),
            Names::Own => None,
        };
        if let Some(group) = same {
            // Cannot fail: there is such a place.
            return self.places.give(group, key).then_some(group).ok_or(ENOSPC);
        }
        let group = self.places.take(key).ok_or(ENOSPC)?;
        if let Some(room) = self.names.get_mut(group.number() as usize - 1) {
            *room = name;
        }
        Ok(group)
    }

    /// Returns the group of the first rule that matches `task`.
    fn rule_of(
        &self,
        task: Task<'_>,
        comm: Option<[u8; COMM_LEN]>,
        rcu: &rcu::Guard,
    ) -> Option<Group> {
        self.list.group_of(&ListedTask {
            task,
            comm,
            lineage: &self.lineage,
            rcu,
        })
    }

    /// Returns whether there is a rule whose group is `group`.
    fn has_rule_of(&self, group: Group) -> bool {
        self.list.iter().any(|rule| rule.group == group)
    }
}

/// Copies bytes.
fn copy(bytes: &[u8], flags: kernel::alloc::Flags) -> Result<KVec<u8>> {
    let mut copied = KVec::with_capacity(bytes.len(), flags)?;
    copied.extend_from_slice(bytes, flags)?;
    Ok(copied)
}
