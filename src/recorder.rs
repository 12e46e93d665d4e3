// SPDX-License-Identifier: GPL-2.0

//! The probes of switches and wakeups: they pass each tracepoint hit to the engine, and its samples
//! to our own trace events.

use core::{
    marker::PhantomData,
    mem::offset_of,
    pin::Pin, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            for_each_task,
            local_clock,
            new_work,
            CgroupAttachTask,
            CpuRef,
            Hotplug,
            PerCpu,
            SchedProcessExec,
            SchedSwitch,
            SchedWakeupNew,
            SchedWaking,
            Switch,
            Task,
            TaskNewtask,
            TaskRename,
            ThisCpu,
            Waking,
            Work,
            COMM_LEN, //
        },
        GroupMemory,
        TaskPages,
        TaskStates,
        TaskTable,
        ThisCpuGroups, //
    },
    chains::{
        AllChains,
        CpuChain, //
    },
    delivery::Delivery,
    engine::{
        chain::Context,
        group::{
            CpuGroups,
            Group,
            Grouped, //
        },
        idle::Distance,
        switch::{
            record_wakeup,
            view,
            DynamicResched,
            Observer,
            PrevState,
            Settings,
            TaskState,
            WakeupFilter, //
        },
    },
    events,
    groups::{
        Groups,
        Latecomers,
        Sweeper, //
    },
    long_waits::{
        CpuIdles,
        WaitWatch, //
    },
    observer::{
        ChainObserver,
        SilentObserver,
        TracingObserver,
        WaitObserver, //
    },
    places,
    records::{
        CpuRecords,
        Records, //
    },
};

/// The data of the probes, from when measuring is switched on until it is switched off.
pub(crate) struct Recorder {
    records: Arc<PerCpu<KVBox<CpuRecords>>>,
    /// Present while tasks are grouped.
    groups: Option<Grouping>,
    tasks: TaskStates,
    /// Present while long waits are looked at, with the limit in nanoseconds.
    long_waits: Option<(u64, CpuIdles)>,
    /// Present while chains are kept.
    chains: Option<Arc<AllChains>>,
    delivery: Arc<Delivery>,
    sweep: Pin<KBox<Work<TaskTable>>>,
}

/// The groups, and the work that the probes leave for later.
struct Grouping {
    groups: Arc<Groups>,
    sweep: Pin<KBox<Work<Sweeper>>>,
    latecomers: Pin<KBox<Work<Latecomers>>>,
}

impl Grouping {
    fn new(groups: Arc<Groups>, tasks: &Arc<TaskTable>) -> Result<Self> {
        let sweeper = Sweeper {
            groups: groups.clone(),
            tasks: TaskStates::new(tasks.clone()),
        };
        let latecomers = Latecomers {
            groups: groups.clone(),
            tasks: TaskStates::new(tasks.clone()),
        };
        Ok(Self {
            groups,
            sweep: new_work!(
                Arc::new(sweeper, GFP_KERNEL)?,
                c"schedhist::Grouping::sweep"
            )?,
            latecomers: new_work!(
                Arc::new(latecomers, GFP_KERNEL)?,
                c"schedhist::Grouping::latecomers"
            )?,
        })
    }
}

impl Recorder {
    /// Creates a recorder that fills `records`. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(
        records: &Records,
        groups: Option<Arc<Groups>>,
        long_waits: Option<(u64, CpuIdles)>,
        chains: Option<Arc<AllChains>>,
        delivery: Arc<Delivery>,
    ) -> Result<Self> {
        let tasks = TaskTable::new()?;
        Ok(Self {
            records: records.per_cpu().clone(),
            groups: match groups {
                Some(groups) => Some(Grouping::new(groups, &tasks)?),
                None => None,
            },
            long_waits,
            chains,
            delivery,
            sweep: new_work!(tasks.clone(), c"schedhist::Recorder::sweep")?,
            tasks: TaskStates::new(tasks),
        })
    }

    /// Makes room for the states of all existing tasks, and decides their groups. The probe of new
    /// tasks does so for later tasks. It and the probes of changes of groups must be registered
    /// before this is called.
    pub(crate) fn make_room(&self) {
        // Without memory for its state, a task counts as untracked whenever it runs.
        let _ = self.tasks.table().make_room_for_all();
        self.decide_all();
    }

    pub(crate) fn decide_all(&self) {
        if self.groups.is_some() {
            for_each_task(|task| self.decide(task, None));
        }
    }

    pub(crate) fn records(&self, cpu: u32) -> Option<&CpuRecords> {
        Some(self.records.get(cpu)?)
    }

    /// Returns the records of this CPU.
    #[cfg_attr(not(HAVE_SCHED_SET_NEED_RESCHED_TP), expect(dead_code))]
    pub(crate) fn records_here(&self, here: &impl ThisCpu) -> &CpuRecords {
        self.records.this(here)
    }

    pub(crate) fn tasks(&self) -> &TaskStates {
        &self.tasks
    }

    /// Returns the group of each task. Sleeps; fails with `ENOMEM`.
    pub(crate) fn members(&self) -> Result<KVVec<Member>> {
        let mut members = KVVec::new();
        let Some(Grouping { groups, .. }) = &self.groups else {
            return Ok(members);
        };
        loop {
            let mut found: usize = 0;
            for_each_task(|task| {
                found += 1;
                if members.len() < members.capacity() {
                    let member = Member {
                        pid: task.pid(),
                        comm: task.comm(),
                        group: groups.task_group(task, &self.tasks).group(),
                    };
                    // Cannot fail: there is room.
                    let _ = members.push_within_capacity(member);
                }
            });
            if members.len() == found {
                return Ok(members);
            }
            // Memory cannot be allocated during the walk.
            members.clear();
            members.reserve(found + found / 4, GFP_KERNEL)?;
        }
    }

    /// Forgets what CPUs did, before the probes are registered.
    pub(crate) fn forget(&self) {
        if let Some(chains) = &self.chains {
            chains.forget();
        }
        if let Some((_, idles)) = &self.long_waits {
            idles.forget();
        }
    }

    /// Begins to know what CPUs do, once the probes are registered. Sleeps.
    pub(crate) fn start_idle(&self) {
        if let Some((_, idles)) = &self.long_waits {
            idles.start();
        }
    }

    /// Cancels the jobs that the probes have queued, and waits for those that are running. The
    /// probes must not be registered any more. Sleeps.
    pub(crate) fn end_sweeps(&self) {
        self.sweep.cancel();
        if let Some(grouping) = &self.groups {
            grouping.sweep.cancel();
            grouping.latecomers.cancel();
        }
    }

    fn decide(&self, task: Task<'_>, comm: Option<[u8; COMM_LEN]>) {
        if let Some(Grouping { groups, sweep, .. }) = &self.groups {
            if let Some(delay) = groups.decide(task, comm, &self.tasks) {
                sweep.queue_after(delay);
            }
        }
    }

    /// Returns how much memory the states of tasks take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tasks.table().memory()
    }
}

/// The read-only state that the switch probe needs on one CPU.
///
/// All but the last three fields, which few variants of the probe need, is on one cache line.
#[repr(C, align(64))]
pub(crate) struct CpuRecorder {
    records: CpuRef<CpuRecords>,
    tasks: TaskStates,
    groups: Option<(CpuRef<GroupMemory>, Arc<Groups>)>,
    delivery: Arc<Delivery>,
    watch: Option<WaitWatch>,
    chain: Option<CpuRef<CpuChain>>,
}

// To find that of a CPU, a power of two saves an instruction.
const _: () = {
    assert!(offset_of!(CpuRecorder, delivery) == 64);
    assert!(size_of::<CpuRecorder>() == 128);
};

impl CpuRecorder {
    /// Creates one for each CPU. Sleeps; fails with `ENOMEM`.
    pub(crate) fn all(recorder: &Recorder) -> Result<Arc<PerCpu<Self>>> {
        let table = PerCpu::new(|cpu| {
            let groups = recorder.groups.as_ref().map(|grouping| &grouping.groups);
            let memory = || PerCpu::of(groups?.memories().per_cpu(), cpu);
            Ok(Self {
                // Cannot fail: the CPU is possible.
                records: PerCpu::of(&recorder.records, cpu).ok_or(EINVAL)?,
                groups: memory().zip(groups.cloned()),
                tasks: TaskStates::new(recorder.tasks.table().clone()),
                delivery: recorder.delivery.clone(),
                watch: match &recorder.long_waits {
                    Some((limit, idles)) => Some(WaitWatch::new(*limit, idles, memory(), cpu)?),
                    None => None,
                },
                chain: recorder.chains.as_ref().and_then(|all| all.of(cpu)),
            })
        })?;
        Ok(Arc::new(table, GFP_KERNEL)?)
    }
}

pub(crate) struct Member {
    pub(crate) pid: i32,
    pub(crate) comm: [u8; COMM_LEN],
    pub(crate) group: Group,
}

impl TaskNewtask for Recorder {
    fn task_newtask(&self, task: Task<'_>) {
        // Without memory for its state, the task counts as untracked whenever it runs.
        let _ = self.tasks.table().make_room(task.pid());
        if let Some(Grouping { groups, .. }) = &self.groups {
            // The probe of the groups counts.
            groups.fork(task, false);
        }
        self.decide(task, None);
        if self.tasks.table().wants_sweep() {
            self.sweep.queue();
        }
    }
}

impl TaskRename for Recorder {
    fn task_rename(&self, task: Task<'_>, comm: [u8; COMM_LEN]) {
        self.decide(task, Some(comm));
    }
}

impl SchedProcessExec for Recorder {
    fn sched_process_exec(&self, task: Task<'_>) {
        // Its PID may be another one now.
        self.decide(task, None);
    }
}

impl CgroupAttachTask for Recorder {
    fn cgroup_attach_task(&self, task: Task<'_>) {
        self.decide(task, None);
    }

    fn cgroup_attach_rest(&self, task: Task<'_>) {
        if let Some(grouping) = &self.groups {
            grouping.groups.defer(task);
            grouping.latecomers.queue();
        }
    }
}

/// Implements methods by those of the same name.
macro_rules! delegate {
    ($($method:ident: $value:ty,)*) => {
        $(
            #[inline(always)]
            fn $method(self) -> $value {
                self.$method()
            }
        )*
    };
}

/// A task as the kernel's tracepoints show it.
impl view::Task for Task<'_> {
    delegate! {
        pid: i32,
        id: u64,
        is_exiting: bool,
        has_run: bool,
        run_delay: u64,
        last_queued: u64,
        is_queued: bool,
        is_throttled: bool,
    }
}

/// A context switch, with the states of its tasks.
struct SwitchView<'a> {
    switch: &'a Switch<'a>,
    tasks: TaskPages<'a>,
}

impl<'a> view::Switch for SwitchView<'a> {
    type Task = Task<'a>;

    #[inline(always)]
    fn now(&self) -> u64 {
        local_clock()
    }

    #[inline(always)]
    fn prev(&self) -> Task<'a> {
        self.switch.prev
    }

    #[inline(always)]
    fn prev_state(&self) -> PrevState {
        PrevState::new(self.switch.preempt, self.switch.prev_state)
    }

    #[inline(always)]
    fn next(&self) -> Task<'a> {
        self.switch.next
    }

    #[inline(always)]
    fn distance(&self, cpu: u32) -> Distance {
        places::distance(self.switch.cpu(), cpu)
    }

    #[inline(always)]
    fn state(&self, pid: i32) -> &TaskState {
        self.tasks.get(pid)
    }
}

/// A variant of the probe: with these settings, with or without groups, with or without a look at
/// long waits, and with or without chains.
pub(crate) struct Variant<S, const GROUPS: bool, const WAITS: bool, const CHAIN: bool>(
    PhantomData<S>,
);

impl<S, const GROUPS: bool, const WAITS: bool, const CHAIN: bool>
    SchedSwitch<Variant<S, GROUPS, WAITS, CHAIN>> for CpuRecorder
where
    S: Settings + 'static,
{
    #[inline(always)]
    fn is_watched() -> bool {
        // Outliers count as a listener: see `tracing::observe_outliers()`.
        events::any_enabled()
    }

    #[inline(always)]
    fn sched_switch(&self, switch: &Switch<'_>) {
        match (WAITS, &self.watch) {
            (false, _) => self.chain::<S, GROUPS, CHAIN>(switch, SilentObserver::new(switch)),
            (true, Some(watch)) => {
                self.chain::<S, GROUPS, CHAIN>(switch, WaitObserver::new(switch, watch));
            }
            // Does not happen, by the choice of the variant.
            (true, None) => {}
        }
    }

    fn sched_switch_watched(&self, switch: &Switch<'_>) {
        self.record_watched(switch);
    }
}

/// The variant for chains, or requests to reschedule, with any other settings.
pub(crate) struct AnySettings;

impl SchedSwitch<AnySettings> for CpuRecorder {
    fn sched_switch(&self, switch: &Switch<'_>) {
        self.record_watched(switch);
    }
}

impl CpuRecorder {
    /// Returns the groups on this CPU, if tasks are grouped and each group has `cells` cells.
    #[inline(always)]
    fn groups(&self, cells: usize) -> Option<ThisCpuGroups<'_, Arc<Groups>>> {
        let (memory, groups) = self.groups.as_ref()?;
        ThisCpuGroups::new(memory, groups, cells)
    }

    /// Records a switch, for chains, too, if there is a `CHAIN`.
    #[inline(always)]
    fn chain<S: Settings, const GROUPS: bool, const CHAIN: bool>(
        &self,
        switch: &Switch<'_>,
        observer: impl Observer,
    ) {
        match (CHAIN, &self.chain) {
            (false, _) => self.observe::<S, GROUPS>(switch, observer),
            (true, Some(chain)) => {
                self.observe::<S, GROUPS>(switch, ChainObserver::new(observer, switch, chain));
            }
            // Does not happen, by the choice of the variant.
            (true, None) => {}
        }
    }

    /// Records a switch, for groups, too, if there are `GROUPS`.
    #[inline(always)]
    fn observe<S: Settings, const GROUPS: bool>(
        &self,
        switch: &Switch<'_>,
        observer: impl Observer,
    ) {
        match (GROUPS, self.groups(S::GROUP_CELLS)) {
            (false, _) => self.record::<S>(switch, observer),
            (true, Some(groups)) => self.record::<S>(switch, Grouped::new(observer, groups)),
            // Does not happen, by the choice of the variant.
            (true, None) => {}
        }
    }

    /// Records a switch and passes on each of its samples. Compiled once, for all settings, as it
    /// is rarely called.
    #[inline(never)]
    fn record_watched(&self, switch: &Switch<'_>) {
        let watch = self.watch.as_ref();
        let observe = |occupant| {
            TracingObserver::new(
                switch,
                &self.delivery,
                occupant,
                watch,
                self.chain.as_deref(),
            )
        };
        match self.groups(DynamicResched::GROUP_CELLS) {
            Some(groups) => {
                let observer = observe(Some(groups.occupant()));
                self.record::<DynamicResched>(switch, Grouped::new(&observer, groups));
            }
            None => self.record::<DynamicResched>(switch, &observe(None)),
        }
    }

    #[inline(always)]
    fn record<S: Settings>(&self, switch: &Switch<'_>, observer: impl Observer) {
        let records = &self.records;
        let tasks = self.tasks.pages(switch);
        records.switch::<S>(&SwitchView { switch, tasks }, observer);
    }
}

impl Hotplug for Recorder {
    fn prepare(&self, cpu: u32) {
        // The time offline must not count as idle time.
        if let Some(records) = self.records.get(cpu) {
            records.forget();
        }
        if let Some((_, idles)) = &self.long_waits {
            idles.prepare(cpu);
        }
        if let Some(chains) = &self.chains {
            chains.prepare(cpu);
        }
        if let Some(Grouping { groups, .. }) = &self.groups {
            if let Some(memory) = groups.memories().per_cpu().get(cpu) {
                memory.enter_idle();
            }
        }
    }

    fn online(&self) {
        places::learn();
    }
}

/// A wakeup, with the state of its task.
struct WakeupView<'a> {
    waking: Waking<'a>,
    tasks: &'a TaskStates,
}

impl<'a> view::Wakeup for WakeupView<'a> {
    type Task = Task<'a>;

    // `proxy_deactivate()` dequeues a task that `proxy_migrate_task()` has queued.
    const COUNTS_SLEEPS: bool = cfg!(CONFIG_SCHED_PROXY_EXEC);

    #[inline(always)]
    fn now(&self) -> u64 {
        local_clock()
    }

    #[inline(always)]
    fn task(&self) -> Task<'a> {
        self.waking.task
    }

    #[inline(always)]
    fn state(&self, pid: i32) -> &TaskState {
        self.tasks.pages(&self.waking).get(pid)
    }
}

impl<F: WakeupFilter> SchedWaking<F> for Recorder {
    #[inline(always)]
    fn sched_waking(&self, waking: Waking<'_>) {
        let tasks = &self.tasks;
        record_wakeup::<F, _>(WakeupView { waking, tasks });
    }
}

/// Notes wakeups as `F` says, and who caused each.
pub(crate) struct Chained<F>(PhantomData<F>);

impl<F: WakeupFilter> SchedWaking<Chained<F>> for Recorder {
    #[inline(always)]
    fn sched_waking(&self, waking: Waking<'_>) {
        if let Some(chains) = &self.chains {
            let state = self.tasks.pages(&waking).get(waking.task.pid());
            state.woken_by(waking.task, chains.waker(&waking));
        }
        SchedWaking::<F>::sched_waking(self, waking);
    }
}

impl SchedWakeupNew for Recorder {
    fn sched_wakeup_new(&self, waking: Waking<'_>) {
        let Some(chains) = &self.chains else {
            return;
        };
        let waker = chains.waker(&waking);
        let waker = match waker.context() {
            Context::Task => waker.within(Context::Fork),
            _ => waker,
        };
        let state = self.tasks.pages(&waking).get(waking.task.pid());
        state.woken_by(waking.task, waker);
    }
}
