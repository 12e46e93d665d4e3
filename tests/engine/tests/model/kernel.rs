// SPDX-License-Identifier: GPL-2.0

//! The kernel's scheduler, as far as the module can observe it.
//!
//! A task is either on a run queue or not; one of those on it is the CPU's current task. The caller
//! makes the scheduler's decisions (who is next, when, on which CPU); this model performs their
//! consequences as `kernel/sched/core.c` does, in the same order around the tracepoints. In
//! particular, it stamps `sched_info` exactly as `kernel/sched/stats.h` does. Functions have the
//! kernel's names.
//!
//! The model reports everything that happens as an [`Event`].

use schedhist_engine::engine::metric::MetricSet;

/// The number of groups; 0 is the group of all tasks that are in no other group.
pub(crate) const GROUPS: usize = 4;

/// The number of the group whose records are those of all groups that gave up their places.
pub(crate) const GONE: usize = GROUPS;

/// The group of the rule by which a process is followed, if groups are those of a list of rules.
/// Tasks that are in one of the groups after it, such as a cgroup, have a rule, too.
pub(crate) const FOLLOWED: usize = 1;

/// A probe reads the clock this much later than `__schedule()` reads that of the run queue.
pub(crate) const PROBE_DELAY: u64 = 3;

/// The sleep states that tasks set here: `include/linux/sched.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// `TASK_INTERRUPTIBLE`.
    Interruptible,
    /// `TASK_UNINTERRUPTIBLE`.
    Uninterruptible,
    /// `TASK_IDLE`, as kworkers do.
    IdleWait,
    /// `__TASK_STOPPED`, with the `TASK_WAKEKILL` of `TASK_STOPPED`.
    Stopped,
    /// `TASK_TRACED`.
    Traced,
    /// `TASK_PARKED`.
    Parked,
    /// `TASK_FROZEN`.
    Frozen,
    /// `TASK_DEAD`.
    Dead,
}

impl Sleep {
    const fn bits(self) -> u32 {
        match self {
            Self::Interruptible => 0x1,
            Self::Uninterruptible => 0x2,
            Self::IdleWait => 0x402,
            Self::Stopped => 0x104,
            Self::Traced => 0x8,
            Self::Parked => 0x40,
            Self::Frozen => 0x8000,
            Self::Dead => 0x80,
        }
    }

    /// `is_special_task_state()`: such a task is not woken without a reason, and so never delayed.
    const fn is_special(self) -> bool {
        !matches!(
            self,
            Self::Interruptible | Self::Uninterruptible | Self::IdleWait
        )
    }
}

/// `struct sched_info`, as far as it matters for the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SchedInfo {
    pub(crate) pcount: u64,
    pub(crate) run_delay: u64,
    pub(crate) last_queued: u64,
}

/// `struct task_struct`, as far as it matters for the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// Its index in [`Kernel::tasks`]. No other task ever has the same: it is the task's true
    /// identity.
    pub(crate) serial: usize,
    /// The address of its `task_struct`, which is reused after the task is gone.
    pub(crate) address: u64,
    pub(crate) pid: i32,
    pub(crate) comm: [u8; 16],
    pub(crate) prio: i32,
    /// `__state`; `None` is `TASK_RUNNING`.
    pub(crate) state: Option<Sleep>,
    pub(crate) on_rq: bool,
    /// `se.sched_delayed`: asleep, though still on the run queue.
    pub(crate) sched_delayed: bool,
    /// Whether it is on a list of throttled tasks in place of its run queue: the kernel's `on_rq`
    /// stays set.
    pub(crate) is_throttled: bool,
    /// The CPU that it runs on, that it is queued on, or that it ran on last.
    pub(crate) cpu: usize,
    /// `PF_EXITING`.
    pub(crate) exiting: bool,
    /// Whether `release_task()` has released its PID.
    pub(crate) released: bool,
    /// Whether it has called `execve()` and become the leader of its group, which happens only
    /// once.
    pub(crate) is_leader: bool,
    /// Whether another task has replaced it as the leader of the group.
    pub(crate) is_replaced: bool,
    /// Whether it has left its CPU for the last time.
    pub(crate) gone: bool,
    /// Whether a waker has its `pi_lock`, and has told of the wakeup, but has not done it yet.
    pub(crate) is_being_woken: bool,
    /// Whether it has another PID since its `execve()`, which has not told so yet.
    pub(crate) is_in_exec: bool,
    /// The number of the group that it is in, such as its cgroup.
    pub(crate) group: usize,
    /// `PF_KTHREAD`.
    pub(crate) is_kernel_thread: bool,
    /// The process of which it is a thread: the number of the task that began it.
    pub(crate) process: usize,
    /// Whether it is followed: it is, or descends from, the process that a rule names.
    pub(crate) is_followed: bool,
    /// Whether groups are those of a list of rules.
    pub(crate) is_listed: bool,
    pub(crate) sched_info: SchedInfo,
}

impl Task {
    /// Returns the group to which the task belongs, by its rule if there is a list of these.
    pub(crate) fn true_group(&self) -> usize {
        match self.group {
            _ if self.is_listed && self.is_followed => FOLLOWED,
            FOLLOWED if self.is_listed => 0,
            group => group,
        }
    }

    /// Returns whether it is runnable on `cpu`, or runs there.
    fn can_run_on(&self, cpu: usize) -> bool {
        self.on_rq && !self.sched_delayed && !self.is_throttled && self.cpu == cpu
    }
}

#[derive(Clone, Copy, Debug)]
struct Rq {
    /// The current task; `None` is the idle task.
    curr: Option<usize>,
    /// `rq_clock()`.
    clock: u64,
    /// How far the `local_clock()` of this CPU is ahead of true time.
    ahead: i64,
    /// `TIF_NEED_RESCHED` and `TIF_NEED_RESCHED_LAZY` of the current task.
    need_resched: [bool; 2],
    /// Whether `__schedule()` has chosen the current task again, but has not told so yet.
    is_staying: bool,
}

/// How `__schedule()` is called, and what happens during the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// `SM_PREEMPT`: the task is preempted, whatever its state.
    Preempt,
    /// `SM_NONE`: it blocks if its state says so, and otherwise yields.
    Schedule,
    /// The same, but a signal is pending, so that it does not block.
    ScheduleWithSignal,
    /// The same, but the fair class delays the dequeue (`DELAY_DEQUEUE`).
    ScheduleDelayed,
    /// The same, and while `pick_next_task()` drops the run queue's lock for a newidle balance, the
    /// task is woken: before the tracepoint of its own switch-out.
    ScheduleDelayedAndWoken,
}

/// How a task really left a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    Runnable,
    Throttled,
    Blocked(Sleep),
}

/// Something that happened. It contains the task as it was at that moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The `sched_switch` tracepoint. `None` stands for the idle task.
    Switch {
        cpu: usize,
        now: u64,
        preempt: bool,
        prev_state: u32,
        prev: Option<(Task, Departure)>,
        next: Option<Task>,
    },
    /// The `sched_set_need_resched_tp` tracepoint on the CPU `by`. The idle task has no number.
    Resched {
        by: usize,
        cpu: usize,
        is_lazy: bool,
        is_idle: bool,
        now: u64,
    },
    /// `__schedule()` clears the flags of a task that keeps its CPU. No tracepoint.
    Cleared { cpu: usize },
    /// The `sched_exit_tp` tracepoint after that, with the flags that were set since.
    Stay { cpu: usize, need_resched: [bool; 2] },
    /// The `sched_waking` tracepoint on the CPU `by`.
    Waking { task: Task, by: usize, now: u64 },
    /// The `sched_wakeup_new` tracepoint on the CPU `by`.
    Created { task: Task, by: usize },
    /// The `task_newtask` tracepoint.
    Fork { task: Task },
    /// The `cgroup_attach_task` or the `sched_process_exec` tracepoint: the group of a task or its
    /// PID may be another one now.
    Changed { task: Task },
    /// A process has forked another: `task_newtask`, too, but before [`Event::Fork`].
    Forked { parent: usize, child: usize },
    /// The last thread of a process begins to exit: `sched_process_exit`.
    Ended { process: usize },
    /// A rule follows a process from now on. Not an event of the kernel.
    Follow { process: usize },
    /// That rule is removed. Not an event of the kernel.
    Unfollow,
    /// A group in which no task is gives up its place. Not an event of the kernel.
    Fold { group: usize },
    /// A task that slept, or is new, became runnable. No tracepoint.
    Ready { task: Task, now: u64 },
    /// A waiting task was moved to another run queue, whose clock reads `to`. No tracepoint.
    Moved { task: Task, from: u64, to: u64 },
    /// A sleeping task, whose dequeue was delayed, was moved to another run queue. No tracepoint.
    MovedAsleep { task: Task },
    /// Measuring begins. Not an event of the kernel.
    Enable { metrics: MetricSet, now: u64 },
    /// This CPU is idle at the beginning, or not. Not an event of the kernel.
    Started { cpu: usize, is_idle: bool, now: u64 },
    /// This task exists at the beginning. Not an event of the kernel.
    Found { task: Task },
    /// Measuring ends. Not an event of the kernel.
    Disable,
}

/// All CPUs and tasks.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// True time.
    time: u64,
    rqs: Vec<Rq>,
    tasks: Vec<Task>,
    free_task_structs: Vec<u64>,
    /// Whether a rule follows a process.
    has_follower: bool,
    /// Whether a task may still sleep after its PID may have been released. `do_exit()` does not,
    /// but with `PREEMPT_RT` it may have to, for a spinlock.
    pub(crate) is_rt: bool,
}

impl Kernel {
    /// Creates `cpus` idle CPUs, and sleeping tasks that have run before, with the PIDs from 1 on.
    pub(crate) fn new(cpus: usize, tasks: i32) -> Self {
        let rq = Rq {
            curr: None,
            clock: 0,
            ahead: 0,
            need_resched: [false; 2],
            is_staying: false,
        };
        let mut kernel = Self {
            time: 1000,
            rqs: vec![rq; cpus],
            tasks: Vec::new(),
            free_task_structs: Vec::new(),
            has_follower: false,
            is_rt: false,
        };
        for pid in 1..=tasks {
            let serial = kernel.copy_process(pid, 0, None, false);
            let task = &mut kernel.tasks[serial];
            task.group = 1 + serial % (GROUPS - 1);
            task.is_kernel_thread = serial % 4 == 3;
            task.state = Some(Sleep::Interruptible);
            task.sched_info.pcount = 7;
            task.sched_info.run_delay = 70;
        }
        kernel
    }

    /// Makes groups those of a list of rules.
    pub(crate) fn list(&mut self) {
        for task in &mut self.tasks {
            task.is_listed = true;
        }
    }

    pub(crate) fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub(crate) fn cpus(&self) -> usize {
        self.rqs.len()
    }

    pub(crate) fn curr(&self, cpu: usize) -> Option<usize> {
        self.rqs[cpu].curr
    }

    /// Returns whether `task` has a CPU: `task_on_cpu()`.
    pub(crate) fn is_running(&self, task: usize) -> bool {
        self.rqs[self.tasks[task].cpu].curr == Some(task)
    }

    /// Returns the tasks that wait for `cpu`.
    pub(crate) fn waiting(&self, cpu: usize) -> impl Iterator<Item = usize> + '_ {
        let waits = move |task: &&Task| task.can_run_on(cpu) && !self.is_running(task.serial);
        self.tasks.iter().filter(waits).map(|task| task.serial)
    }

    /// Returns whether a living task has `pid`.
    pub(crate) fn is_used(&self, pid: i32) -> bool {
        let has_it = |task: &Task| task.pid == pid && !task.released;
        self.tasks.iter().any(has_it)
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, nanoseconds: u64) {
        self.time += nanoseconds;
    }

    /// Makes the clock of `cpu` jump.
    pub(crate) fn step_clock(&mut self, cpu: usize, by: i64) {
        self.rqs[cpu].ahead += by;
    }

    /// Reads the clock of `cpu`: `sched_clock_cpu()`, and `local_clock()` there.
    pub(crate) fn local_clock(&self, cpu: usize) -> u64 {
        self.time
            .checked_add_signed(self.rqs[cpu].ahead)
            .expect("the clock has gone back too far")
    }

    /// `update_rq_clock()`, and `rq_clock()`: this clock never goes backwards.
    fn rq_clock(&mut self, cpu: usize) -> u64 {
        let now = self.local_clock(cpu);
        let rq = &mut self.rqs[cpu];
        rq.clock = rq.clock.max(now);
        rq.clock
    }

    /// `sched_info_enqueue()`: stamps only a task without a stamp.
    fn sched_info_enqueue(&mut self, task: usize, now: u64) {
        let info = &mut self.tasks[task].sched_info;
        if info.last_queued == 0 {
            info.last_queued = now;
        }
    }

    /// `sched_info_dequeue()`.
    fn sched_info_dequeue(&mut self, task: usize, now: u64) {
        let info = &mut self.tasks[task].sched_info;
        if info.last_queued == 0 {
            return;
        }
        info.run_delay = info
            .run_delay
            .wrapping_add(now.wrapping_sub(info.last_queued));
        info.last_queued = 0;
    }

    /// `sched_info_arrive()`: does nothing for a task without a stamp, not even count in `pcount`.
    fn sched_info_arrive(&mut self, task: usize, now: u64) {
        if self.tasks[task].sched_info.last_queued == 0 {
            return;
        }
        self.sched_info_dequeue(task, now);
        self.tasks[task].sched_info.pcount += 1;
    }

    /// `sched_info_depart()`: stamps only a task whose state is `TASK_RUNNING`, and so none that
    /// was preempted with its sleep state set.
    fn sched_info_depart(&mut self, task: usize, now: u64) {
        if self.tasks[task].state.is_none() {
            self.sched_info_enqueue(task, now);
        }
    }

    /// The current task of `cpu` is about to sleep: `set_current_state()`.
    pub(crate) fn set_current_state(&mut self, cpu: usize, state: Sleep) -> Option<()> {
        let curr = &mut self.tasks[self.rqs[cpu].curr?];
        let is_too_late = curr.released && !self.is_rt;
        if curr.state.is_some() || state == Sleep::Dead || is_too_late {
            return None;
        }
        curr.state = Some(state);
        Some(())
    }

    /// `__schedule()` on `cpu`, where `pick_next_task()` chooses `next`; `None` is the idle task.
    pub(crate) fn schedule(
        &mut self,
        cpu: usize,
        call: Call,
        next: Option<usize>,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        if self.rqs[cpu].is_staying {
            return None;
        }
        let prev = self.rqs[cpu].curr;
        let preempt = call == Call::Preempt;
        let rq_clock = self.rq_clock(cpu);

        let mut departure = Departure::Runnable;
        let mut prev_state = 0;
        match prev {
            Some(prev) => match (self.tasks[prev].state, call) {
                (None, Call::Preempt | Call::Schedule) => {}
                (None, _) | (Some(Sleep::Dead), Call::Preempt) => return None,
                (Some(state), Call::Preempt) => prev_state = state.bits(),
                (Some(Sleep::Interruptible), Call::ScheduleWithSignal) => {
                    self.tasks[prev].state = None;
                }
                (Some(_), Call::ScheduleWithSignal) => return None,
                (Some(state), _) => {
                    departure = Departure::Blocked(state);
                    prev_state = state.bits();
                    self.block_task(prev, state, call, rq_clock)?;
                }
            },
            None if call != Call::Schedule => return None,
            None => {}
        }
        if let Some(prev) = prev {
            if departure == Departure::Runnable && self.tasks[prev].is_throttled {
                departure = Departure::Throttled;
            }
        }
        if call == Call::ScheduleDelayedAndWoken {
            self.try_to_wake_up(prev?, cpu, cpu, tell)?;
            if next == prev {
                // The task goes on as if nothing had happened.
                self.stay(cpu, tell)?;
                return self.finish_to_stay(cpu, tell);
            }
        }
        if next == prev || !self.may_be_next(cpu, next) {
            return None;
        }

        self.pass(PROBE_DELAY);
        tell(Event::Switch {
            cpu,
            now: self.local_clock(cpu),
            preempt,
            prev_state,
            prev: prev.map(|prev| (self.tasks[prev], departure)),
            next: next.map(|next| self.tasks[next]),
        });

        // `prepare_task_switch()` calls `sched_info_switch()`: after the tracepoint.
        if let Some(prev) = prev {
            self.sched_info_depart(prev, rq_clock);
        }
        if let Some(next) = next {
            self.sched_info_arrive(next, rq_clock);
        }
        self.rqs[cpu].curr = next;
        self.rqs[cpu].need_resched = [false; 2];
        if let (Some(prev), Departure::Blocked(_)) = (prev, departure) {
            // `dequeue_throttled_task()` does this before the tracepoint. A deadline task keeps
            // `dl_throttled`, so a task may appear throttled when it blocks.
            self.tasks[prev].is_throttled = false;
        }
        if departure == Departure::Blocked(Sleep::Dead) {
            let prev = &mut self.tasks[prev?];
            prev.gone = true;
            if prev.released {
                self.free_task_structs.push(prev.address);
            }
        }
        Some(())
    }

    /// `__resched_curr()` on the CPU `by`.
    pub(crate) fn resched_curr(
        &mut self,
        by: usize,
        cpu: usize,
        is_lazy: bool,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        let is_idle = self.rqs[cpu].curr.is_none();
        let is_lazy = is_lazy && !is_idle;
        let [full, lazy] = self.rqs[cpu].need_resched;
        if full || (is_lazy && lazy) {
            return None;
        }
        tell(Event::Resched {
            by,
            cpu,
            is_lazy,
            is_idle,
            now: self.local_clock(by),
        });
        self.rqs[cpu].need_resched[usize::from(is_lazy)] = true;
        Some(())
    }

    /// `__schedule()`, where `pick_next_task()` chooses the current task again.
    pub(crate) fn stay(&mut self, cpu: usize, tell: &mut impl FnMut(Event)) -> Option<()> {
        let rq = &mut self.rqs[cpu];
        if rq.is_staying {
            return None;
        }
        rq.is_staying = true;
        rq.need_resched = [false; 2];
        tell(Event::Cleared { cpu });
        Some(())
    }

    /// The end of that, with the run queue's lock released.
    pub(crate) fn finish_to_stay(
        &mut self,
        cpu: usize,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        let rq = &mut self.rqs[cpu];
        if !rq.is_staying {
            return None;
        }
        rq.is_staying = false;
        let need_resched = rq.need_resched;
        tell(Event::Stay { cpu, need_resched });
        Some(())
    }

    /// Returns whether `next` may run next: the idle task only if no task can.
    fn may_be_next(&self, cpu: usize, next: Option<usize>) -> bool {
        let is_runnable = |task: &&Task| task.can_run_on(cpu);
        let mut runnable = self.tasks.iter().filter(is_runnable);
        match next {
            None => runnable.next().is_none(),
            Some(next) => runnable.any(|task| task.serial == next),
        }
    }

    /// `block_task()`: dequeues the task, unless the fair class delays that.
    fn block_task(&mut self, task: usize, state: Sleep, call: Call, now: u64) -> Option<()> {
        self.sched_info_dequeue(task, now);
        let task = &mut self.tasks[task];
        if matches!(call, Call::ScheduleDelayed | Call::ScheduleDelayedAndWoken) {
            if task.is_throttled {
                return None;
            }
            task.sched_delayed = true;
            return (!state.is_special()).then_some(());
        }
        task.on_rq = false;
        Some(())
    }

    /// The fair class reaches a task whose dequeue it had delayed, and dequeues it now:
    /// `__dequeue_task()` from `pick_next_entity()`, without a call into `sched_info`.
    pub(crate) fn finish_delayed(&mut self, task: usize) -> Option<()> {
        let task = self.tasks.get_mut(task)?;
        if !task.sched_delayed {
            return None;
        }
        task.sched_delayed = false;
        task.on_rq = false;
        Some(())
    }

    /// The current task of `cpu` has spent its quota: `throttle_cfs_rq_work()`,
    /// `update_curr_dl_se()`.
    pub(crate) fn throttle(&mut self, cpu: usize) -> Option<()> {
        let curr = &mut self.tasks[self.rqs[cpu].curr?];
        if curr.is_throttled || curr.exiting {
            return None;
        }
        curr.is_throttled = true;
        Some(())
    }

    /// The quota of `task` returns, maybe before the task has left its CPU: `tg_unthrottle_up()`,
    /// `dl_task_timer()`. No tracepoint, and no stamp.
    pub(crate) fn unthrottle(&mut self, task: usize) -> Option<()> {
        let task = self.tasks.get_mut(task)?;
        if !task.is_throttled {
            return None;
        }
        task.is_throttled = false;
        Some(())
    }

    /// `try_to_wake_up()` of `task` on the CPU `by`, where `select_task_rq()` chooses `to`.
    pub(crate) fn try_to_wake_up(
        &mut self,
        task: usize,
        by: usize,
        to: usize,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        self.begin_to_wake(task, by, tell)?;
        self.finish_to_wake(task, to, tell)
    }

    /// The first step of `try_to_wake_up()`: it takes the task's `pi_lock`, sees that the task
    /// sleeps, or is about to, and tells so.
    pub(crate) fn begin_to_wake(
        &mut self,
        task: usize,
        by: usize,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        let state = self.tasks.get(task)?.state?;
        if state == Sleep::Dead || self.tasks[task].is_being_woken {
            return None;
        }
        tell(Event::Waking {
            task: self.tasks[task],
            by,
            now: self.local_clock(by),
        });
        self.tasks[task].is_being_woken = true;
        Some(())
    }

    /// The second step of `try_to_wake_up()`: it gets the lock of the run queue. A task that is on
    /// one may have run since the first step, and may even sleep by now.
    pub(crate) fn finish_to_wake(
        &mut self,
        task: usize,
        to: usize,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        if !self.tasks.get(task)?.is_being_woken {
            return None;
        }
        self.tasks[task].is_being_woken = false;
        if self.tasks[task].on_rq {
            // `ttwu_runnable()`: the task was preempted, still runs, or is delayed.
            let cpu = self.tasks[task].cpu;
            if cpu != to {
                return None;
            }
            if self.tasks[task].sched_delayed {
                self.tasks[task].sched_delayed = false;
                self.make_ready(task, tell);
            }
            self.tasks[task].state = None;
            return Some(());
        }
        self.tasks[task].state = None;
        self.tasks[task].cpu = to;
        self.tasks[task].on_rq = true;
        self.make_ready(task, tell);
        Some(())
    }

    /// `enqueue_task()` of a task that was not runnable before.
    fn make_ready(&mut self, task: usize, tell: &mut impl FnMut(Event)) {
        let now = self.rq_clock(self.tasks[task].cpu);
        self.sched_info_enqueue(task, now);
        tell(Event::Ready {
            task: self.tasks[task],
            now,
        });
    }

    /// `move_queued_task()`, and the load balancer's moves: `dequeue_task()`, `enqueue_task()`.
    ///
    /// The latter stamps `last_queued` even if the task sleeps with its dequeue delayed. The later
    /// dequeue does not remove that stamp, and the wakeup does not renew it: so to the kernel, and
    /// in `/proc/schedstat`, the rest of the sleep is a wait.
    pub(crate) fn migrate(
        &mut self,
        task: usize,
        to: usize,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        let cpu = self.tasks.get(task)?.cpu;
        if !self.tasks[task].on_rq || self.is_running(task) || cpu == to {
            return None;
        }
        // The kernel allows this between the two steps of a wakeup. It then stamps the task after
        // the wakeup was told, and nothing tells that stamp from one of before: see
        // `record_wakeup()`.
        if self.tasks[task].sched_delayed && self.tasks[task].is_being_woken {
            return None;
        }
        let from_clock = self.rq_clock(cpu);
        self.sched_info_dequeue(task, from_clock);
        self.tasks[task].cpu = to;
        let to_clock = self.rq_clock(to);
        self.sched_info_enqueue(task, to_clock);
        let task = self.tasks[task];
        tell(match task.sched_delayed {
            true => Event::MovedAsleep { task },
            false => Event::Moved {
                task,
                from: from_clock,
                to: to_clock,
            },
        });
        Some(())
    }

    /// The current task of `cpu` forks a new one with the PID `pid`, which starts on `to`.
    ///
    /// An I/O thread is created without an event, as if there was no memory to track it.
    pub(crate) fn fork(
        &mut self,
        cpu: usize,
        pid: i32,
        to: usize,
        is_io_thread: bool,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        let parent = self.rqs[cpu].curr?;
        if self.is_used(pid) || self.tasks[parent].exiting || self.tasks[parent].state.is_some() {
            return None;
        }
        let child = self.copy_process(pid, to, Some(parent), is_io_thread);
        if !is_io_thread {
            tell(Event::Forked {
                parent: self.tasks[parent].process,
                child: self.tasks[child].process,
            });
            tell(Event::Fork {
                task: self.tasks[child],
            });
        }
        // `wake_up_new_task()`.
        self.tasks[child].on_rq = true;
        self.make_ready(child, tell);
        tell(Event::Created {
            task: self.tasks[child],
            by: cpu,
        });
        Some(())
    }

    fn copy_process(
        &mut self,
        pid: i32,
        cpu: usize,
        parent: Option<usize>,
        is_io_thread: bool,
    ) -> usize {
        let serial = self.tasks.len();
        let fresh = 0x1000 + 0x100 * serial as u64;
        // Nothing tells an I/O thread from an earlier task of its PID that had the same address. In
        // the kernel there is an event of it.
        let reused = match is_io_thread {
            true => None,
            false => self.free_task_structs.pop(),
        };
        let parent = parent.map(|parent| self.tasks[parent]);
        self.tasks.push(Task {
            serial,
            address: reused.unwrap_or(fresh),
            pid,
            comm: comm('t', serial),
            prio: 100 + (serial % 40) as i32,
            state: None,
            on_rq: false,
            sched_delayed: false,
            is_throttled: false,
            cpu,
            exiting: false,
            released: false,
            is_leader: false,
            is_replaced: false,
            gone: false,
            is_being_woken: false,
            is_in_exec: false,
            group: parent.map_or(0, |parent| parent.group),
            is_kernel_thread: parent.is_some_and(|parent| parent.is_kernel_thread),
            process: match parent {
                Some(parent) if is_io_thread => parent.process,
                _ => serial,
            },
            is_followed: parent.is_some_and(|parent| parent.is_followed),
            is_listed: parent.is_some_and(|parent| parent.is_listed),
            sched_info: SchedInfo::default(),
        });
        serial
    }

    /// The current task of `cpu` begins to exit: `do_exit()` up to `exit_notify()`.
    pub(crate) fn exit(&mut self, cpu: usize, tell: &mut impl FnMut(Event)) -> Option<()> {
        let curr = &mut self.tasks[self.rqs[cpu].curr?];
        if curr.exiting || curr.state.is_some() {
            return None;
        }
        curr.exiting = true;
        let process = curr.process;
        let lives = |task: &Task| task.process == process && !task.exiting;
        if !self.tasks.iter().any(lives) {
            tell(Event::Ended { process });
        }
        Some(())
    }

    /// Returns whether `task` is past `exit_notify()`, after which it does not sleep any more.
    fn is_past_exit_notify(&self, task: &Task) -> bool {
        task.exiting && (task.state.is_none() || task.gone || self.is_rt)
    }

    /// `release_task()` releases the PID of an exiting task. Its reaper may be faster than the
    /// task's own path to its last switch.
    pub(crate) fn release(&mut self, task: usize) -> Option<()> {
        let old = *self.tasks.get(task)?;
        if old.released || !self.is_past_exit_notify(&old) {
            return None;
        }
        self.tasks[task].released = true;
        if old.gone {
            self.free_task_structs.push(old.address);
        }
        Some(())
    }

    /// `do_task_dead()` up to `__schedule()`, which must follow. It takes the task's `pi_lock`, and
    /// so waits for a waker.
    pub(crate) fn set_dead(&mut self, cpu: usize) -> Option<()> {
        let curr = &mut self.tasks[self.rqs[cpu].curr?];
        if !curr.exiting || curr.state.is_some() || curr.is_being_woken {
            return None;
        }
        curr.state = Some(Sleep::Dead);
        Some(())
    }

    /// The current task of `cpu`, which is not the group leader, calls `execve()` and takes over
    /// the PID of the leader, which exits and gets the other PID: `de_thread()`, `exchange_tids()`.
    pub(crate) fn exec(&mut self, cpu: usize, leader: usize) -> Option<()> {
        let curr = self.rqs[cpu].curr?;
        let old = *self.tasks.get(leader)?;
        let can = |task: &Task| !task.exiting && task.state.is_none() && !task.is_leader;
        let may_follow = self.is_past_exit_notify(&old) && !old.released && !old.is_replaced;
        if !can(&self.tasks[curr]) || !may_follow {
            return None;
        }
        self.tasks[leader].pid = self.tasks[curr].pid;
        self.tasks[leader].is_replaced = true;
        self.tasks[curr].pid = old.pid;
        self.tasks[curr].is_leader = true;
        self.tasks[curr].is_in_exec = true;
        self.tasks[curr].comm = comm('x', curr);
        Some(())
    }

    /// The current task of `cpu`, which has taken over a PID, comes to the end of `execve()`, and
    /// tells so.
    pub(crate) fn finish_exec(&mut self, cpu: usize, tell: &mut impl FnMut(Event)) -> Option<()> {
        let curr = &mut self.tasks[self.rqs[cpu].curr?];
        if !curr.is_in_exec || curr.exiting {
            return None;
        }
        curr.is_in_exec = false;
        tell(Event::Changed { task: *curr });
        Some(())
    }

    /// `cgroup_attach_task()`: `task` is moved to `group`, whatever the task is doing. A task that
    /// has released its PID cannot be found.
    pub(crate) fn attach(
        &mut self,
        task: usize,
        group: usize,
        tell: &mut impl FnMut(Event),
    ) -> Option<()> {
        let task = self.tasks.get_mut(task)?;
        if task.released || task.group == group {
            return None;
        }
        task.group = group;
        tell(Event::Changed { task: *task });
        Some(())
    }

    /// A rule is added that follows the process of `task`; all tasks are decided again.
    pub(crate) fn follow(&mut self, task: usize, tell: &mut impl FnMut(Event)) -> Option<()> {
        let task = *self.tasks.get(task)?;
        if self.has_follower || !task.is_listed || task.exiting {
            return None;
        }
        self.has_follower = true;
        let process = task.process;
        // A thread that is exiting cannot be asked for its process any more.
        let lives = |task: &&mut Task| task.process == process && !task.exiting;
        for task in self.tasks.iter_mut().filter(lives) {
            task.is_followed = true;
        }
        tell(Event::Follow { process });
        self.decide_all(tell);
        Some(())
    }

    /// That rule is removed.
    pub(crate) fn unfollow(&mut self, tell: &mut impl FnMut(Event)) -> Option<()> {
        if !self.has_follower {
            return None;
        }
        self.has_follower = false;
        for task in &mut self.tasks {
            task.is_followed = false;
        }
        tell(Event::Unfollow);
        self.decide_all(tell);
        Some(())
    }

    fn decide_all(&self, tell: &mut impl FnMut(Event)) {
        for task in self.tasks.iter().filter(|task| !task.released) {
            tell(Event::Changed { task: *task });
        }
    }

    /// `group` gives up its place. No walk over all tasks finds one in it; one that has released
    /// its PID may still have a CPU.
    pub(crate) fn fold(&self, group: usize, tell: &mut impl FnMut(Event)) -> Option<()> {
        let is_in_it = |task: &Task| !task.released && task.true_group() == group;
        if self.tasks.iter().any(is_in_it) {
            return None;
        }
        tell(Event::Fold { group });
        Some(())
    }
}

fn comm(prefix: char, serial: usize) -> [u8; 16] {
    let mut comm = [0; 16];
    let name = format!("{prefix}{serial}");
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}
